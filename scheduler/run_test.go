package scheduler

import (
	"fmt"
	"testing"
	"time"

	"go.millstream.dev/internal/task/taskgraph"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/loop"
)

// A graph runs on two workers, which fetch from each other, and its results are gathered.
func TestGraphRuns(t *testing.T) {
	each(t, func(t *testing.T, listen string) {
		leak.Check(t)
		s := start(t, Config{Listen: []string{listen}})
		join(t, s, "a")
		join(t, s, "b")
		c := connect(t, s, "client-1")
		nodes := []node{{key: "x", spec: "x"}, {key: "y", spec: "y"}, {key: "z", spec: "z", deps: []string{"x", "y"}},
			{key: "top", spec: "t", deps: []string{"z", "x"}}}
		c.submit(nodes, "top", "y")
		seen := map[string]bool{}
		for range 2 {
			m := c.expectOp("key-in-memory")
			seen[m.GetString("key")] = true
			if w, _ := m.Get("workers"); len(w.([]any)) != 1 {
				t.Errorf("workers of key-in-memory: got %v, want 1", w)
			}
		}
		if !seen["top"] || !seen["y"] {
			t.Fatalf("keys in memory: got %v, want top and y", seen)
		}
		got := c.gather("top", "y")
		if got["top"] != "t(x)(z(x)(y))" || got["y"] != "y" {
			t.Errorf("gather: got %v, want top and y", got)
		}
		if d, _ := c.call("gather", "keys", names("top", "unknown")).(msgpack.Map); d.GetString("status") != "error" {
			t.Errorf("gather of an unknown key: got %v, want an error", d)
		}
	})
}

// Results that no client holds are freed, intermediate results immediately.
func TestReleaseFrees(t *testing.T) {
	s := start(t, Config{})
	w := join(t, s, "a")
	c := connect(t, s, "client-1")
	c.submit([]node{{key: "x", spec: "x"}, {key: "y", spec: "y", deps: []string{"x"}}}, "y")
	c.expectKey("key-in-memory", "y")
	until(t, "x is freed", func() bool { return !w.holds("x") })
	c.send(msgpack.MapOf("op", "client-releases-keys", "keys", names("y"), "client", "client-1"))
	until(t, "y is freed", func() bool { return !w.holds("y") })
	status := c.call("get_task_status", "keys", names("x", "y")).(msgpack.Map)
	for _, p := range status {
		if p.Value != nil {
			t.Errorf("status of %v: got %v, want none", p.Key, p.Value)
		}
	}
}

// A failure is sent to the client with the worker's exception, also for all dependents.
func TestFailure(t *testing.T) {
	each(t, func(t *testing.T, listen string) {
		s := start(t, Config{Listen: []string{listen}})
		w := join(t, s, "a")
		c := connect(t, s, "client-1")
		c.submit([]node{{key: "x", spec: "fail"}, {key: "y", spec: "y", deps: []string{"x"}},
			{key: "z", spec: "z", deps: []string{"y"}}}, "x", "z")
		for range 2 {
			m := c.expectOp("task-erred")
			e, _ := m.Get("exception")
			b, ok := open(e).([]byte)
			if !ok || len(b) == 0 {
				t.Fatalf("exception of %s: got %v, want a pickle", m.GetString("key"), e)
			}
		}
		if cause := c.call("get_error_cause", "keys", names("z")); cause != "x" {
			t.Errorf("cause: got %v, want x", cause)
		}
		if got := c.call("retry", "keys", names("x"), "client", "client-1").([]any); len(got) == 0 {
			t.Errorf("retry: got no keys")
		}
		c.expectOp("task-retried")
		c.expectKey("task-erred", "x")
		if n := w.count("x"); n != 2 {
			t.Errorf("runs of x: got %d, want 2", n)
		}
	})
}

// A task with retries runs again without a message to the client.
func TestRetries(t *testing.T) {
	s := start(t, Config{})
	w := join(t, s, "a")
	c := connect(t, s, "client-1")
	c.submit([]node{{key: "x", spec: "fail", notes: &taskgraph.Annotations{Retries: 2}}})
	c.expectKey("task-erred", "x")
	if n := w.count("x"); n != 3 {
		t.Errorf("runs of x: got %d, want 3", n)
	}
}

// The tasks of a lost worker run on another, and its results are recomputed.
func TestWorkerDies(t *testing.T) {
	each(t, func(t *testing.T, listen string) {
		s := start(t, Config{Listen: []string{listen}})
		a := join(t, s, "a")
		c := connect(t, s, "client-1")
		c.submit([]node{{key: "x", spec: "x"}, {key: "y", spec: "y"}})
		c.expectKey("key-in-memory", "x")
		until(t, "a holds y", func() bool { return a.holds("y") })
		a.crash()
		c.expectOp("lost-data")
		b := join(t, s, "b")
		until(t, "both are recomputed", func() bool { return b.holds("x") && b.holds("y") })
		c.expectOp("key-in-memory")
		if got := c.gather("x", "y"); got["x"] != "x" {
			t.Errorf("gather: got %v, want x", got)
		}
	})
}

// A task whose workers are lost fails.
func TestKilledWorker(t *testing.T) {
	s := start(t, Config{AllowedFailures: 1})
	c := connect(t, s, "client-1")
	c.submit([]node{{key: "x", spec: "hang"}})
	for i := range 2 {
		w := join(t, s, fmt.Sprint("w", i))
		w.expectOp("compute-task")
		w.crash()
	}
	m := c.expectKey("task-erred", "x")
	e, _ := m.Get("exception")
	b, _ := open(e).([]byte)
	if exc := unpickle(t, b); exc.Type != "KilledWorker" {
		t.Errorf("exception: got %v, want KilledWorker", exc)
	}
}

// Cancellations are sent to all clients that hold the tasks.
func TestCancel(t *testing.T) {
	s := start(t, Config{})
	w := join(t, s, "a")
	c := connect(t, s, "client-1")
	c.submit([]node{{key: "x", spec: "hang"}, {key: "y", spec: "y", deps: []string{"x"}}})
	w.expectOp("compute-task")
	c.send(msgpack.MapOf("op", "cancel-keys", "keys", names("x"), "client", "client-1", "force", true, "reason",
		"test", "msg", "enough"))
	if m := c.expectOp("cancelled-keys"); m.GetString("reason") != "test" && m.GetString("reason") != "" {
		t.Errorf("cancelled-keys: got %v, want reason test", m)
	}
	w.expectOp("free-keys")
}

// An invalid graph is reported to its client, key by key, and affects nothing else.
func TestBadGraphs(t *testing.T) {
	s := start(t, Config{})
	join(t, s, "a")
	c := connect(t, s, "client-1")
	c.submit([]node{{key: "a", spec: "a", deps: []string{"b"}}, {key: "b", spec: "b", deps: []string{"a"}}}, "a")
	m := c.expectKey("task-erred", "a")
	e, _ := m.Get("exception")
	b, _ := open(e).([]byte)
	if exc := unpickle(t, b); exc.Type != "ValueError" {
		t.Errorf("exception of a cycle: got %v, want ValueError", exc)
	}
	// Pickles of Python clients are not opened.
	c.send(msgpack.MapOf("op", "update-graph", "expr_ser", pickledNone(), "keys", names("p"), "span_metadata",
		msgpack.Map{}))
	c.expectKey("task-erred", "p")
	c.send(msgpack.MapOf("op", "update-graph", "expr_ser", pickledNone(), "keys", names("q"), "fifo_timeout", "soon"))
	c.expectKey("task-erred", "q")
	c.submit([]node{{key: "ok", spec: "ok"}})
	c.expectKey("key-in-memory", "ok")
}

// Tasks run according to their restrictions, and only on workers with their functions.
func TestRestrictions(t *testing.T) {
	s := start(t, Config{})
	join(t, s, "a", with("extra", msgpack.Map{}))
	b := join(t, s, "b", with("resources", msgpack.MapOf("GPU", 2)))
	d := join(t, s, "d")
	c := connect(t, s, "client-1")
	c.submit([]node{
		{key: "named", spec: "n", notes: &taskgraph.Annotations{Workers: []string{"d"}}},
		{key: "gpu", spec: "g", notes: &taskgraph.Annotations{Resources: map[string]float64{"GPU": 1}}},
	})
	c.expectOp("key-in-memory")
	c.expectOp("key-in-memory")
	if !d.holds("named") || !b.holds("gpu") {
		t.Error("tasks: got a violated restriction")
	}
}

// A client can release very many keys at once.
func TestReleaseInSteps(t *testing.T) {
	const step = 32
	s := start(t, Config{releaseStep: step})
	w := join(t, s, "a", with("nthreads", 64))
	c := connect(t, s, "client-1")
	var nodes []node
	var keys []string
	for i := range 3*step + 7 {
		keys = append(keys, fmt.Sprint("x-", i))
		nodes = append(nodes, node{key: keys[i], spec: "x"})
	}
	c.submit(nodes, keys...)
	for range keys {
		c.expectOp("key-in-memory")
	}
	c.send(msgpack.MapOf("op", "client-releases-keys", "keys", names(keys...), "client", "client-1"))
	until(t, "all are freed", func() bool {
		for _, k := range keys {
			if w.holds(k) {
				return false
			}
		}
		return true
	})
	if n, _ := loop.Ask(t.Context(), s.loop, func() (int, error) { return s.state.NumTasks(), nil }); n != 0 {
		t.Errorf("tasks: got %d, want 0", n)
	}
}

// A task that took no time by its worker's clock is short, not of unknown duration.
func TestNoTimeIsShort(t *testing.T) {
	s := start(t, Config{})
	w := join(t, s, "a")
	c := connect(t, s, "client-1")
	c.submit([]node{{key: "quick-1", spec: "hang"}}, "quick-1")
	run, _ := w.expectKey("compute-task", "quick-1").Get("run_id")
	step := msgpack.MapOf("action", "compute", "start", 1.5e9, "stop", 1.5e9)
	w.send(msgpack.MapOf("op", "task-finished", "key", "quick-1", "run_id", run, "status", "OK", "nbytes", 8, "type",
		nil, "typename", "int",
		"metadata", msgpack.Map{}, "thread", 1, "startstops", []any{step}, "stimulus_id", "s"))
	c.expectKey("key-in-memory", "quick-1")
	d, err := loop.Ask(t.Context(), s.loop, func() (time.Duration, error) {
		for p := range s.state.Prefixes() {
			if d, ok := p.Duration(); p.Name() == "quick" && ok {
				return d, nil
			}
		}
		return -1, nil
	})
	if err != nil || d < 0 || d > time.Millisecond {
		t.Errorf("duration of the prefix: got %v, error %v, want at most 1 ms", d, err)
	}
}
