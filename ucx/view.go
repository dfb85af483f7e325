package ucx

import (
	"fmt"
	"unsafe"

	"go.millstream.dev/mem"
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

// ByteHolder is memory that can show its bytes, such as arrow-go's *memory.Buffer.
type ByteHolder interface{ Bytes() []byte }

// Holder views the bytes of an arrow-go buffer or anything alike, without copying.
// The holder must keep the bytes in place until the operation is finished.
func Holder(h ByteHolder) View { return Bytes(h.Bytes()) }

// Len returns the length in bytes.
func (v View) Len() int { return v.n }

// Kind returns where the memory is.
func (v View) Kind() mem.Kind { return v.kind }

// ReadOnly reports memory that may be sent from but not received into.
func (v View) ReadOnly() bool { return v.readOnly }

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
