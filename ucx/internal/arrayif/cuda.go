package arrayif

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"strconv"
)

// CUDAArray is the dictionary of the CUDA array interface, version 2 or 3.
type CUDAArray struct {
	// Shape is the number of elements in each dimension; empty for a scalar.
	Shape []int64
	// Strides are the distances in bytes between elements in each dimension. Nil
	// means that the array is contiguous in C order.
	Strides []int64
	// TypeStr is NumPy's type string, for example "<f4".
	TypeStr string
	// Ptr is the device address of the first element, 0 for an empty array.
	Ptr uint64
	// ReadOnly reports whether the data must not be written.
	ReadOnly bool
	// Version is the version of the interface.
	Version int
	// Stream is the stream on which the data becomes ready: 0 for none, 1 for the
	// legacy default stream, 2 for the per-thread default stream, else a
	// cudaStream_t. Version 3 only.
	Stream uint64
	// Masked reports whether the array has a mask.
	Masked bool
}

// maxJSON bounds the length of a description: 64 dimensions take a few KiB.
const maxJSON = 1 << 20

// UnmarshalJSON parses a __cuda_array_interface__ dictionary as written by Python's json.dumps. Unknown keys are
// skipped, as the interface requires; a missing or invalid key is an error that names it.
func (a *CUDAArray) UnmarshalJSON(text []byte) error {
	if len(text) > maxJSON {
		return refuse(ErrMalformed, "description of %d bytes, at most %d", len(text), maxJSON)
	}
	var raw struct {
		Shape   *[]json.Number  `json:"shape"`
		Strides *[]json.Number  `json:"strides"`
		TypeStr *string         `json:"typestr"`
		Data    []any           `json:"data"`
		Version *json.Number    `json:"version"`
		Stream  *json.Number    `json:"stream"`
		Mask    json.RawMessage `json:"mask"`
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	// Addresses have 64 bits and do not fit a float64.
	dec.UseNumber()
	if err := dec.Decode(&raw); err != nil {
		return refuse(ErrMalformed, "cuda array interface: %v", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return refuse(ErrMalformed, "cuda array interface: trailing data after the description")
	}
	switch {
	case raw.Shape == nil:
		return missing("shape")
	case raw.TypeStr == nil:
		return missing("typestr")
	case raw.Data == nil:
		return missing("data")
	case raw.Version == nil:
		return missing("version")
	}
	out := CUDAArray{TypeStr: *raw.TypeStr}
	var err error
	if out.Shape, err = integers("shape", *raw.Shape); err != nil {
		return err
	}
	if raw.Strides != nil {
		if out.Strides, err = integers("strides", *raw.Strides); err != nil {
			return err
		}
	}
	if out.Ptr, out.ReadOnly, err = dataPair(raw.Data); err != nil {
		return err
	}
	version, err := raw.Version.Int64()
	if err != nil || version < 0 || version > math.MaxInt32 {
		return refuse(ErrMalformed, "version is %s", *raw.Version)
	}
	out.Version = int(version)
	if raw.Stream != nil {
		if out.Stream, err = strconv.ParseUint(raw.Stream.String(), 10, 64); err != nil {
			return refuse(ErrMalformed, "stream is %s", *raw.Stream)
		}
		if out.Stream == 0 {
			return refuse(ErrMalformed, "stream is 0, which the interface forbids: use 1 (legacy default), 2 "+
				"(per-thread default) or null")
		}
	}
	out.Masked = len(raw.Mask) > 0 && string(raw.Mask) != "null"
	*a = out
	return nil
}

func missing(key string) error {
	return refuse(ErrMalformed, "cuda array interface without %q", key)
}

func integers(key string, in []json.Number) ([]int64, error) {
	if len(in) > maxDims {
		return nil, refuse(ErrMalformed, "%s has %d dimensions, at most %d", key, len(in), maxDims)
	}
	out := make([]int64, len(in))
	for i, n := range in {
		v, err := n.Int64()
		if err != nil {
			return nil, refuse(ErrMalformed, "%s[%d] is %.32s", key, i, n)
		}
		out[i] = v
	}
	return out, nil
}

func dataPair(in []any) (ptr uint64, readOnly bool, err error) {
	if len(in) != 2 {
		return 0, false, refuse(ErrMalformed, "data has %d items, want [address, read-only]", len(in))
	}
	switch p := in[0].(type) {
	case nil:
		// Some libraries use None for an empty array.
	case json.Number:
		if ptr, err = strconv.ParseUint(p.String(), 10, 64); err != nil {
			return 0, false, refuse(ErrMalformed, "data[0] is %.32s, want an address", p)
		}
	default:
		return 0, false, refuse(ErrMalformed, "data[0] is %T, want an address", p)
	}
	readOnly, ok := in[1].(bool)
	if !ok {
		return 0, false, refuse(ErrMalformed, "data[1] is %T, want a boolean", in[1])
	}
	return ptr, readOnly, nil
}

// View checks the array and returns it as a contiguous range of bytes. It rejects masked and non-contiguous arrays,
// types without a fixed size and sizes beyond the address space.
func (a *CUDAArray) View() (View, error) {
	if a.Version < 2 || a.Version > 3 {
		return View{}, refuse(ErrMalformed, "version %d of the cuda array interface, want 2 or 3", a.Version)
	}
	if a.Masked {
		return View{}, refuse(ErrMasked, "send data and mask as two arrays")
	}
	item, err := typeSize(a.TypeStr)
	if err != nil {
		return View{}, err
	}
	length, err := byteLength(a.Shape, item)
	if err != nil {
		return View{}, err
	}
	order, err := contiguity(a.Shape, a.Strides, item)
	if err != nil {
		return View{}, err
	}
	if err := span(a.Ptr, length); err != nil {
		return View{}, err
	}
	v := View{
		Ptr: a.Ptr, Len: length, ItemSize: item, Order: order, ReadOnly: a.ReadOnly,
		Kind: CUDA, Device: UnknownDevice, Stream: a.Stream,
	}
	if length == 0 {
		v.Ptr = 0
	}
	return v, nil
}
