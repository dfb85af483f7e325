package mem

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
)

// RegionConfig describes one allocation to NewRegion.
type RegionConfig struct {
	// Addr is the address of the first byte, Len the length in bytes. Both are ignored if Heap is set.
	Addr uintptr
	Len  int
	// Kind is the kind of memory; the zero value is Host.
	Kind Kind
	// Device is the GPU ordinal, -1 for host memory. It is ignored for Host and Pinned memory, so that the zero value
	// is valid.
	Device int
	// Heap, when not nil, is Go memory: the Region keeps it alive and takes Addr and Len
	// from it. Kind must be Host.
	Heap []byte
	// ReadOnly memory may be sent but never received into.
	ReadOnly bool
	// Free frees the memory. It runs once, after the OnFree functions, when the last reference is released. It may be
	// nil.
	Free func()
	// FreeAfter, if set, is called instead of Free. It gets the ready events of views that had not completed when those
	// views were released, so that a stream-ordered allocator can order its free after them.
	FreeAfter func(pending []Event)
}

// Region is one allocation: the unit that transports register, once. It is freed when the last Buffer on it is
// released.
type Region struct {
	addr     uintptr
	length   int
	kind     Kind
	device   int
	readOnly bool
	heap     []byte

	blk       block // the references to the region as a whole
	firstView atomic.Bool

	attached atomic.Pointer[[]*attachment]

	mu        sync.Mutex
	onFree    []*freeHook
	free      func()
	freeAfter func([]Event)
	freed     bool
}

type freeHook struct{ f func() }

// liveRegions counts the regions outside the Go heap, liveBytes their bytes.
var liveRegions, liveBytes atomic.Int64

// Live returns how many regions outside the Go heap exist in the process, and their total
// length in bytes. Leak checks compare it before and after.
func Live() (regions, bytes int64) { return liveRegions.Load(), liveBytes.Load() }

// NewRegion wraps one allocation. The Region starts with one reference, which the first Buffer call passes to the
// caller: a Region without a call of Buffer is never freed. It panics on an invalid configuration (negative length,
// heap memory that is not Host), which is a programming error.
func NewRegion(cfg RegionConfig) *Region {
	r := &Region{
		addr: cfg.Addr, length: cfg.Len, kind: cfg.Kind, device: cfg.Device,
		readOnly: cfg.ReadOnly, heap: cfg.Heap, free: cfg.Free, freeAfter: cfg.FreeAfter,
	}
	if cfg.Heap != nil {
		if cfg.Kind != Host {
			panic(fmt.Sprintf("mem: NewRegion: Go heap memory must have kind host, not %v", cfg.Kind))
		}
		r.addr, r.length = uintptr(unsafe.Pointer(unsafe.SliceData(cfg.Heap))), len(cfg.Heap)
	}
	if r.length < 0 {
		panic(fmt.Sprintf("mem: NewRegion: negative length %d", r.length))
	}
	if r.length > 0 && r.addr == 0 {
		panic(fmt.Sprintf("mem: NewRegion: nil address for %d bytes of %v memory", r.length, r.kind))
	}
	if r.kind == Host || r.kind == Pinned {
		r.device = -1
	}
	r.blk.region = r
	r.blk.refs.Store(1)
	if r.heap == nil {
		liveRegions.Add(1)
		liveBytes.Add(int64(r.length))
	}
	return r
}

// Addr returns the address of the first byte; a device address for Device memory.
func (r *Region) Addr() uintptr { return r.addr }

// Len returns the length in bytes.
func (r *Region) Len() int { return r.length }

// Kind returns the kind of memory.
func (r *Region) Kind() Kind { return r.kind }

// Device returns the GPU ordinal, or -1 for host memory.
func (r *Region) Device() int { return r.device }

// GoHeap reports whether the memory belongs to the Go garbage collector. Such memory must be
// pinned or copied for the time C code uses it, and must not be registered for longer.
func (r *Region) GoHeap() bool { return r.heap != nil }

// String returns a description of the region for error messages and logs.
func (r *Region) String() string {
	if r.device >= 0 {
		return fmt.Sprintf("%v region of %d bytes at %#x on device %d", r.kind, r.length, r.addr, r.device)
	}
	return fmt.Sprintf("%v region of %d bytes at %#x", r.kind, r.length, r.addr)
}

// OnFree registers a function that runs before the memory is freed, for example to deregister it from a transport.
// Functions run in reverse order of registration, on the goroutine that releases the last reference, so they must not
// block. The returned stop removes the function and reports whether it did so before it ran. OnFree panics if the
// region is already freed: the caller must hold a reference.
func (r *Region) OnFree(f func()) (stop func() bool) {
	h := &freeHook{f}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.freed {
		panic("mem: OnFree on a freed " + r.String() + ": hold a Buffer of it while registering")
	}
	r.onFree = append(r.onFree, h)
	return func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		i := slices.Index(r.onFree, h)
		if i < 0 {
			return false
		}
		r.onFree = slices.Delete(r.onFree, i, i+1)
		return true
	}
}

// Buffer returns a view of the whole region. The first call passes on the reference of NewRegion; each later call adds
// a reference and requires a live region.
func (r *Region) Buffer() *Buffer {
	if r.firstView.Swap(true) {
		r.blk.retain()
	}
	return newBuffer(&r.blk, 0, r.length)
}

// bytes returns the host bytes [off, off+n).
func (r *Region) bytes(off, n int) []byte {
	if r.heap != nil {
		return r.heap[off : off+n : off+n]
	}
	if n == 0 {
		return []byte{}
	}
	a := r.addr + uintptr(off)
	// This is not Go memory: the garbage collector neither moves nor frees it.
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&a))), n)
}

// release runs once, when the last reference is dropped.
func (r *Region) release(pending []Event) {
	r.mu.Lock()
	hooks := r.onFree
	r.onFree, r.freed = nil, true
	r.mu.Unlock()
	for _, h := range slices.Backward(hooks) {
		h.f()
	}
	r.attached.Store(nil)
	if r.heap == nil {
		liveRegions.Add(-1)
		liveBytes.Add(-int64(r.length))
	}
	switch {
	case r.freeAfter != nil:
		r.freeAfter(pending)
	case r.free != nil:
		r.free()
	}
}
