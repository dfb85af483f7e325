package ucx

import (
	"fmt"
	"unsafe"

	"go.millstream.dev/mem"
	"go.millstream.dev/ucx/internal/arrayif"
)

// View names memory for one operation: where it is, how long, of which kind. It is
// a small value that owns nothing; make one where it is used:
//
//	ep.Send(ctx, ucx.Bytes(b), tag)
//	ep.Send(ctx, ucx.Of(floats), tag)
//	ep.Recv(ctx, ucx.Buffer(deviceBuf), tag, ucx.FullMask)
//
// Go memory is borrowed until a blocking call returns, or until the Request of a
// Start call is done. A [mem.Buffer] is retained by the operation itself.
type View struct {
	ptr      unsafe.Pointer // Go memory; nil when buf is set
	buf      *mem.Buffer
	addr     uintptr // memory that neither Go nor a Buffer owns (descriptors)
	n        int
	kind     mem.Kind
	device   int32
	readOnly bool
	bad      error
}

// Bytes views a byte slice.
func Bytes(b []byte) View {
	if len(b) == 0 {
		return View{device: -1}
	}
	return View{ptr: unsafe.Pointer(unsafe.SliceData(b)), n: len(b), device: -1}
}

// Of views a slice of numbers without copying, in the machine's byte order. Types
// that carry pointers do not satisfy mem.Numeric and are refused by the compiler.
func Of[T mem.Numeric](s []T) View {
	if len(s) == 0 {
		return View{device: -1}
	}
	return View{ptr: unsafe.Pointer(unsafe.SliceData(s)), n: len(s) * int(unsafe.Sizeof(s[0])), device: -1}
}

// Buffer views counted memory: pools, device memory, mapped memory. The operation
// holds a reference until it is finished.
func Buffer(b *mem.Buffer) View {
	if b == nil {
		return View{device: -1, bad: fmt.Errorf("ucx: nil *mem.Buffer")}
	}
	v := View{buf: b, n: b.Len(), kind: b.Kind(), device: int32(b.Device()), readOnly: b.ReadOnly()}
	if !v.onDevice() {
		v.device = -1
	}
	return v
}

// Len returns the length in bytes.
func (v View) Len() int { return v.n }

// Kind returns where the memory is.
func (v View) Kind() mem.Kind { return v.kind }

// Slice returns the part [off, off+n) of the view.
func (v View) Slice(off, n int) View {
	if off < 0 || n < 0 || off+n > v.n || off+n < off {
		return View{device: -1, bad: fmt.Errorf("ucx: slice [%d:%d] of a view of %d bytes", off, off+n, v.n)}
	}
	if v.ptr != nil {
		v.ptr = unsafe.Add(v.ptr, off)
	}
	v.addr += uintptr(off) // an offset while buf is set, see base
	v.n = n
	return v
}

func (v View) onDevice() bool { return v.kind == mem.Device || v.kind == mem.Managed }

// goHeap reports memory that Go's allocator owns: it must be copied or pinned.
func (v View) goHeap() bool {
	return v.ptr != nil || v.buf != nil && v.buf.Region().GoHeap()
}

// base returns the address. For Go memory it is only meaningful while pinned.
func (v View) base() uintptr {
	switch {
	case v.ptr != nil:
		return uintptr(v.ptr)
	case v.buf != nil:
		return v.buf.Addr() + v.addr
	}
	return v.addr
}

// goPointer returns the pointer to pin for Go memory.
func (v View) goPointer() unsafe.Pointer {
	if v.ptr != nil {
		return v.ptr
	}
	return unsafe.Pointer(unsafe.SliceData(v.buf.Bytes()[v.addr:]))
}

// bytes returns host memory as a slice, for copies through a slot or staging.
func (v View) bytes() []byte {
	switch {
	case v.n == 0:
		return nil
	case v.ptr != nil:
		return unsafe.Slice((*byte)(v.ptr), v.n)
	case v.buf != nil:
		return v.buf.Bytes()[v.addr : v.addr+uintptr(v.n)]
	}
	return unsafe.Slice((*byte)(foreign(v.addr)), v.n)
}

// foreign turns the address of memory outside Go's heap into a pointer.
func foreign(addr uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&addr)) }

// memType is UCX's memory type: host 0, CUDA 1, CUDA managed 2.
func (v View) memType() int32 {
	switch v.kind {
	case mem.Device:
		return 1
	case mem.Managed:
		return 2
	}
	return 0
}

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
		return View{}, fmt.Errorf("ucx: CUDA array of %d bytes on device %d: give the ordinal of its GPU; "+
			"cuda.Pointer tells", v.Len, device)
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
		return View{}, fmt.Errorf("ucx: the array becomes ready on CUDA stream %#x: wait for that stream, then set "+
			"Stream to 0", a.Stream)
	}
	return v, nil
}
