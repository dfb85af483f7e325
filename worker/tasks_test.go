package worker_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/worker"
)

// until waits for a condition that no message reports.
func until(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("timeout: %s", what)
		}
	}
}

// A task that is no longer needed is canceled through its context, and its thread is free.
func TestCancel(t *testing.T) {
	d := direct(t, "inproc://")
	w, seen := d.worker(t, worker.Config{})
	seen.send(t, compute("w", 1, spec(t, wait), nil), msgpack.MapOf("op", "free-keys", "keys", []any{"w"},
		"stimulus_id", "x"),
		compute("next", 2, spec(t, inc, val(1)), nil))
	if m := seen.receive(t, "task-finished"); m.GetString("key") != "next" {
		t.Errorf("finished %v", m)
	}
	until(t, "the records have both runs", func() bool {
		list := w.Timelines()
		return len(list) == 2 && list[0].Status == "cancelled" && list[1].Status == "OK"
	})
}

func TestDeadline(t *testing.T) {
	d := direct(t, "inproc://")
	_, seen := d.worker(t, worker.Config{})
	m := compute("slow", 1, spec(t, wait), nil)
	m.Set("annotations", msgpack.MapOf("timeout", 0.02))
	seen.send(t, m)
	if e := seen.receive(t, "task-erred"); !strings.Contains(e.GetString("exception_text"),
		"longer than its limit of 20ms") {
		t.Errorf("erred %v", e)
	}
}

// A task that seceded leaves its thread to others and gets one back with Rejoin.
func TestSecede(t *testing.T) {
	d := direct(t, "inproc://")
	_, seen := d.worker(t, worker.Config{})
	name := gateName(t)
	seen.send(t, compute("long", 1, spec(t, secede, val(name)), nil), compute("short", 2, spec(t, inc, val(1)), nil))
	if m := seen.receive(t, "long-running"); m.GetString("key") != "long" {
		t.Errorf("long-running %v", m)
	}
	if m := seen.receive(t, "task-finished"); m.GetString("key") != "short" {
		t.Errorf("finished %v", m)
	}
	// Several more, so that executors start and end.
	close(gates(name))
	if m := seen.receive(t, "task-finished"); m.GetString("key") != "long" {
		t.Errorf("finished %v", m)
	}
	for i := range 5 {
		seen.send(t, compute("again", int64(10+i), spec(t, inc, val(i)), nil))
		seen.receive(t, "task-finished")
		seen.send(t, msgpack.MapOf("op", "free-keys", "keys", []any{"again"}, "stimulus_id", "x"))
	}
}

func TestReschedule(t *testing.T) {
	d := direct(t, "inproc://")
	_, seen := d.worker(t, worker.Config{})
	seen.send(t, compute("b", 1, spec(t, back), nil))
	if m := seen.receive(t, "reschedule"); m.GetString("key") != "b" {
		t.Errorf("reschedule %v", m)
	}
}

// With one thread tasks run in the order of their priority, and one can be stolen.
func TestPriorityAndSteal(t *testing.T) {
	d := direct(t, "inproc://")
	_, seen := d.worker(t, worker.Config{})
	name := gateName(t)
	low, high := compute("low", 2, spec(t, inc, val(1)), nil), compute("high", 3, spec(t, inc, val(1)), nil)
	low.Set("priority", []any{0, 5, 0})
	high.Set("priority", []any{-1, 9, 0})
	stolen := compute("stolen", 4, spec(t, inc, val(1)), nil)
	seen.send(t, compute("first", 1, spec(t, gate, val(name)), nil), low, high, stolen,
		msgpack.MapOf("op", "steal-request", "key", "stolen", "stimulus_id", "steal-1"),
		msgpack.MapOf("op", "steal-request", "key", "first", "stimulus_id", "steal-2"))
	for _, want := range []struct{ key, state, stimulus string }{{"stolen", "ready", "steal-1"},
		{"first", "executing", "steal-2"}} {
		m := seen.receive(t, "steal-response")
		if m.GetString("key") != want.key || m.GetString("state") != want.state ||
			m.GetString("stimulus_id") != want.stimulus {
			t.Errorf("steal-response %v, want %v", m, want)
		}
	}
	close(gates(name))
	for _, want := range []string{"first", "high", "low"} {
		if m := seen.receive(t, "task-finished"); m.GetString("key") != want {
			t.Errorf("finished %v, want %s", m, want)
		}
	}
}

func TestResources(t *testing.T) {
	d := direct(t, "inproc://")
	_, seen := d.worker(t, worker.Config{Threads: 4, Resources: map[string]float64{"GPU": 1}})
	name := gateName(t)
	one, two := compute("one", 1, spec(t, gate, val(name)), nil), compute("two", 2, spec(t, inc, val(1)), nil)
	one.Set("resource_restrictions", msgpack.MapOf("GPU", 1))
	two.Set("resource_restrictions", msgpack.MapOf("GPU", 1))
	seen.send(t, one, two, compute("free", 3, spec(t, inc, val(1)), nil))
	for _, want := range []string{"free", "one", "two"} {
		if m := seen.receive(t, "task-finished"); m.GetString("key") != want {
			t.Errorf("finished %v, want %s", m, want)
		}
		if want == "free" {
			close(gates(name))
		}
	}
}

func TestActor(t *testing.T) {
	d := direct(t, "tcp://127.0.0.1:0")
	w, seen := d.worker(t, worker.Config{})
	m := compute("counter", 1, spec(t, counter, val(10)), nil)
	m.Set("actor", true)
	seen.send(t, m)
	seen.receive(t, "task-finished")
	for i := range 3 {
		var reply msgpack.Map
		d.call(t, w.Address(), "actor_execute", msgpack.MapOf("actor", "counter", "function", grow.Name(), "args",
			[]any{5}, "kwargs", msgpack.Map{}), &reply)
		if v, _ := reply.Get("result"); v != int64(15+5*i) {
			t.Errorf("answered %v", reply)
		}
	}
	for what, args := range map[string]msgpack.Map{
		"no actor":       msgpack.MapOf("actor", "nobody", "function", grow.Name(), "args", []any{5}),
		"not registered": msgpack.MapOf("actor", "counter", "function", "shrink", "args", []any{5}),
		"1":              msgpack.MapOf("actor", "counter", "function", grow.Name(), "args", []any{}),
		"keyword": msgpack.MapOf("actor", "counter", "function", grow.Name(), "kwargs",
			msgpack.MapOf("by", 1)),
	} {
		var reply msgpack.Map
		d.call(t, w.Address(), "actor_execute", args, &reply)
		if reply.GetString("status") != "error" || !strings.Contains(reply.GetString("exception_text"), what) {
			t.Errorf("%s: answered %v", what, reply)
		}
	}
	other, seenOther := d.worker(t, worker.Config{})
	seenOther.send(t, compute("copy", 2, spec(t, inc, ref[int]("counter")),
		map[string][]string{"counter": {w.Address()}}))
	if m := seenOther.receive(t, "task-erred"); !strings.Contains(m.GetString("exception_text"), "is an actor") {
		t.Errorf("erred %v", m)
	}
	until(t, "the record of the run has the failure", func() bool {
		list := other.Timelines()
		return len(list) == 1 && list[0].Status == "error"
	})
	var reply msgpack.Map
	d.call(t, w.Address(), "actor_attribute", msgpack.MapOf("actor", "counter", "attribute", "n"), &reply)
	if reply.GetString("status") != "error" {
		t.Errorf("answered %v", reply)
	}
}

// A value that cannot be encoded fails only the task that needs it on another worker.
func TestUnserializable(t *testing.T) {
	d := direct(t, "tcp://127.0.0.1:0")
	a, seenA := d.worker(t, worker.Config{})
	_, seenB := d.worker(t, worker.Config{})
	seenA.send(t, compute("handle", 1, spec(t, handle), nil), compute("fine", 2, spec(t, inc, val(1)), nil))
	seenA.receive(t, "task-finished")
	seenA.receive(t, "task-finished")
	at := []string{a.Address()}
	seenB.send(t, compute("bad", 3, spec(t, length, ref[[]byte]("handle")), map[string][]string{"handle": at}),
		compute("good", 4, spec(t, inc, ref[int]("fine")), map[string][]string{"fine": at}))
	if m := seenB.receive(t, "task-erred"); m.GetString("key") != "bad" ||
		!strings.Contains(m.GetString("exception_text"), "worker_test.connection") {
		t.Errorf("erred %v", m)
	}
	seenB.send(t, compute("good2", 5, spec(t, inc, ref[int]("fine")), map[string][]string{"fine": at}))
	if m := seenB.receive(t, "task-finished"); !strings.HasPrefix(m.GetString("key"), "good") {
		t.Errorf("finished %v", m)
	}
}

// Many small tasks, with dependencies, on several threads: each runs exactly once.
func TestManyTasks(t *testing.T) {
	d := direct(t, "tcp://127.0.0.1:0")
	w, seen := d.worker(t, worker.Config{Threads: 3})
	const n = 200
	batch := make([]msgpack.Map, n)
	for i := range batch {
		batch[i] = compute(fmt.Sprint("k-", i), int64(i), spec(t, inc, val(i)), nil)
	}
	seen.send(t, batch...)
	got := map[any]bool{}
	for range n {
		run, _ := seen.receive(t, "task-finished").Get("run_id")
		if got[run] {
			t.Fatalf("run %v finished twice", run)
		}
		got[run] = true
	}
	until(t, "all tasks are in the records", func() bool { return len(w.Timelines()) == n })
}
