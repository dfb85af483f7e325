package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/mem"
)

// Tier moves values between host memory and a device, such as a GPU. Any number of goroutines call it. FrameTier is a
// Tier for values in frames.
type Tier interface {
	// OnDevice returns the number of bytes of a value on the device; 0 for a value in host memory.
	OnDevice(v *task.Value) int64
	// ToHost returns a copy of a value in host memory, which the caller owns.
	ToHost(ctx context.Context, v *task.Value) (*task.Value, error)
	// ToDevice returns a copy of such a copy on the device. If the device is full the error wraps mem.ErrOutOfMemory.
	ToDevice(ctx context.Context, v *task.Value) (*task.Value, error)
}

// DeviceConfig configures the device of a store: results that are created there stay there up to a limit; then the
// least recently used are moved to host memory, and from there to disk. Open moves them back to the device.
type DeviceConfig struct {
	// Tier is the device. Required.
	Tier Tier
	// Limit is the maximum number of bytes of results on the device; 0 means no limit. (--device-memory-limit)
	Limit int64
	// Memory, if not nil, is the allocator of data on the device, which moves results to the host when it runs out (see
	// DeviceMemory).
	Memory *DeviceMemory
	// Publish, if not nil, is called with each result that is put on the device. The function that it returns, if not
	// nil, is called before the result is released, moved or deleted; it must not call the store.
	Publish func(key task.Key, v *task.Value) (withdraw func())
	// OnMove, if not nil, is called for each result that was moved, by the goroutine that moved it: for the timelines
	// of tasks.
	OnMove func(Move)
	// Stats, if not nil, returns the bytes of page-locked host memory, and the memory of the device, for metrics.
	Stats func() (pinned, total int64)
}

// Move describes a result that was moved from the device to host memory, or back.
type Move struct {
	// Down indicates a move from the device.
	Down   bool
	Key    task.Key
	NBytes int64
	// Start and Stop are the times of the move.
	Start, Stop time.Time
}

// device is the device of a store. All fields except cfg, ctx and stop are guarded by Store.mu.
type device struct {
	cfg       DeviceConfig
	ctx       context.Context // ends when the store closes
	stop      context.CancelFunc
	list      lru           // results that can be moved: on the device, and held only by the store
	used      int64         // bytes of results on the device
	reserved  int64         // bytes for results that are being made or moved back
	stuck     bool          // no result can be moved now
	moving    int           // results that are being copied to the host or freed
	moves     int64         // number of times that memory was freed
	dead      []*task.Value // retired values, whose memory is to be freed
	deadBytes int64         // bytes of dead
	dying     int64         // bytes of dead and of values that are being freed
	running   bool          // the mover is running
	wake      chan struct{}
	err       error     // why the last result could not be moved
	retry     time.Time // time of the next attempt
}

func newDevice(cfg *DeviceConfig) (*device, error) {
	if cfg == nil {
		return nil, nil
	}
	if cfg.Tier == nil {
		return nil, errors.New("worker/store: Config.Device without a Tier")
	}
	if cfg.Limit < 0 {
		return nil, fmt.Errorf("worker/store: device limit of %d bytes; use 0 for no limit", cfg.Limit)
	}
	d := &device{cfg: *cfg, wake: make(chan struct{}, 1)}
	d.ctx, d.stop = context.WithCancel(context.Background())
	return d, nil
}

// over returns the number of bytes above the limit of the device. The caller holds mu.
func (d *device) over() int64 {
	if d.cfg.Limit <= 0 {
		return 0
	}
	return d.used + d.dying + d.reserved - d.cfg.Limit
}

// retire takes over a value that is no longer used. It is counted until its memory is freed. The caller holds mu.
func (d *device) retire(v *task.Value, nbytes int64) {
	d.dead = append(d.dead, v)
	d.deadBytes += nbytes
	d.dying += nbytes
}

// OnDevice returns the number of bytes of results on the device.
func (s *Store) OnDevice() int64 {
	if s.dev == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dev.used
}

// MakeDeviceRoom waits until nbytes more fit below DeviceConfig.Limit, or no result is left that can be moved from the
// device: producers of data on the device call it before Put. The error is that of ctx.
func (s *Store) MakeDeviceRoom(ctx context.Context, nbytes int64) error {
	if err := s.ReserveDevice(ctx, nbytes); err != nil {
		return err
	}
	s.UnreserveDevice(nbytes)
	return nil
}

// MakeRoomFor calls MakeDeviceRoom for a result that is on the device, and otherwise does nothing.
func (s *Store) MakeRoomFor(ctx context.Context, v *task.Value, nbytes int64) error {
	if s.dev == nil || s.dev.cfg.Tier.OnDevice(v) == 0 {
		return nil
	}
	return s.MakeDeviceRoom(ctx, nbytes)
}

// ReserveDevice is MakeDeviceRoom for data that does not exist yet: the room is reserved until UnreserveDevice. On an
// error nothing is reserved.
func (s *Store) ReserveDevice(ctx context.Context, nbytes int64) error {
	d := s.dev
	if d == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d.reserved += nbytes
	if d.over() <= 0 {
		return nil
	}
	s.waiting++
	defer func() { s.waiting-- }()
	d.stuck = false
	s.wakeMover()
	for !s.closed && d.over() > 0 && !d.stuck {
		wait := s.progress
		s.mu.Unlock()
		var err error
		select {
		case <-wait:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		s.mu.Lock()
		if err != nil {
			d.reserved -= nbytes
			s.notify()
			return err
		}
	}
	return nil
}

// UnreserveDevice releases reserved room.
func (s *Store) UnreserveDevice(nbytes int64) {
	if s.dev == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dev.reserved -= nbytes
	s.notify()
}

// EvictDevice moves one result from the device to host memory and returns its size: 0 if none can be moved. An
// allocator calls it when it runs out of device memory, independent of the share of the results (mem.NewOnFailure).
func (s *Store) EvictDevice() int64 {
	if s.dev == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0
	}
	s.work.Add(1) // Close waits for it
	defer s.work.Done()
	s.freeRetired()
	for {
		n, err := s.demoteOne()
		if err != nil {
			return 0
		}
		if n != inUse {
			return n
		}
	}
}

// moveIfOver wakes the mover if the device is above its limit. The caller holds mu.
func (s *Store) moveIfOver() {
	if d := s.dev; d != nil && d.over() > 0 && d.list.first != nil && !time.Now().Before(d.retry) {
		d.stuck = false
		s.wakeMover()
	}
}

// wakeMover wakes the mover, and starts it the first time. The caller holds mu.
func (s *Store) wakeMover() {
	d := s.dev
	if !d.running {
		if s.closed {
			return
		}
		d.running = true
		s.work.Add(1)
		go s.mover()
	}
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// mover moves results to host memory while the device is above its limit. It is not the spiller: it may wait for room
// in host memory, which the spiller makes.
func (s *Store) mover() {
	defer s.work.Done()
	d := s.dev
	for range d.wake {
		s.mu.Lock()
		s.freeRetired()
		for !s.closed && d.over() > 0 && !time.Now().Before(d.retry) {
			if n, err := s.demoteOne(); n == 0 || err != nil {
				break
			}
		}
		for s.freeRetired() { // including values deleted meanwhile: the mover may end now
		}
		d.stuck = d.over() > 0
		s.notify()
		closed := s.closed
		s.mu.Unlock()
		if closed {
			return
		}
	}
}

// inUse is returned by demoteOne for a result that was held by another goroutine meanwhile.
const inUse = -1

// demoteOne moves the least recently used result of the device to host memory and returns its size, 0 if there is none.
// The caller holds mu, which is released during the copy.
func (s *Store) demoteOne() (int64, error) {
	d := s.dev
	e := d.list.first
	if e == nil {
		return 0, nil
	}
	e.refs++
	s.updateList(e)
	d.moving++
	v := e.value
	s.mu.Unlock()
	start := time.Now()
	var host *task.Value
	err := s.Reserve(d.ctx, e.nbytes) // other data is spilled first
	if err == nil {
		host, err = d.cfg.Tier.ToHost(d.ctx, v)
		s.Unreserve(e.nbytes)
	}
	if err == nil && d.cfg.OnMove != nil {
		d.cfg.OnMove(Move{true, e.key, e.nbytes, start, time.Now()})
	}
	s.mu.Lock()
	e.refs--
	d.moving--
	moved := int64(inUse)
	switch {
	case err != nil:
		s.demoteFailed(e, err)
	case e.refs == 1 && !e.gone && !s.closed: // not held by another goroutine meanwhile
		e.unpublish()
		e.value, e.up = host, false
		d.used -= e.nbytes
		s.memory += e.nbytes
		d.retire(v, e.nbytes)
		d.err = nil
		moved = max(e.nbytes, 1)
	default:
		host.Release()
	}
	e.refs++
	s.unref(e)
	s.spillIfOver()
	s.freeRetired()
	s.notify()
	return moved, err
}

// freeRetired frees retired device memory, and reports whether there was any. The driver may wait for the work of the
// device, so mu, which the caller holds, is released meanwhile.
func (s *Store) freeRetired() bool {
	d := s.dev
	dead := d.dead
	if len(dead) == 0 {
		return false
	}
	nbytes := d.deadBytes
	d.dead, d.deadBytes = nil, 0
	d.moving++
	s.mu.Unlock()
	for _, v := range dead {
		v.Release()
	}
	s.mu.Lock()
	d.moving--
	d.moves++
	d.dying -= nbytes
	s.notify()
	return true
}

// demoteFailed records that a result could not be moved from the device. The caller holds mu.
func (s *Store) demoteFailed(e *Entry, err error) {
	d := s.dev
	if s.closed {
		return
	}
	if d.err == nil {
		s.log.Error("cannot move result from device to host memory", "key",
			e.key.String(), "bytes", e.nbytes, "error", err)
	}
	d.err, d.retry = err, time.Now().Add(retryAfter)
}

// promote moves a result in host memory to the device. The caller holds the entry and its load lock.
func (s *Store) promote(e *Entry) (*task.Value, error) {
	d := s.dev
	if err := s.ReserveDevice(d.ctx, e.nbytes); err != nil {
		return nil, fmt.Errorf("worker/store: %v: %w", e.key, err)
	}
	defer s.UnreserveDevice(e.nbytes)
	s.mu.Lock()
	host := e.value
	s.mu.Unlock()
	start := time.Now()
	v, err := d.cfg.Tier.ToDevice(d.ctx, host)
	for errors.Is(err, mem.ErrOutOfMemory) && s.EvictDevice() > 0 { // the device has other users
		v, err = d.cfg.Tier.ToDevice(d.ctx, host)
	}
	if err != nil {
		return nil, fmt.Errorf("worker/store: cannot move %v (%d bytes) back to the device: %w", e.key, e.nbytes,
			err)
	}
	if d.cfg.OnMove != nil {
		d.cfg.OnMove(Move{false, e.key, e.nbytes, start, time.Now()})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e.value, e.up = v, true
	s.memory -= e.nbytes
	d.used += e.nbytes
	if e.writing {
		e.old = host // the spiller still reads it, and releases it
	} else {
		host.Release()
	}
	s.notify()
	return v, nil
}
