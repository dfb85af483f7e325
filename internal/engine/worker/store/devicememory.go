package store

import (
	"context"
	"errors"
	"sync"

	"go.millstream.dev/mem"
)

// DeviceMemory is a device's memory as a worker's tasks and connections allocate it, within
// DeviceConfig.Limit: who asks for more than is left has results moved to the host's memory
// first. Everything counts that is allocated from it, also what is being received and what
// tasks need for themselves. If nothing is left that can move, the allocation is tried
// nevertheless: the device may have the room.
//
// It is a resource before a store has it (DeviceConfig.Memory) and after that is closed, and
// then moves nothing.
type DeviceMemory struct {
	upstream mem.Resource
	limit    int64

	mu    sync.Mutex // owns all below
	store *Store     // nil: nothing can be moved
	used  int64      // handed out, or asked for from upstream
	out   int64      // handed out
	peak  int64      // of out
}

var _ mem.StreamResource = (*DeviceMemory)(nil)

// NewDeviceMemory allocates from upstream. A limit of 0 is none: then results move only when
// upstream has no more.
func NewDeviceMemory(upstream mem.Resource, limit int64) (*DeviceMemory, error) {
	if upstream == nil || limit < 0 {
		return nil, errors.New("worker/store: NewDeviceMemory: give a resource, and a limit that is not negative")
	}
	return &DeviceMemory{upstream: upstream, limit: limit}, nil
}

// bind gives it the store whose results can move.
func (d *DeviceMemory) bind(s *Store) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.store = s
}

// Used is how many bytes are handed out.
func (d *DeviceMemory) Used() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.out
}

// Peak is the most that was handed out at one time, in bytes.
func (d *DeviceMemory) Peak() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.peak
}

// Limit is what NewDeviceMemory was told.
func (d *DeviceMemory) Limit() int64 { return d.limit }

// Kind is the sort of memory of the upstream resource.
func (d *DeviceMemory) Kind() mem.Kind { return d.upstream.Kind() }

// Device is the GPU ordinal of the upstream resource, or -1.
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

// evict moves one result, or waits for one that is on its way, and tells whether there was one.
func (d *DeviceMemory) evict(ctx context.Context) bool {
	d.mu.Lock()
	s := d.store
	d.mu.Unlock()
	if s == nil {
		return false
	}
	before := s.moves()
	return s.giveBack() || s.EvictDevice() > 0 || s.awaitMove(ctx) || s.moves() != before
}

// moves counts what has left the device: one that leaves between two questions is not missed.
func (s *Store) moves() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dev == nil {
		return 0
	}
	return s.dev.moves
}

// giveBack frees what belongs to nobody any more, and tells whether there was any.
func (s *Store) giveBack() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bury()
}

// awaitMove waits until one of the results that are leaving the device has left, or stays; it
// tells whether there was one.
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
