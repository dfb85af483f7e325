package scheduler

import (
	"testing"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/progress"
	"go.millstream.dev/scheduler/internal/val"
)

// watching follows keys like a progress bar, and returns its data.
func watching(t *testing.T, s *Scheduler, complete, multi bool, keys ...string) (*progress.Bar, func() msgpack.Map) {
	t.Helper()
	var want []task.Key
	for _, k := range keys {
		want = append(want, task.NewKey(k))
	}
	p, err := s.feeds.Follow(t.Context(), want, complete, multi)
	if err == nil && multi {
		err = s.feeds.Group(t.Context(), p, "prefix", nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p, func() msgpack.Map {
		m, err := loop.Ask(t.Context(), s.loop, func() (msgpack.Map, error) { return s.feeds.Answer(p), nil })
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
}

func count(m msgpack.Map, name string) int64 {
	v, _ := m.Get(name)
	n, _ := v.(int)
	return int64(n)
}

func numbersOf(m msgpack.Map) (all, left int64, status string) {
	return count(m, "all"), count(m, "remaining"), m.GetString("status")
}

func TestProgress(t *testing.T) {
	s := start(t, Config{})
	w := idle(t, s, "w")
	c := connect(t, s, "c")
	c.submit([]node{{key: "a", spec: "x"}, {key: "b", spec: "x", deps: []string{"a"}}}, "b")
	p, look := watching(t, s, false, false, "b")
	if all, left, status := numbersOf(look()); all != 2 || left != 2 || status != "" {
		t.Errorf("at the start: got %d, %d, %q, want 2, 2 and none", all, left, status)
	}
	w.finished(w.expectKey("compute-task", "a"))
	second := w.expectKey("compute-task", "b")
	if all, left, status := numbersOf(look()); all != 2 || left != 1 || status != "" {
		t.Errorf("after one task: got %d, %d, %q, want 2, 1 and none", all, left, status)
	}
	w.finished(second)
	c.expectKey("key-in-memory", "b")
	if all, left, status := numbersOf(look()); all != 2 || left != 0 || status != "finished" {
		t.Errorf("at the end: got %d, %d, %q, want 2, 0 and finished", all, left, status)
	}
	_ = s.loop.Do(t.Context(), func() { s.feeds.End(p) })
	// Tasks that are already done are finished immediately, and counted only on request.
	_, look = watching(t, s, true, true, "b")
	m := look()
	all, _ := m.Get("all")
	if d, _ := all.(msgpack.Map); m.GetString("status") != "finished" || count(d, "b") != 1 || count(d, "a") != 1 {
		t.Errorf("done before: got %v, want finished with one of each", m)
	}
}

func TestProgressFails(t *testing.T) {
	s := start(t, Config{})
	w := idle(t, s, "w")
	c := connect(t, s, "c")
	c.submit([]node{{key: "a", spec: "x"}, {key: "b", spec: "x", deps: []string{"a"}}}, "b")
	_, look := watching(t, s, false, false, "b")
	m := w.expectKey("compute-task", "a")
	w.send(msgpack.MapOf("op", "task-erred", "key", "a", "run_id", val.Field(m, "run_id"), "status", "error",
		"exception", pickledNone(), "traceback", nil,
		"exception_text", "no", "traceback_text", "", "thread", 1, "startstops", []any{}, "stimulus_id", "x"))
	c.expectKey("task-erred", "b")
	answer := look()
	if exc, _ := answer.Get("exception"); answer.GetString("status") != "error" || exc == nil {
		t.Errorf("failed: got %v, want an error with its exception", answer)
	}
	// A bar for a task that has failed before.
	_, look = watching(t, s, false, false, "b")
	if answer := look(); answer.GetString("status") != "error" {
		t.Errorf("failed before: got %v, want an error", answer)
	}
	// Canceled while it is watched.
	c.submit([]node{{key: "x", spec: "x"}})
	_, look = watching(t, s, false, false, "x")
	c.send(msgpack.MapOf("op", "cancel-keys", "keys", []any{"x"}, "force", true, "reason", "", "msg", ""))
	c.expectOp("cancelled-keys")
	if answer := look(); answer.GetString("status") != "error" {
		t.Errorf("canceled: got %v, want an error", answer)
	}
}

func TestTaskMetadata(t *testing.T) {
	s := start(t, Config{})
	w := idle(t, s, "w")
	c := connect(t, s, "c")
	c.fails("found 0", "stop_task_metadata", "name", "m")
	c.submit([]node{{key: "before", spec: "x"}})
	first := w.expectKey("compute-task", "before")
	c.call("start_task_metadata", "name", "m")
	c.submit([]node{{key: "a", spec: "x"}})
	w.finished(first)
	w.finished(w.expectKey("compute-task", "a"))
	c.expectKey("key-in-memory", "a")
	got, _ := c.call("stop_task_metadata", "name", "m").(msgpack.Map)
	states, _ := got.Get("state")
	if m, _ := states.(msgpack.Map); len(m) != 1 || m.GetString("a") != "memory" {
		t.Errorf("metadata: got %v, want a in memory", got)
	}
}
