package scheduler

import (
	"context"
	"fmt"
	"slices"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
)

// multiLocks is Dask's MultiLock: a user asks for several locks at once and waits until it
// has as many of them as it needs. Each lock has a row of users; the first holds it.
type multiLocks struct {
	rows  map[string][]string // lock -> users
	users map[string]*lockUser
}

type lockUser struct {
	locks []string // that it is in the row of
	left  int      // that it still needs
	ready signal
}

// size is what a user counts for, in bytes.
func (u *lockUser) size(id string) int64 { return locksSize(id, u.locks) }

func locksSize(id string, locks []string) int64 {
	n := nameSize(id)
	for _, l := range locks {
		n += nameSize(l)
	}
	return n
}

func (m *multiLocks) init() { m.rows, m.users = map[string][]string{}, map[string]*lockUser{} }

// ask puts a user into the rows. It reports whether the user has all that it needs.
func (m *multiLocks) ask(id string, locks []string, need int) (bool, error) {
	if m.users[id] != nil {
		return false, &rpc.Exception{Type: "AssertionError", Message: fmt.Sprintf("MultiLock: %s asks again before it has released", id)}
	}
	if need < 1 || need > len(locks) {
		return false, &rpc.Exception{Type: "AssertionError", Message: fmt.Sprintf("MultiLock: num_locks is %d of %d locks", need, len(locks))}
	}
	u := &lockUser{left: need}
	m.users[id] = u
	locks = slices.Clone(locks)
	slices.SortStableFunc(locks, func(a, b string) int { return len(m.rows[a]) - len(m.rows[b]) })
	for _, l := range locks {
		if u.left == 0 {
			break // more than it needs
		}
		m.rows[l] = append(m.rows[l], id)
		u.locks = append(u.locks, l)
		if len(m.rows[l]) == 1 {
			u.left--
		}
	}
	return u.left == 0, nil
}

// hold makes a user the holder of locks that it held before the scheduler was started again.
func (m *multiLocks) hold(id string, locks []string) {
	if m.users[id] != nil {
		return
	}
	u := &lockUser{locks: locks}
	m.users[id] = u
	for _, l := range locks {
		m.rows[l] = append(m.rows[l], id)
	}
}

// leave takes a user out of all its rows and wakes those who then have what they need.
func (m *multiLocks) leave(id string) bool {
	u := m.users[id]
	if u == nil {
		return false
	}
	delete(m.users, id)
	u.ready.fire() // one that waits sees that it was released
	for _, l := range u.locks {
		row := m.rows[l]
		i := slices.Index(row, id)
		row = slices.Delete(row, i, i+1)
		if len(row) == 0 {
			delete(m.rows, l)
			continue
		}
		m.rows[l] = row
		if next := m.users[row[0]]; i == 0 && next.left > 0 {
			if next.left--; next.left == 0 {
				next.ready.fire()
			}
		}
	}
	return true
}

func (s *Scheduler) multiLockAcquire(ctx context.Context, _ *rpc.Request, in struct {
	Locks   []any `rpc:"locks"`
	ID      any   `rpc:"id"`
	Timeout any   `rpc:"timeout,optional"`
	Need    *int  `rpc:"num_locks"`
}) (any, error) {
	id, err := nameOf(in.ID)
	if err != nil {
		return false, err
	}
	locks := make([]string, len(in.Locks))
	for i, l := range in.Locks {
		if locks[i], err = nameOf(l); err != nil {
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
	ok, err := await(ctx, s, in.Timeout, func() (<-chan struct{}, error) {
		if !asked {
			if err := s.prims.reserve("MultiLock", locksSize(id, locks)); err != nil {
				return nil, err
			}
			if _, err := s.prims.locks.ask(id, locks, need); err != nil {
				return nil, err
			}
			asked, mine = true, s.prims.locks.users[id]
			s.prims.add(mine.size(id))
		}
		u := s.prims.locks.users[id]
		if u != mine { // another request has released it
			return nil, &rpc.Exception{Type: "RuntimeError", Message: fmt.Sprintf("MultiLock: %s was released while it waited", label(id))}
		}
		if u.left > 0 {
			return u.ready.wait(), nil
		}
		if err := s.recordChange("multi_lock_acquire", lockArgs(id, u.locks)); err != nil {
			return nil, err
		}
		position = s.position
		return nil, nil
	})
	leave := func() {
		_ = s.do(context.WithoutCancel(ctx), func() {
			if s.prims.locks.users[id] == mine {
				s.multiLockLeave(id)
			}
		})
	}
	if err == nil && ok {
		err = s.kept(ctx, position)
	}
	if asked && (!ok || err != nil) {
		leave()
	}
	if err != nil || !ok {
		return false, err
	}
	return rpc.Delivery{Value: true, Lost: leave}, nil
}

// multiLockLeave runs in the loop.
func (s *Scheduler) multiLockLeave(id string) bool {
	if u := s.prims.locks.users[id]; u != nil {
		s.prims.add(-u.size(id))
		if u.left == 0 {
			s.noteChange("multi_lock_release", msgpack.MapOf("id", raw(id)))
		}
	}
	return s.prims.locks.leave(id)
}

func (s *Scheduler) multiLockRelease(ctx context.Context, _ *rpc.Request, in struct {
	ID any `rpc:"id"`
}) (any, error) {
	id, err := nameOf(in.ID)
	if err != nil {
		return nil, err
	}
	return nil, s.change(ctx, func() error {
		if !s.multiLockLeave(id) {
			s.log.Warn("a MultiLock was released that nobody holds", "id", label(id))
		}
		return nil
	})
}
