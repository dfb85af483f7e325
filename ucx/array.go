package ucx

import (
	"fmt"

	"go.millstream.dev/mem"
	"go.millstream.dev/ucx/internal/arrayif"
)

// ArrayInterface is Python's __cuda_array_interface__, version 2 or 3: an array in GPU
// memory that another library owns, such as CuPy, Numba, PyTorch or cuDF in the same
// process. It can be read from the JSON of its dictionary.
type ArrayInterface = arrayif.CUDAArray

// Tensor is DLPack's DLTensor: an array in host or GPU memory that another library owns.
type Tensor = arrayif.Tensor

// Reasons for which the description of an array is refused, for errors.Is.
var (
	// ErrNotContiguous is returned for an array with gaps between its elements. Copy it to a
	// contiguous one first; both C and Fortran order will do.
	ErrNotContiguous = arrayif.ErrNotContiguous
	// ErrElementType is returned for an array of objects, pointers or parts of bytes.
	ErrElementType = arrayif.ErrType
)

// FromArrayInterface views the memory of a CUDA array without copying it. device is the
// GPU's ordinal, which the interface does not tell; cuda.Pointer does. Arrays with
// gaps, masks or elements that are no plain bytes are refused. A read-only one can be
// sent but not received into.
//
// The owner keeps the memory until the operation is finished. The interface may name a
// stream on which the data becomes ready; wait for it first, then set Stream to 0: an
// array that may not be ready yet is refused. For memory that is sent more than once,
// cuda.FromPointer makes a [mem.Buffer], which is registered only once.
func FromArrayInterface(a ArrayInterface, device int) (View, error) {
	v, err := a.View()
	if err != nil {
		return View{}, err
	}
	if device < 0 && v.Len > 0 {
		return View{}, fmt.Errorf("ucx: CUDA array of %d bytes on device %d: give the ordinal of its GPU; cuda.Pointer tells", v.Len, device)
	}
	v.Device = device
	return fromArray(v)
}

// FromTensor views the memory of a DLPack tensor without copying it, with the same
// refusals and duties as [FromArrayInterface]. Host memory must not be Go's own: for
// that there are [Of] and [Bytes].
func FromTensor(t Tensor) (View, error) {
	v, err := t.View()
	if err != nil {
		return View{}, err
	}
	return fromArray(v)
}

func fromArray(a arrayif.View) (View, error) {
	v := View{addr: uintptr(a.Ptr), n: int(a.Len), device: -1, readOnly: a.ReadOnly}
	switch a.Kind {
	case arrayif.Host:
		v.kind = mem.Host
	case arrayif.HostPinned:
		v.kind = mem.Pinned
	case arrayif.CUDA:
		v.kind, v.device = mem.Device, int32(a.Device)
	case arrayif.CUDAManaged:
		v.kind, v.device = mem.Managed, int32(a.Device)
	default:
		return View{}, fmt.Errorf("ucx: memory of kind %s: copy it to the host first: %w", a.Kind, ErrUnsupported)
	}
	if a.Stream != 0 && a.Len > 0 {
		return View{}, fmt.Errorf("ucx: the array becomes ready on CUDA stream %#x: wait for that stream, then set Stream to 0", a.Stream)
	}
	return v, nil
}
