package scheduler

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/task/taskgraph"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/val"
)

// idle registers a worker that only listens: the test sends its messages.
func idle(t *testing.T, s *Scheduler, name string, options ...option) *testWorker {
	t.Helper()
	w := serveWorker(t, s, name)
	if r := w.register(options...); r.GetString("status") != "OK" {
		t.Fatalf("register-worker: got %v, want status OK", r)
	}
	go w.read()
	return w
}

// finished reports a task that was assigned to the worker.
func (w *testWorker) finished(m msgpack.Map) {
	runID, _ := m.Get("run_id")
	key, _ := m.Get("key")
	w.send(msgpack.MapOf("op", "task-finished", "key", key, "run_id", runID, "status", "OK", "nbytes", 8, "typename",
		"str", "stimulus_id", "x"))
}

// A task that has left the thread pool makes room for others.
func TestLongRunning(t *testing.T) {
	s := start(t, Config{})
	w := idle(t, s, "a")
	c := connect(t, s, "client-1")
	c.submit([]node{{key: "x", spec: "x"}, {key: "y", spec: "y"}, {key: "z", spec: "z"}})
	first := w.expectOp("compute-task")
	runID, _ := first.Get("run_id")
	w.send(msgpack.MapOf("op", "long-running", "key", first.GetString("key"), "run_id", runID, "compute_duration", 0.1,
		"stimulus_id", "x"))
	for range 2 {
		w.finished(w.expectOp("compute-task"))
		c.expectOp("key-in-memory")
	}
	w.finished(first)
	c.expectKey("key-in-memory", first.GetString("key"))
}

// A worker may return a task; it runs again with another number, and the result of the first run is not accepted.
func TestReschedule(t *testing.T) {
	s := start(t, Config{})
	w := idle(t, s, "a")
	c := connect(t, s, "client-1")
	c.submit([]node{{key: "x", spec: "x"}})
	first := w.expectOp("compute-task")
	w.send(msgpack.MapOf("op", "reschedule", "key", "x", "stimulus_id", "x"))
	second := w.expectOp("compute-task")
	a, _ := first.Get("run_id")
	b, _ := second.Get("run_id")
	if a == b {
		t.Errorf("numbers of both runs: got %v twice, want different ones", a)
	}
	// As in Dask, a worker that reports another run than the assigned one receives the task once more.
	w.finished(first)
	w.finished(w.expectOp("compute-task"))
	c.expectKey("key-in-memory", "x")
}

// Holders can be requested on the stream; unknown keys are to be freed.
func TestRefreshWhoHas(t *testing.T) {
	s := start(t, Config{})
	a, b := idle(t, s, "a"), idle(t, s, "b", with("nthreads", 2))
	c := connect(t, s, "client-1")
	c.submit([]node{{key: "x", spec: "x", notes: &taskgraph.Annotations{Workers: []string{"a"}}}})
	a.finished(a.expectOp("compute-task"))
	c.expectKey("key-in-memory", "x")
	b.send(msgpack.MapOf("op", "request-refresh-who-has", "keys", names("x", "nothing"), "stimulus_id", "x"))
	m := b.expectOp("refresh-who-has")
	who, _ := m.Get("who_has")
	if h, _ := who.(msgpack.Map).Get("x"); len(h.([]any)) != 1 || h.([]any)[0] != a.address {
		t.Errorf("who_has: got %v, want worker a", who)
	}
	// One more replica, and one less.
	b.send(msgpack.MapOf("op", "add-keys", "keys", names("x", "stray"), "stimulus_id", "x"))
	b.expectOp("remove-replicas")
	a.send(msgpack.MapOf("op", "release-worker-data", "key", "x", "stimulus_id", "x"))
	until(t, "only b holds x", func() bool {
		h, _ := c.call("who_has", "keys", names("x")).(msgpack.Map).Get("x")
		return len(h.([]any)) == 1 && h.([]any)[0] == b.address
	})
	b.send(msgpack.MapOf("op", "release-worker-data", "key", "x", "stimulus_id", "x"))
	a.finished(a.expectKey("compute-task", "x"))
	if r := c.call("add_keys", "worker", b.address, "keys", names("x")); r != "OK" {
		t.Errorf("add_keys: got %v, want OK", r)
	}
	if r := c.call("add_keys", "worker", "tcp://127.0.0.1:1", "keys", names("x")); r != "not found" {
		t.Errorf("add_keys of an unknown worker: got %v, want not found", r)
	}
}

// Options of a graph reach its tasks.
func TestGraphOptions(t *testing.T) {
	s := start(t, Config{})
	c := connect(t, s, "client-1")
	graph := func(key string, more ...any) {
		var g taskgraph.Writer
		g.Spec(task.NewKey(key), []byte(specHead+"spec"), nil,
			g.Annotations(&taskgraph.Annotations{Resources: map[string]float64{"GPU": 1.5}}), taskgraph.None)
		c.send(append(msgpack.MapOf("op", "update-graph", "expr_ser", g.Serialized(), "keys", names(key)),
			msgpack.MapOf(more...)...))
	}
	graph("low", "user_priority", -5, "fifo_timeout", 0.1)
	graph("actor", "actors", names("actor"), "fifo_timeout", nil)
	graph("high", "user_priority", 7.5, "submitting_task", "low", "actors", false)
	until(t, "all are known", func() bool {
		n, _ := loop.Ask(t.Context(), s.loop, func() (int, error) { return s.state.NumTasks(), nil })
		return n == 3
	})
	w := idle(t, s, "a", with("resources", msgpack.MapOf("GPU", 10)), with("nthreads", 4))
	seen := map[string]msgpack.Map{}
	for range 3 {
		m := w.expectOp("compute-task")
		seen[m.GetString("key")] = m
	}
	priority := func(key string) float64 {
		p, _ := seen[key].Get("priority")
		f, _ := val.Number(p.([]any)[0])
		return f
	}
	if priority("low") != 5 || priority("high") != -7.5 {
		t.Errorf("priorities: got %v and %v, want 5 and -7.5", priority("low"), priority("high"))
	}
	if a, _ := seen["actor"].Get("actor"); a != true {
		t.Error("actor: got false, want true")
	}
	if r, _ := seen["low"].Get("resource_restrictions"); len(r.(msgpack.Map)) != 1 || r.(msgpack.Map)[0].Value != 1.5 {
		t.Errorf("resources: got %v, want 1.5 of one", r)
	}
	graph("bad", "user_priority", "much")
	c.expectKey("task-erred", "bad")
	graph("bad2", "fifo_timeout", -1)
	c.expectKey("task-erred", "bad2")
}

// A busy worker is retried, one with an invalid reply is skipped.
func TestGatherTroubles(t *testing.T) {
	s := start(t, Config{})
	w := join(t, s, "a")
	c := connect(t, s, "client-1")
	c.submit([]node{{key: "x", spec: "x"}})
	c.expectKey("key-in-memory", "x")
	asked := 0
	w.server.Handle("get_data", func(ctx context.Context, r *rpc.Request) (any, error) {
		if asked++; asked == 1 {
			return msgpack.MapOf("status", "busy"), nil
		}
		return w.getData(ctx, r)
	})
	if got := c.gather("x"); got["x"] != "x" || asked != 2 {
		t.Errorf("gathered %v with %d requests, want x with 2", got, asked)
	}
	w.server.Handle("get_data", func(context.Context, *rpc.Request) (any,
		error) {
		return msgpack.MapOf("status", "tired"), nil
	})
	if d := c.call("gather", "keys", names("x")).(msgpack.Map); d.GetString("status") != "error" {
		t.Errorf("gather: got %v, want an error", d)
	}
}

// Requests about running tasks are forwarded to workers.
func TestCallStack(t *testing.T) {
	s := start(t, Config{})
	w := idle(t, s, "a")
	rpc.Handle(w.server, "call_stack", func(_ context.Context, _ *rpc.Request, in struct {
		Keys []any `rpc:"keys,optional"`
	}) (msgpack.Map, error) {
		return msgpack.MapOf("x", []any{fmt.Sprint("asked for ", len(in.Keys))}), nil
	})
	rpc.Handle(w.server, "get_logs", func(_ context.Context, _ *rpc.Request, _ struct {
		N any `rpc:"n,optional"`
	}) ([]any, error) {
		return []any{[]any{"INFO", "hello"}}, nil
	})
	c := connect(t, s, "client-1")
	c.submit([]node{{key: "x", spec: "x"}, {key: "y", spec: "y", deps: []string{"x"}}}, "y")
	w.expectOp("compute-task")
	for _, keys := range []any{nil, names("y")} {
		out := c.call("call_stack", "keys", keys).(msgpack.Map)
		if !out.Has(w.address) {
			t.Errorf("call stacks: got %v, want one of the worker", out)
		}
	}
	c.fails("nothing", "call_stack", "keys", names("nothing"))
	if out := c.call("worker_logs", "n", 3).(msgpack.Map); !out.Has(w.address) {
		t.Errorf("logs: got %v, want those of the worker", out)
	}
	if v := c.call("check_idle"); v != nil {
		t.Errorf("idle since: got %v while a task runs, want None", v)
	}
}

// A panic of the state closes the scheduler: the state may be inconsistent.
func TestFault(t *testing.T) {
	s, err := Start(t.Context(), Config{Listen: []string{"tcp://127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	w := join(t, s, "a")
	if err := s.loop.Do(t.Context(), func() { s.apply(nil) }); err != nil {
		t.Logf("the request's error: %v", err)
	}
	<-s.Done()
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), "unknown event") {
		t.Errorf("got %v, want the fault", err)
	}
	w.waitClosed()
}

// A journal that cannot be written closes the scheduler with an error.
func TestJournalFails(t *testing.T) {
	s := journaled(t, t.TempDir())
	c := connect(t, s, "client-1")
	if err := s.journal.Close(); err != nil {
		t.Fatal(err)
	}
	c.send(msgpack.MapOf("op", "client-desires-keys", "keys", names("x")))
	<-s.Done()
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), "journal") {
		t.Errorf("Err: got %v, want one about the journal", err)
	}
}
