package mem

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// block is the unit that views hold references to: a whole region, or one allocation of a pool.
type block struct {
	refs   atomic.Int64
	region *Region
	chunk  *chunk // the pool's bookkeeping; nil: the block is the region itself

	mu   sync.Mutex
	uses []Event  // ready events of released views, for the next user of the memory
	ends []func() // callbacks of adaptors for the end of the allocation
}

func (k *block) retain() {
	if k.refs.Add(1) <= 1 {
		k.refs.Add(-1)
		panic("mem: retain of a freed " + k.region.String())
	}
}

func (k *block) addUse(e Event) {
	k.mu.Lock()
	k.uses = append(k.uses, e)
	k.mu.Unlock()
}

func (k *block) release() {
	n := k.refs.Add(-1)
	if n > 0 {
		return
	}
	if n < 0 {
		// Buffer counts its own references, so this is only reached if an invariant is violated.
		k.refs.Add(1)
		panic("mem: reference count of a " + k.region.String() + " fell below zero")
	}
	for _, f := range slices.Backward(k.ends) {
		f()
	}
	if c := k.chunk; c != nil {
		uses := k.uses
		k.chunk, k.uses, k.ends = nil, nil, nil // its neighbors may keep it in memory
		c.slab.pool.put(c, uses)
		return
	}
	k.region.release(k.uses)
}

// Buffer is a reference-counted view of a Region: a range, the kind and device of its memory, and the event of its last
// write. Its methods are safe for concurrent use; access to the bytes is not synchronized.
//
// A caller that gets a *Buffer from Alloc, Slice, Retain or a receive owns one reference and releases it once. The
// memory is freed when no view of the allocation is left.
type Buffer struct {
	refs  atomic.Int64
	blk   *block
	off   int // from the start of the region
	n     int
	ready atomic.Pointer[Event]
	dbg   debugState
}

// newBuffer returns a view that takes over one reference of blk.
func newBuffer(blk *block, off, n int) *Buffer {
	b := new(Buffer)
	b.init(blk, off, n)
	return b
}

func (b *Buffer) init(blk *block, off, n int) {
	b.blk, b.off, b.n = blk, off, n
	b.refs.Store(1)
	b.dbg.born(b)
}

// Retain adds a reference and returns b. It panics if b is already released.
func (b *Buffer) Retain() *Buffer {
	if b.refs.Add(1) <= 1 {
		b.refs.Add(-1)
		b.dbg.misuse("Retain")
	}
	return b
}

// Release drops one reference. The memory returns to its resource with the last reference to the last view. Releasing
// too often panics, and never frees anything twice.
func (b *Buffer) Release() {
	n := b.refs.Add(-1)
	if n > 0 {
		return
	}
	if n < 0 {
		b.refs.Add(1)
		b.dbg.misuse("Release")
	}
	b.dbg.died()
	if e := b.ready.Load(); e != nil {
		b.blk.addUse(*e)
		b.ready.Store(nil)
	}
	b.blk.release()
}

// ReleaseShared drops one reference unless it is the last, and reports whether it did. It never runs callbacks of the
// memory's owner, so it may be called where those must not run.
func (b *Buffer) ReleaseShared() bool {
	for {
		n := b.refs.Load()
		if n <= 1 {
			return false
		}
		if b.refs.CompareAndSwap(n, n-1) {
			return true
		}
	}
}

func (b *Buffer) check(op string) {
	if invariants && b.refs.Load() <= 0 {
		b.dbg.misuse(op)
	}
}

// Slice returns a new view of n bytes from off, with its own reference: b and the slice are released independently, in
// any order. The slice starts with b's ready event; later SetReady calls on one do not affect the other. It panics if
// the range is not within b.
func (b *Buffer) Slice(off, n int) *Buffer {
	b.check("Slice")
	if off < 0 || n < 0 || off > b.n-n {
		panic(fmt.Sprintf("mem: Slice(%d, %d) of a buffer of %d bytes", off, n, b.n))
	}
	b.blk.retain()
	s := newBuffer(b.blk, b.off+off, n)
	s.ready.Store(b.ready.Load())
	return s
}

// Len returns the length of the view in bytes.
func (b *Buffer) Len() int { b.check("Len"); return b.n }

// Addr returns the address of the view's first byte.
func (b *Buffer) Addr() uintptr { b.check("Addr"); return b.blk.region.addr + uintptr(b.off) }

// Kind returns the kind of memory.
func (b *Buffer) Kind() Kind { b.check("Kind"); return b.blk.region.kind }

// Device returns the GPU ordinal, or -1 for host memory.
func (b *Buffer) Device() int { b.check("Device"); return b.blk.region.device }

// Region returns the allocation that contains the view. All buffers of one pool slab share it.
func (b *Buffer) Region() *Region { b.check("Region"); return b.blk.region }

// ReadOnly reports whether the memory must not be written.
func (b *Buffer) ReadOnly() bool { b.check("ReadOnly"); return b.blk.region.readOnly }

// Bytes returns the view's memory without a copy. The slice is valid until b is released, and must not be written if
// ReadOnly. It panics for Device memory.
func (b *Buffer) Bytes() []byte {
	b.check("Bytes")
	if r := b.blk.region; !r.kind.HostAccessible() {
		panic(fmt.Sprintf("mem: Bytes of %v memory on device %d: not accessible to the CPU; copy it to the host with "+
			"package cuda first", r.kind, r.device))
	}
	return b.blk.region.bytes(b.off, b.n)
}

// Ready returns the event of the last write to the view, or nil if no write is outstanding. Readers wait for it, see
// WaitReady.
func (b *Buffer) Ready() Event {
	b.check("Ready")
	if e := b.ready.Load(); e != nil {
		return *e
	}
	return nil
}

// SetReady sets the event that completes when the current write to the view's memory is done; nil means that the memory
// is ready. A pool does not reuse the memory before e has completed.
func (b *Buffer) SetReady(e Event) {
	b.check("SetReady")
	if e == nil {
		b.ready.Store(nil)
		return
	}
	b.ready.Store(&e)
}

// WaitReady waits until the last write has finished. It returns immediately if there is none.
func (b *Buffer) WaitReady(ctx context.Context) error {
	if e := b.Ready(); e != nil {
		return e.Wait(ctx)
	}
	return nil
}

// OnFree registers a function that runs when the last view of the allocation is released, before its memory is
// returned. For a buffer of a pool that is the end of the allocation; Region.OnFree waits for the end of the whole
// slab. Functions run in reverse order of registration on the goroutine of the last Release, so they must not block.
func (b *Buffer) OnFree(f func()) {
	b.check("OnFree")
	b.blk.mu.Lock()
	b.blk.ends = append(b.blk.ends, f)
	b.blk.mu.Unlock()
}

// String returns a description of the view for error messages and logs.
func (b *Buffer) String() string {
	return fmt.Sprintf("buffer [%d:%d] of %v", b.off, b.off+b.n, b.blk.region)
}
