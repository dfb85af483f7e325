package scheduler

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/loop"
)

// crash ends a scheduler as if it had been killed, as far as its journal is concerned: no message is sent.
func crash(t *testing.T, s *Scheduler) {
	t.Helper()
	if err := s.close(context.Background(), false); err != nil {
		t.Fatal(err)
	}
}

// journaled starts a scheduler with a journal that ends by crash.
func journaled(t *testing.T, dir string) *Scheduler {
	t.Helper()
	s, err := Start(t.Context(), Config{Listen: []string{"tcp://127.0.0.1:0"}, Journal: dir, Validate: true,
		StealingInterval: 20 * time.Millisecond, Reattach: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.close(context.Background(), false) })
	return s
}

// A scheduler that is restarted with its journal continues: finished tasks are not run again, others are, and clients
// still hold their keys.
func TestRestartFromJournal(t *testing.T) {
	dir := t.TempDir()
	s := journaled(t, dir)
	a := join(t, s, "a")
	c := connect(t, s, "client-1")
	c.submit([]node{{key: "x", spec: "x"}, {key: "y", spec: "y"}, {key: "gone", spec: "g"}})
	for range 3 {
		c.expectOp("key-in-memory")
	}
	c.send(msgpack.MapOf("op", "client-releases-keys", "keys", names("gone")))
	until(t, "gone is freed", func() bool { return !a.holds("gone") })
	c.submit([]node{{key: "z", spec: "hang", deps: []string{"x"}}})
	a.expectKey("compute-task", "z")
	crash(t, s)

	s = journaled(t, dir)
	c = connect(t, s, "client-1")
	// Nothing is computed before the worker has announced its results.
	b := serveWorker(t, s, "a")
	b.data = a.data
	if r := b.register(with("server_id", "Worker-a"), with("address", a.address)); r.GetString("status") != "OK" {
		t.Fatal(r)
	}
	b.on = b.work
	go b.read()
	b.send(msgpack.MapOf("op", "add-keys", "keys", names("x", "stray"), "nbytes", []any{1, 1}, "adopt", true,
		"stimulus_id", "back"))
	m := b.expectOp("compute-task")
	for m.GetString("key") != "z" { // y was lost while no client was connected
		if m.GetString("key") == "x" {
			t.Error("x is recomputed although a worker holds it")
		}
		m = b.expectOp("compute-task")
	}
	if id, _ := m.Get("run_id"); id.(int64)>>32 != 2 {
		t.Errorf("run ID: got %x, want one of epoch 2", id)
	}
	c.send(msgpack.MapOf("op", "client-desires-keys", "keys", names("x", "y", "gone")))
	seen := map[string]bool{}
	for !seen["x"] || !seen["y"] || !seen["gone"] {
		m := c.expect("news of x, y and gone", func(m msgpack.Map) bool {
			op := m.GetString("op")
			return op == "key-in-memory" || op == "cancelled-keys"
		})
		if m.GetString("op") == "cancelled-keys" {
			seen["gone"] = true
		} else {
			seen[m.GetString("key")] = true
		}
	}
}

// Primitives survive.
func TestPrimitivesFromJournal(t *testing.T) {
	dir := t.TempDir()
	s := journaled(t, dir)
	c := connect(t, s, "client-1")
	c.call("variable_set", "name", "v", "data", msgpack.MapOf("x", 1))
	c.call("variable_set", "name", "deleted", "data", 1)
	c.send(msgpack.MapOf("op", "variable_delete", "name", "deleted"))
	c.call("queue_create", "name", "q", "maxsize", 3)
	c.call("queue_put", "name", "q", "data", 1)
	c.call("queue_put", "name", "q", "data", "two")
	c.call("queue_get", "name", "q")
	c.call("semaphore_register", "name", "l", "max_leases", 1, "lease_timeout", 3600)
	c.call("semaphore_acquire", "name", "l", "lease_id", "mine")
	c.call("event_set", "name", "e")
	c.call("multi_lock_acquire", "locks", names("ml1", "ml2"), "id", "holder", "num_locks", 2)
	c.call("multi_lock_acquire", "locks", names("ml3"), "id", "done", "num_locks", 1)
	c.call("multi_lock_release", "id", "done")
	c.call("register_worker_plugin", "plugin", pickledNone(), "name", "kept")
	c.call("register_worker_plugin", "plugin", pickledNone(), "name", "dropped")
	c.call("unregister_worker_plugin", "name", "dropped")
	c.call("register_nanny_plugin", "plugin", pickledNone(), "name", "of nannies")
	c.call("set_metadata", "keys", []any{"a", "b"}, "value", 7)
	c.call("set_metadata", "keys", []any{"a", "c"}, "value", pickledNone())
	c.call("publish_put", "names", names("set"), "keys", []any{[]any{}}, "data", []any{pickledNone()})
	until(t, "the variable is deleted", func() bool {
		_,
			err := c.try("variable_get", "name", "deleted", "timeout", 0.001)
		return err != nil
	})
	check := func(c *testClient) {
		t.Helper()
		if m := c.call("variable_get", "name", "v", "timeout", 1).(msgpack.Map); m.GetString("type") != "msgpack" {
			t.Errorf("variable: got %v, want type msgpack", m)
		}
		c.fails("not set", "variable_get", "name", "deleted", "timeout", 0.01)
		if n := c.call("queue_qsize", "name", "q"); n != int64(1) {
			t.Errorf("length of the queue: got %v, want 1", n)
		}
		if ok := c.call("semaphore_acquire", "name", "l", "lease_id", "other", "timeout", 0.01); ok != false {
			t.Error("lock: acquired twice")
		}
		if ok := c.call("event_is_set", "name", "e"); ok != true {
			t.Error("event: got not set, want set")
		}
		if ok := c.call("multi_lock_acquire", "locks", names("ml2"), "id", "other", "num_locks", 1, "timeout",
			0.01); ok != false {
			t.Error("multi-lock: acquired twice")
		}
		if ok := c.call("multi_lock_acquire", "locks", names("ml3"), "id", "other", "num_locks", 1, "timeout",
			1); ok != true {
			t.Error("released multi-lock: not acquired")
		}
		c.call("multi_lock_release", "id", "other")
		plugins, err := loop.Ask(t.Context(), s.loop, func() ([2]msgpack.Map, error) {
			return [2]msgpack.Map{s.plugins.Workers(), s.plugins.Nannies()}, nil
		})
		if err != nil || len(plugins[0]) != 2 || !plugins[0].Has("kept") || !plugins[0].Has("shuffle") ||
			len(plugins[1]) != 1 || !plugins[1].Has("of nannies") {
			t.Errorf("plugins: got %v, error %v, want one of each kind", plugins, err)
		}
		if v, _ := plugins[0].Get("kept"); fmt.Sprintf("%T", v) != "*wire.Serialized" {
			t.Errorf("plugin: got %T, want *wire.Serialized", v)
		}
		if v := c.call("get_metadata", "keys", []any{"a", "b"}); v != int64(7) {
			t.Errorf("metadata: got %v, want 7", v)
		}
		if l := c.call("publish_get", "names", names("set")).([]any); l[0] == nil {
			t.Error("dataset: got none")
		}
	}
	check(c)
	crash(t, s)
	s = journaled(t, dir)
	check(connect(t, s, "client-2"))
	// The snapshot restores the same state as the records that it replaces.
	compact(t, s)
	crash(t, s)
	s = journaled(t, dir)
	check(connect(t, s, "client-3"))
}

// Scattered data is found on the workers again, and its dependents run.
func TestScatteredDataFromJournal(t *testing.T) {
	dir := t.TempDir()
	s := journaled(t, dir)
	a := join(t, s, "a")
	c := connect(t, s, "client-1")
	other := connect(t, s, "client-2")
	for _, k := range []string{"d", "released", "theirs"} {
		a.put(k, "value of "+k)
	}
	who := func(keys ...string) (m msgpack.Map) {
		for _, k := range keys {
			m = append(m, msgpack.Pair{Key: k, Value: []any{a.address}})
		}
		return m
	}
	c.call("update_data", "who_has", who("d", "released"), "nbytes", msgpack.MapOf("d", 10, "released", 10), "client",
		"client-1")
	other.call("update_data", "who_has", who("theirs"), "nbytes", msgpack.MapOf("theirs", 10), "client", "client-2")
	c.submit([]node{{key: "sum", spec: "hang", deps: []string{"d", "theirs"}}})
	c.send(msgpack.MapOf("op", "client-releases-keys", "keys", names("released")))
	until(t, "released is freed", func() bool { return !a.holds("released") })
	again := func(s *Scheduler, a *testWorker) (*Scheduler, *testWorker) {
		t.Helper()
		crash(t, s)
		s = journaled(t, dir)
		c = connect(t, s, "client-1")
		b := serveWorker(t, s, "a")
		b.data = a.data
		if r := b.register(with("server_id", "Worker-a"), with("address", a.address)); r.GetString("status") != "OK" {
			t.Fatal(r)
		}
		b.address = a.address
		b.on = b.work
		go b.read()
		b.send(msgpack.MapOf("op", "add-keys", "keys", names("d", "theirs", "released"), "nbytes", []any{10, 10, 10},
			"adopt", true, "stimulus_id", "back"))
		m := b.expectKey("compute-task", "sum")
		if who, _ := m.Get("who_has"); len(who.(msgpack.Map)) != 2 {
			t.Errorf("dependencies of sum: got %v, want 2", who)
		}
		status := c.call("get_task_status", "keys", names("d", "theirs", "released")).(msgpack.Map)
		if released, _ := status.Get("released"); status.GetString("d") != "memory" ||
			status.GetString("theirs") != "memory" || released != nil {
			t.Errorf("after the restart: got %v, want mine and theirs in memory, released unknown", status)
		}
		return s, b
	}
	s, a = again(s, a)
	// No client holds theirs any more, but sum needs it: it is still in the snapshot.
	_ = s.loop.Do(t.Context(), func() {
		if c := s.clients.ByName["client-2"]; c != nil {
			s.clients.Remove(c)
		}
	})
	compact(t, s)
	again(s, a)
}

// compact writes a snapshot.
func compact(t *testing.T, s *Scheduler) {
	t.Helper()
	snap, err := loop.Ask(t.Context(), s.loop, s.recovery.Snapshot)
	if err != nil {
		t.Fatal(err)
	}
	if err := snap.Write(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A snapshot has the graphs that are still needed and the keys of clients, and nothing else.
func TestCompaction(t *testing.T) {
	dir := t.TempDir()
	s := journaled(t, dir)
	join(t, s, "a")
	c := connect(t, s, "client-1")
	c.submit([]node{{key: "x", spec: "x"}, {key: "old", spec: "o"}})
	c.submit([]node{{key: "dead", spec: "d"}})
	c.submit([]node{{key: "y", spec: "y", deps: []string{"x"}}})
	for range 4 {
		c.expectOp("key-in-memory")
	}
	c.send(msgpack.MapOf("op", "client-releases-keys", "keys", names("old", "dead")))
	status := func(c *testClient) map[string]bool {
		out := map[string]bool{}
		for _, p := range c.call("get_task_status", "keys", names("x", "y", "old", "dead")).(msgpack.Map) {
			out[p.Key.(string)] = p.Value != nil
		}
		return out
	}
	until(t, "both are forgotten", func() bool { m := status(c); return !m["old"] && !m["dead"] })
	compact(t, s)
	crash(t, s)
	s = journaled(t, dir)
	c = connect(t, s, "client-1")
	if m := status(c); !m["x"] || !m["y"] || m["old"] || m["dead"] {
		t.Errorf("known keys: got %v, want x and y", m)
	}
}

// The HTTP server serves the state of the scheduler.
func TestHTTP(t *testing.T) {
	s := start(t, Config{Dashboard: "127.0.0.1:0"})
	w := join(t, s, "a")
	c := connect(t, s, "client-1")
	c.submit([]node{{key: "inc-1", spec: "x"}, {key: "bad", spec: "fail"}})
	c.expectKey("key-in-memory", "inc-1")
	until(t, "the other task has failed", func() bool {
		st, _ := c.call("get_task_status", "keys", names("bad")).(msgpack.Map).Get("bad")
		return st == "erred"
	})
	w.call("heartbeat_worker", "address", w.address, "metrics", msgpack.Map{}, "extensions",
		msgpack.MapOf("millstream", msgpack.MapOf("transfers",
			[]any{[]any{10.0, 12.5, 100, "shm", "tcp://b", "incoming", 3}, "nonsense", []any{1}})))
	get := func(path string, status int) string {
		t.Helper()
		r, err := http.Get("http://" + s.DashboardAddress() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		b, _ := io.ReadAll(r.Body)
		if r.StatusCode != status {
			t.Errorf("%s: got status %d: %s", path, r.StatusCode, b)
		}
		return string(b)
	}
	metrics := get("/metrics", 200)
	for _, want := range []string{
		`dask_scheduler_tasks{state="memory"} 1`, `dask_scheduler_tasks{state="erred"} 1`,
		`dask_scheduler_workers{state="idle"} 1`, "dask_scheduler_clients 1",
		`dask_scheduler_tasks_suspicious_total{task_prefix_name="inc"} 0`,
		`millstream_scheduler_transfer_bytes_total{scheme="shm"} 100`, "process_cpu_seconds_total",
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics: got no %s", want)
		}
	}
	for path, want := range map[string]string{
		"/health":                    "ok",
		"/json/identity.json":        `"type":"Scheduler"`,
		"/json/counts.json":          `"memory":1`,
		"/millstream/tasks":          `"action":"compute"`,
		"/millstream/tasks?since=99": `"tasks":[]`,
		"/millstream/transfers":      `"scheme":"shm"`,
		"/millstream/events":         "add-worker",
	} {
		if got := get(path, 200); !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s in it", path, got, want)
		}
	}
	get("/millstream/tasks?since=x", 400)
	get("/nothing", 404)
	http.DefaultClient.CloseIdleConnections()
}
