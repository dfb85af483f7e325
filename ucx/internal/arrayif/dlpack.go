package arrayif

import (
	"math"
)

// DLPack's device types that are supported.
const (
	DLCPU         int32 = 1
	DLCUDA        int32 = 2
	DLCUDAHost    int32 = 3
	DLROCm        int32 = 10
	DLROCmHost    int32 = 11
	DLCUDAManaged int32 = 13
)

// DLPack's type codes that are plain bytes. Code 3, an opaque handle, is not one
// of them; codes 7 to 14 are floats of 8 bits.
const (
	DLInt     uint8 = 0
	DLUInt    uint8 = 1
	DLFloat   uint8 = 2
	dlOpaque  uint8 = 3
	DLBfloat  uint8 = 4
	DLComplex uint8 = 5
	DLBool    uint8 = 6
	dlFloat8a uint8 = 7
	dlFloat8z uint8 = 14
)

// Tensor is DLPack's DLTensor, with the fields of the versioned managed tensor that matter to a transport.
type Tensor struct {
	// Data is the address of the allocation.
	Data uint64
	// ByteOffset is the distance in bytes from Data to the first element.
	ByteOffset uint64
	// DeviceType is one of DLPack's device types.
	DeviceType int32
	// DeviceID is the index of the device.
	DeviceID int32
	// Code is the type code, Bits the width of one lane, Lanes the number of lanes
	// of a vector type (1 for a plain one).
	Code  uint8
	Bits  uint8
	Lanes uint16
	// Shape is the number of elements in each dimension.
	Shape []int64
	// Strides are the distances between elements in each dimension, counted in
	// elements. Nil means that the tensor is contiguous in C order.
	Strides []int64
	// ReadOnly is the flag of DLPack 1.0.
	ReadOnly bool
	// Major is the major version of DLPack; 0 for tensors before 1.0.
	Major uint32
}

// View checks the tensor and returns it as a contiguous range of bytes, with the restrictions of CUDAArray.View.
func (t *Tensor) View() (View, error) {
	if t.Major > 1 {
		return View{}, refuse(ErrMalformed, "DLPack version %d, want 0 or 1", t.Major)
	}
	kind, device, err := t.place()
	if err != nil {
		return View{}, err
	}
	item, err := t.itemSize()
	if err != nil {
		return View{}, err
	}
	length, err := byteLength(t.Shape, item)
	if err != nil {
		return View{}, err
	}
	strides, err := byteStrides(t.Strides, item)
	if err != nil {
		return View{}, err
	}
	order, err := contiguity(t.Shape, strides, item)
	if err != nil {
		return View{}, err
	}
	v := View{Len: length, ItemSize: item, Order: order, ReadOnly: t.ReadOnly, Kind: kind, Device: device}
	if length == 0 {
		return v, nil
	}
	if t.Data == 0 {
		return View{}, refuse(ErrMalformed, "null pointer for %d bytes", length)
	}
	v.Ptr = t.Data + t.ByteOffset
	if v.Ptr < t.Data {
		return View{}, refuse(ErrTooLarge, "byte offset %d from %#x exceeds the address space", t.ByteOffset,
			t.Data)
	}
	if err := span(v.Ptr, length); err != nil {
		return View{}, err
	}
	return v, nil
}

func (t *Tensor) place() (Kind, int, error) {
	if t.DeviceID < 0 {
		return 0, 0, refuse(ErrMalformed, "device id %d", t.DeviceID)
	}
	switch t.DeviceType {
	case DLCPU:
		return Host, UnknownDevice, nil
	case DLCUDAHost, DLROCmHost:
		return HostPinned, UnknownDevice, nil
	case DLCUDA:
		return CUDA, int(t.DeviceID), nil
	case DLCUDAManaged:
		return CUDAManaged, int(t.DeviceID), nil
	case DLROCm:
		return ROCm, int(t.DeviceID), nil
	}
	return 0, 0, refuse(ErrMalformed, "DLPack device type %d; supported are CPU (1), CUDA (2), CUDA host (3), "+
		"ROCm (10), ROCm host (11) and CUDA managed (13)", t.DeviceType)
}

func (t *Tensor) itemSize() (int64, error) {
	switch {
	case t.Code == dlOpaque:
		return 0, refuse(ErrType, "DLPack type code 3: elements are handles")
	case t.Code == DLInt || t.Code == DLUInt || t.Code == DLFloat || t.Code == DLBfloat || t.Code == DLComplex ||
		t.Code == DLBool:
	case t.Code >= dlFloat8a && t.Code <= dlFloat8z:
	default:
		// Codes from 15 on are floats of 6 and 4 bits, whose packing is not specified.
		return 0, refuse(ErrType, "DLPack type code %d", t.Code)
	}
	if t.Bits == 0 || t.Bits%8 != 0 {
		return 0, refuse(ErrType, "elements of %d bits are not whole bytes", t.Bits)
	}
	if t.Lanes == 0 {
		return 0, refuse(ErrType, "0 lanes")
	}
	return int64(t.Bits/8) * int64(t.Lanes), nil
}

// byteStrides converts strides in elements to strides in bytes.
func byteStrides(strides []int64, item int64) ([]int64, error) {
	if strides == nil {
		return nil, nil
	}
	if len(strides) > maxDims {
		return nil, refuse(ErrMalformed, "%d strides, at most %d", len(strides), maxDims)
	}
	out := make([]int64, len(strides))
	for i, s := range strides {
		if s > math.MaxInt64/item || s < math.MinInt64/item {
			return nil, refuse(ErrTooLarge, "stride %d of %d-byte elements", s, item)
		}
		out[i] = s * item
	}
	return out, nil
}
