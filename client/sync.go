package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.millstream.dev/wire"
)

// ErrNotHeld is returned when a lock or semaphore is released that is not held.
var ErrNotHeld = errors.New("client: lock not held")

// Semaphore limits the number of holders in the cluster: Dask's Semaphore. The client refreshes the leases that it
// holds; the leases of a crashed client expire (distributed.scheduler.locks.lease-timeout).
type Semaphore struct {
	c    *Client
	name string
	max  int

	mu         sync.Mutex // owns all below
	registered bool
	leases     []string
	stop       chan struct{} // ends refresh; nil while no lease is held
}

// NewSemaphore returns the semaphore with this name for up to limit holders. All its users must pass the same limit.
func NewSemaphore(c *Client, name string, limit int) *Semaphore {
	return &Semaphore{c: c, name: name, max: limit}
}

func (s *Semaphore) register(ctx context.Context) error {
	s.mu.Lock()
	done := s.registered
	s.mu.Unlock()
	if done {
		return nil
	}
	if err := s.c.call(ctx, "semaphore_register", wire.NewDict("name", s.name, "max_leases", s.max, "lease_timeout",
		nil), nil); err != nil {
		return fmt.Errorf("client: semaphore %s: %w", s.name, err)
	}
	s.mu.Lock()
	s.registered = true
	s.mu.Unlock()
	return nil
}

// Acquire waits for a lease and takes it.
func (s *Semaphore) Acquire(ctx context.Context) error {
	ok, err := s.acquire(ctx, timeoutOf(ctx))
	if err == nil && !ok {
		err = fmt.Errorf("client: semaphore %s: %w", s.name, context.DeadlineExceeded)
	}
	return err
}

// TryAcquire takes a lease if one is free, and reports whether it did.
func (s *Semaphore) TryAcquire(ctx context.Context) (bool, error) { return s.acquire(ctx, 0) }

func (s *Semaphore) acquire(ctx context.Context, timeout any) (bool, error) {
	if err := s.register(ctx); err != nil {
		return false, err
	}
	lease := randomHex(16)
	var ok bool
	err := s.c.call(ctx, "semaphore_acquire", wire.NewDict("name", s.name, "timeout", timeout, "lease_id", lease), &ok)
	if err != nil {
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		return false, fmt.Errorf("client: semaphore %s: %w", s.name, err)
	}
	if !ok {
		return false, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leases = append(s.leases, lease)
	if s.stop == nil {
		s.stop = make(chan struct{})
		go s.refresh(s.stop)
	}
	return true, nil
}

// leaseRefresh is the interval at which leases are refreshed: a third of the default timeout in Dask.
const leaseRefresh = 10 * time.Second

// refresh refreshes the leases until stop is closed or the client ends.
func (s *Semaphore) refresh(stop chan struct{}) {
	t := time.NewTicker(leaseRefresh)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-stop:
			return
		case <-s.c.Done():
			return
		}
		s.mu.Lock()
		leases := append([]string(nil), s.leases...)
		s.mu.Unlock()
		if len(leases) == 0 {
			continue
		}
		ctx, cancel := context.WithTimeout(s.c.link.Context(), leaseRefresh)
		if err := s.c.call(ctx, "semaphore_refresh_leases", wire.NewDict("name", s.name, "lease_ids", leases),
			nil); err != nil {
			s.c.log.Warn("leases not refreshed", "semaphore", s.name, "error", err)
		}
		cancel()
	}
}

// Release returns a lease.
func (s *Semaphore) Release(ctx context.Context) error {
	s.mu.Lock()
	if len(s.leases) == 0 {
		s.mu.Unlock()
		return fmt.Errorf("semaphore %s: %w", s.name, ErrNotHeld)
	}
	lease := s.leases[0]
	s.leases = s.leases[1:]
	if len(s.leases) == 0 {
		close(s.stop)
		s.stop = nil
	}
	s.mu.Unlock()
	return s.c.call(ctx, "semaphore_release", wire.NewDict("name", s.name, "lease_id", lease), nil)
}

// Value returns the number of leases that are held.
func (s *Semaphore) Value(ctx context.Context) (int, error) {
	var n int
	err := s.c.call(ctx, "semaphore_value", wire.NewDict("name", s.name), &n)
	return n, err
}

// Delete removes the semaphore from the scheduler.
func (s *Semaphore) Delete(ctx context.Context) error {
	return s.c.call(ctx, "semaphore_close", wire.NewDict("name", s.name), nil)
}

// Lock is a lock with one holder in the cluster: Dask's Lock.
type Lock struct{ s *Semaphore }

// NewLock returns the lock with this name.
func NewLock(c *Client, name string) *Lock { return &Lock{NewSemaphore(c, name, 1)} }

// Lock waits for the lock and takes it.
func (l *Lock) Lock(ctx context.Context) error { return l.s.Acquire(ctx) }

// TryLock takes the lock if it is free, and reports whether it did.
func (l *Lock) TryLock(ctx context.Context) (bool, error) { return l.s.TryAcquire(ctx) }

// Unlock releases the lock.
func (l *Lock) Unlock(ctx context.Context) error { return l.s.Release(ctx) }

// Locked reports whether the lock is held.
func (l *Lock) Locked(ctx context.Context) (bool, error) {
	n, err := l.s.Value(ctx)
	return n > 0, err
}

// MultiLock takes several locks at once or none: Dask's MultiLock. Its names are distinct from those of Lock.
type MultiLock struct {
	c     *Client
	names []string
	id    string
}

// NewMultiLock returns a lock on all of the names.
func NewMultiLock(c *Client, names ...string) *MultiLock {
	return &MultiLock{c, names, randomHex(16)}
}

// Lock waits for all locks and takes them.
func (l *MultiLock) Lock(ctx context.Context) error {
	var ok bool
	err := l.c.call(ctx, "multi_lock_acquire", wire.NewDict("locks", l.names, "id", l.id, "timeout", timeoutOf(ctx),
		"num_locks", len(l.names)), &ok)
	if err == nil && !ok {
		err = fmt.Errorf("client: locks %v: %w", l.names, context.DeadlineExceeded)
	}
	return err
}

// Unlock releases the locks.
func (l *MultiLock) Unlock(ctx context.Context) error {
	return l.c.call(ctx, "multi_lock_release", wire.NewDict("id", l.id), nil)
}

// Flag is a named flag that clients and tasks of the cluster can set, clear and wait for: Dask's Event.
type Flag struct {
	c    *Client
	name string
}

// NewFlag returns the flag with this name, which is initially not set.
func NewFlag(c *Client, name string) *Flag { return &Flag{c, name} }

// Set sets the flag and wakes all waiters.
func (e *Flag) Set(ctx context.Context) error {
	return e.c.call(ctx, "event_set", wire.NewDict("name", e.name), nil)
}

// Clear clears the flag.
func (e *Flag) Clear(ctx context.Context) error {
	return e.c.call(ctx, "event_clear", wire.NewDict("name", e.name), nil)
}

// IsSet reports whether the flag is set.
func (e *Flag) IsSet(ctx context.Context) (bool, error) {
	var ok bool
	err := e.c.call(ctx, "event_is_set", wire.NewDict("name", e.name), &ok)
	return ok, err
}

// Wait waits until the flag is set.
func (e *Flag) Wait(ctx context.Context) error {
	var ok bool
	err := e.c.call(ctx, "event_wait", wire.NewDict("name", e.name, "timeout", timeoutOf(ctx)), &ok)
	if err == nil && !ok {
		err = fmt.Errorf("client: event %s: %w", e.name, context.DeadlineExceeded)
	}
	return err
}
