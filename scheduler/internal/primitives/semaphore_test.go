package primitives

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/val"
)

// The number of leases of a semaphore is bounded; one that is acquired twice counts once.
func TestSemaphoreLeases(t *testing.T) {
	r := start(t)
	r.Fails("not known", "semaphore_acquire", "name", "s", "lease_id", "a")
	r.Fails("max_leases is 0", "semaphore_register", "name", "s", "max_leases", 0)
	r.Call("semaphore_register", "name", "s", "max_leases", 2)
	r.Call("semaphore_register", "name", "s", "max_leases", 2)
	r.Fails("Inconsistent max leases", "semaphore_register", "name", "s", "max_leases", 3)
	for _, c := range []struct {
		lease string
		want  bool
	}{{"a", true}, {"b", true}, {"a", true}, {"c", false}} {
		if got := r.Call("semaphore_acquire", "name", "s", "lease_id", c.lease, "timeout", 0.001); got != c.want {
			t.Errorf("%s: got %v, want %v", c.lease, got, c.want)
		}
	}
	if n := r.Call("semaphore_value", "name", "s"); n != int64(2) {
		t.Errorf("value: got %v, want 2", n)
	}
	r.Call("semaphore_release", "name", "s", "lease_id", "a")
	if got := r.Call("semaphore_acquire", "name", "s", "lease_id", "c", "timeout", 0.001); got != true {
		t.Errorf("a lease that was released: got %v, want true", got)
	}
	r.Call("semaphore_release", "name", "s", "lease_id", "never")
	r.Do(func() {
		if !r.Logged("unknown lease released") {
			t.Error("log: got no line about an unknown lease")
		}
		want := SemaphoreStats{Max: 2, Acquired: 4, Released: 1}
		if got := r.Semaphores(10)["s"]; got != want {
			t.Errorf("stats: got %+v, want %+v", got, want)
		}
		if n := len(r.Semaphores(0)); n != 0 {
			t.Errorf("at most 0 semaphores: got %d", n)
		}
	})
	r.Call("semaphore_close", "name", "s")
	if n, c := r.bytes(), r.counts(); n != 0 || c.Semaphores != 0 {
		t.Errorf("after close: got %d bytes, %d semaphores, want none", n, c.Semaphores)
	}
	if n := r.Call("semaphore_value", "name", "s"); n != int64(0) {
		t.Errorf("value of none: got %v, want 0", n)
	}
}

// There are never more holders than leases.
func TestSemaphoreExcludes(t *testing.T) {
	r := start(t)
	r.Call("semaphore_register", "name", "lock", "max_leases", 1)
	var mu sync.Mutex
	holders, most := 0, 0
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			lease := string(rune('a' + i))
			for range 10 {
				if got := r.Call("semaphore_acquire", "name", "lock", "lease_id", lease, "timeout", 30); got != true {
					t.Errorf("%s: got %v, want true", lease, got)
					return
				}
				mu.Lock()
				holders++
				most = max(most, holders)
				mu.Unlock()
				mu.Lock()
				holders--
				mu.Unlock()
				r.Call("semaphore_release", "name", "lock", "lease_id", lease)
			}
		})
	}
	wg.Wait()
	if most != 1 {
		t.Errorf("got %d holders at once, want 1", most)
	}
	r.Do(func() {
		if s := r.Semaphores(1)["lock"]; s.Acquired != 80 || s.Released != 80 || s.Pending != 0 {
			t.Errorf("stats: got %+v, want 80 acquired and released", s)
		}
	})
}

// A lease that was not delivered is released.
func TestSemaphoreGivesBack(t *testing.T) {
	r := start(t)
	r.Call("semaphore_register", "name", "s", "max_leases", 1)
	r.Journal.Lose(errors.New("disk full"))
	r.Fails("disk full", "semaphore_acquire", "name", "s", "lease_id", "a")
	r.Journal.Lose(nil)
	if n := r.Call("semaphore_value", "name", "s"); n != int64(0) {
		t.Errorf("value: got %v, want 0", n)
	}
	r.Call("semaphore_acquire", "name", "s", "lease_id", "a")
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { _, err := r.TryContext(ctx, "semaphore_acquire", "name", "s", "lease_id", "b"); left <- err }()
	name, _ := val.NameOf("s")
	r.Until("b waits", func() bool { return r.semaphores.byName[name].pending == 1 })
	cancel()
	<-left
	r.Until("no request waits", func() bool { return r.semaphores.byName[name].pending == 0 })
	r.Call("semaphore_release", "name", "s", "lease_id", "a")
	if got := r.Call("semaphore_acquire", "name", "s", "lease_id", "c", "timeout", 1); got != true {
		t.Errorf("got %v, want true", got)
	}
	wait := r.call("semaphore_acquire", "name", "s", "lease_id", "d")
	r.Until("d waits", func() bool { return r.semaphores.byName[name].pending == 1 })
	r.Call("semaphore_close", "name", "s")
	if x := <-wait; x.err == nil {
		t.Errorf("one that waits for a semaphore that is closed: got %v, want an error", x.v)
	}
	r.Do(func() {
		if !r.Logged("semaphore closed while in use") {
			t.Error("log: got no line about a semaphore in use")
		}
	})
}

// Leases that are not refreshed in time expire; refreshed ones stay.
func TestSemaphoreTimeout(t *testing.T) {
	r := start(t)
	r.Call("semaphore_register", "name", "s", "max_leases", 2, "lease_timeout", "50 ms")
	r.Call("semaphore_register", "name", "ever", "max_leases", 1, "lease_timeout", 0)
	r.Call("semaphore_acquire", "name", "ever", "lease_id", "x")
	r.Call("semaphore_acquire", "name", "s", "lease_id", "kept")
	r.Call("semaphore_acquire", "name", "s", "lease_id", "lost")
	name, _ := val.NameOf("s")
	r.OnTick(func() {
		if x := r.semaphores.byName[name]; !x.leases["kept"].IsZero() {
			x.leases["kept"] = r.Loop.Now() // refreshed by its owner
		}
		r.Tick()
	})
	r.Until("a lease has expired", func() bool {
		x := r.semaphores.byName[name]
		return x.leases["lost"].IsZero() && !x.leases["kept"].IsZero()
	})
	if n := r.Call("semaphore_value", "name", "ever"); n != int64(1) {
		t.Errorf("lease without a timeout: got %v, want 1", n)
	}
	before := r.bytes()
	r.Call("semaphore_refresh_leases", "name", "s", "lease_ids", []any{"lost"})
	r.Do(func() {
		if x := r.semaphores.byName[name]; x.leases["lost"].IsZero() || r.budget.Bytes() <= before ||
			!r.Logged("overbooked") {
			t.Errorf("late refresh: got leases %v, %d bytes", x.leases, r.budget.Bytes())
		}
		r.budget.SetLimit(1)
	})
	r.Call("semaphore_refresh_leases", "name", "s", "lease_ids", []any{"one", "two"})
	r.Call("semaphore_refresh_leases", "name", "never", "lease_ids", []any{"one"})
	r.Do(func() {
		if x := r.semaphores.byName[name]; !x.leases["one"].IsZero() {
			t.Error("leases above the limit: kept")
		}
	})
	r.Fails("timeout", "semaphore_register", "name", "t", "max_leases", 1, "lease_timeout", []any{})
}

func TestSemaphoreReplay(t *testing.T) {
	r := start(t)
	r.Call("semaphore_register", "name", "s", "max_leases", 3, "lease_timeout", 120)
	r.Call("semaphore_register", "name", "gone", "max_leases", 1)
	for _, l := range []string{"a", "b"} {
		r.Call("semaphore_acquire", "name", "s", "lease_id", l)
	}
	n := r.again(t)
	if got, want := n.bytes(), r.bytes(); got != want {
		t.Errorf("got %d bytes, want %d", got, want)
	}
	name, _ := val.NameOf("s")
	n.Do(func() {
		x := n.semaphores.byName[name]
		if x.max != 3 || x.timeout != 2*time.Minute || len(x.leases) != 2 {
			t.Errorf("semaphore: got %+v", x)
		}
		for op, args := range map[string]msgpack.Map{
			"semaphore_release": msgpack.MapOf("name", "s", "lease_id", "a"),
			"semaphore_close":   msgpack.MapOf("name", "gone"),
		} {
			if known, err := n.Replay(op, args); !known || err != nil {
				t.Errorf("Replay of %s: got %v, error %v", op, known, err)
			}
		}
		if len(x.leases) != 1 || len(n.semaphores.byName) != 1 {
			t.Errorf("got %d leases, %d semaphores, want 1 and 1", len(x.leases), len(n.semaphores.byName))
		}
		if known, err := n.Replay("semaphore_register",
			msgpack.MapOf("name", "t", "max_leases", 1, "lease_timeout", true)); !known || err == nil {
			t.Errorf("a timeout that is none: got %v, %v, want an error", known, err)
		}
	})
}
