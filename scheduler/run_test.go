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

// A graph runs on two workers, which fetch from each other, and its results come back.
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
				t.Errorf("key-in-memory names %v", w)
			}
		}
		if !seen["top"] || !seen["y"] {
			t.Fatalf("in memory: %v", seen)
		}
		got := c.gather("top", "y")
		if got["top"] != "t(x)(z(x)(y))" || got["y"] != "y" {
			t.Errorf("gathered %v", got)
		}
		if d, _ := c.call("gather", "keys", names("top", "unknown")).(msgpack.Map); d.GetString("status") != "error" {
			t.Errorf("gather of an unknown key: %v", d)
		}
	})
}

// What nobody wants any more is freed, intermediate results at once.
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
			t.Errorf("%v is still %v", p.Key, p.Value)
		}
	}
}

// A failure goes to the client with the worker's exception, and to all that depend on it.
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
				t.Fatalf("the exception of %s is %v", m.GetString("key"), e)
			}
		}
		if cause := c.call("get_error_cause", "keys", names("z")); cause != "x" {
			t.Errorf("the cause is %v", cause)
		}
		if got := c.call("retry", "keys", names("x"), "client", "client-1").([]any); len(got) == 0 {
			t.Errorf("nothing is retried")
		}
		c.expectOp("task-retried")
		c.expectKey("task-erred", "x")
		if n := w.count("x"); n != 2 {
			t.Errorf("x ran %d times", n)
		}
	})
}

// A task with retries runs again without a word to the client.
func TestRetries(t *testing.T) {
	s := start(t, Config{})
	w := join(t, s, "a")
	c := connect(t, s, "client-1")
	c.submit([]node{{key: "x", spec: "fail", notes: &taskgraph.Annotations{Retries: 2}}})
	c.expectKey("task-erred", "x")
	if n := w.count("x"); n != 3 {
		t.Errorf("x ran %d times, want 3", n)
	}
}

// A worker that dies loses its tasks to another, and its results are computed again.
func TestWorkerDies(t *testing.T) {
	each(t, func(t *testing.T, listen string) {
		s := start(t, Config{Listen: []string{listen}})
		a := join(t, s, "a")
		c := connect(t, s, "client-1")
		c.submit([]node{{key: "x", spec: "x"}, {key: "y", spec: "y"}})
		c.expectKey("key-in-memory", "x")
		until(t, "y is there", func() bool { return a.holds("y") })
		a.die()
		c.expectOp("lost-data")
		b := join(t, s, "b")
		until(t, "both are computed again", func() bool { return b.holds("x") && b.holds("y") })
		c.expectOp("key-in-memory")
		if got := c.gather("x", "y"); got["x"] != "x" {
			t.Errorf("gathered %v", got)
		}
	})
}

// A task that takes its workers down with it is given up.
func TestKilledWorker(t *testing.T) {
	s := start(t, Config{AllowedFailures: 1})
	c := connect(t, s, "client-1")
	c.submit([]node{{key: "x", spec: "hang"}})
	for i := range 2 {
		w := join(t, s, fmt.Sprint("w", i))
		w.expectOp("compute-task")
		w.die()
	}
	m := c.expectKey("task-erred", "x")
	e, _ := m.Get("exception")
	b, _ := open(e).([]byte)
	if exc := unpickle(t, b); exc.Type != "KilledWorker" {
		t.Errorf("the exception is %v", exc)
	}
}

// Cancelled tasks are told to all who want them.
func TestCancel(t *testing.T) {
	s := start(t, Config{})
	w := join(t, s, "a")
	c := connect(t, s, "client-1")
	c.submit([]node{{key: "x", spec: "hang"}, {key: "y", spec: "y", deps: []string{"x"}}})
	w.expectOp("compute-task")
	c.send(msgpack.MapOf("op", "cancel-keys", "keys", names("x"), "client", "client-1", "force", true, "reason",
		"test", "msg", "enough"))
	if m := c.expectOp("cancelled-keys"); m.GetString("reason") != "test" && m.GetString("reason") != "" {
		t.Errorf("cancelled: %v", m)
	}
	w.expectOp("free-keys")
}

// A graph that cannot be run is told to its client, key by key, and nothing else suffers.
func TestBadGraphs(t *testing.T) {
	s := start(t, Config{})
	join(t, s, "a")
	c := connect(t, s, "client-1")
	c.submit([]node{{key: "a", spec: "a", deps: []string{"b"}}, {key: "b", spec: "b", deps: []string{"a"}}}, "a")
	m := c.expectKey("task-erred", "a")
	e, _ := m.Get("exception")
	b, _ := open(e).([]byte)
	if exc := unpickle(t, b); exc.Type != "ValueError" {
		t.Errorf("a cycle is %v", exc)
	}
	// What Python's clients send is not opened.
	c.send(msgpack.MapOf("op", "update-graph", "expr_ser", pickledNone(), "keys", names("p"), "span_metadata",
		msgpack.Map{}))
	c.expectKey("task-erred", "p")
	c.send(msgpack.MapOf("op", "update-graph", "expr_ser", pickledNone(), "keys", names("q"), "fifo_timeout", "soon"))
	c.expectKey("task-erred", "q")
	c.submit([]node{{key: "ok", spec: "ok"}})
	c.expectKey("key-in-memory", "ok")
}

// Tasks go where they are told to, and only to workers that know their functions.
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
		t.Error("a task ran where it should not have")
	}
}

// A client that lets go of very many keys at once gets rid of all of them.
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
		t.Errorf("%d tasks are left", n)
	}
}

// A task that took no time by its worker's clock is known to be short.
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
		t.Errorf("a task of the kind takes %v, %v", d, err)
	}
}
