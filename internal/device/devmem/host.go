package devmem

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"go.millstream.dev/mem"
)

const (
	// hugePage is the unit of host memory that is pinned and kept for reuse. Smaller buffers are neither.
	hugePage = 2 << 20
	// defaultKeep is how many bytes of freed memory are kept unless LimitHost is called.
	defaultKeep = 256 << 20
	// keepTime is how long unused host memory is kept.
	keepTime = 10 * time.Second
	// spares is how many buffers of the last size are prepared ahead, and how many goroutines prepare them at a time.
	spares = 4
)

// hostMemory allocates host memory for data of the GPU: outside Go's heap, so that it is freed with the last reference
// and not by the garbage collector, and pinned, so that the GPU copies at full speed without the help of a processor.
//
// New memory is expensive: on an H200 machine, faulting in the pages of 64 MiB takes 12 ms of processor time and
// pinning them 2 ms, but copying them 1.2 ms. (Memory of cuMemHostAlloc takes 34 ms.) So freed memory stays pinned and
// is kept for the next move, and some buffers are prepared ahead. It is safe for concurrent use.
type hostMemory struct {
	upstream mem.Resource
	pin      func([]byte) error
	unpin    func([]byte)

	working sync.WaitGroup // goroutines that prepare or free memory

	mu        sync.Mutex           // guards the fields below
	free      []*mapping           // the oldest first
	kept      int64                // bytes of free
	keep      int64                // maximum of kept
	live      map[uintptr]*mapping // pinned memory in use, by address
	pinned    int64                // bytes of pinned memory, in use or not
	maxPinned int64                // maximum of pinned
	noPin     bool                 // the driver has refused
	preparing int                  // goroutines
	idle      *time.Timer          // frees all of free; nil before the first use
	closed    bool
}

// mapping is host memory that can be reused.
type mapping struct {
	b      *mem.Buffer
	pinned bool
}

// newHostMemory returns a hostMemory that pins memory with the functions of a driver.
func newHostMemory(pin func([]byte) error, unpin func([]byte)) *hostMemory {
	h := &hostMemory{upstream: mem.NewMmap(mem.MmapConfig{HugePages: true}), pin: pin, unpin: unpin, keep: defaultKeep,
		live: map[uintptr]*mapping{}}
	var info syscall.Sysinfo_t
	if syscall.Sysinfo(&info) == nil {
		h.maxPinned = int64(info.Totalram) * int64(info.Unit) / 4
	}
	return h
}

// limit sets the bounds of kept and pinned memory for a process with a limit of n bytes.
func (h *hostMemory) limit(n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.keep, h.maxPinned = n/16, n/2
	h.drop(h.above(h.keep))
}

// alloc returns n bytes of host memory, which are not zeroed, and reports whether they are pinned.
func (h *hostMemory) alloc(ctx context.Context, n int) (b *mem.Buffer, pinned bool, err error) {
	if n < hugePage {
		b, err = h.upstream.Alloc(ctx, n)
		return b, false, err
	}
	m := h.take(n)
	if m == nil {
		if m, err = h.fresh(ctx, n); err != nil {
			return nil, false, err
		}
	}
	h.prepare(n)
	addr := m.b.Addr()
	if m.pinned {
		h.mu.Lock()
		h.live[addr] = m
		h.mu.Unlock()
	}
	return mem.NewRegion(mem.RegionConfig{Addr: addr, Len: n, Kind: mem.Host, Device: -1,
		Free: func() { h.put(m) }}).Buffer(), m.pinned, nil
}

// isPinned reports whether a buffer is pinned memory of h.
func (h *hostMemory) isPinned(b *mem.Buffer) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.live[b.Region().Addr()] != nil
}

// fits reports whether a mapping may be used for n bytes: it must not waste more than a quarter.
func (m *mapping) fits(n int) bool { return m.b.Len() >= n && m.b.Len() <= n+n/4+hugePage }

// take returns the smallest kept mapping for n bytes, nil if there is none.
func (h *hostMemory) take(n int) *mapping {
	h.mu.Lock()
	defer h.mu.Unlock()
	best := -1
	for i, m := range h.free {
		if m.fits(n) && (best < 0 || m.b.Len() < h.free[best].b.Len()) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	m := h.free[best]
	h.free = slices.Delete(h.free, best, best+1)
	h.kept -= int64(m.b.Len())
	return m
}

// fresh returns a new mapping for n bytes, pinned if that is possible.
func (h *hostMemory) fresh(ctx context.Context, n int) (*mapping, error) {
	size := (n + hugePage - 1) &^ (hugePage - 1)
	b, err := h.upstream.Alloc(ctx, size)
	if err != nil {
		return nil, err
	}
	m := &mapping{b: b}
	h.mu.Lock()
	try := !h.noPin && h.pinned+int64(size) <= h.maxPinned
	if try {
		h.pinned += int64(size)
	}
	h.mu.Unlock()
	if !try {
		return m, nil
	}
	populate(b.Bytes())
	if err := h.pin(b.Bytes()); err == nil {
		m.pinned = true
		return m, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pinned -= int64(size)
	h.noPin = true // copies go through chunks of pinned memory
	return m, nil
}

// populate faults in the pages of new memory, with several threads, because the kernel clears them. Kernels before 5.14
// refuse it, and fault them in when they are pinned.
func populate(b []byte) {
	const (
		threads = 4
		advice  = 23 // MADV_POPULATE_WRITE of <asm-generic/mman-common.h>
	)
	n := min(threads, runtime.NumCPU())
	var running sync.WaitGroup
	for i := range n {
		running.Go(func() {
			for at := i * hugePage; at < len(b); at += n * hugePage {
				if syscall.Madvise(b[at:at+hugePage], advice) != nil {
					return
				}
			}
		})
	}
	running.Wait()
}

// prepare makes sure that buffers of n bytes will be kept, in goroutines.
func (h *hostMemory) prepare(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	have := h.preparing
	for _, m := range h.free {
		if m.fits(n) {
			have++
		}
	}
	for ; have < spares && !h.closed && h.kept+int64(h.preparing+1)*int64(n) <= h.keep; have++ {
		h.preparing++
		h.working.Go(func() {
			m, err := h.fresh(context.Background(), n)
			h.mu.Lock()
			h.preparing--
			h.mu.Unlock()
			if err == nil { // otherwise the next alloc returns it
				h.keepFree(m)
			}
		})
	}
}

// put returns a mapping that is no longer in use.
func (h *hostMemory) put(m *mapping) {
	if m.pinned {
		h.mu.Lock()
		delete(h.live, m.b.Addr())
		h.mu.Unlock()
	}
	h.keepFree(m)
}

// keepFree keeps a mapping for reuse, and frees the oldest above the limit.
func (h *hostMemory) keepFree(m *mapping) {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		h.unmap(m)
		return
	}
	defer h.mu.Unlock()
	h.free = append(h.free, m)
	h.kept += int64(m.b.Len())
	h.drop(h.above(h.keep))
	if h.idle == nil {
		h.idle = time.AfterFunc(keepTime, h.trim)
	} else {
		h.idle.Reset(keepTime)
	}
}

// above removes the oldest mappings until at most limit bytes are kept, and returns them. The caller holds mu.
func (h *hostMemory) above(limit int64) []*mapping {
	n := 0
	for ; h.kept > limit; n++ {
		h.kept -= int64(h.free[n].b.Len())
	}
	out := slices.Clone(h.free[:n])
	h.free = slices.Delete(h.free, 0, n)
	return out
}

// drop frees mappings in a goroutine: the driver takes a millisecond for each, and buffers are released by callers that
// hold locks. The caller holds mu.
func (h *hostMemory) drop(list []*mapping) {
	if len(list) > 0 {
		h.working.Go(func() { h.unmap(list...) })
	}
}

func (h *hostMemory) unmap(list ...*mapping) {
	for _, m := range list {
		if m.pinned {
			h.unpin(m.b.Bytes())
			h.mu.Lock()
			h.pinned -= int64(m.b.Len())
			h.mu.Unlock()
		}
		m.b.Release()
	}
}

// trim frees all memory that is kept.
func (h *hostMemory) trim() {
	h.mu.Lock()
	list := h.above(0)
	h.mu.Unlock()
	h.unmap(list...)
}

// close frees all memory that is kept. Memory in use is freed with its last reference.
func (h *hostMemory) close() {
	h.mu.Lock()
	h.closed = true
	if h.idle != nil {
		h.idle.Stop()
	}
	h.mu.Unlock()
	h.working.Wait()
	h.trim()
}

// LimitHost sets the bounds of the host memory of Down for a process with a memory limit of n bytes: at most half of it
// is pinned, and at most a sixteenth is kept for later moves when it is freed. The defaults are a quarter of the
// machine's memory, and 256 MiB.
func (m *Memory) LimitHost(n int64) { m.host.limit(n) }

// PinnedBytes returns the size of the page-locked host memory: that of Pinned and of results that were moved down.
func (m *Memory) PinnedBytes() int64 {
	m.host.mu.Lock()
	defer m.host.mu.Unlock()
	return m.host.pinned + m.pinned.Stats().Reserved
}
