package scheduler

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/scheduler/internal/shuffle"
	"go.millstream.dev/wire"
)

// shuffling submits a graph of two transfers, a barrier and two outputs to two workers that do nothing by themselves,
// with a run of the shuffle that was created without Python.
func shuffling(t *testing.T) (s *Scheduler, c *testClient, a, b *testWorker) {
	t.Helper()
	s = start(t, Config{Validate: true})
	a, b = idle(t, s, "a"), idle(t, s, "b")
	c = connect(t, s, "c")
	c.submit([]node{{key: "t1", spec: "x"}, {key: "t2", spec: "x"},
		{key: "shuffle-barrier-x", spec: "x", deps: []string{"t1", "t2"}},
		{key: "o1", spec: "x", deps: []string{"shuffle-barrier-x"}},
		{key: "o2", spec: "x", deps: []string{"shuffle-barrier-x"}}}, "o1", "o2")
	until(t, "the transfers run", func() bool {
		return len(list(c.call("processing"), a.address))+len(list(c.call("processing"), b.address)) == 2
	})
	return s, c, a, b
}

func list(v any, key string) []any {
	x, _ := v.(msgpack.Map).Get(key)
	l, _ := x.([]any)
	return l
}

// begin adds a run like Shuffles.create.
func begin(t *testing.T, s *Scheduler, run int64, workers ...string) {
	t.Helper()
	err := s.loop.Do(t.Context(), func() {
		x := &shuffle.Run{ID: "x", Number: run, Barrier: task.NewKey(shuffle.BarrierPrefix + "x"),
			Spec: &wire.Pickled{Data: []byte("\x80\x04N.")}, Workers: map[string]bool{}}
		for _, w := range workers {
			x.Workers[w] = true
		}
		s.shuffles.Add(x)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestShuffleGet(t *testing.T) {
	s, _, a, _ := shuffling(t)
	answer, _ := a.call("shuffle_get", "id", "x", "worker", a.address).(msgpack.Map)
	if answer.GetString("status") != "error" || !strings.Contains(answer.GetString("exception_text"),
		"No active shuffle") {
		t.Errorf("no shuffle: got %v, want an error", answer)
	}
	begin(t, s, 7)
	if _, err := a.try("shuffle_get", "id", "x", "worker", a.address); err != nil {
		t.Error(err)
	}
	answer, _ = a.call("shuffle_get_or_create", "shuffle_id", "x", "key", "t1", "worker",
		"tcp://nobody:1").(msgpack.Map)
	if !strings.Contains(answer.GetString("exception_text"), "unaware") {
		t.Errorf("unknown worker: got %v, want an error", answer)
	}
	answer, _ = a.call("shuffle_get_or_create", "shuffle_id", "y", "key", "t1", "worker", a.address).(msgpack.Map)
	if !strings.Contains(answer.GetString("exception_text"), "does not exist") {
		t.Errorf("shuffle without a barrier: got %v, want an error", answer)
	}
	answer, _ = a.call("shuffle_get_or_create", "shuffle_id", "x", "key", "t1", "worker", a.address).(msgpack.Map)
	if answer.GetString("status") != "OK" {
		t.Errorf("existing run: got %v, want status OK", answer)
	}
	_ = s.loop.Do(t.Context(), func() {
		if !s.shuffles.Run("x").Workers[a.address] {
			t.Error("worker that requested a run: does not take part, want it to")
		}
		s.shuffles.End(s.shuffles.Run("x"), "test")
	})
	// A barrier whose spec is not a Python spec affects only the shuffle.
	if _, err := a.try("shuffle_get_or_create", "shuffle_id", "x", "key", "t1", "worker", a.address); err == nil {
		t.Error("run without a spec: got no error")
	}
	answer, _ = a.call("shuffle_get_or_create", "shuffle_id", "x", "key", "o1", "worker", a.address).(msgpack.Map)
	if !strings.Contains(answer.GetString("exception_text"), "to be processing") {
		t.Errorf("task that is not running: got %v, want an error", answer)
	}
}

func TestShuffleRestrict(t *testing.T) {
	s, c, a, b := shuffling(t)
	begin(t, s, 2, a.address, b.address)
	for run, want := range map[int]string{1: "stale", 3: "invalid"} {
		answer, _ := a.call("shuffle_restrict_task", "id", "x", "run_id", run, "key", "o1", "worker",
			b.address).(msgpack.Map)
		text := answer.GetString("exception_text")
		if run == 1 && !strings.Contains(text, "stale") || run == 3 && !strings.Contains(text, "invalid") {
			t.Errorf("run %d: got %q, want %s", run, text, want)
		}
	}
	a.fails("nothing", "shuffle_restrict_task", "id", "x", "run_id", 2, "key", "nothing", "worker", b.address)
	a.call("shuffle_restrict_task", "id", "x", "run_id", 2, "key", "o1", "worker", b.address)
	// the other side of a join
	a.call("shuffle_restrict_task", "id", "x", "run_id", 2, "key", "o1", "worker", a.address)
	restricted := func() (out []string) {
		_ = s.loop.Do(t.Context(), func() {
			if n := s.state.Task(task.NewKey("o1")).Annotations(); n != nil {
				out = append(out, n.Workers...)
			}
		})
		return out
	}
	if got := restricted(); len(got) != 1 || got[0] != b.address {
		t.Errorf("workers of o1: got %v, want the first binding", got)
	}
	// The end of the run removes the restriction.
	_ = s.loop.Do(t.Context(), func() {
		s.apply(&state.Rerun{Keys: []task.Key{task.NewKey(shuffle.BarrierPrefix +
			"x")}})
	})
	until(t, "o1 is not restricted", func() bool { return len(restricted()) == 0 })
	if fail := a.expectOp("shuffle-fail"); fail.GetString("shuffle_id") != "x" {
		t.Errorf("shuffle-fail: got %v, want shuffle x", fail)
	}
	b.expectOp("shuffle-fail")
	c.call("identity")
	_ = s.loop.Do(t.Context(), func() {
		if active, bound := s.shuffles.Counts(); active+bound != 0 {
			t.Errorf("after the end: got %d shuffles, %d bound tasks, want none", active, bound)
		}
	})
}

func TestShuffleBarrier(t *testing.T) {
	s, _, a, b := shuffling(t)
	a.fails("KeyError", "shuffle_barrier", "id", "x", "run_id", 1, "consistent", true)
	begin(t, s, 1, a.address, b.address)
	a.fails("does not match", "shuffle_barrier", "id", "x", "run_id", 9, "consistent", true)
	notified := make(chan string, 4)
	for _, w := range []*testWorker{a, b} {
		w.server.Handle("shuffle_inputs_done", func(context.Context, *rpc.Request) (any, error) {
			notified <- w.name
			return nil, nil
		})
	}
	a.call("shuffle_barrier", "id", "x", "run_id", 1, "consistent", true)
	if first, second := <-notified, <-notified; first == second {
		t.Errorf("worker %s: notified twice", first)
	}
	b.server.Handle("shuffle_inputs_done", func(context.Context, *rpc.Request) (any, error) {
		return nil,
			errors.New("disk full")
	})
	a.fails("disk full", "shuffle_barrier", "id", "x", "run_id", 1, "consistent", true)
	// Partitions of different runs: all are sent again.
	a.call("shuffle_barrier", "id", "x", "run_id", 1, "consistent", false)
	a.expectOp("shuffle-fail")
	until(t, "a transfer was canceled", func() bool {
		var runs int64
		_ = s.loop.Do(t.Context(), func() {
			runs = s.state.Task(task.NewKey("t1")).RunID() +
				s.state.Task(task.NewKey("t2")).RunID()
		})
		return runs > 3
	})
}

// A worker that leaves loses its shards: the run ends for the others, which are notified before they receive its tasks
// again.
func TestShuffleLosesWorker(t *testing.T) {
	s, _, a, b := shuffling(t)
	begin(t, s, 1, a.address, b.address)
	b.crash()
	seen := false
	a.expect("both transfers on the worker that is left", func(m msgpack.Map) bool {
		seen = seen || m.GetString("op") == "shuffle-fail"
		return seen && m.GetString("op") == "compute-task"
	})
	if !seen {
		t.Error("order: got tasks before the end of the run")
	}
	a.call("retire_workers", "workers", []any{a.address}, "remove", true, "close_workers", false)
	_ = s.loop.Do(t.Context(), func() {
		if n, _ := s.shuffles.Counts(); n != 0 {
			t.Errorf("active shuffles: got %d, want 0", n)
		}
	})
}

// A worker that retires during a shuffle has the same effect.
func TestShuffleRetires(t *testing.T) {
	s, c, a, b := shuffling(t)
	begin(t, s, 1, a.address, b.address)
	c.call("retire_workers", "workers", []any{b.address}, "remove", true, "close_workers", false)
	a.expectOp("shuffle-fail")
	until(t, "no shuffle is active", func() bool {
		n := 0
		_ = s.loop.Do(t.Context(), func() { n, _ = s.shuffles.Counts() })
		return n == 0
	})
}

// Dask workers receive the shuffle plugin when they register.
func TestShufflePlugin(t *testing.T) {
	tree, err := pickle.Load(shuffle.Plugin(), nil, pickle.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if text := pickle.Repr(tree); !strings.Contains(text, "ShuffleWorkerPlugin") {
		t.Error(text)
	}
	s := start(t, Config{})
	w := serveWorker(t, s, "w")
	reply := w.register()
	plugins, _ := reply.Get("worker-plugins")
	if m, _ := plugins.(msgpack.Map); !m.Has("shuffle") {
		t.Errorf("registration: got %v, want plugin shuffle", reply)
	}
}

func TestShuffleOf(t *testing.T) {
	tuple, _ := task.KeyOf([]any{"shuffle-barrier-x", int64(1)})
	for k, want := range map[task.Key]string{task.NewKey("shuffle-barrier-abc"): "abc", task.NewKey("x"): "",
		task.NewKey("shuffle-barrier-"): "", tuple: "", "": ""} {
		if got := shuffle.Of(k); got != want {
			t.Errorf("%s: got %q, want %q", k, got, want)
		}
	}
}
