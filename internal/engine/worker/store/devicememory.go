package store

import (
	"context"
	"errors"
	"sync"

	"go.millstream.dev/mem"
)

// DeviceMemory allocates the device memory of a worker's tasks and connections within DeviceConfig.Limit: allocations
// above the limit first move results to host memory. All allocations count, including buffers for received data and
// those of tasks. If no result can be moved, the allocation is tried nevertheless: the device may have free memory.
//
// A DeviceMemory can be used before a store has it (DeviceConfig.Memory) and after that store is closed. It then moves
// nothing.
type DeviceMemory struct {
	upstream mem.Resource
	limit    int64

	mu    sync.Mutex // guards the fields below
	store *Store     // nil if nothing can be moved
	used  int64      // allocated, or being allocated from upstream
	out   int64      // allocated
	peak  int64      // maximum of out
}

var _ mem.StreamResource = (*DeviceMemory)(nil)

// NewDeviceMemory returns a DeviceMemory that allocates from upstream. A limit of 0 means no limit: results are then
// moved only when upstream is out of memory.
func NewDeviceMemory(upstream mem.Resource, limit int64) (*DeviceMemory, error) {
	if upstream == nil || limit < 0 {
		return nil, errors.New("worker/store: NewDeviceMemory needs a resource and a non-negative limit")
	}
	return &DeviceMemory{upstream: upstream, limit: limit}, nil
}

// bind sets the store whose results can be moved.
func (d *DeviceMemory) bind(s *Store) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.store = s
}

// Used returns the number of allocated bytes.
func (d *DeviceMemory) Used() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.out
}

// Peak returns the maximum of Used, in bytes.
func (d *DeviceMemory) Peak() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.peak
}

// Limit returns the limit of NewDeviceMemory.
func (d *DeviceMemory) Limit() int64 { return d.limit }

// Kind returns the kind of memory of the upstream resource.
func (d *DeviceMemory) Kind() mem.Kind { return d.upstream.Kind() }

// Device returns the GPU ordinal of the upstream resource, or -1.
func (d *DeviceMemory) Device() int { return d.upstream.Device() }

// Alloc returns a buffer of n bytes of the upstream resource.
func (d *DeviceMemory) Alloc(ctx context.Context, n int) (*mem.Buffer, error) {
	return d.AllocOn(ctx, n, nil)
}

// AllocOn is Alloc in the order of a stream, see mem.StreamResource.
func (d *DeviceMemory) AllocOn(ctx context.Context, n int, s mem.Stream) (*mem.Buffer, error) {
	size := int64(max(n, 0))
	d.add(size)
	for d.over() && d.evict(ctx) {
	}
	b, err := mem.AllocOn(ctx, d.upstream, n, s)
	for err != nil && errors.Is(err, mem.ErrOutOfMemory) && ctx.Err() == nil && d.evict(ctx) {
		b, err = mem.AllocOn(ctx, d.upstream, n, s)
	}
	if err != nil {
		d.add(-size)
		return nil, err
	}
	d.mu.Lock()
	d.out += size
	d.peak = max(d.peak, d.out)
	d.mu.Unlock()
	b.OnFree(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.used -= size
		d.out -= size
	})
	return b, nil
}

func (d *DeviceMemory) add(n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.used += n
}

func (d *DeviceMemory) over() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.limit > 0 && d.used > d.limit
}

// evict moves one result, or waits for one that is being moved, and reports whether there was one.
func (d *DeviceMemory) evict(ctx context.Context) bool {
	d.mu.Lock()
	s := d.store
	d.mu.Unlock()
	if s == nil {
		return false
	}
	before := s.moves()
	return s.freeUnused() || s.EvictDevice() > 0 || s.awaitMove(ctx) || s.moves() != before
}

// moves returns the number of times that device memory was freed: comparing two values detects a free between two
// checks.
func (s *Store) moves() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dev == nil {
		return 0
	}
	return s.dev.moves
}

// freeUnused frees retired device memory, and reports whether there was any.
func (s *Store) freeUnused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.freeRetired()
}

// awaitMove waits until one of the results that are being moved from the device has been moved, or has failed; it
// reports whether there was one.
func (s *Store) awaitMove(ctx context.Context) bool {
	s.mu.Lock()
	if s.closed || s.dev == nil || s.dev.moving == 0 {
		s.mu.Unlock()
		return false
	}
	s.waiting++
	done := s.progress
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.waiting--
		s.mu.Unlock()
	}()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}
