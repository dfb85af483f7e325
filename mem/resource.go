package mem

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"go.millstream.dev/internal/comm/closed"
)

var (
	// ErrOutOfMemory is returned by allocations that a resource cannot (currently) serve.
	ErrOutOfMemory = errors.New("mem: out of memory")
	// ErrClosed is returned by operations on a closed Pool. It matches net.ErrClosed with errors.Is.
	ErrClosed = closed.New("mem: pool is closed")
	// ErrBusy is returned by Pool.Close while buffers of the pool are in use.
	ErrBusy = errors.New("mem: buffers are still in use")
	// ErrReleased is returned by operations on memory that was released before the call.
	ErrReleased = errors.New("mem: memory is released")
)

// Resource is a source of memory. Alloc returns a Buffer of exactly n bytes (n may be 0)
// with one reference, which the caller releases. Alloc is safe for concurrent use.
type Resource interface {
	Alloc(ctx context.Context, n int) (*Buffer, error)
	// Kind returns the kind of memory that Alloc returns.
	Kind() Kind
	// Device returns the GPU ordinal, or -1 for host memory.
	Device() int
}

// Heap allocates zeroed Go memory. Its buffers need not be released.
var Heap Resource = heap{}

type heap struct{}

// maxAlloc is larger than any address space in use and smaller than sizes for which the Go runtime panics.
const maxAlloc = 1 << 46

// checkSize rejects sizes that no resource can serve.
func checkSize(what string, n int) error {
	if n < 0 {
		return fmt.Errorf("mem: %s: negative size %d", what, n)
	}
	if n > maxAlloc {
		return fmt.Errorf("%w: %s: %d bytes exceeds the address space", ErrOutOfMemory, what, n)
	}
	return nil
}

func (heap) Alloc(ctx context.Context, n int) (*Buffer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := checkSize("heap", n); err != nil {
		return nil, err
	}
	return FromBytes(make([]byte, n)), nil
}

func (heap) Kind() Kind  { return Host }
func (heap) Device() int { return -1 }

// FromBytes wraps Go memory without a copy and keeps it alive. The buffer need not be released. b must be memory of the
// Go heap; use NewRegion for C or mmapped memory.
func FromBytes(b []byte) *Buffer {
	if b == nil {
		b = []byte{}
	}
	return NewRegion(RegionConfig{Heap: b}).Buffer()
}

// Numeric is an element type without pointers, whose slices may be sent as bytes.
type Numeric interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~int | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uint |
		~float32 | ~float64 | ~complex64 | ~complex128
}

// FromSlice wraps a slice of numbers without a copy, in this machine's byte order. See
// FromBytes.
func FromSlice[T Numeric](s []T) *Buffer {
	if len(s) == 0 {
		return FromBytes(nil)
	}
	n := len(s) * int(unsafe.Sizeof(s[0]))
	return FromBytes(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), n))
}

func addrOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
