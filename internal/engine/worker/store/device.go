package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/mem"
)

// Tier is memory above the host's, such as a GPU's: how values get there and back. Any number
// of goroutines call it. FrameTier is one for values in frames.
type Tier interface {
	// OnDevice is how many bytes of its memory a value has: 0 for a value of the host's.
	OnDevice(v *task.Value) int64
	// ToHost returns a copy of a value in host memory, which the caller owns.
	ToHost(ctx context.Context, v *task.Value) (*task.Value, error)
	// ToDevice returns a copy of such a copy on the device. If it is full the error wraps
	// mem.ErrOutOfMemory.
	ToDevice(ctx context.Context, v *task.Value) (*task.Value, error)
}

// DeviceConfig gives a store a device: results that are made there stay there up to a limit;
// then the least recently used go to the host's memory, and from there to disk. Who opens one
// gets it back on the device.
type DeviceConfig struct {
	// Tier is the device. Required.
	Tier Tier
	// Limit is how many bytes of results are kept on the device; 0 is no bound.
	// (--device-memory-limit)
	Limit int64
	// Memory, if not nil, is what data on the device is allocated from: it has results move
	// when it runs out. (see DeviceMemory)
	Memory *DeviceMemory
	// OnMove, if not nil, is told of each result that was moved: for the timelines of tasks.
	// It is called by the goroutine that did it.
	OnMove func(Move)
}

// Move is a result that went from the device to the host's memory, or back.
type Move struct {
	// Down tells that it left the device.
	Down   bool
	Key    task.Key
	NBytes int64
	// Start and Stop are when.
	Start, Stop time.Time
}

// device is a store's device. All but cfg, ctx and stop is guarded by Store.mu.
type device struct {
	cfg       DeviceConfig
	ctx       context.Context // ends with the store
	stop      context.CancelFunc
	list      lru           // what can leave: on the device, and held by nobody but the store
	used      int64         // of results on the device
	reserved  int64         // for results that are being made or brought back
	stuck     bool          // there is nothing that can leave now
	moving    int           // results that are being copied to the host, or given back to the device
	moves     int64         // how often some were given back
	dead      []*task.Value // of results that are gone: memory to be given back
	deadBytes int64         // of these
	dying     int64         // of these, and of those that are just given back
	running   bool          // the mover
	wake      chan struct{}
	err       error     // why the last result could not leave
	retry     time.Time // when it is tried again
}

func newDevice(cfg *DeviceConfig) (*device, error) {
	if cfg == nil {
		return nil, nil
	}
	if cfg.Tier == nil {
		return nil, errors.New("worker/store: Config.Device without a Tier")
	}
	if cfg.Limit < 0 {
		return nil, fmt.Errorf("worker/store: a device limit of %d bytes: give 0 for none", cfg.Limit)
	}
	d := &device{cfg: *cfg, wake: make(chan struct{}, 1)}
	d.ctx, d.stop = context.WithCancel(context.Background())
	return d, nil
}

// over is how much too much is on the device. The caller holds mu.
func (d *device) over() int64 {
	if d.cfg.Limit <= 0 {
		return 0
	}
	return d.used + d.dying + d.reserved - d.cfg.Limit
}

// kill hands over a value that nobody has any more. It counts until its memory is given back.
// The caller holds mu.
func (d *device) kill(v *task.Value, nbytes int64) {
	d.dead = append(d.dead, v)
	d.deadBytes += nbytes
	d.dying += nbytes
}

// OnDevice is how many bytes of results are on the device.
func (s *Store) OnDevice() int64 {
	if s.dev == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dev.used
}

// MakeDeviceRoom waits until so many bytes more fit below DeviceConfig.Limit, or nothing is
// left that can leave the device: it is called by those who make data there, before they Put
// it. The error is that of ctx.
func (s *Store) MakeDeviceRoom(ctx context.Context, nbytes int64) error {
	if err := s.ReserveDevice(ctx, nbytes); err != nil {
		return err
	}
	s.UnreserveDevice(nbytes)
	return nil
}

// MakeRoomFor is MakeDeviceRoom for a result that has been made, and does nothing if it is not
// on the device.
func (s *Store) MakeRoomFor(ctx context.Context, v *task.Value, nbytes int64) error {
	if s.dev == nil || s.dev.cfg.Tier.OnDevice(v) == 0 {
		return nil
	}
	return s.MakeDeviceRoom(ctx, nbytes)
}

// ReserveDevice is MakeDeviceRoom for data that is still to be made: the room counts as taken
// until UnreserveDevice gives it back. If it fails nothing is reserved.
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
	s.kickMover()
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
			s.changed()
			return err
		}
	}
	return nil
}

// UnreserveDevice gives back what was reserved.
func (s *Store) UnreserveDevice(nbytes int64) {
	if s.dev == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dev.reserved -= nbytes
	s.changed()
}

// EvictDevice moves one result from the device to the host's memory and returns its size: 0
// if none can be moved. It is for an allocator that has run out of the device's memory,
// whatever the results have of it (mem.NewOnFailure).
func (s *Store) EvictDevice() int64 {
	if s.dev == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0
	}
	s.work.Add(1) // Close waits
	defer s.work.Done()
	s.bury()
	for {
		n, err := s.demoteOne()
		if err != nil {
			return 0
		}
		if n != taken {
			return n
		}
	}
}

// pressDevice has the mover look if there is too much on the device. The caller holds mu.
func (s *Store) pressDevice() {
	if d := s.dev; d != nil && d.over() > 0 && d.list.first != nil && !time.Now().Before(d.retry) {
		d.stuck = false
		s.kickMover()
	}
}

// kickMover wakes the mover, and starts it the first time. The caller holds mu.
func (s *Store) kickMover() {
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

// mover moves results to the host's memory while there are too many on the device. It is not
// the spiller: it may wait for room in memory, which the spiller makes.
func (s *Store) mover() {
	defer s.work.Done()
	d := s.dev
	for range d.wake {
		s.mu.Lock()
		s.bury()
		for !s.closed && d.over() > 0 && !time.Now().Before(d.retry) {
			if n, err := s.demoteOne(); n == 0 || err != nil {
				break
			}
		}
		for s.bury() { // what was deleted meanwhile too: nobody comes after the end
		}
		d.stuck = d.over() > 0
		s.changed()
		closed := s.closed
		s.mu.Unlock()
		if closed {
			return
		}
	}
}

// taken says that demoteOne copied a result that somebody has taken meanwhile.
const taken = -1

// demoteOne moves the least recently used result of the device to the host's memory and
// returns its size, 0 if there is none. The caller holds mu, which is given up meanwhile.
func (s *Store) demoteOne() (int64, error) {
	d := s.dev
	e := d.list.first
	if e == nil {
		return 0, nil
	}
	e.refs++
	s.settle(e)
	d.moving++
	v := e.value
	s.mu.Unlock()
	start := time.Now()
	var host *task.Value
	err := s.Reserve(d.ctx, e.nbytes) // other data goes to disk first
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
	moved := int64(taken)
	switch {
	case err != nil:
		s.stays(e, err)
	case e.refs == 1 && !e.gone && !s.closed: // nobody has taken it meanwhile
		e.value, e.up = host, false
		d.used -= e.nbytes
		s.memory += e.nbytes
		d.kill(v, e.nbytes)
		d.err = nil
		moved = max(e.nbytes, 1)
	default:
		host.Release()
	}
	e.refs++
	s.unref(e)
	s.press()
	s.bury()
	s.changed()
	return moved, err
}

// bury gives memory of the device back that belongs to nobody. The driver may make that wait
// for the device's work, so that mu, which the caller holds, is given up meanwhile. It tells
// whether there was any.
func (s *Store) bury() bool {
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
	s.changed()
	return true
}

// stays notes that a result could not leave the device. The caller holds mu.
func (s *Store) stays(e *Entry, err error) {
	d := s.dev
	if s.closed {
		return
	}
	if d.err == nil {
		s.log.Error("data cannot leave the device: it stays there, above --device-memory-limit if need be", "key",
			e.key.String(), "bytes", e.nbytes, "error", err)
	}
	d.err, d.retry = err, time.Now().Add(retryAfter)
}

// lift brings a result in memory to the device. The caller holds the entry and its load lock.
func (s *Store) lift(e *Entry) (*task.Value, error) {
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
	for errors.Is(err, mem.ErrOutOfMemory) && s.EvictDevice() > 0 { // others use the device too
		v, err = d.cfg.Tier.ToDevice(d.ctx, host)
	}
	if err != nil {
		return nil, fmt.Errorf("worker/store: %v (%d bytes) cannot be brought back to the device: %w", e.key, e.nbytes,
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
		e.old = host // the spiller reads it still, and releases it
	} else {
		host.Release()
	}
	s.changed()
	return v, nil
}
