package arrayif

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// Errors of array descriptions, for errors.Is.
var (
	// ErrNotContiguous is returned for an array with gaps or with a mixed order of dimensions.
	ErrNotContiguous = errors.New("ucx: array is not contiguous")
	// ErrMasked is returned for an array with a validity mask: its data alone is not its value.
	ErrMasked = errors.New("ucx: array has a mask")
	// ErrType is returned for an element type that is unknown or holds pointers.
	ErrType = errors.New("ucx: element type cannot be sent as bytes")
	// ErrTooLarge is returned for an array beyond the address space.
	ErrTooLarge = errors.New("ucx: array is too large")
	// ErrMalformed is returned for a description that contradicts itself or its standard.
	ErrMalformed = errors.New("ucx: malformed array description")
)

func refuse(class error, format string, args ...any) error {
	return fmt.Errorf("%w: %s", class, fmt.Sprintf(format, args...))
}

// maxDims is the largest number of dimensions. NumPy and CuPy have the limit 64.
const maxDims = 64

// Kind is the kind of memory of an array.
type Kind uint8

const (
	// Host is ordinary memory of the CPU.
	Host Kind = iota
	// HostPinned is page-locked memory of the CPU that a GPU can read.
	HostPinned
	// CUDA is memory of an NVIDIA GPU.
	CUDA
	// CUDAManaged is memory that CUDA moves between CPU and GPU.
	CUDAManaged
	// ROCm is memory of an AMD GPU.
	ROCm
)

// String returns the kind as UCX's tools name it.
func (k Kind) String() string {
	switch k {
	case Host:
		return "host"
	case HostPinned:
		return "host-pinned"
	case CUDA:
		return "cuda"
	case CUDAManaged:
		return "cuda-managed"
	case ROCm:
		return "rocm"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Order is the order in which the elements of a contiguous array lie in memory.
type Order uint8

const (
	// OrderC has the last dimension contiguous. Arrays of one dimension, and empty
	// ones, have it too.
	OrderC Order = iota
	// OrderF has the first dimension contiguous.
	OrderF
)

// String returns "C" or "F".
func (o Order) String() string {
	if o == OrderF {
		return "F"
	}
	return "C"
}

// UnknownDevice is the device of a View whose description does not name one; the driver can find it by the pointer.
const UnknownDevice = -1

// View is an array as a contiguous range of bytes.
type View struct {
	// Ptr is the address of the first byte; 0 for an empty array.
	Ptr uint64
	// Len is the length in bytes.
	Len int64
	// ItemSize is the size of an element in bytes.
	ItemSize int64
	// Order is the order of the elements; the receiver needs it to reconstruct the array.
	Order Order
	// ReadOnly reports whether the memory must not be written.
	ReadOnly bool
	// Kind is the kind of memory.
	Kind Kind
	// Device is the index of the GPU, or UnknownDevice.
	Device int
	// Stream is the CUDA stream on which the data becomes ready: 0 for none, 1 for
	// the legacy default stream, 2 for the per-thread default stream, else a
	// cudaStream_t.
	Stream uint64
}

// byteLength returns the size of an array of the shape in bytes.
func byteLength(shape []int64, itemSize int64) (int64, error) {
	if len(shape) > maxDims {
		return 0, refuse(ErrMalformed, "shape has %d dimensions, at most %d", len(shape), maxDims)
	}
	empty := false
	for i, n := range shape {
		if n < 0 {
			return 0, refuse(ErrMalformed, "shape[%d] is %d", i, n)
		}
		empty = empty || n == 0
	}
	if empty {
		// Check before multiplying: (2^40, 2^40, 0) is a valid empty array.
		return 0, nil
	}
	total := uint64(itemSize)
	for _, n := range shape {
		hi, lo := bits.Mul64(total, uint64(n))
		if hi != 0 || lo > math.MaxInt64 {
			return 0, refuse(ErrTooLarge, "shape %v of %d-byte elements", shape, itemSize)
		}
		total = lo
	}
	return int64(total), nil
}

// contiguity returns the order of an array whose strides are in bytes. As in NumPy, strides of dimensions with at most
// one element are ignored.
func contiguity(shape, strides []int64, itemSize int64) (Order, error) {
	if strides == nil {
		return OrderC, nil
	}
	if len(strides) != len(shape) {
		return 0, refuse(ErrMalformed, "%d strides for %d dimensions", len(strides), len(shape))
	}
	if itemSize == 0 || slices.Contains(shape, 0) {
		return OrderC, nil
	}
	packed := func(at func(i int) int) bool {
		want := itemSize
		for i := range shape {
			d := at(i)
			if shape[d] == 1 {
				continue
			}
			if strides[d] != want {
				return false
			}
			want *= shape[d] // cannot overflow: byteLength was checked first
		}
		return true
	}
	switch {
	case packed(func(i int) int { return len(shape) - 1 - i }):
		return OrderC, nil
	case packed(func(i int) int { return i }):
		return OrderF, nil
	}
	return 0, refuse(ErrNotContiguous, "shape %v, strides %v bytes, elements of %d bytes; copy them to a contiguous "+
		"array first", shape, strides, itemSize)
}

// span checks that length bytes at ptr are a possible range of memory.
func span(ptr uint64, length int64) error {
	if length == 0 {
		return nil
	}
	if ptr == 0 {
		return refuse(ErrMalformed, "null pointer for %d bytes", length)
	}
	if ptr+uint64(length)-1 < ptr {
		return refuse(ErrTooLarge, "%d bytes at %#x exceed the address space", length, ptr)
	}
	return nil
}
