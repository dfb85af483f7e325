package execution

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/worker/internal/record"
)

func timeoutOf(t *testing.T, seconds any) func(*state.ComputeTask) {
	t.Helper()
	b, err := msgpack.Append(nil, msgpack.MapOf("other", 1, "timeout", seconds))
	if err != nil {
		t.Fatal(err)
	}
	return func(ev *state.ComputeTask) { ev.Annotations = b }
}

func TestRunsTasks(t *testing.T) {
	r := newRig(t, Config{Threads: 2})
	r.compute("a", spec(t, inc, val(1)), nil)
	r.compute("b", spec(t, inc, val(10)), nil)
	for range 2 {
		if e := r.next(); e.what != "finished" || e.text != "int" || !slices.Equal(e.parts, []string{"compute"}) {
			t.Fatalf("got %+v", e)
		}
	}
	// The order of the arguments is that of the call, not that of the dependencies.
	r.compute("c", spec(t, minus, ref[int]("b"), ref[int]("a")), nil, "a", "b")
	r.compute("d", spec(t, minus, ref[int]("b"), ref[int]("b")), nil, "b")
	r.next()
	r.next()
	if c, d := r.value("c"), r.value("d"); c != 9 || d != 0 {
		t.Errorf("got c %v and d %v, want 9 and 0", c, d)
	}
	lines := r.Timelines()
	if len(lines) != 4 || lines[0].Status != "OK" || lines[0].Name != inc.Name() || lines[0].NBytes <= 0 ||
		lines[0].Stop < lines[0].Start || lines[0].Start == 0 {
		t.Errorf("timelines %+v", lines)
	}
	if n := r.Active(); n != 0 {
		t.Errorf("got %d runs in progress, want 0", n)
	}
}

// Many tasks run on few threads, each once.
func TestManyTasks(t *testing.T) {
	r := newRig(t, Config{Threads: 3})
	const n = 200
	seen := map[string]bool{}
	for round := range 2 {
		for i := range n {
			key := fmt.Sprint("k-", round, "-", i)
			if round == 0 {
				r.compute(key, spec(t, inc, val(i)), nil)
			} else {
				dep := fmt.Sprint("k-0-", i)
				r.compute(key, spec(t, inc, ref[int](dep)), nil, dep)
			}
		}
		for range n {
			e := r.next()
			if e.what != "finished" || seen[e.key] {
				t.Fatalf("got %+v, seen before: %v", e, seen[e.key])
			}
			seen[e.key] = true
		}
	}
	for i := range n {
		if got := r.value(fmt.Sprint("k-1-", i)); got != i+2 {
			t.Errorf("task %d: got %v, want %d", i, got, i+2)
		}
	}
	r.do(nil, func() {
		if r.Full() || r.running != 0 || len(r.executing) != 0 {
			t.Errorf("%d run, %d execute", r.running, len(r.executing))
		}
	})
	if started := r.threads.Load(); started != 3 {
		t.Errorf("got %d executors, want 3", started)
	}
}

func TestFails(t *testing.T) {
	r := newRig(t, Config{})
	for _, c := range []struct {
		key, what, text, status string
		spec                    []byte
		change                  func(*state.ComputeTask)
	}{
		{"own", "erred", "the milk is spoilt", "error", spec(t, spoil), nil},
		{"panic", "erred", "over the edge", "error", spec(t, fall), nil},
		{"again", "reschedule", "", "reschedule", spec(t, again), nil},
		{"unknown", "erred", "is not registered", "error", []byte("MS\x01\xa7no.such\x90\x00"), nil},
		{"nonsense", "erred", "", "error", []byte("MS\x01\xff"), nil},
		{"python", "erred", "no Python here", "error", []byte("\x80\x05N."), nil},
		{"broken", "erred", "cannot be read", "error", nil, func(ev *state.ComputeTask) {
			ev.Data = fmt.Errorf("the task cannot be read")
		}},
		{"timeout", "erred", "positive number", "error", spec(t, inc, val(1)), timeoutOf(t, -1)},
		{"late", "erred", "longer than its limit of 10ms", "error", spec(t, wait), timeoutOf(t, 0.01)},
	} {
		r.compute(c.key, c.spec, c.change)
		if e := r.next(); e.key != c.key || e.what != c.what || !strings.Contains(e.text, c.text) {
			t.Errorf("%s: got %+v, want %s with %q", c.key, e, c.what, c.text)
		}
		lines := r.Timelines()
		if got := lines[len(lines)-1].Status; got != c.status {
			t.Errorf("%s: got status %s, want %s", c.key, got, c.status)
		}
	}
	if r.data.Len() != 0 {
		t.Errorf("got results %v of failed tasks, want none", r.data.Keys())
	}
}

// A dependency that is missing, or that the scheduler did not send, is an error of the task.
func TestMissingDependency(t *testing.T) {
	r := newRig(t, Config{})
	r.compute("a", spec(t, inc, val(1)), nil)
	r.next()
	r.data.Delete(task.NewKey("a"))
	r.compute("b", spec(t, inc, ref[int]("a")), nil, "a")
	if e := r.next(); e.what != "erred" || !strings.Contains(e.text, "is missing") {
		t.Errorf("got %+v", e)
	}
	r.compute("c", spec(t, inc, val(1)), nil)
	r.next()
	r.compute("d", spec(t, minus, ref[int]("c"), ref[int]("x")), nil, "c")
	if e := r.next(); e.what != "erred" || !strings.Contains(e.text, "not among the dependencies") {
		t.Errorf("got %+v", e)
	}
}

// The first task that uses a result of a peer has waited for it.
func TestArrived(t *testing.T) {
	r := newRig(t, Config{})
	r.compute("a", spec(t, inc, val(1)), nil)
	r.next()
	r.do(nil, func() {
		r.RecordArrivals([]state.Stored{{Key: task.NewKey("a")}}, record.Period{Start: 1e9, Stop: 2e9})
	})
	for i, want := range []string{"[transfer compute]", "[compute]"} {
		r.compute(fmt.Sprint("b-", i), spec(t, inc, ref[int]("a")), nil, "a")
		if e := r.next(); fmt.Sprint(e.parts) != want {
			t.Errorf("task %d: parts %v, want %s", i, e.parts, want)
		}
	}
}

func TestCancel(t *testing.T) {
	r := newRig(t, Config{CancelGrace: time.Hour})
	r.compute("a", spec(t, wait), nil)
	r.compute("b", spec(t, inc, val(1)), nil) // waits for the thread
	r.do(nil, func() { r.apply(&state.FreeKeys{Keys: []task.Key{task.NewKey("a")}}) })
	if e := r.next(); e.key != "b" || e.what != "finished" {
		t.Errorf("got %+v, want the end of b", e)
	}
	if lines := r.Timelines(); lines[0].Status != "cancelled" {
		t.Errorf("got status %s", lines[0].Status)
	}
	if r.AbandonedTotal() != 0 {
		t.Error("function that returned was abandoned")
	}
}

// A function that ignores its context is abandoned: its thread is replaced, and its result dropped.
func TestAbandon(t *testing.T) {
	for _, how := range []string{"timeout", "cancel"} {
		t.Run(how, func(t *testing.T) {
			r := newRig(t, Config{CancelGrace: time.Millisecond})
			g := gateOf(t.Name())
			var change func(*state.ComputeTask)
			if how == "timeout" {
				change = timeoutOf(t, 0.001)
			}
			r.compute("deaf", spec(t, deaf, val(t.Name())), change)
			<-g.entered
			if how == "cancel" {
				r.do(nil, func() { r.apply(&state.FreeKeys{Keys: []task.Key{task.NewKey("deaf")}}) })
			} else if e := r.next(); e.what != "erred" || !strings.Contains(e.text, "ignores its context") {
				t.Errorf("got %+v", e)
			}
			r.compute("next", spec(t, inc, val(1)), nil)
			if e := r.next(); e.key != "next" || e.what != "finished" {
				t.Errorf("got %+v, want the end of next", e)
			}
			if r.AbandonedTotal() != 1 || !strings.Contains(r.logs.String(), "thread_replaced=true") {
				t.Errorf("got %d abandoned tasks; log: %s", r.AbandonedTotal(), r.logs.String())
			}
			r.do(nil, func() {
				if n := r.Abandoned(); n != 1 {
					t.Errorf("got %d abandoned functions, want 1", n)
				}
			})
			close(g.open)
			for n := 1; n > 0; {
				r.do(nil, func() { n = r.Abandoned() })
			}
			if v := r.value("deaf"); v != nil {
				t.Errorf("got result %v of an abandoned task, want none", v)
			}
		})
	}
}

func TestRemind(t *testing.T) {
	r := newRig(t, Config{})
	begun := time.Now()
	run := &Run{key: task.NewKey("deaf")}
	r.do(nil, func() { r.abandoned[run] = &abandoned{begun, begun.Add(firstReminder), "f"} })
	for _, c := range []struct {
		after time.Duration
		want  int
	}{{time.Second, 0}, {firstReminder, 1}, {2 * firstReminder, 1}, {6 * firstReminder, 2}} {
		r.turn.Lock()
		r.Begin(nil, begun.Add(c.after))
		r.LogAbandoned()
		r.End()
		r.turn.Unlock()
		if got := strings.Count(r.logs.String(), "still runs"); got != c.want {
			t.Errorf("after %v: got %d reminders, want %d", c.after, got, c.want)
		}
	}
	r.do(nil, func() { delete(r.abandoned, run) })
}

// A task that secedes frees its thread; to rejoin it waits for a thread.
func TestSecede(t *testing.T) {
	r := newRig(t, Config{})
	long, hold := gateOf(t.Name()), gateOf(t.Name()+"-hold")
	r.compute("long", spec(t, leaves, val(t.Name())), nil)
	if e := r.next(); e.what != "long-running" {
		t.Errorf("got %+v", e)
	}
	<-long.entered
	r.do(nil, func() {
		if r.Full() {
			t.Error("seceded task counts against the threads")
		}
	})
	r.compute("hold", spec(t, deaf, val(t.Name()+"-hold")), nil)
	<-hold.entered
	r.do(nil, func() {
		if !r.Full() || len(r.Executing()) != 2 {
			t.Errorf("full %v with %v", r.Full(), r.Executing())
		}
	})
	close(long.open)
	select {
	case <-long.rejoined:
		t.Error("rejoined without a free thread")
	default:
	}
	close(hold.open)
	<-long.rejoined
	seen := []string{r.next().key, r.next().key}
	slices.Sort(seen)
	if !slices.Equal(seen, []string{"hold", "long"}) {
		t.Errorf("got ends %v", seen)
	}
	r.compute("next", spec(t, inc, val(1)), nil)
	if e := r.next(); e.key != "next" {
		t.Errorf("got %+v", e)
	}
}

// A context that outlives its run keeps the key of its task, and has no effect on the run that reuses the memory.
func TestContextAfterRun(t *testing.T) {
	r := newRig(t, Config{})
	r.compute("first", spec(t, keeps, val(t.Name())), nil)
	if e := r.next(); e.what != "finished" {
		t.Fatalf("got %+v", e)
	}
	ctx := <-kept
	if ctx.Err() == nil {
		t.Error("the context of a run that has ended has not ended")
	}
	var reused *Run
	r.do(nil, func() {
		if len(r.free) != 1 {
			t.Fatalf("got %d runs for reuse, want 1", len(r.free))
		}
		reused = r.free[0]
	})
	g := gateOf(t.Name())
	r.compute("second", spec(t, deaf, val(t.Name())), nil)
	<-g.entered
	if err := task.Secede(ctx); err != nil {
		t.Error(err)
	}
	r.do(nil, func() {
		if run := r.executing[task.NewKey("second")]; run != reused || run.left || !r.Full() {
			t.Errorf("second run: reused %v, seceded %v, full %v", run == reused, run.left, r.Full())
		}
	})
	if got := task.CurrentKey(ctx); got != task.NewKey("first") {
		t.Errorf("got key %v, want first", got)
	}
	close(g.open)
	if e := r.next(); e.key != "second" || e.what != "finished" {
		t.Errorf("got %+v", e)
	}
}

// The memory of a run is not reused if a timer or the state of its thread may still refer to it.
func TestRunsNotReused(t *testing.T) {
	r := newRig(t, Config{})
	long := gateOf(t.Name())
	close(long.open)
	r.compute("failed", spec(t, spoil), nil)
	r.next()
	r.compute("limited", spec(t, inc, val(1)), timeoutOf(t, 60))
	r.next()
	r.compute("long", spec(t, leaves, val(t.Name())), nil)
	r.next() // secedes
	r.next()
	r.do(nil, func() {
		if len(r.free) != 0 {
			t.Errorf("got %d runs for reuse, want none", len(r.free))
		}
	})
}

// Tasks that wait to rejoin when the worker closes get its error.
func TestRejoinAtTheEnd(t *testing.T) {
	p := New(Config{Threads: 1, Memory: newRig(t, Config{}).memory, Worker: Worker{Stopped: closedChannel(),
		Closed: errClosed, Do: func(func()) bool {
			return false
		}}})
	run := &runContext{p: p}
	if err := run.Rejoin(t.Context()); err != nil {
		t.Errorf("rejoin of a task that did not secede: got %v", err)
	}
	if err := run.Secede(t.Context()); err != errClosed {
		t.Errorf("got %v, want %v", err, errClosed)
	}
	if err := run.Rejoin(t.Context()); err == nil || !strings.Contains(err.Error(), errClosed.Error()) {
		t.Errorf("got %v, want %v", err, errClosed)
	}
}

func closedChannel() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func TestActors(t *testing.T) {
	r := newRig(t, Config{})
	key := task.NewKey("counter")
	r.compute("counter", spec(t, counter, val(5)), func(ev *state.ComputeTask) { ev.Actor = true })
	r.next()
	a := r.Actor(key)
	if a == nil || r.Actor(task.NewKey("none")) != nil {
		t.Fatal("got no actor")
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 25 {
				if _, err := a.Call(t.Context(), &task.Info{Key: key}, grow.Name(),
					[]*task.Value{task.NewValue(1)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if got, err := a.Call(t.Context(), &task.Info{}, grow.Name(), []*task.Value{task.NewValue(0)}); err != nil ||
		got != 105 {
		t.Errorf("after 100 calls: got %v, %v, want 105", got, err)
	}
	r.do(nil, func() {
		r.Forget(task.NewKey("none"))
		r.apply(&state.FreeKeys{Keys: []task.Key{key}})
	})
	if r.Actor(key) != nil || r.numActors != 0 {
		t.Error("got an actor after its release")
	}
}
