package client_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.millstream.dev/client"
	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/scheduler"
	"go.millstream.dev/wire"
	"go.millstream.dev/worker"
)

func TestMetadata(t *testing.T) {
	r := newRig(t, "tcp://127.0.0.1:0", 0)
	if err := r.c.SetMetadata(r.ctx, []int{1, 2, 3}, "run", "sizes"); err != nil {
		t.Fatal(err)
	}
	if err := r.c.SetMetadata(r.ctx, "blue", "run", "color"); err != nil {
		t.Fatal(err)
	}
	other := r.connect()
	if got := must[[]int](t)(client.Metadata[[]int](r.ctx, other, "run", "sizes")); !slices.Equal(got, []int{1, 2, 3}) {
		t.Errorf("metadata %v, want 1, 2, 3", got)
	}
	if got := must[string](t)(client.Metadata[string](r.ctx, other, "run", "color")); got != "blue" {
		t.Errorf("metadata %q, want blue", got)
	}
	if _, err := client.Metadata[string](r.ctx, other, "run", "shape"); err == nil ||
		!strings.Contains(err.Error(), `client: metadata ["run" "shape"]`) {
		t.Errorf("metadata that was not set: %v, want an error with its path", err)
	}
	if _, err := client.Metadata[int](r.ctx, other, "run", "color"); err == nil {
		t.Error("text as an int: got nil, want an error")
	}
	if err := r.c.SetMetadata(r.ctx, make(chan int), "x"); err == nil {
		t.Error("value that cannot be encoded: got nil, want an error")
	}
}

func TestKeptEvents(t *testing.T) {
	r := newRig(t, "inproc://", 0)
	for i := range 3 {
		if err := r.c.LogEvent(r.ctx, "steps", i); err != nil {
			t.Fatal(err)
		}
	}
	got := must[[]client.Event](t)(r.c.Events(r.ctx, "steps"))
	if len(got) != 3 {
		t.Fatalf("%d events are kept, want 3", len(got))
	}
	for i, e := range got {
		if e.Topic != "steps" || e.Value != int64(i) || e.Time < 1e9 || i > 0 && e.Time < got[i-1].Time {
			t.Errorf("event %d is %+v, want value %d of topic steps after the one before", i, e, i)
		}
	}
	if none := must[[]client.Event](t)(r.c.Events(r.ctx, "nothing")); len(none) != 0 {
		t.Errorf("events %v of a topic without any, want none", none)
	}
	if err := r.c.LogEvent(r.ctx, "steps", make(chan int)); err == nil {
		t.Error("value that cannot be encoded: got nil, want an error")
	}
}

func TestVersions(t *testing.T) {
	r := newRig(t, "inproc://", 2)
	v := must[client.Versions](t)(r.c.Versions(r.ctx))
	if len(v.Scheduler) == 0 || v.Scheduler["millstream"] == "" {
		t.Errorf("the scheduler has packages %v, want millstream among them", v.Scheduler)
	}
	if len(v.Workers) != 2 {
		t.Errorf("packages of %d workers, want 2", len(v.Workers))
	}
	for _, w := range r.workers {
		if _, ok := v.Workers[w.Address()]; !ok {
			t.Errorf("no answer of worker %s", w.Address())
		}
	}
}

func TestWorkersTable(t *testing.T) {
	r := newRig(t, "tcp://127.0.0.1:0", 0)
	w := r.addWorker(worker.Config{Name: "alice", Threads: 3, Resources: map[string]float64{"GPU": 2}})
	all := must[map[string]client.Worker](t)(r.c.Workers(r.ctx))
	got, ok := all[w.Address()]
	if !ok || len(all) != 1 {
		t.Fatalf("workers %v, want one at %s", all, w.Address())
	}
	if got.Name != "alice" || got.Threads != 3 || got.Resources["GPU"] != 2 || got.Status != "running" ||
		got.Address != w.Address() {
		t.Errorf("the worker is %+v, want alice with 3 threads and 2 GPU, running", got)
	}
}

func TestRunOnWorkers(t *testing.T) {
	r := newRig(t, "inproc://", 2)
	got := must[map[string]int](t)(add.Run(r.ctx, r.c, 40, 2))
	if len(got) != 2 || got[r.workers[0].Address()] != 42 {
		t.Errorf("results %v, want 42 of two workers", got)
	}
	one := must[map[string]int](t)(inc.Run(r.ctx, r.c, 1, r.workers[1].Address()))
	if len(one) != 1 || one[r.workers[1].Address()] != 2 {
		t.Errorf("results %v, want 2 of the second worker alone", one)
	}
	var te *client.TaskError
	if _, err := fail.Run(r.ctx, r.c, "broken"); !errors.As(err, &te) || te.Text != "broken" ||
		!strings.Contains(err.Error(), "client: run fail at ") {
		t.Errorf("the error is %v, want a TaskError with the address", err)
	}
}

func TestPythonMistakes(t *testing.T) {
	r := newRig(t, "inproc://", 1)
	bad := client.Python[int]("no colon")
	if err := bad.Submit(r.ctx, r.c, 1).Err(); err == nil || !strings.Contains(err.Error(), "module:function") {
		t.Errorf("malformed name: got %v, want a description of its form", err)
	}
	if _, err := bad.Run(r.ctx, r.c); err == nil {
		t.Error("Run with a malformed name: got nil, want an error")
	}
	if _, err := bad.RunOnScheduler(r.ctx, r.c); err == nil {
		t.Error("RunOnScheduler with a malformed name: got nil, want an error")
	}
	if err := client.PythonSource[int](" ").Submit(r.ctx, r.c).Err(); err == nil {
		t.Error("empty source: got nil, want an error")
	}
	neg := client.Python[int]("operator:neg")
	if neg.Name() != "neg" {
		t.Errorf("the function is %s, want neg", neg.Name())
	}
	if fs := neg.Map(r.ctx, r.c, 5); len(fs) != 1 || fs[0].Err() == nil ||
		!strings.Contains(fs[0].Err().Error(), "argument 0 is a int") {
		t.Errorf("Map over a number: %v, want an error about argument 0", fs[0].Err())
	}
	fs := neg.Map(r.ctx, r.c, []any{1, make(chan int), 3})
	if len(fs) != 3 || fs[0].Err() != nil || fs[1].Err() == nil || fs[2].Err() != nil {
		t.Errorf("Map with one bad element: %v, %v, %v, want an error of the second", fs[0].Err(), fs[1].Err(),
			fs[2].Err())
	}
	if fs[0].Key() == fs[2].Key() || !strings.HasPrefix(fs[0].Key().String(), "neg-") {
		t.Errorf("keys %s and %s, want two that begin with neg-", fs[0].Key(), fs[2].Key())
	}
	if got := neg.Map(r.ctx, r.c, []int{1, 2, 3}, []int{4, 5}); len(got) != 2 {
		t.Errorf("%d calls over slices of 3 and 2, want 2", len(got))
	}
	named := neg.With(client.WithKey("k")).Map(r.ctx, r.c, []int{1, 2})
	if named[1].Key().String() != "k-1" {
		t.Errorf("the second key is %s, want k-1", named[1].Key())
	}
	f := inc.Submit(r.ctx, r.c, client.Val(1))
	if _, err := neg.Run(r.ctx, r.c, f); err == nil || !strings.Contains(err.Error(), "not futures") {
		t.Errorf("a future as an argument of Run: %v, want that it takes values", err)
	}
	twice := neg.Kw("x", 1).Kw("x", 2).Submit(r.ctx, r.c)
	if err := twice.Err(); err == nil || !strings.Contains(err.Error(), "duplicate argument x") {
		t.Errorf("a keyword twice: %v, want an error", err)
	}
	pure, impure := neg.Submit(r.ctx, r.c, 7), neg.With(client.WithImpure()).Submit(r.ctx, r.c, 7)
	if pure.Key() != neg.Submit(r.ctx, r.c, 7).Key() || pure.Key() == impure.Key() {
		t.Errorf("keys %s and %s of equal calls, want another for the impure one", pure.Key(), impure.Key())
	}
}

func TestTaskErrorTexts(t *testing.T) {
	cause := &wire.Exception{Type: "KeyError", Text: "k", Traceback: []pickle.TraceFrame{{File: "b.py", Line: 2,
		Function: "g"}}}
	e := &client.TaskError{Key: "\xa1k", Text: "ValueError: no", Stack: "the stack",
		Exception: &wire.Exception{Type: "ValueError", Text: "no", Cause: cause}}
	if got := fmt.Sprintf("%v", e); got != "task k: ValueError: no" {
		t.Errorf("%%v is %q, want task k: ValueError: no", got)
	}
	if got := fmt.Sprintf("%s", e); strings.Contains(got, "stack") {
		t.Errorf("%%s is %q, want no stack", got)
	}
	got := fmt.Sprintf("%+v", e)
	for _, part := range []string{"task k: ValueError: no\nthe stack", "caused by ", "KeyError",
		`File "b.py", line 2, in g`} {
		if !strings.Contains(got, part) {
			t.Errorf("%%+v is %q, want %q in it", got, part)
		}
	}
	if errors.Is(e, client.ErrKilledWorker) {
		t.Error("ValueError matches ErrKilledWorker, want no match")
	}
	e.Exception.Type = "KilledWorker"
	if !errors.Is(e, client.ErrKilledWorker) || errors.Is(e, client.ErrCanceled) {
		t.Error("KilledWorker matches ErrCanceled or not ErrKilledWorker")
	}
	if none := (&client.TaskError{}); none.Unwrap() != nil || errors.Is(none, client.ErrKilledWorker) {
		t.Error("Unwrap of an error without an exception: got one, want nil")
	}
}

func TestClosedOnce(t *testing.T) {
	r := newRig(t, "inproc://", 0)
	n := 0
	c, err := client.Connect(r.ctx, r.scheduler.Address(), client.Config{Logger: quiet, Name: "N", Closed: func() {
		n++
	}})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(c.ID(), "N-") {
		t.Errorf("the client is %s, want a name that begins with N-", c.ID())
	}
	for range 2 {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if n != 1 {
		t.Errorf("Closed was called %d times, want once", n)
	}
	if err := c.SetMetadata(r.ctx, 1, "x"); !errors.Is(err, client.ErrClosed) {
		t.Errorf("a request of a closed client: %v, want ErrClosed", err)
	}
}

func TestRebalanceAndReplicate(t *testing.T) {
	r := newRigWith(t, "tcp://127.0.0.1:0", 2, scheduler.Config{Validate: true})
	f := inc.Submit(r.ctx, r.c, client.Val(1), client.WithWorkers(r.workers[0].Address()))
	if err := r.c.Replicate(r.ctx, 2, nil, f); err != nil {
		t.Fatal(err)
	}
	has := must[map[client.Key][]string](t)(r.c.WhoHas(r.ctx, f))
	if len(has[f.Key()]) != 2 {
		t.Errorf("the result is on %v, want two workers", has[f.Key()])
	}
	what := must[map[string][]client.Key](t)(r.c.HasWhat(r.ctx, r.workers[1].Address()))
	if keys := what[r.workers[1].Address()]; len(what) != 1 || !slices.Contains(keys, f.Key()) {
		t.Errorf("the second worker has %v, want %s", what, f.Key())
	}
	if err := r.c.Rebalance(r.ctx, nil, f); err != nil {
		t.Error(err)
	}
	bad := fail.Submit(r.ctx, r.c, client.Val("x"))
	if err := r.c.Replicate(r.ctx, 2, nil, bad); err == nil {
		t.Error("Replicate of a failed task: got nil, want an error")
	}
	if err := r.c.Rebalance(r.ctx, nil, bad); err == nil {
		t.Error("Rebalance of a failed task: got nil, want an error")
	}
	if err := r.c.WaitForWorkers(r.ctx, 2); err != nil {
		t.Error(err)
	}
}
