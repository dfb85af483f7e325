package cuda

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"go.millstream.dev/internal/device/cudrv"
	"go.millstream.dev/mem"
)

// EventConfig configures an event. The zero value is suitable for ordering work.
type EventConfig struct {
	// Timing enables Elapsed, at some cost.
	Timing bool
	// IPC enables Export. It excludes Timing.
	IPC bool
}

// Event marks a point in a stream. It implements mem.Event: as the ready event of a buffer it represents the buffer's
// last write. An Event need not be closed: its native event is reused as soon as it is known to have completed, or when
// the Event is no longer reachable if its Handle was requested.
type Event struct {
	mu     sync.RWMutex // held for reading while the driver uses handle; guards it and shown
	handle uint64       // 0: completed, and the native event is reused
	shown  bool         // Handle was called: the native event must exist as long as the Event

	device  int
	flags   uint
	closed  atomic.Bool
	cleanup runtime.Cleanup
	stream  atomic.Pointer[Stream] // on which it was recorded last
	held    *holding               // set before the event is shared
}

var _ mem.Event = (*Event)(nil)

// native is a CUevent without an owner.
type native struct {
	handle uint64
	device int
	flags  uint
}

// spare holds native events for reuse, by device, and others to destroy. The garbage collector's cleanups only append
// to it: destroying is a driver call, which is deferred to the next NewEvent.
var spare struct {
	sync.Mutex
	plain map[int][]uint64
	dead  []native
}

func (n native) keep() {
	spare.Lock()
	defer spare.Unlock()
	if n.flags != cudrv.EventDisableTiming {
		spare.dead = append(spare.dead, n)
		return
	}
	if spare.plain == nil {
		spare.plain = map[int][]uint64{}
	}
	spare.plain[n.device] = append(spare.plain[n.device], n.handle)
}

// reuse returns a spare plain event of the device that has completed.
func reuse(device int) (uint64, bool) {
	spare.Lock()
	dead := spare.dead
	spare.dead = nil
	var h uint64
	list := spare.plain[device]
	if len(list) > 0 { // the oldest is the most likely to be done
		h, spare.plain[device] = list[0], list[1:]
	}
	spare.Unlock()
	for _, n := range dead {
		logFailure("destroy event", n.device, cudrv.EventDestroy(n.device, n.handle))
	}
	if h == 0 {
		return 0, false
	}
	if done, r := cudrv.EventQuery(h); !done || r != cudrv.Success {
		native{h, device, cudrv.EventDisableTiming}.keep() // a new event must look completed until it is recorded
		return 0, false
	}
	return h, true
}

// NewEvent creates an event on a device. Until it is recorded it counts as completed.
func NewEvent(device int, cfg EventConfig) (*Event, error) {
	if cfg.IPC && cfg.Timing {
		return nil, fmt.Errorf("cuda: event on device %d: IPC and Timing exclude each other", device)
	}
	var flags uint = cudrv.EventDisableTiming
	if cfg.Timing {
		flags = 0
	}
	if cfg.IPC {
		flags |= cudrv.EventInterprocess
	}
	e := &Event{device: device, flags: flags}
	if err := e.take(); err != nil {
		return nil, err
	}
	return e, nil
}

// take assigns a native event that counts as completed. No other goroutine uses e, or mu is held.
func (e *Event) take() error {
	n := native{device: e.device, flags: e.flags}
	ok := false
	if e.flags == cudrv.EventDisableTiming {
		n.handle, ok = reuse(e.device)
	}
	if !ok {
		h, r := cudrv.EventCreate(e.device, e.flags)
		if err := check("create event", e.device, r); err != nil {
			return err
		}
		n.handle = h
	}
	e.own(n)
	return nil
}

// own assigns a native event to e, for as long as e exists or until it is given back.
func (e *Event) own(n native) {
	e.handle = n.handle
	e.cleanup = runtime.AddCleanup(e, native.keep, n)
}

func wrapEvent(n native) *Event {
	e := &Event{device: n.device, flags: n.flags}
	e.own(n)
	return e
}

// giveBack lets another event reuse the native event of a completed one. It does nothing while the driver uses it, or
// if its handle was requested.
func (e *Event) giveBack() {
	if e.flags != cudrv.EventDisableTiming || !e.mu.TryLock() {
		return
	}
	defer e.mu.Unlock()
	if e.handle == 0 || e.shown || e.closed.Load() {
		return
	}
	e.cleanup.Stop()
	native{e.handle, e.device, e.flags}.keep()
	e.handle = 0
}

// query queries the driver. An event that has given its native event back has completed.
func (e *Event) query() (done bool, r cudrv.Result) {
	e.mu.RLock()
	if e.handle == 0 {
		e.mu.RUnlock()
		return true, cudrv.Success
	}
	done, r = cudrv.EventQuery(e.handle)
	e.mu.RUnlock()
	if done && r == cudrv.Success {
		e.giveBack()
	}
	return done, r
}

// Device returns the ordinal of the event's device.
func (e *Event) Device() int { return e.device }

// Handle returns the CUevent. e must stay reachable while it is used. The native event is then not reused before e is
// unreachable: request it only for use by another library.
func (e *Event) Handle() uintptr {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.handle == 0 && !e.closed.Load() && e.take() != nil {
		return 0 // counts as completed
	}
	e.shown = true
	return uintptr(e.handle)
}

func (e *Event) open(op string) error {
	if e.closed.Load() {
		return fmt.Errorf("%w: %s: event", ErrClosed, op)
	}
	return nil
}

// Record marks the work enqueued on s so far. Recording again replaces the earlier mark.
func (e *Event) Record(s *Stream) error {
	if err := e.open("record event"); err != nil {
		return err
	}
	if e.device != s.device {
		return fmt.Errorf("cuda: record event: event on device %d, stream on device %d: %w", e.device,
			s.device, ErrInvalidHandle)
	}
	if err := s.acquire(); err != nil {
		return err
	}
	defer s.release()
	e.stream.Store(s)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.handle == 0 {
		if err := e.take(); err != nil {
			return err
		}
	}
	return check("record event", e.device, cudrv.EventRecord(e.device, e.handle, s.handle))
}

// RecordedOn reports whether the event marks work of s. It is used by mem.Pool.
func (e *Event) RecordedOn(s mem.Stream) bool {
	own, ok := s.(*Stream)
	return ok && own != nil && e.stream.Load() == own
}

// Query reports whether the marked work has finished. It does not block.
func (e *Event) Query() (bool, error) {
	if err := e.open("query event"); err != nil {
		return false, err
	}
	done, r := e.query()
	if done || r != cudrv.Success {
		e.letGo()
	}
	return done, check("query event", e.device, r)
}

// Wait waits until the marked work has finished. It polls, first in a short spin, then with pauses of up to a
// millisecond, so that ctx is respected and no stream or device is synchronized. When it returns nil, all copies and
// fills of that work have released their buffers.
func (e *Event) Wait(ctx context.Context) error {
	if err := poll(ctx, e.Query); err != nil {
		return err
	}
	if e.held != nil {
		<-e.held.finished
	}
	if s := e.stream.Load(); s != nil {
		s.reap(true)
	}
	return nil
}

// poll calls query until it is done, fails, or ctx ends.
func poll(ctx context.Context, query func() (bool, error)) error {
	const (
		spins = 100
		first = 10 * time.Microsecond
		last  = time.Millisecond
	)
	var timer *time.Timer
	pause := first
	for i := 0; ; i++ {
		if done, err := query(); done || err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if i < spins {
			runtime.Gosched()
			continue
		}
		if timer == nil {
			timer = time.NewTimer(pause)
			defer timer.Stop()
		} else {
			timer.Reset(pause)
		}
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		pause = min(pause*2, last)
	}
}

// Close destroys the native event early. The caller must be the only holder: an event that is the Ready event of a
// buffer must not be closed. Closing twice does nothing.
func (e *Event) Close() error {
	if e.closed.Swap(true) {
		return nil
	}
	e.mu.Lock()
	r := cudrv.Success
	if e.handle != 0 {
		e.cleanup.Stop()
		r = cudrv.EventDestroy(e.device, e.handle)
	}
	e.mu.Unlock()
	e.letGo()
	return check("destroy event", e.device, r)
}

// Elapsed returns the device time between two completed events created with Timing.
func Elapsed(start, end *Event) (time.Duration, error) {
	for _, e := range []*Event{start, end} {
		if err := e.open("elapsed time"); err != nil {
			return 0, err
		}
		if e.flags&cudrv.EventDisableTiming != 0 {
			return 0, fmt.Errorf("cuda: elapsed time: event created without EventConfig.Timing: %w",
				ErrInvalidHandle)
		}
	}
	ms, r := cudrv.EventElapsed(end.device, start.handle, end.handle)
	runtime.KeepAlive(start)
	runtime.KeepAlive(end)
	return time.Duration(float64(ms) * float64(time.Millisecond)), check("elapsed time", end.device, r)
}
