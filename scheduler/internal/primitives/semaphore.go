package primitives

import (
	"context"
	"fmt"
	"time"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/val"
)

// semaphores are Dask's Semaphores and Locks, by name. The loop owns them.
type semaphores struct {
	*base
	byName  map[string]*semaphore
	checked time.Time // time of the last check of leases
}

func newSemaphores(b *base) *semaphores { return &semaphores{base: b, byName: map[string]*semaphore{}} }

func (s *semaphores) register(r *rpc.Server) {
	rpc.Handle(r, "semaphore_register", s.registerRPC)
	rpc.Handle(r, "semaphore_acquire", s.acquireRPC)
	rpc.Handle(r, "semaphore_release", s.releaseRPC)
	rpc.Handle(r, "semaphore_refresh_leases", s.refreshRPC)
	rpc.Handle(r, "semaphore_close", s.closeRPC)
	rpc.Handle(r, "semaphore_value", s.valueRPC)
}

// SemaphoreStats are the counts of a semaphore since it was created.
type SemaphoreStats struct {
	Max, Pending       int
	Acquired, Released int64
}

// stats returns the counts of at most n semaphores, by their names as text.
func (s *semaphores) stats(n int) map[string]SemaphoreStats {
	out := map[string]SemaphoreStats{}
	for name, x := range s.byName {
		if len(out) == n {
			break
		}
		out[val.Label(name)] = SemaphoreStats{Max: x.max, Pending: x.pending, Acquired: x.acquired,
			Released: x.released}
	}
	return out
}

// semaphore is Dask's Semaphore, and its Lock, which has one lease. The holder refreshes its lease; one that is not
// refreshed in time is released.
type semaphore struct {
	max     int
	timeout time.Duration // 0: leases do not expire
	leases  map[string]time.Time
	changed loop.Signal

	acquired, released int64
	pending            int
}

func unknownSemaphore(name string) error {
	return &rpc.Exception{Type: "RuntimeError", Message: fmt.Sprintf("Semaphore or Lock `%s` not known.",
		val.Label(name))}
}

func (s *semaphores) registerRPC(ctx context.Context, _ *rpc.Request, in struct {
	Name    any `rpc:"name"`
	Max     int `rpc:"max_leases"`
	Timeout any `rpc:"lease_timeout,optional"`
}) (any, error) {
	name, err := val.NameOf(in.Name)
	if err != nil {
		return nil, err
	}
	d, limited, err := loop.Timeout(in.Timeout)
	if err != nil {
		return nil, err
	}
	if !limited {
		d = s.LeaseTimeout
	}
	if in.Max < 1 {
		return nil, &rpc.Exception{Type: "ValueError",
			Message: fmt.Sprintf("max_leases is %d, want at least 1", in.Max)}
	}
	return nil, s.change(ctx, func() error { return s.create(name, in.Max, d) })
}

func (s *semaphores) create(name string, leases int, d time.Duration) error {
	if x := s.byName[name]; x != nil {
		if x.max != leases {
			return &rpc.Exception{Type: "ValueError", Message: fmt.Sprintf("Inconsistent max leases: %d, expected: %d",
				leases, x.max)}
		}
		return nil
	}
	if err := s.Budget.Reserve("semaphore", val.NameSize(name)); err != nil {
		return err
	}
	s.Budget.Add(val.NameSize(name))
	s.byName[name] = &semaphore{max: leases, timeout: d, leases: map[string]time.Time{}}
	s.Journal.Note("semaphore_register", msgpack.MapOf("name", val.Raw(name), "max_leases", leases, "lease_timeout",
		d.Seconds()))
	return nil
}

func (s *semaphores) acquireRPC(ctx context.Context, _ *rpc.Request, in struct {
	Name    any    `rpc:"name"`
	Timeout any    `rpc:"timeout,optional"`
	Lease   string `rpc:"lease_id"`
}) (any, error) {
	name, err := val.NameOf(in.Name)
	if err != nil {
		return false, err
	}
	lease := string([]byte(in.Lease))
	var position uint64
	var at time.Time // of the lease
	waiting := false
	ok, err := loop.Await(ctx, s.Loop, in.Timeout, func() (<-chan struct{}, error) {
		x := s.byName[name]
		if x == nil {
			return nil, unknownSemaphore(name)
		}
		if !waiting {
			waiting = true
			x.pending++
		}
		if err := s.Budget.Reserve("semaphore", val.NameSize(lease)); err != nil {
			return nil, err
		}
		if !s.acquire(name, lease) {
			return x.changed.Wait(), nil
		}
		position, at = s.Journal.Position(), x.leases[lease]
		return nil, nil
	})
	if err == nil && ok {
		err = s.Journal.Kept(ctx, position)
	}
	_ = s.Loop.Do(context.WithoutCancel(ctx), func() {
		if x := s.byName[name]; x != nil && waiting {
			x.pending--
		}
	})
	// If the caller has disconnected its lease is released, unless another request of the same lease has acquired it
	// since.
	giveBack := func() {
		_ = s.Loop.Do(context.WithoutCancel(ctx), func() {
			if x := s.byName[name]; x != nil && x.leases[lease].Equal(at) {
				s.releaseLease(name, lease)
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

// acquire acquires a lease. A lease that is held already is acquired again, because a request may be sent twice. It
// runs in the loop.
func (s *semaphores) acquire(name, lease string) bool {
	x := s.byName[name]
	if x == nil {
		return false
	}
	if _, there := x.leases[lease]; !there && len(x.leases) >= x.max {
		return false
	}
	at := s.Loop.Now()
	if last := x.leases[lease]; !at.After(last) {
		at = last.Add(1) // each acquisition has a distinct time
	}
	if x.leases[lease].IsZero() {
		s.Budget.Add(val.NameSize(lease))
	}
	x.leases[lease] = at
	x.acquired++
	s.Journal.Note("semaphore_acquire", msgpack.MapOf("name", val.Raw(name), "lease_id", lease))
	return true
}

// releaseLease releases a lease. It runs in the loop.
func (s *semaphores) releaseLease(name, lease string) {
	x := s.byName[name]
	if x == nil {
		return
	}
	if _, there := x.leases[lease]; !there {
		s.Log.Warn("unknown lease released; it may have timed out", "semaphore", val.Label(name),
			"lease", lease)
		return
	}
	delete(x.leases, lease)
	s.Budget.Add(-val.NameSize(lease))
	x.released++
	s.Journal.Note("semaphore_release", msgpack.MapOf("name", val.Raw(name), "lease_id", lease))
	x.changed.Fire()
}

func (s *semaphores) releaseRPC(ctx context.Context, _ *rpc.Request, in struct {
	Name  any    `rpc:"name"`
	Lease string `rpc:"lease_id"`
}) (any, error) {
	name, err := val.NameOf(in.Name)
	if err != nil {
		return nil, err
	}
	return nil, s.change(ctx, func() error {
		s.releaseLease(name, in.Lease)
		return nil
	})
}

func (s *semaphores) refreshRPC(ctx context.Context, _ *rpc.Request, in struct {
	Name   any      `rpc:"name"`
	Leases []string `rpc:"lease_ids"`
}) (any, error) {
	name, err := val.NameOf(in.Name)
	if err != nil {
		return nil, err
	}
	return nil, s.Loop.Do(ctx, func() {
		x := s.byName[name]
		if x == nil {
			return
		}
		for _, id := range in.Leases {
			if _, there := x.leases[id]; !there {
				// As in Dask, its owner assumes to hold it: one lease too many is better than a lost one.
				if s.Budget.Reserve("semaphore", val.NameSize(id)) != nil {
					continue
				}
				s.Budget.Add(val.NameSize(id))
				s.Log.Error("unknown lease refreshed; it has timed out and the semaphore may be overbooked",
					"semaphore", val.Label(name), "lease", id)
			}
			x.leases[string([]byte(id))] = s.Loop.Now()
		}
	})
}

func (s *semaphores) closeRPC(ctx context.Context, _ *rpc.Request, in struct {
	Name any `rpc:"name"`
}) (any, error) {
	name, err := val.NameOf(in.Name)
	if err != nil {
		return nil, err
	}
	return nil, s.change(ctx, func() error {
		s.drop(name)
		return nil
	})
}

func (s *semaphores) drop(name string) {
	x := s.byName[name]
	if x == nil {
		return
	}
	if len(x.leases)+x.pending > 0 {
		s.Log.Warn("semaphore closed while in use", "semaphore", val.Label(name), "leases", len(x.leases),
			"pending", x.pending)
	}
	delete(s.byName, name)
	s.Budget.Add(-val.NameSize(name))
	for lease := range x.leases {
		s.Budget.Add(-val.NameSize(lease))
	}
	s.Journal.Note("semaphore_close", msgpack.MapOf("name", val.Raw(name)))
	x.changed.Fire()
}

func (s *semaphores) valueRPC(ctx context.Context, _ *rpc.Request, in struct {
	Name any `rpc:"name"`
}) (int, error) {
	name, err := val.NameOf(in.Name)
	if err != nil {
		return 0, err
	}
	return loop.Ask(ctx, s.Loop, func() (int, error) {
		if x := s.byName[name]; x != nil {
			return len(x.leases), nil
		}
		return 0, nil
	})
}

// checkLeases releases leases that were not refreshed in time.
func (s *semaphores) checkLeases() {
	if s.Loop.Now().Sub(s.checked) < s.LeaseInterval {
		return
	}
	s.checked = s.Loop.Now()
	for name, x := range s.byName {
		for id, at := range x.leases {
			if x.timeout > 0 && s.Loop.Now().Sub(at) > x.timeout {
				s.Log.Warn("lease timed out", "semaphore", val.Label(name), "lease", id, "after",
					s.Loop.Now().Sub(at))
				s.releaseLease(name, id)
			}
		}
	}
}

// replay applies a change from the journal. It reports whether the op is one of semaphores.
func (s *semaphores) replay(op, name string, c *change) (bool, error) {
	switch op {
	case "semaphore_register":
		d, _, err := loop.Timeout(c.LeaseTimeout)
		if err != nil {
			return true, err
		}
		return true, s.create(name, c.MaxLeases, d)
	case "semaphore_acquire":
		s.acquire(name, c.LeaseID)
	case "semaphore_release":
		s.releaseLease(name, c.LeaseID)
	case "semaphore_close":
		s.drop(name)
	default:
		return false, nil
	}
	return true, nil
}
