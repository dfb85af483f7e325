package primitives

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"go.millstream.dev/internal/wire/msgpack"
)

func lockNames(list ...string) []any {
	out := make([]any, len(list))
	for i, l := range list {
		out[i] = l
	}
	return out
}

// check validates the queues: users are in the queues of their locks once, and their needs are right.
func (s *multiLocks) check() error {
	for l, row := range s.queues {
		if len(row) == 0 {
			return fmt.Errorf("empty queue of %s", l)
		}
		for i, id := range row {
			u := s.users[id]
			if u == nil || !slices.Contains(u.locks, l) || slices.Contains(row[i+1:], id) {
				return fmt.Errorf("queue of %s: %v", l, row)
			}
		}
	}
	for id, u := range s.users {
		for _, l := range u.locks {
			if !slices.Contains(s.queues[l], id) {
				return fmt.Errorf("%s is not in the queue of %s", id, l)
			}
		}
	}
	return nil
}

func TestMultiLockAll(t *testing.T) {
	r := start(t)
	acquire := func(id string, need any, timeout any, locks ...string) any {
		t.Helper()
		args := []any{"locks", lockNames(locks...), "id", id, "timeout", timeout}
		if need != nil {
			args = append(args, "num_locks", need)
		}
		return r.Call("multi_lock_acquire", args...)
	}
	if v := acquire("1", nil, nil, "a", "b", "a"); v != true {
		t.Fatalf("got %v, want true", v)
	}
	if v := acquire("2", nil, 0.001, "b", "c"); v != false {
		t.Errorf("a lock that is held: got %v, want false", v)
	}
	if v := acquire("2", 1, 0.001, "b", "c"); v != true {
		t.Errorf("one of two: got %v, want true", v)
	}
	r.Fails("requests locks again", "multi_lock_acquire", "locks", lockNames("x"), "id", "1")
	r.Fails("num_locks is 3", "multi_lock_acquire", "locks", lockNames("x", "y"), "id", "9", "num_locks", 3)
	r.Fails("num_locks is 0", "multi_lock_acquire", "locks", lockNames("x", "y"), "id", "9", "num_locks", 0)
	r.Fails("TypeError", "multi_lock_acquire", "locks", []any{msgpack.MapOf("a", 1)}, "id", "9")
	wait := r.call("multi_lock_acquire", "locks", lockNames("a", "c"), "id", "3", "timeout", 30)
	r.Until("3 waits", func() bool { return len(r.locks.users) == 3 })
	r.Call("multi_lock_release", "id", "1")
	r.Call("multi_lock_release", "id", "2")
	if x := <-wait; x.v != true {
		t.Errorf("got %v, %v, want true", x.v, x.err)
	}
	r.Call("multi_lock_release", "id", "3")
	r.Call("multi_lock_release", "id", "never")
	r.Do(func() {
		if !r.Logged("MultiLock released that is not held") {
			t.Error("log: got no line about a release of a lock that is not held")
		}
	})
	if c, n := r.counts(), r.bytes(); c.Locks+c.LockUsers != 0 || n != 0 {
		t.Errorf("after all releases: got %+v, %d bytes, want nothing", c, n)
	}
	if got := r.Journal.Changes(); got != "multi_lock_acquire multi_lock_acquire multi_lock_release "+
		"multi_lock_release multi_lock_acquire multi_lock_release" {
		t.Errorf("journal: got %s", got)
	}
}

// A waiter that disconnects, is released by another or cannot be recorded is in no queue afterwards.
func TestMultiLockLeaves(t *testing.T) {
	r := start(t)
	r.Call("multi_lock_acquire", "locks", lockNames("a"), "id", "1")
	held := r.bytes()
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := r.TryContext(ctx, "multi_lock_acquire", "locks", lockNames("a", "b"), "id", "2")
		left <- err
	}()
	r.Until("2 waits", func() bool { return len(r.locks.users) == 2 })
	cancel()
	<-left
	r.Until("2 has left", func() bool { return len(r.locks.users) == 1 && len(r.locks.queues) == 1 })
	wait := r.call("multi_lock_acquire", "locks", lockNames("a"), "id", "3")
	r.Until("3 waits", func() bool { return len(r.locks.users) == 2 })
	r.Call("multi_lock_release", "id", "3")
	if x := <-wait; x.err == nil {
		t.Errorf("one that was released while it waited: got %v, want an error", x.v)
	}
	r.Journal.Lose(errors.New("disk full"))
	r.Fails("disk full", "multi_lock_acquire", "locks", lockNames("z"), "id", "4")
	r.Journal.Lose(nil)
	r.Journal.Refuse(errors.New("no"))
	r.Fails("no", "multi_lock_acquire", "locks", lockNames("z"), "id", "4")
	r.Journal.Refuse(nil)
	if n, c := r.bytes(), r.counts(); n != held || c.LockUsers != 1 {
		t.Errorf("got %d bytes, %+v, want %d and one user", n, c, held)
	}
}

// No two users hold the same lock, whatever they request and in whatever order they acquire and release.
func TestMultiLockExcludes(t *testing.T) {
	r := start(t)
	all := []string{"a", "b", "c", "d", "e"}
	var mu sync.Mutex
	holder := map[string]string{}
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(7, uint64(i)))
			id := fmt.Sprint("user-", i)
			for range 20 {
				locks := slices.Clone(all)
				rng.Shuffle(len(locks), func(i, j int) { locks[i], locks[j] = locks[j], locks[i] })
				locks = locks[:1+rng.IntN(len(locks))]
				if v := r.Call("multi_lock_acquire", "locks", lockNames(locks...), "id", id, "timeout", 30); v != true {
					t.Errorf("%s: got %v, want true", id, v)
					return
				}
				mu.Lock()
				for _, l := range locks {
					if holder[l] != "" {
						t.Errorf("%s acquired %s, which %s holds", id, l, holder[l])
					}
					holder[l] = id
				}
				mu.Unlock()
				r.Do(func() {
					if err := r.locks.check(); err != nil {
						t.Error(err)
					}
				})
				mu.Lock()
				for _, l := range locks {
					holder[l] = ""
				}
				mu.Unlock()
				r.Call("multi_lock_release", "id", id)
			}
		})
	}
	wg.Wait()
	if c := r.counts(); c.Locks+c.LockUsers != 0 {
		t.Errorf("after all releases: got %+v, want nothing", c)
	}
}

func TestMultiLockReplay(t *testing.T) {
	r := start(t)
	r.Call("multi_lock_acquire", "locks", lockNames("a", "b"), "id", "holder")
	r.Call("multi_lock_acquire", "locks", lockNames("c"), "id", "done")
	r.Call("multi_lock_release", "id", "done")
	wait := r.call("multi_lock_acquire", "locks", lockNames("a"), "id", "waiter", "timeout", 30)
	r.Until("one waits", func() bool { return len(r.locks.users) == 2 })
	n := r.again(t)
	if c := n.counts(); c.LockUsers != 1 || c.Locks != 2 {
		t.Errorf("got %+v, want the holder alone", c)
	}
	r.Call("multi_lock_release", "id", "holder")
	<-wait
	if v := n.Call("multi_lock_acquire", "locks", lockNames("b"), "id", "other", "timeout", 0.001); v != false {
		t.Errorf("a lock that was held before: got %v, want false", v)
	}
	n.Do(func() {
		acquire := lockArgs(mustName("holder"), []string{mustName("a")})
		for _, args := range []msgpack.Map{acquire, acquire} { // held already
			if known, err := n.Replay("multi_lock_acquire", args); !known || err != nil {
				t.Errorf("Replay: got %v, error %v", known, err)
			}
		}
		if known, err := n.Replay("multi_lock_release", acquire); !known || err != nil {
			t.Errorf("Replay: got %v, error %v", known, err)
		}
		for _, args := range []msgpack.Map{msgpack.MapOf("id", msgpack.Map{}),
			msgpack.MapOf("id", "x", "locks", []any{msgpack.Map{{Key: 1}}})} {
			if known, err := n.Replay("multi_lock_acquire", args); !known || err == nil {
				t.Errorf("%v: got %v, %v, want an error", args, known, err)
			}
		}
		if n.budget.Bytes() != 0 || n.Counts().LockUsers != 0 {
			t.Errorf("after the release: got %d bytes, %+v, want nothing", n.budget.Bytes(), n.Counts())
		}
	})
}

// A user that leaves the middle of a queue does not grant the lock to the first of the queue.
func TestMultiLockLeavesMiddle(t *testing.T) {
	r := start(t)
	r.Call("multi_lock_acquire", "locks", lockNames("b"), "id", "holder")
	wait := r.call("multi_lock_acquire", "locks", lockNames("a", "b"), "id", "first", "timeout", 30)
	r.Until("first waits for b", func() bool { return len(r.locks.users) == 2 })
	behind := r.call("multi_lock_acquire", "locks", lockNames("a"), "id", "behind", "timeout", 30)
	r.Until("behind waits for a", func() bool { return len(r.locks.users) == 3 })
	r.Call("multi_lock_release", "id", "behind")
	<-behind
	r.Do(func() {
		if u := r.locks.users[mustName("first")]; u == nil || u.left != 1 {
			t.Errorf("missing locks of first: got %+v, want b", u)
		}
	})
	r.Call("multi_lock_release", "id", "holder")
	if x := <-wait; x.v != true {
		t.Errorf("got %v, %v, want true", x.v, x.err)
	}
}
