package mem

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"unsafe"
)

// ArrowAllocator allocates memory for Arrow from any host-accessible resource. It implements memory.Allocator of Arrow
// for Go:
//
//	alloc, err := mem.NewArrowAllocator(pool)
//	builder := array.NewInt64Builder(alloc)
//
// Arrow's interface has no errors, so an allocation that fails panics with an error that wraps ErrOutOfMemory, as
// Arrow's own allocators do. Buffer returns the Buffer of Arrow's bytes, for a transport.
type ArrowAllocator struct {
	upstream Resource

	mu  sync.Mutex
	out map[uintptr]*Buffer // by address of the first byte
}

// arrowAlign is the alignment that Arrow requires: it reads whole cache lines.
const arrowAlign = 64

// NewArrowAllocator returns an allocator on upstream, whose memory must be accessible to the CPU.
func NewArrowAllocator(upstream Resource) (*ArrowAllocator, error) {
	if upstream == nil {
		return nil, errors.New("mem: NewArrowAllocator: no upstream resource")
	}
	if !upstream.Kind().HostAccessible() {
		return nil, fmt.Errorf("mem: NewArrowAllocator: Arrow for Go needs memory that the CPU can access, not %v "+
			"memory: use a pinned or managed resource", upstream.Kind())
	}
	return &ArrowAllocator{upstream: upstream, out: map[uintptr]*Buffer{}}, nil
}

// Allocate returns size bytes, zeroed and aligned to 64 bytes.
func (a *ArrowAllocator) Allocate(size int) []byte {
	if size < 0 {
		panic(fmt.Errorf("mem: Arrow: negative size %d", size))
	}
	// Reserve space for the alignment: resources other than pools guarantee none.
	b, err := a.upstream.Alloc(context.Background(), size+arrowAlign)
	if err != nil {
		panic(fmt.Errorf("mem: Arrow: %w", err))
	}
	pad := int(-b.Addr() & (arrowAlign - 1))
	view := b.Slice(pad, size)
	b.Release()
	// An extra byte of capacity keeps an empty slice's address within this allocation.
	bytes := view.blk.region.bytes(view.off, size+1)[:size]
	clear(bytes)
	a.mu.Lock()
	a.out[addrOf(bytes)] = view
	a.mu.Unlock()
	return bytes
}

// Reallocate returns size bytes that begin with those of b, and frees b. New bytes are zero.
func (a *ArrowAllocator) Reallocate(size int, b []byte) []byte {
	if size == len(b) && cap(b) > 0 {
		return b
	}
	bytes := a.Allocate(size)
	copy(bytes, b)
	if cap(b) > 0 {
		a.Free(b)
	}
	return bytes
}

// Free frees b, which was returned by Allocate or Reallocate. It panics for other memory.
func (a *ArrowAllocator) Free(b []byte) {
	addr := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	a.mu.Lock()
	view, ok := a.out[addr]
	delete(a.out, addr)
	a.mu.Unlock()
	if !ok {
		panic(fmt.Sprintf("mem: Arrow: free of %d bytes at %#x, which are not allocated", len(b), addr))
	}
	view.Release()
}

// Buffer returns the Buffer of b with a reference for the caller, or false if b does not begin an allocation of a.
func (a *ArrowAllocator) Buffer(b []byte) (*Buffer, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	view, ok := a.out[addrOf(b)]
	if !ok {
		return nil, false
	}
	return view.Retain(), true
}

// Outstanding returns the number of allocations that have not been freed.
func (a *ArrowAllocator) Outstanding() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.out)
}
