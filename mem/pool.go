package mem

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// PoolConfig configures a Pool. The zero value is an unbounded pool with 64 MiB slabs.
type PoolConfig struct {
	// SlabBytes is how much is allocated from upstream at a time; a larger request gets its own slab. Default 64 MiB.
	SlabBytes int
	// MaxBytes bounds the total allocated from upstream. Default 0: no bound. (rmm.maximum-pool-size)
	MaxBytes int64
	// Align is the alignment of every buffer, a power of two. Sizes are rounded up to it. Default 256, the alignment of
	// CUDA's allocations.
	Align int
	// Wait makes Alloc wait for memory, until its context is done, when the pool is at
	// MaxBytes. Default: Alloc fails with ErrOutOfMemory.
	Wait bool
	// InitialBytes is allocated from upstream by NewPool, as one slab: one region, which a transport registers once.
	// Default 0: the first slab is allocated by the first Alloc, so that an unused pool costs nothing. (rmm.pool-size)
	InitialBytes int
	// Double makes the pool grow as RMM's does, so that it has few regions however large it is: a new slab is as large
	// as all before it or, with MaxBytes, half of the remainder. SlabBytes is then the minimum. Default: slabs of
	// SlabBytes.
	Double bool
}

// Pool allocates buffers within large regions of an upstream resource, so that a transport registers each region once
// and an allocation costs no system or driver call. It is a Resource. Its memory is not zeroed.
//
// Memory returns to the pool with the last reference to the last view of a buffer, and not before the ready events of
// those views have completed. Memory of AllocOn is reused in the order of its stream instead, without waiting.
type Pool struct {
	upstream Resource
	cfg      PoolConfig

	mu       sync.Mutex // guards all below; never held during a call of upstream or a device
	common   arena      // free memory that any caller may use immediately
	streams  []*arena   // free memory in the order of a stream, in the order of their first use
	slabs    []*slab
	growing  int // slabs being allocated from upstream
	waiters  []*waiter
	quaran   []quarantined
	checking int // chunks taken out by a goroutine that queries a device about them
	closed   bool
	spare    chunks
	views    []pooled // not yet used
	stats    PoolStats
}

// PoolStats is a snapshot of a Pool. Sizes are in bytes.
type PoolStats struct {
	Slabs       int   // regions allocated from upstream
	Reserved    int64 // bytes in those regions
	InUse       int64 // bytes in use, rounded up to the alignment
	Peak        int64 // largest InUse so far
	Quarantined int64 // bytes released but still being written by a device
	Streams     int   // streams that memory was allocated on and that are not closed
	StreamFree  int64 // bytes free in the order of those streams
	Outstanding int   // buffers in use
	LargestFree int   // largest request that can be served without growth
	Waiting     int   // Alloc calls waiting for memory
	Allocs      int64 // successful Alloc calls
	Frees       int64 // allocations that were released
}

type waiter struct {
	size int
	home *arena
	ch   chan *chunk // capacity 1; nil means try again
}

type quarantined struct {
	c      *chunk
	events []Event
}

// pooled is one allocation: its block and the first view in one Go allocation. It is never reused, so a stale *Buffer
// can never access another owner's memory. viewBatch of them are allocated at a time.
type pooled struct {
	buf Buffer
	blk block
}

// NewPool returns a pool on upstream, which must outlive it.
func NewPool(upstream Resource, cfg PoolConfig) (*Pool, error) {
	if upstream == nil {
		return nil, errors.New("mem: NewPool: no upstream resource; use mem.Heap or mem.NewMmap")
	}
	if cfg.SlabBytes == 0 {
		cfg.SlabBytes = 64 << 20
	}
	if cfg.Align == 0 {
		cfg.Align = 256
	}
	if cfg.Align < 0 || cfg.Align&(cfg.Align-1) != 0 {
		return nil, fmt.Errorf("mem: NewPool: alignment %d is not a power of two", cfg.Align)
	}
	if cfg.SlabBytes < 0 || cfg.MaxBytes < 0 || cfg.InitialBytes < 0 {
		return nil, fmt.Errorf("mem: NewPool: negative size in %+v", cfg)
	}
	if cfg.MaxBytes > 0 && int64(cfg.InitialBytes) > cfg.MaxBytes {
		return nil, fmt.Errorf("mem: NewPool: InitialBytes %d is more than MaxBytes %d", cfg.InitialBytes, cfg.MaxBytes)
	}
	p := &Pool{upstream: upstream, cfg: cfg}
	if cfg.InitialBytes > 0 {
		p.reserve(cfg.InitialBytes)
		if err := p.grow(context.Background(), cfg.InitialBytes, cfg.Align); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Kind returns the kind of memory of the upstream resource.
func (p *Pool) Kind() Kind { return p.upstream.Kind() }

// Device returns the GPU ordinal of the upstream resource, or -1.
func (p *Pool) Device() int { return p.upstream.Device() }

// Alloc returns a buffer of n bytes. When no free memory is large enough it allocates another slab from upstream; at
// MaxBytes it fails with ErrOutOfMemory or, with PoolConfig.Wait, waits for memory. In both cases it waits for released
// memory that a device is still writing. Waiting calls are served in order of arrival if the memory fits; a small
// request may overtake a large one, since otherwise both could wait forever.
func (p *Pool) Alloc(ctx context.Context, n int) (*Buffer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := checkSize("pool", n); err != nil {
		return nil, err
	}
	return p.alloc(ctx, n, nil)
}

// AllocOn returns a buffer of n bytes for work of s, see StreamResource. Memory that was released by work of the same
// stream is reused without a driver call and without waiting. Memory released by other streams is reused by making s
// wait for them on the device, before the pool allocates more from upstream.
func (p *Pool) AllocOn(ctx context.Context, n int, s Stream) (*Buffer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := checkSize("pool", n); err != nil {
		return nil, err
	}
	return p.alloc(ctx, n, s)
}

func (p *Pool) alloc(ctx context.Context, n int, s Stream) (*Buffer, error) {
	c, err := p.get(ctx, p.round(n), s)
	if err != nil {
		return nil, err
	}
	x := c.view
	c.view = nil
	x.blk.refs.Store(1)
	x.blk.region, x.blk.chunk = c.slab.buf.blk.region, c
	x.buf.init(&x.blk, c.off, n)
	return &x.buf, nil
}

// round rounds up a size so that every buffer, also an empty one, has a distinct range.
func (p *Pool) round(n int) int { return max(n+p.cfg.Align-1, p.cfg.Align) &^ (p.cfg.Align - 1) }

// get finds memory, in this order: free for the caller, finished by a device, free in other streams, newly allocated
// from upstream, and released by others.
func (p *Pool) get(ctx context.Context, size int, s Stream) (*chunk, error) {
	if m := p.cfg.MaxBytes; m > 0 && int64(size) > m {
		return nil, fmt.Errorf("%w: pool: %d bytes exceeds the pool's MaxBytes of %d", ErrOutOfMemory, size, m)
	}
	for {
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			return nil, fmt.Errorf("%w: pool: alloc of %d bytes", ErrClosed, size)
		}
		home, known := p.arenaOf(s)
		if !known { // callbacks of the stream run without the lock
			p.mu.Unlock()
			s.OnClose(func() { p.streamClosed(s) })
			continue
		}
		c := p.find(size, home)
		if c == nil && len(p.quaran) > 0 {
			p.sweepLocked()
			c = p.find(size, home)
		}
		if c == nil && len(p.streams) > 0 {
			c = p.fromStreams(size, home)
		}
		if c != nil {
			p.mu.Unlock()
			return p.inOrder(c, s)
		}
		if p.closed { // closed during the query of a device
			p.mu.Unlock()
			continue
		}
		// One slab at a time: many callers that start together must not take one each.
		if p.growing == 0 {
			if want, drop, ok := p.planGrow(size); ok {
				p.mu.Unlock()
				for _, s := range drop {
					s.buf.Release()
				}
				if err := p.growOrLess(ctx, want, size); err != nil {
					return nil, err
				}
				continue
			}
			if p.evacuate() {
				p.mu.Unlock()
				continue
			}
		}
		if !p.cfg.Wait && p.growing == 0 && len(p.quaran)+p.checking == 0 {
			err := fmt.Errorf("%w: pool: %d bytes: %d of at most %d bytes are in use, largest free chunk is %d bytes",
				ErrOutOfMemory, size, p.stats.InUse, p.cfg.MaxBytes, p.largest())
			p.mu.Unlock()
			return nil, err
		}
		c, err := p.waitLocked(ctx, size, home)
		if err != nil {
			return nil, err
		}
		if c != nil {
			return p.inOrder(c, s)
		}
	}
}

// find returns a chunk that the owner of home may use immediately.
func (p *Pool) find(size int, home *arena) *chunk {
	c := p.take(size, home, home)
	if c == nil && home != &p.common {
		c = p.take(size, &p.common, home)
	}
	return c
}

// take returns a chunk of exactly size bytes of one arena, if one is free, which returns to another.
func (p *Pool) take(size int, from, home *arena) *chunk {
	c := from.free.take(size, &p.spare)
	if c == nil {
		return nil
	}
	from.bytes -= int64(c.size)
	c.home = home
	home.out++
	if len(p.views) == 0 {
		p.views = make([]pooled, viewBatch)
	}
	c.view, p.views = &p.views[0], p.views[1:]
	p.stats.InUse += int64(c.size)
	p.stats.Peak = max(p.stats.Peak, p.stats.InUse)
	p.stats.Outstanding++
	p.stats.Allocs++
	return c
}

// free adds an unused chunk to its home.
func (p *Pool) free(c *chunk) {
	c.home.bytes += int64(c.size)
	c.home.free.give(c, &p.spare)
}

// put returns an allocation whose last view was released.
func (p *Pool) put(c *chunk, uses []Event) {
	if c.home != &p.common {
		p.putInOrder(c, uses)
		return
	}
	events := stillPending(uses)
	if len(events) == 0 && invariants && (p.Kind() == Host || p.Kind() == Pinned) {
		poison(c.slab.buf.blk.region.bytes(c.off, c.size))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.uncount(c)
	if len(events) > 0 {
		p.quarantine(c, events)
		p.kick() // a waiter has to poll for it
		return
	}
	p.free(c)
	p.serve()
}

// uncount subtracts a returned allocation from the statistics.
func (p *Pool) uncount(c *chunk) {
	p.stats.InUse -= int64(c.size)
	p.stats.Outstanding--
	p.stats.Frees++
	c.home.out--
}

// quarantine keeps a chunk until events have completed; then it is free for any use.
func (p *Pool) quarantine(c *chunk, events []Event) {
	c.home, c.after = &p.common, nil
	p.stats.Quarantined += int64(c.size)
	p.quaran = append(p.quaran, quarantined{c, events})
}

// largest returns the size of the largest free chunk of all arenas.
func (p *Pool) largest() int {
	n := p.common.free.largest()
	for _, a := range p.streams {
		n = max(n, a.free.largest())
	}
	return n
}

// Stats returns a snapshot.
func (p *Pool) Stats() PoolStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.Slabs, s.LargestFree, s.Waiting = len(p.slabs), p.largest(), len(p.waiters)
	for _, a := range p.streams {
		s.StreamFree += a.bytes
		if !a.closed {
			s.Streams++
		}
	}
	return s
}

// Trim returns slabs without buffers to upstream and reports their size in bytes. Memory still in use by a stream is
// kept.
func (p *Pool) Trim() int64 {
	p.mu.Lock()
	if len(p.quaran) > 0 {
		p.sweepLocked()
	}
	p.reclaimIdle()
	drop, n := p.dropEmpty(func(int64) bool { return true })
	p.mu.Unlock()
	for _, s := range drop {
		s.buf.Release()
	}
	return n
}

// Close returns all memory to upstream. While buffers are in use, or a device still works on released ones, it changes
// nothing and returns an error that wraps ErrBusy; it may then be called again. Closing a closed pool does nothing.
func (p *Pool) Close() error {
	p.mu.Lock()
	if len(p.quaran) > 0 {
		p.sweepLocked()
	}
	p.reclaimIdle()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	if n := p.stats.Outstanding; n > 0 {
		defer p.mu.Unlock()
		return fmt.Errorf("%w: pool: close: %d buffers (%d bytes) are not released", ErrBusy, n, p.stats.InUse)
	}
	if len(p.quaran)+p.checking > 0 || p.growing > 0 || p.streamsBusy() {
		defer p.mu.Unlock()
		return fmt.Errorf("%w: pool: close: a device still works on released memory (%d bytes), or a slab is "+
			"being allocated", ErrBusy, p.stats.Quarantined)
	}
	p.closed = true
	slabs := slices.Clone(p.slabs)
	p.slabs, p.common, p.streams, p.stats.Reserved = nil, arena{}, nil, 0
	p.kick()
	p.mu.Unlock()
	for _, s := range slabs {
		s.buf.Release()
	}
	return nil
}
