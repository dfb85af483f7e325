package primitives

import (
	"context"
	"fmt"
	"slices"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/val"
)

// multiLocks implements Dask's MultiLock: a user requests several locks at once and waits until it holds as many of
// them as it needs. Each lock has a queue of users; the first holds it.
//
// The loop owns it.
type multiLocks struct {
	*base
	queues map[string][]string // lock -> users
	users  map[string]*lockUser
}

type lockUser struct {
	locks []string // whose queues it is in
	left  int      // number of locks that it still needs
	ready loop.Signal
}

// size returns the size of a user for the budget, in bytes.
func (u *lockUser) size(id string) int64 { return locksSize(id, u.locks) }

func locksSize(id string, locks []string) int64 {
	n := val.NameSize(id)
	for _, l := range locks {
		n += val.NameSize(l)
	}
	return n
}

func newMultiLocks(b *base) *multiLocks {
	return &multiLocks{b, map[string][]string{}, map[string]*lockUser{}}
}

func (s *multiLocks) register(r *rpc.Server) {
	rpc.Handle(r, "multi_lock_acquire", s.acquireRPC)
	rpc.Handle(r, "multi_lock_release", s.releaseRPC)
}

// enqueue adds a user to the queues. It reports whether the user holds all locks that it needs.
func (s *multiLocks) enqueue(id string, locks []string, need int) (bool, error) {
	if s.users[id] != nil {
		return false, &rpc.Exception{Type: "AssertionError",
			Message: fmt.Sprintf("MultiLock: %s requests locks again before it has released them", id)}
	}
	if need < 1 || need > len(locks) {
		return false, &rpc.Exception{Type: "AssertionError",
			Message: fmt.Sprintf("MultiLock: num_locks is %d of %d locks", need, len(locks))}
	}
	u := &lockUser{left: need}
	s.users[id] = u
	locks = slices.Clone(locks)
	slices.SortStableFunc(locks, func(a, b string) int { return len(s.queues[a]) - len(s.queues[b]) })
	for _, l := range locks {
		if u.left == 0 {
			break // the user needs no more
		}
		s.queues[l] = append(s.queues[l], id)
		u.locks = append(u.locks, l)
		if len(s.queues[l]) == 1 {
			u.left--
		}
	}
	return u.left == 0, nil
}

// hold makes a user the holder of locks that it held before the restart of the scheduler.
func (s *multiLocks) hold(id string, locks []string) {
	if s.users[id] != nil {
		return
	}
	u := &lockUser{locks: locks}
	s.users[id] = u
	for _, l := range locks {
		s.queues[l] = append(s.queues[l], id)
	}
}

// leave removes a user from all its queues and wakes the users that then hold all locks that they need.
func (s *multiLocks) leave(id string) bool {
	u := s.users[id]
	if u == nil {
		return false
	}
	delete(s.users, id)
	u.ready.Fire() // a waiting request notices the release
	for _, l := range u.locks {
		row := s.queues[l]
		i := slices.Index(row, id)
		row = slices.Delete(row, i, i+1)
		if len(row) == 0 {
			delete(s.queues, l)
			continue
		}
		s.queues[l] = row
		if next := s.users[row[0]]; i == 0 && next.left > 0 {
			if next.left--; next.left == 0 {
				next.ready.Fire()
			}
		}
	}
	return true
}

func (s *multiLocks) acquireRPC(ctx context.Context, _ *rpc.Request, in struct {
	Locks   []any `rpc:"locks"`
	ID      any   `rpc:"id"`
	Timeout any   `rpc:"timeout,optional"`
	Need    *int  `rpc:"num_locks"`
}) (any, error) {
	id, err := val.NameOf(in.ID)
	if err != nil {
		return false, err
	}
	locks := make([]string, len(in.Locks))
	for i, l := range in.Locks {
		if locks[i], err = val.NameOf(l); err != nil {
			return false, err
		}
	}
	slices.Sort(locks)
	locks = slices.Compact(locks)
	need := len(locks)
	if in.Need != nil {
		need = *in.Need
	}
	asked := false
	var mine *lockUser
	var position uint64
	ok, err := loop.Await(ctx, s.Loop, in.Timeout, func() (<-chan struct{}, error) {
		if !asked {
			if err := s.Budget.Reserve("MultiLock", locksSize(id, locks)); err != nil {
				return nil, err
			}
			if _, err := s.enqueue(id, locks, need); err != nil {
				return nil, err
			}
			asked, mine = true, s.users[id]
			s.Budget.Add(mine.size(id))
		}
		u := s.users[id]
		if u != mine { // released by another request
			return nil, &rpc.Exception{Type: "RuntimeError",
				Message: fmt.Sprintf("MultiLock: %s was released while it waited", val.Label(id))}
		}
		if u.left > 0 {
			return u.ready.Wait(), nil
		}
		if err := s.Journal.Change("multi_lock_acquire", lockArgs(id, u.locks)); err != nil {
			return nil, err
		}
		position = s.Journal.Position()
		return nil, nil
	})
	leave := func() {
		_ = s.Loop.Do(context.WithoutCancel(ctx), func() {
			if s.users[id] == mine {
				s.drop(id)
			}
		})
	}
	if err == nil && ok {
		err = s.Journal.Kept(ctx, position)
	}
	if asked && (!ok || err != nil) {
		leave()
	}
	if err != nil || !ok {
		return false, err
	}
	return rpc.Delivery{Value: true, Lost: leave}, nil
}

// drop removes a user and updates the budget. It runs in the loop.
func (s *multiLocks) drop(id string) bool {
	if u := s.users[id]; u != nil {
		s.Budget.Add(-u.size(id))
		if u.left == 0 {
			s.Journal.Note("multi_lock_release", msgpack.MapOf("id", val.Raw(id)))
		}
	}
	return s.leave(id)
}

func (s *multiLocks) releaseRPC(ctx context.Context, _ *rpc.Request, in struct {
	ID any `rpc:"id"`
}) (any, error) {
	id, err := val.NameOf(in.ID)
	if err != nil {
		return nil, err
	}
	return nil, s.change(ctx, func() error {
		if !s.drop(id) {
			s.Log.Warn("MultiLock released that is not held", "id", val.Label(id))
		}
		return nil
	})
}
