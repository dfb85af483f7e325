package wire

import (
	"fmt"
	"unsafe"

	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/mem"
)

// DeviceArray is an array in GPU memory: a cupy or numba array, or an RMM buffer. Over ucx:// its frame is flagged CUDA
// and sent from device to device; otherwise it is sent through host memory, so the frame may be host memory too.
//
// It is immutable once it is the result of a task, and reference-counted: see Retain and Release.
type DeviceArray struct {
	// Class is the Python class: "cupy.ndarray" (the default, if empty),
	// "numba.cuda.cudadrv.devicearray.DeviceNDArray" or
	// "rmm.pylibrmm.device_buffer.DeviceBuffer".
	Class string
	// DType, Shape and Strides (in bytes; nil for C order) are those of the elements.
	DType   DType
	Shape   []int
	Strides []int
	// Frame is the memory, borrowed from the message in a decoded array.
	Frame Frame
}

// Classes of DeviceArray.
const (
	CuPyArray  = "cupy.ndarray"
	NumbaArray = "numba.cuda.cudadrv.devicearray.DeviceNDArray"
	RMMBuffer  = "rmm.pylibrmm.device_buffer.DeviceBuffer"
)

// NewDeviceArray returns an array of a buffer, in C order, and takes over the caller's reference to it: the result of a
// task whose data is on a GPU. Without a shape it has one dimension, as long as the buffer. Python sees a cupy.ndarray.
// The buffer's ready event is kept: work that writes it may still be in flight.
func NewDeviceArray[T Element](b *mem.Buffer, shape ...int) (*DeviceArray, error) {
	var zero T
	if len(shape) == 0 {
		shape = []int{b.Len() / int(unsafe.Sizeof(zero))}
	}
	d := &DeviceArray{DType: dtypeOf[T](), Shape: shape, Frame: BufferFrame(b).WithCUDA()}
	if err := d.check(); err != nil {
		return nil, err
	}
	return d, nil
}

// Buffer returns the reference-counted memory of the array, nil if it is on Go's heap: where it arrived in a process
// without a GPU, see Frame.Bytes. The array keeps the reference.
func (d *DeviceArray) Buffer() *mem.Buffer { return d.Frame.Buffer() }

// Retain returns the array with its own reference to the same memory: to keep an argument of a task beyond the task, or
// to return it with another shape.
func (d *DeviceArray) Retain() *DeviceArray {
	c := *d
	c.Frame = d.Frame.Retain()
	return &c
}

// Release releases the array's reference. A client does so with gathered arrays; a task neither with its arguments nor
// with its result.
func (d *DeviceArray) Release() { d.Frame.Release() }

// check returns an error if the frame does not match type and shape.
func (d *DeviceArray) check() error {
	a := NDArray{DType: d.DType, Shape: d.Shape, Strides: d.Strides}
	item, err := d.DType.parse()
	if err != nil {
		return err
	}
	n, err := a.count()
	if err != nil {
		return err
	}
	if len(a.strides()) != len(d.Shape) {
		return fmt.Errorf("wire: device array has shape %v and strides %v", d.Shape, d.Strides)
	}
	// Dask's arrays are contiguous, in C or Fortran order: their bytes fill the frame.
	size, ok := mul(item, n)
	if !ok || size > d.Frame.Len() {
		return fmt.Errorf("wire: device array of shape %v and type %s has a frame of %d bytes", d.Shape, d.DType,
			d.Frame.Len())
	}
	if !a.COrder() && !a.FOrder() {
		return fmt.Errorf("wire: device array is neither in C nor in Fortran order: copy the array first")
	}
	return nil
}

func decodeDevice(g pickle.Global, family string, h Dict, frames []Frame) (any, error) {
	if len(frames) != 1 {
		return nil, fmt.Errorf("wire: device array has %d frames, want 1", len(frames))
	}
	d := &DeviceArray{Class: g.String(), DType: DType(h.GetString("typestr")), Frame: frames[0]}
	var err error
	if d.Shape, err = dims(h, "shape"); err != nil {
		return nil, err
	}
	if v, _ := h.Get("strides"); v != nil {
		if d.Strides, err = dims(h, "strides"); err != nil {
			return nil, err
		}
	}
	if family == "cuda" {
		// It was sent as device memory, and is passed on as such, whatever memory it was received into.
		d.Frame = d.Frame.WithCUDA()
	}
	return d, d.check()
}

// encodeDevice returns the array in family "cuda", or in "dask" if it is host memory.
func encodeDevice(d *DeviceArray) (Dict, []Frame, error) {
	if err := d.check(); err != nil {
		return nil, nil, err
	}
	var g pickle.Global
	switch d.Class {
	case "", CuPyArray:
		g = classCuPy
	case NumbaArray:
		g = classNumba
	case RMMBuffer:
		g = classRMM
	default:
		return nil, nil, fmt.Errorf("wire: unknown class %.60q of a device array", d.Class)
	}
	a := NDArray{DType: d.DType, Shape: d.Shape, Strides: d.Strides}
	sub := NewDict(
		"shape", d.Shape,
		"typestr", string(d.DType),
		"descr", []any{[]any{"", string(d.DType)}},
		"version", 3,
		"strides", a.strides(),
		"data", []any{0, false}, // the address is meaningless to the receiver
	)
	if !d.Frame.CUDA() {
		return daskHeader(g, sub), []Frame{d.Frame}, nil
	}
	h := NewDict(
		"sub-header", sub,
		"type-serialized", classPickle(g),
		"serializer", "cuda",
		"compression", []any{false},
	)
	return h, []Frame{d.Frame}, nil
}

// daskHeader returns the header of a value in Dask's own family.
func daskHeader(g pickle.Global, sub Dict) Dict {
	if sub == nil {
		sub = Dict{}
	}
	return NewDict(
		"sub-header", sub,
		"type", typeName(g),
		"type-serialized", classPickle(g),
		"serializer", "dask",
	)
}
