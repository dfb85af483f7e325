package scheduler

import (
	"context"
	"fmt"
	"time"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
)

// semaphore is Dask's Semaphore, and its Lock, which has one lease. Who holds a lease
// refreshes it; one that nobody refreshes is taken back.
type semaphore struct {
	max     int
	timeout time.Duration // 0: leases live for ever
	leases  map[string]time.Time
	changed signal

	acquired, released int64
	pending            int
}

func unknownSemaphore(name string) error {
	return &rpc.Exception{Type: "RuntimeError", Message: fmt.Sprintf("Semaphore or Lock `%s` not known.", label(name))}
}

func (s *Scheduler) semaphoreRegister(ctx context.Context, _ *rpc.Request, in struct {
	Name    any `rpc:"name"`
	Max     int `rpc:"max_leases"`
	Timeout any `rpc:"lease_timeout,optional"`
}) (any, error) {
	name, err := nameOf(in.Name)
	if err != nil {
		return nil, err
	}
	d, limited, err := timeout(in.Timeout)
	if err != nil {
		return nil, err
	}
	if !limited {
		d = s.cfg.LeaseTimeout
	}
	if in.Max < 1 {
		return nil, &rpc.Exception{Type: "ValueError", Message: fmt.Sprintf("max_leases is %d, want at least 1", in.Max)}
	}
	return nil, s.change(ctx, func() error { return s.semaphoreMake(name, in.Max, d) })
}

func (s *Scheduler) semaphoreMake(name string, leases int, d time.Duration) error {
	if x := s.prims.semaphores[name]; x != nil {
		if x.max != leases {
			return &rpc.Exception{Type: "ValueError", Message: fmt.Sprintf("Inconsistent max leases: %d, expected: %d", leases, x.max)}
		}
		return nil
	}
	if err := s.prims.reserve("semaphore", nameSize(name)); err != nil {
		return err
	}
	s.prims.add(nameSize(name))
	s.prims.semaphores[name] = &semaphore{max: leases, timeout: d, leases: map[string]time.Time{}}
	s.noteChange("semaphore_register", msgpack.MapOf("name", raw(name), "max_leases", leases, "lease_timeout", d.Seconds()))
	return nil
}

func (s *Scheduler) semaphoreAcquire(ctx context.Context, _ *rpc.Request, in struct {
	Name    any    `rpc:"name"`
	Timeout any    `rpc:"timeout,optional"`
	Lease   string `rpc:"lease_id"`
}) (any, error) {
	name, err := nameOf(in.Name)
	if err != nil {
		return false, err
	}
	lease := string([]byte(in.Lease))
	var position uint64
	var at time.Time // of the lease
	waiting := false
	ok, err := await(ctx, s, in.Timeout, func() (<-chan struct{}, error) {
		x := s.prims.semaphores[name]
		if x == nil {
			return nil, unknownSemaphore(name)
		}
		if !waiting {
			waiting = true
			x.pending++
		}
		if err := s.prims.reserve("semaphore", nameSize(lease)); err != nil {
			return nil, err
		}
		if !s.semaphoreTake(name, lease) {
			return x.changed.wait(), nil
		}
		position, at = s.position, x.leases[lease]
		return nil, nil
	})
	if err == nil && ok {
		err = s.kept(ctx, position)
	}
	_ = s.do(context.WithoutCancel(ctx), func() {
		if x := s.prims.semaphores[name]; x != nil && waiting {
			x.pending--
		}
	})
	// If the caller has left, its lease must not stay, unless another request of the same
	// lease has got it since.
	giveBack := func() {
		_ = s.do(context.WithoutCancel(ctx), func() {
			if x := s.prims.semaphores[name]; x != nil && x.leases[lease].Equal(at) {
				s.semaphoreGive(name, lease)
			}
		})
	}
	if err != nil || !ok {
		if ok {
			giveBack()
		}
		return false, err
	}
	return rpc.Delivery{Value: true, Lost: giveBack}, nil
}

// semaphoreTake runs in the loop. A lease that is there already is got again: a request
// may be sent twice.
func (s *Scheduler) semaphoreTake(name, lease string) bool {
	x := s.prims.semaphores[name]
	if x == nil {
		return false
	}
	if _, there := x.leases[lease]; !there && len(x.leases) >= x.max {
		return false
	}
	at := s.now
	if last := x.leases[lease]; !at.After(last) {
		at = last.Add(1) // each take has a time of its own
	}
	if x.leases[lease].IsZero() {
		s.prims.add(nameSize(lease))
	}
	x.leases[lease] = at
	x.acquired++
	s.noteChange("semaphore_acquire", msgpack.MapOf("name", raw(name), "lease_id", lease))
	return true
}

// semaphoreGive runs in the loop.
func (s *Scheduler) semaphoreGive(name, lease string) {
	x := s.prims.semaphores[name]
	if x == nil {
		return
	}
	if _, there := x.leases[lease]; !there {
		s.log.Warn("a lease was released that is not there; it may have timed out", "semaphore", label(name), "lease", lease)
		return
	}
	delete(x.leases, lease)
	s.prims.add(-nameSize(lease))
	x.released++
	s.noteChange("semaphore_release", msgpack.MapOf("name", raw(name), "lease_id", lease))
	x.changed.fire()
}

func (s *Scheduler) semaphoreRelease(ctx context.Context, _ *rpc.Request, in struct {
	Name  any    `rpc:"name"`
	Lease string `rpc:"lease_id"`
}) (any, error) {
	name, err := nameOf(in.Name)
	if err != nil {
		return nil, err
	}
	return nil, s.change(ctx, func() error {
		s.semaphoreGive(name, in.Lease)
		return nil
	})
}

func (s *Scheduler) semaphoreRefresh(ctx context.Context, _ *rpc.Request, in struct {
	Name   any      `rpc:"name"`
	Leases []string `rpc:"lease_ids"`
}) (any, error) {
	name, err := nameOf(in.Name)
	if err != nil {
		return nil, err
	}
	return nil, s.do(ctx, func() {
		x := s.prims.semaphores[name]
		if x == nil {
			return
		}
		for _, id := range in.Leases {
			if _, there := x.leases[id]; !there {
				// As in Dask, its owner believes to hold it: better one too many than none.
				if s.prims.reserve("semaphore", nameSize(id)) != nil {
					continue
				}
				s.prims.add(nameSize(id))
				s.log.Error("an unknown lease is refreshed: it has timed out, and the semaphore may be overbooked", "semaphore", label(name), "lease", id)
			}
			x.leases[string([]byte(id))] = s.now
		}
	})
}

func (s *Scheduler) semaphoreClose(ctx context.Context, _ *rpc.Request, in struct {
	Name any `rpc:"name"`
}) (any, error) {
	name, err := nameOf(in.Name)
	if err != nil {
		return nil, err
	}
	return nil, s.change(ctx, func() error {
		s.semaphoreDrop(name)
		return nil
	})
}

func (s *Scheduler) semaphoreDrop(name string) {
	x := s.prims.semaphores[name]
	if x == nil {
		return
	}
	if len(x.leases)+x.pending > 0 {
		s.log.Warn("a semaphore is closed that is in use", "semaphore", label(name), "leases", len(x.leases), "pending", x.pending)
	}
	delete(s.prims.semaphores, name)
	s.prims.add(-nameSize(name))
	for lease := range x.leases {
		s.prims.add(-nameSize(lease))
	}
	s.noteChange("semaphore_close", msgpack.MapOf("name", raw(name)))
	x.changed.fire()
}

func (s *Scheduler) semaphoreValue(ctx context.Context, _ *rpc.Request, in struct {
	Name any `rpc:"name"`
}) (int, error) {
	name, err := nameOf(in.Name)
	if err != nil {
		return 0, err
	}
	return ask(ctx, s, func() (int, error) {
		if x := s.prims.semaphores[name]; x != nil {
			return len(x.leases), nil
		}
		return 0, nil
	})
}

// checkLeases takes back what nobody refreshes.
func (s *Scheduler) checkLeases() {
	if s.now.Sub(s.prims.leasesSeen) < s.cfg.LeaseInterval {
		return
	}
	s.prims.leasesSeen = s.now
	for name, x := range s.prims.semaphores {
		for id, at := range x.leases {
			if x.timeout > 0 && s.now.Sub(at) > x.timeout {
				s.log.Warn("a lease has timed out", "semaphore", label(name), "lease", id, "after", s.now.Sub(at))
				s.semaphoreGive(name, id)
			}
		}
	}
}

// replaySemaphore does a change again, from the journal.
func (s *Scheduler) replaySemaphore(op, name string, args msgpack.Map) error {
	switch op {
	case "semaphore_register":
		v, _ := args.Get("lease_timeout")
		d, _, err := timeout(v)
		if err != nil {
			return err
		}
		return s.semaphoreMake(name, int(field(args, "max_leases")), d)
	case "semaphore_acquire":
		s.semaphoreTake(name, args.GetString("lease_id"))
	case "semaphore_release":
		s.semaphoreGive(name, args.GetString("lease_id"))
	case "semaphore_close":
		s.semaphoreDrop(name)
	default:
		return fmt.Errorf("%w: op %q: it was written by a newer release", errRecord, op)
	}
	return nil
}
