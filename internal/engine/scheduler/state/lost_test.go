package state

import (
	"fmt"
	"testing"
	"time"

	"go.millstream.dev/internal/task/taskid"
)

// TestSuspects checks that when a worker is lost, the first two tasks per thread by priority and the long-running ones
// are suspicious.
func TestSuspects(t *testing.T) {
	for _, threads := range []int{1, 2} {
		r := newRig(Config{Validate: true, NoStealing: true})
		r.addWorkers(1, threads)
		c := r.addClient("c")
		a := &Annotations{Workers: []string{"w0"}}
		g := &Graph{Ordered: true}
		for i := range 8 {
			g.Nodes = append(g.Nodes, Node{Key: taskid.NewKey(fmt.Sprint("x-", i)), Spec: []byte("f"), Annotations: a,
				Order: int64(7 - i)})
		}
		var keys []taskid.Key
		for _, n := range g.Nodes {
			keys = append(keys, n.Key)
		}
		r.apply(&UpdateGraph{Client: c, Graph: g, Keys: keys})
		first := r.Task(keys[0]) // the last by priority
		r.apply(&LongRunning{Worker: 0, Key: keys[0], RunID: first.RunID(), Duration: -1})
		r.apply(&RemoveWorker{Worker: 0, Reason: "gone"})
		for i, k := range keys {
			want := 0
			if i == 0 || 7-i < 2*threads {
				want = 1
			}
			if got := r.Task(k).Suspicious(); got != want {
				t.Errorf("%d threads: suspicion of %s: got %d, want %d", threads, k, got, want)
			}
		}
	}
}

// TestSafeRemovalNotSuspicious checks that tasks of a worker that left on purpose are not suspicious.
func TestSafeRemovalNotSuspicious(t *testing.T) {
	r := newRig(Config{Validate: true, AllowedFailures: -1})
	r.addWorkers(2, 1)
	c := r.addClient("c")
	r.submit(t, c, "x")
	x := r.Task(taskid.NewKey("x"))
	r.apply(&RemoveWorker{Worker: x.ProcessingOn().ID(), Safe: true, Reason: "retired"})
	if x.State() != Processing || x.Suspicious() != 0 {
		t.Fatalf("x: got %s after %d lost workers, want processing and 0", x.State(), x.Suspicious())
	}
	r.apply(&RemoveWorker{Worker: x.ProcessingOn().ID(), Reason: "gone"})
	if x.State() != Erred || x.Failure().Kind != KilledWorker || x.Failure().Cause != "gone" {
		t.Errorf("x: got %s: %+v, want erred by KilledWorker", x.State(), x.Failure())
	}
}

func TestAwayWorkers(t *testing.T) {
	var aw departedWorkers
	x, y := looseTask("x", "x", 1), looseTask("y", "y", 1)
	w := &Worker{address: "a", token: "secret", holds: []held{{x, 0}},
		former: map[taskid.Key]struct{}{taskid.NewKey("z"): {}}}
	aw.add(&Worker{address: "b", holds: []held{{x, 0}}}, nil, 5)
	if len(aw.workers) != 0 {
		t.Error("worker without a token: kept")
	}
	aw.add(w, []*Task{y}, 5)
	if len(aw.workers) != 1 || len(aw.workers[0].keys) != 3 || aw.workers[0].at != 5 || w.former != nil {
		t.Fatalf("departed workers: got %+v", aw.workers)
	}
	aw.data = []awaitedData{{"secret", x.key, 10}, {"other", y.key, 10}}
	for _, other := range []*Worker{{address: "a", token: "other"}, {address: "b", token: "secret"}, {address: "a"}} {
		aw.restore(other, 7)
		if other.former != nil {
			t.Errorf("%s with token %q: got former keys, want none", other.address, other.token)
		}
	}
	aw.data = []awaitedData{{"secret", x.key, 10}, {"other", y.key, 10}}
	back := &Worker{address: "a", token: "secret"}
	aw.restore(back, 7)
	for _, k := range []string{"x", "y", "z"} {
		if _, ok := back.former[taskid.NewKey(k)]; !ok {
			t.Errorf("former keys: got no %s", k)
		}
	}
	if len(back.former) != 3 || len(aw.workers) != 0 {
		t.Errorf("got %d former keys, %d departed workers, want 3 and 0", len(back.former), len(aw.workers))
	}
	if aw.data[0].until != 7+int64(announceTime) || aw.data[1].until != 10 {
		t.Errorf("data awaited until: got %d and %d", aw.data[0].until, aw.data[1].until)
	}
	aw.data[0].until = 1 << 60
	if aw.restore(back, 8); aw.data[0].until != 1<<60 {
		t.Errorf("data awaited for a shorter time: got %d", aw.data[0].until)
	}
}

// TestAwayIsBounded checks that the number of keys of departed workers is bounded: those of the latest are kept.
func TestAwayIsBounded(t *testing.T) {
	var aw departedWorkers
	many := make([]held, maxDepartedKeys/2)
	x := looseTask("x", "x", 1)
	for i := range many {
		many[i].t = x
	}
	for i := range 3 {
		aw.add(&Worker{address: fmt.Sprint(i), token: "t", holds: many}, nil, int64(i))
	}
	if len(aw.workers) != 2 || aw.workers[0].address != "1" {
		t.Errorf("departed workers: got %d, want 2", len(aw.workers))
	}
	aw.add(&Worker{address: "large", token: "t", holds: append(many, many...)}, []*Task{x}, 9)
	if len(aw.workers) != 1 || len(aw.workers[0].keys) != maxDepartedKeys {
		t.Errorf("got %d departed workers, %d keys of the last", len(aw.workers),
			len(aw.workers[len(aw.workers)-1].keys))
	}
}

// TestForgetAway checks that departed workers are forgotten after ten minutes, or by ForgetDeparted.
func TestForgetAway(t *testing.T) {
	for name, end := range map[string]func(r *rig){
		"time":  func(r *rig) { r.now = r.now.Add(departedTime + time.Second); r.apply(&Tick{}) },
		"token": func(r *rig) { r.apply(&ForgetDeparted{Token: "t"}) },
	} {
		r := newRig(Config{Validate: true})
		c := r.addClient("c")
		r.apply(&AddWorker{Address: "tcp://a:1", Name: "a", Threads: 1, Token: "t"})
		r.apply(&UpdateData{Client: c, Data: []NewData{{Key: taskid.NewKey("d"), NBytes: 3, Workers: []WorkerID{0}}}})
		ev := &RemoveWorker{Worker: 0, Await: time.Hour}
		r.apply(ev)
		if ev.Awaited != 1 || len(r.away.workers) != 1 || r.Task(taskid.NewKey("d")).State() != Waiting {
			t.Fatalf("%s: got %d pieces of data and %d workers awaited, want 1 and 1", name, ev.Awaited,
				len(r.away.workers))
		}
		r.apply(&ForgetDeparted{Token: "other"})
		r.apply(&ForgetDeparted{})
		if len(r.away.workers) != 1 || len(r.away.data) != 1 {
			t.Errorf("%s: forgotten too early", name)
		}
		end(r)
		if len(r.away.workers) != 0 {
			t.Errorf("%s: got %d departed workers, want 0", name, len(r.away.workers))
		}
		if gone := r.Task(taskid.NewKey("d")) == nil; gone != (name == "token") {
			t.Errorf("%s: data forgotten: got %v", name, gone)
		}
	}
}

// TestOutbox checks that orders to free keys are collected per worker and precede an order to compute the same key
// again, and that an order to compute in the same event is canceled instead.
func TestOutbox(t *testing.T) {
	var list Actions
	o := outbox{Actions: &list}
	a, b := &Worker{id: 0}, &Worker{id: 1}
	x, y := looseTask("x", "x", 1), looseTask("y", "y", 1)
	o.free(a, x)
	o.free(b, x)
	o.free(a, y)
	if len(list.List()) != 0 || len(o.freeing) != 2 {
		t.Fatalf("got %d actions, %d workers, want 0 and 2", len(list.List()), len(o.freeing))
	}
	o.flushWorker(b)
	o.flush()
	got := list.List()
	if len(got) != 2 || got[0].Worker != 1 || len(got[0].Keys) != 1 || got[1].Worker != 0 || len(got[1].Keys) != 2 ||
		got[1].Kind != FreeKeys || len(o.freeing) != 0 || len(a.freeing) != 0 {
		t.Fatalf("actions: got %+v", got)
	}
	// An order of this event.
	x.runID = 5
	order := o.add(ComputeTask)
	order.Worker, order.Task, order.RunID = a.id, x, 5
	x.sent = int32(len(list.list))
	o.free(b, x)
	if order.Kind != ComputeTask || x.sent == 0 {
		t.Error("order to another worker: canceled")
	}
	x.runID = 6
	o.free(a, x)
	if order.Kind != ComputeTask {
		t.Error("order of another run: canceled")
	}
	x.runID = 5
	o.free(a, x)
	if list.list[x.sent].Kind == ComputeTask && x.sent != 0 || list.list[2].Kind != ActionNone ||
		list.list[2].Worker != NoWorker {
		t.Errorf("order: got %+v, want it canceled", list.list[2])
	}
	a.removed = true
	o.free(a, y)
	o.flush()
	for _, act := range list.List()[3:] {
		if act.Worker == a.id {
			t.Errorf("removed worker: got %s", act.Kind)
		}
	}
}

// TestReports checks that a client is notified of tasks that are done, but FireAndForget is not.
func TestReports(t *testing.T) {
	var list Actions
	o := outbox{Actions: &list}
	c, faf := &Client{id: 3, name: "c"}, &Client{id: FireAndForget}
	x := looseTask("x", "x", 1)
	for st := range Forgotten {
		x.state, x.failure = st, nil
		if st == Erred {
			x.failure = &Failure{}
		}
		list.Reset()
		o.report(c, x)
		o.report(faf, x)
		want := map[TaskState]ActionKind{Memory: KeyInMemory, Erred: KeyErred}[st]
		got := list.List()
		if (want == ActionNone) != (len(got) == 0) || len(got) > 1 {
			t.Fatalf("%s: got %+v", st, got)
		}
		if len(got) == 1 && (got[0].Kind != want || got[0].Client != 3 || got[0].Failure != x.failure ||
			got[0].Key != x.key) {
			t.Errorf("%s: got %+v", st, got[0])
		}
	}
	list.Reset()
	o.cancelKeys(c, nil, "why", "")
	o.cancelKeys(faf, []taskid.Key{"k"}, "why", "")
	if len(list.List()) != 0 {
		t.Errorf("cancellations without a client: got %+v, want none", list.List())
	}
	o.cancelKeys(c, []taskid.Key{"k"}, "why", "msg")
	if a := list.List(); len(a) != 1 || a[0].Kind != CancelledKeys || a[0].Text != "why" || a[0].Msg != "msg" ||
		a[0].Keys[0] != "k" {
		t.Errorf("cancellation: got %+v", a)
	}
}

// TestMayAdopt checks which announcements of results are accepted.
func TestMayAdopt(t *testing.T) {
	k := taskid.NewKey("x")
	here, there := &Worker{id: 0}, &Worker{id: 1}
	former := map[taskid.Key]struct{}{k: {}}
	for _, c := range []struct {
		name      string
		runs      *Worker // the task
		held      bool
		returning bool
		former    map[taskid.Key]struct{}
		want      bool
	}{
		{"it runs the task", here, false, false, nil, true},
		{"another one runs the task", there, false, false, nil, false},
		{"none runs the task", nil, false, false, nil, false},
		{"it was there before the restart", there, true, true, nil, true},
		{"it was there before the restart, which is over", nil, false, true, nil, false},
		{"it is new during a restart", nil, true, false, nil, false},
		{"it had the result before it left", nil, false, false, former, true},
		{"it had the result, and another one runs the task", there, false, false, former, false},
		{"it had another result", nil, false, false, map[taskid.Key]struct{}{"y": {}}, false},
	} {
		s := New(Config{})
		s.held = c.held
		here.returning, here.former = c.returning, c.former
		if got := mayAdopt(s, &Task{key: k, worker: c.runs}, here); got != c.want {
			t.Errorf("%s: mayAdopt: got %v, want %v", c.name, got, c.want)
		}
	}
}

// TestRefusalEndsWithTheRun checks that a task that its worker did not give up may be requested again when it runs
// again.
func TestRefusalEndsWithTheRun(t *testing.T) {
	r := newRig(Config{Validate: true})
	r.addWorkers(1, 1)
	c := r.addClient("c")
	r.submit(t, c, "x")
	x := r.Task(taskid.NewKey("x"))
	x.refused = true
	if r.finish(t, "x", 1, time.Second); x.State() != Memory || x.refused {
		t.Errorf("x: got %s, refused %v, want memory and false", x.State(), x.refused)
	}
}
