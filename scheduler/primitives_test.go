package scheduler

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/loop"
)

func TestVariable(t *testing.T) {
	s := start(t, Config{})
	w := join(t, s, "a")
	c, d := connect(t, s, "client-1"), connect(t, s, "client-2")
	c.fails("is not set", "variable_get", "name", "v", "timeout", 0.02)
	got := make(chan any, 1)
	go func() {
		v, err := d.try("variable_get", "name", "v", "timeout", 30)
		if err != nil {
			v = err
		}
		got <- v
	}()
	c.call("variable_set", "name", "v", "data", msgpack.MapOf("x", []any{1, "two"}))
	if m, _ := (<-got).(msgpack.Map); m.GetString("type") != "msgpack" {
		t.Errorf("variable: got %v, want type msgpack", m)
	}
	// A future that is set before its task is known waits for the task.
	set := make(chan error, 1)
	go func() {
		_, err := c.try("variable_set", "name", "v", "key", "x", "timeout", "30 s")
		set <- err
	}()
	c.submit([]node{{key: "x", spec: "x"}})
	if err := <-set; err != nil {
		t.Fatal(err)
	}
	c.expectKey("key-in-memory", "x")
	m := d.call("variable_get", "name", "v", "client", "client-2").(msgpack.Map)
	if m.GetString("type") != "Future" || m.GetString("value") != "x" || m.GetString("state") != "memory" ||
		m.GetString("token") == "" {
		t.Errorf("variable: got %v, want a future with a token", m)
	}
	// The variable holds the future, also when it is replaced, until the receiver has confirmed it.
	c.send(msgpack.MapOf("op", "client-releases-keys", "keys", names("x")))
	c.call("variable_set", "name", "v", "data", 1)
	if !w.holds("x") {
		t.Error("future: released before it was confirmed")
	}
	d.send(msgpack.MapOf("op", "variable-future-received-confirm", "name", "v", "key", "x", "token",
		m.GetString("token")))
	d.expectKey("key-in-memory", "x")
	d.send(msgpack.MapOf("op", "client-releases-keys", "keys", names("x")))
	until(t, "x is freed", func() bool { return !w.holds("x") })
	c.send(msgpack.MapOf("op", "variable_delete", "name", "v"))
	until(t, "v is deleted", func() bool {
		_, err := c.try("variable_get", "name", "v", "timeout",
			0.001)
		return err != nil
	})
	c.fails("unknown to scheduler", "variable_set", "name", "v", "key", "nothing", "timeout", "10 ms")
}

func TestQueue(t *testing.T) {
	s := start(t, Config{})
	w := join(t, s, "a")
	c, d := connect(t, s, "client-1"), connect(t, s, "client-2")
	c.fails("q", "queue_put", "name", "q", "data", 1)
	c.call("queue_create", "name", "q", "maxsize", 2)
	d.call("queue_create", "name", "q", "maxsize", 2)
	c.call("queue_put", "name", "q", "data", 1)
	c.call("queue_put", "name", "q", "data", 2)
	c.fails("is full", "queue_put", "name", "q", "data", 3, "timeout", 0.01)
	if n := c.call("queue_qsize", "name", "q"); n != int64(2) {
		t.Errorf("queue size: got %v, want 2", n)
	}
	put := make(chan error, 1)
	go func() { _, err := c.try("queue_put", "name", "q", "data", 3, "timeout", 30); put <- err }()
	for i := 1; i <= 3; i++ {
		m := d.call("queue_get", "name", "q", "timeout", 30).(msgpack.Map)
		if v, _ := m.Get("value"); v != int64(i) {
			t.Errorf("got %v, want %d", v, i)
		}
	}
	if err := <-put; err != nil {
		t.Error(err)
	}
	d.fails("is empty", "queue_get", "name", "q", "timeout", 0.01)
	if l := d.call("queue_get", "name", "q", "batch", true).([]any); len(l) != 0 {
		t.Errorf("batch: got %v, want none", l)
	}
	c.submit([]node{{key: "x", spec: "x"}})
	c.call("queue_put", "name", "q", "key", "x")
	c.call("queue_put", "name", "q", "data", "y")
	c.expectKey("key-in-memory", "x")
	c.send(msgpack.MapOf("op", "client-releases-keys", "keys", names("x")))
	l := d.call("queue_get", "name", "q", "batch", 2).([]any)
	if len(l) != 2 || l[0].(msgpack.Map).GetString("state") != "memory" || !w.holds("x") {
		t.Errorf("batch: got %v, want 2 records with x in memory", l)
	}
	d.send(msgpack.MapOf("op", "queue-future-release", "name", "q", "key", "x"))
	d.expectKey("key-in-memory", "x")
	d.send(msgpack.MapOf("op", "client-releases-keys", "keys", names("x")))
	until(t, "x is freed", func() bool { return !w.holds("x") })
	c.send(msgpack.MapOf("op", "queue_release", "name", "q"))
	d.send(msgpack.MapOf("op", "queue_release", "name", "q"))
	until(t, "q is removed", func() bool { _, err := c.try("queue_qsize", "name", "q"); return err != nil })
}

// Concurrent users of a lock never hold it together.
func TestLockExcludes(t *testing.T) {
	s := start(t, Config{})
	c := connect(t, s, "client-1")
	c.fails("not known", "semaphore_acquire", "name", "l", "lease_id", "1")
	c.call("semaphore_register", "name", "l", "max_leases", 1, "lease_timeout", 30)
	c.fails("Inconsistent", "semaphore_register", "name", "l", "max_leases", 2, "lease_timeout", 30)
	var wg sync.WaitGroup
	inside, most := 0, 0
	var mu sync.Mutex
	for i := range 8 {
		wg.Go(func() {
			id := fmt.Sprint("lease-", i)
			for range 5 {
				if ok := c.call("semaphore_acquire", "name", "l", "timeout", 30, "lease_id", id); ok != true {
					t.Errorf("acquire: got %v, want true", ok)
					return
				}
				mu.Lock()
				inside++
				most = max(most, inside)
				inside--
				mu.Unlock()
				c.call("semaphore_release", "name", "l", "lease_id", id)
			}
		})
	}
	wg.Wait()
	if most != 1 {
		t.Errorf("concurrent holders of the lock: got %d, want 1", most)
	}
	if n := c.call("semaphore_value", "name", "l"); n != int64(0) {
		t.Errorf("leases: got %v, want 0", n)
	}
}

// Leases that are not refreshed expire; those that are refreshed stay.
func TestLeases(t *testing.T) {
	s := start(t, Config{LeaseInterval: 10 * time.Millisecond})
	c := connect(t, s, "client-1")
	c.call("semaphore_register", "name", "dead", "max_leases", 1, "lease_timeout", 0.05)
	c.call("semaphore_register", "name", "alive", "max_leases", 1, "lease_timeout", 3600)
	for _, name := range []string{"dead", "alive"} {
		if ok := c.call("semaphore_acquire", "name", name, "lease_id", "1", "timeout", 1); ok != true {
			t.Fatalf("acquire: got %v, want true", ok)
		}
		if ok := c.call("semaphore_acquire", "name", name, "lease_id", "1", "timeout", 1); ok != true {
			t.Error("repeated acquire: got false, want true")
		}
	}
	if ok := c.call("semaphore_acquire", "name", "alive", "lease_id", "2", "timeout", 0.02); ok != false {
		t.Error("acquire of a held lease: got true, want false")
	}
	if ok := c.call("semaphore_acquire", "name", "dead", "lease_id", "2", "timeout", 30); ok != true {
		t.Error("acquire of an expired lease: got false, want true")
	}
	c.call("semaphore_refresh_leases", "name", "alive", "lease_ids", names("1"))
	c.call("semaphore_close", "name", "alive")
	c.fails("not known", "semaphore_acquire", "name", "alive", "lease_id", "3")
}

func TestEventFlag(t *testing.T) {
	s := start(t, Config{})
	c, d := connect(t, s, "client-1"), connect(t, s, "client-2")
	if v := c.call("event_wait", "name", "e", "timeout", 0.01); v != false {
		t.Errorf("event_wait: got %v, want false", v)
	}
	got := make(chan any, 1)
	go func() { v, _ := d.try("event_wait", "name", "e", "timeout", nil); got <- v }()
	until(t, "d waits", func() bool {
		ok, _ := loop.Ask(t.Context(), s.loop, func() (bool, error) { return s.prims.Counts().Events == 1, nil })
		return ok
	})
	c.call("event_set", "name", "e")
	if v := <-got; v != true {
		t.Errorf("event_wait: got %v, want true", v)
	}
	if v := c.call("event_is_set", "name", "e"); v != true {
		t.Errorf("event_is_set: got %v, want true", v)
	}
	c.call("event_clear", "name", "e")
	if v := c.call("event_is_set", "name", "e"); v != false {
		t.Errorf("event_is_set: got %v, want false", v)
	}
	if n, _ := loop.Ask(t.Context(), s.loop, func() (int, error) { return s.prims.Counts().Events, nil }); n != 0 {
		t.Errorf("kept events that are not set: got %d, want 0", n)
	}
}

func TestMultiLock(t *testing.T) {
	s := start(t, Config{})
	c := connect(t, s, "client-1")
	if v := c.call("multi_lock_acquire", "locks", names("a", "b"), "id", "1", "num_locks", 2); v != true {
		t.Fatalf("acquire: got %v, want true", v)
	}
	if v := c.call("multi_lock_acquire", "locks", names("b", "c"), "id", "2", "num_locks", 2, "timeout",
		0.02); v != false {
		t.Errorf("acquire: got %v, want false", v)
	}
	if v := c.call("multi_lock_acquire", "locks", names("b", "c"), "id", "2", "num_locks", 1); v != true {
		t.Errorf("acquire one of two: got %v, want true", v)
	}
	got := make(chan any, 1)
	go func() {
		v, _ := c.try("multi_lock_acquire", "locks", names("a", "c"), "id", "3", "num_locks", 2, "timeout", 30)
		got <- v
	}()
	until(t, "3 waits", func() bool {
		ok, _ := loop.Ask(t.Context(), s.loop, func() (bool, error) { return s.prims.Counts().LockUsers == 3, nil })
		return ok
	})
	c.call("multi_lock_release", "id", "1")
	c.call("multi_lock_release", "id", "2")
	if v := <-got; v != true {
		t.Errorf("acquire: got %v, want true", v)
	}
	c.call("multi_lock_release", "id", "3")
	c.call("multi_lock_release", "id", "never")
	c.fails("num_locks", "multi_lock_acquire", "locks", names("a"), "id", "4", "num_locks", 2)
	if n, _ := loop.Ask(t.Context(), s.loop, func() (int, error) {
		return s.prims.Counts().Locks +
			s.prims.Counts().LockUsers, nil
	}); n != 0 {
		t.Errorf("locks and users: got %d, want 0", n)
	}
}

// A published dataset keeps its keys without its client.
func TestPublish(t *testing.T) {
	s := start(t, Config{})
	w := join(t, s, "a")
	c, d := connect(t, s, "client-1"), connect(t, s, "client-2")
	c.submit([]node{{key: "x", spec: "x"}})
	put := func(override bool) (any, error) {
		uid := []byte(fmt.Sprint("uid-", override))
		c.send(msgpack.MapOf("op", "publish_flush_batched_send", "uid", uid))
		return c.try("publish_put", "names", names("set"), "keys", []any{names("x")}, "data", []any{pickledNone()},
			"override", override, "client", "client-1", "uid", uid)
	}
	if _, err := put(false); err != nil {
		t.Fatal(err)
	}
	if _, err := put(true); err != nil {
		t.Error(err)
	}
	c.fails("already exists", "publish_put", "names", names("set"), "keys", []any{names("x")}, "data", []any{1})
	c.send(msgpack.MapOf("op", "close-client"), msgpack.MapOf("op", "close-stream"))
	c.waitClosed()
	if l := d.call("publish_list").([]any); len(l) != 1 || l[0] != "set" {
		t.Errorf("publish_list: got %v, want set", l)
	}
	got := d.call("publish_get", "names", names("set", "other")).([]any)
	if m, _ := got[0].(msgpack.Map); !m.Has("data") || !m.Has("keys") || got[1] != nil {
		t.Errorf("publish_get: got %v, want data and keys of the first, nothing of the second", got)
	}
	if !w.holds("x") {
		until(t, "x is computed", func() bool { return w.holds("x") })
	}
	d.call("publish_delete", "names", names("set"), "client", "client-2")
	until(t, "x is freed", func() bool { return !w.holds("x") })
}

// Clients up to Dask 2026.3 publish one dataset at a time.
func TestPublishOne(t *testing.T) {
	s := start(t, Config{})
	w := join(t, s, "a")
	c := connect(t, s, "client-1")
	c.submit([]node{{key: "x", spec: "x"}})
	c.expectKey("key-in-memory", "x")
	c.send(msgpack.MapOf("op", "publish_flush_batched_send", "uid", "u"))
	for range 2 { // all that are published at once wait for the same point
		c.call("publish_wait_flush", "uid", "u")
	}
	r, _ := c.call("publish_put", "keys", names("x"), "name", "set", "data", pickledNone(), "override", false, "client",
		"client-1").(msgpack.Map)
	if r.GetString("status") != "OK" || r.GetString("name") != "set" {
		t.Errorf("publish_put: got %v, want OK and set", r)
	}
	c.fails("already exists", "publish_put", "keys", names("x"), "name", "set", "data", 1)
	c.fails("", "publish_put", "keys", []any{msgpack.Map{}}, "name", "other", "data", 1)
	c.fails("", "publish_put", "keys", names("x"), "data", 1)
	c.fails("lists of keys", "publish_put", "names", names("a", "b"), "keys", []any{names("x")}, "data", []any{1})
	c.fails("lists of keys", "publish_put", "names", names("a"), "keys", []any{names("x")}, "data", 1)
	c.fails("not a list", "publish_put", "names", names("a"), "keys", names("x"), "data", []any{1})
	if m, _ := c.call("publish_get", "name", "set", "client", "client-1").(msgpack.Map); !m.Has("data") ||
		fmt.Sprint(list(m, "keys")) != "[x]" {
		t.Errorf("publish_get: got %v, want the data and x", m)
	}
	if v := c.call("publish_get", "name", "other", "client", "client-1"); v != nil {
		t.Errorf("publish_get of an unknown name: got %v, want None", v)
	}
	c.send(msgpack.MapOf("op", "client-releases-keys", "keys", names("x"), "client", "client-1"))
	c.call("publish_delete", "name", "set")
	until(t, "x is freed", func() bool { return !w.holds("x") })
}
