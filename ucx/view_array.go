package ucx

import (
	"fmt"

	"go.millstream.dev/internal/arrayif"
	"go.millstream.dev/mem"
)

// CUDAArray is an array in GPU memory as another library describes it: the dictionary
// __cuda_array_interface__ of CuPy, Numba, PyTorch, RMM or cuDF, version 2 or 3. It
// reads its JSON form, for descriptions that come from a Python process's C side.
type CUDAArray = arrayif.CUDAArray

// DLTensor is DLPack's tensor, in host or GPU memory.
type DLTensor = arrayif.Tensor

// Reasons for which the description of an array is refused, for errors.Is.
var (
	// ErrNotContiguous is an array with gaps between its elements. Copy it to a
	// contiguous one first; both C and Fortran order will do.
	ErrNotContiguous = arrayif.ErrNotContiguous
	// ErrElementType is an array of objects, pointers or parts of bytes.
	ErrElementType = arrayif.ErrType
)

// Array views GPU memory that another library owns, without a copy. device is the GPU
// it is on, which the interface does not say (package cuda's Pointer does). The owner
// keeps the memory until the operation is finished, and its stream (CUDAArray.Stream)
// must have reached the array: nothing here waits for it. For memory that is sent more
// than once, cuda.FromPointer makes a [mem.Buffer], which is registered only once.
//
// An array that is not one run of plain bytes is refused by the operation it is given to.
func Array(a *CUDAArray, device int) View {
	if a == nil {
		return View{device: -1, bad: fmt.Errorf("ucx: nil *CUDAArray")}
	}
	av, err := a.View()
	if err != nil {
		return View{device: -1, bad: fmt.Errorf("ucx: %w", err)}
	}
	if av.Len > 0 && device < 0 {
		return View{device: -1, bad: fmt.Errorf("ucx: device %d: name the GPU that the array at %#x is on; cuda.Pointer tells", device, a.Ptr)}
	}
	av.Device = device
	return described(av)
}

// Tensor views a tensor that another library owns, as [Array] does. Host memory must
// not be Go's own: for that there are [Of] and [Bytes].
func Tensor(t *DLTensor) View {
	if t == nil {
		return View{device: -1, bad: fmt.Errorf("ucx: nil *DLTensor")}
	}
	av, err := t.View()
	if err != nil {
		return View{device: -1, bad: fmt.Errorf("ucx: %w", err)}
	}
	return described(av)
}

func described(av arrayif.View) View {
	v := View{addr: uintptr(av.Ptr), n: int(av.Len), device: -1, readOnly: av.ReadOnly}
	switch av.Kind {
	case arrayif.Host:
		v.kind = mem.Host
	case arrayif.HostPinned:
		v.kind = mem.Pinned
	case arrayif.CUDA:
		v.kind, v.device = mem.Device, int32(av.Device)
	case arrayif.CUDAManaged:
		v.kind, v.device = mem.Managed, int32(av.Device)
	default:
		return View{device: -1, bad: fmt.Errorf("ucx: memory of kind %s: only host and CUDA memory can be moved: %w", av.Kind, ErrUnsupported)}
	}
	return v
}
