package state

import (
	"fmt"
	"testing"
	"time"

	"go.millstream.dev/internal/task/taskid"
)

// finish reports a processing task as done.
func (r *rig) finish(t testing.TB, name string, nbytes int64, took time.Duration) []Action {
	t.Helper()
	x := r.Task(taskid.NewKey(name))
	if x == nil || x.worker == nil {
		t.Fatalf("%s: not processing", name)
	}
	return r.apply(&TaskFinished{Worker: x.worker.id, Key: x.key, RunID: x.runID, NBytes: nbytes, TypeName: "int",
		Duration: took})
}

// submit sends a graph of lines "key <- deps".
func (r *rig) submit(t testing.TB, c ClientID, lines ...string) []Action {
	t.Helper()
	ev := &UpdateGraph{Client: c, Graph: &Graph{Nodes: nodes(lines...)}}
	for _, n := range ev.Graph.Nodes {
		ev.Keys = append(ev.Keys, n.Key)
	}
	list := r.apply(ev)
	if ev.Err != nil {
		t.Fatal(ev.Err)
	}
	return list
}

func (r *rig) where(name string) string {
	x := r.Task(taskid.NewKey(name))
	switch {
	case x == nil:
		return "unknown"
	case x.worker != nil:
		return x.worker.name
	}
	return x.state.String()
}

func TestTasksFollowTheirData(t *testing.T) {
	r := newRig(Config{Validate: true})
	r.addWorkers(30, 1)
	c := r.addClient("c")
	data := []NewData{
		{Key: taskid.NewKey("big"), NBytes: 1 << 30, Workers: []WorkerID{7}},
		{Key: taskid.NewKey("small"), NBytes: 10, Workers: []WorkerID{3}},
		{Key: taskid.NewKey("both"), NBytes: 1 << 20, Workers: []WorkerID{3, 9}},
	}
	r.apply(&UpdateData{Client: c, Data: data})
	r.submit(t, c, "a <- big small")
	if w := r.where("a"); w != "w7" {
		t.Errorf("worker of a task with a gigabyte on w7: got %s", w)
	}
	r.submit(t, c, "b <- both")
	r.submit(t, c, "d <- both")
	if b, d := r.where("b"), r.where("d"); b == d || b != "w3" && b != "w9" || d != "w3" && d != "w9" {
		t.Errorf("workers of two tasks with data on w3 and w9: got %s and %s", b, d)
	}
}

// A program that retries a task relies on another worker for the next attempt, whatever the data.
func TestIdleWorkersTakeTurnsWhateverTheyHold(t *testing.T) {
	r := newRig(Config{Validate: true})
	r.addWorkers(2, 1)
	c := r.addClient("c")
	r.apply(&UpdateData{Client: c,
		Data: []NewData{{Key: taskid.NewKey("held"), NBytes: 1 << 20, Workers: []WorkerID{1}}}})
	last := ""
	for i := range 6 {
		name := fmt.Sprintf("f%c", 'a'+i)
		r.submit(t, c, name)
		w := r.where(name)
		if w == last {
			t.Errorf("task %d: got %s, the worker of the one before", i, w)
		}
		last = w
		r.finish(t, name, 10, time.Millisecond)
	}
}

func TestIdleWorkersTakeTurns(t *testing.T) {
	r := newRig(Config{Validate: true})
	r.addWorkers(25, 1)
	c := r.addClient("c")
	seen := map[string]bool{}
	for i := range 25 {
		r.submit(t, c, fmt.Sprintf("f%c", 'a'+i))
		seen[r.where(fmt.Sprintf("f%c", 'a'+i))] = true
	}
	if len(seen) != 25 {
		t.Errorf("workers of 25 tasks: got %d, want 25", len(seen))
	}
}

func TestBroadcastDataDoesNotMatter(t *testing.T) {
	r := newRig(Config{Validate: true})
	r.addWorkers(100, 1)
	c := r.addClient("c")
	all := make([]WorkerID, 100)
	for i := range all {
		all[i] = WorkerID(i)
	}
	r.apply(&UpdateData{Client: c, Data: []NewData{{Key: taskid.NewKey("model"), NBytes: 1 << 30, Workers: all}}})
	for i := range 100 {
		r.submit(t, c, fmt.Sprintf("use%c%c <- model", 'a'+i/10, 'a'+i%10))
	}
	for w := range r.Workers() {
		if w.NumProcessing() != 1 {
			t.Errorf("worker %s: got %d of 100 tasks, want 1", w.Name(), w.NumProcessing())
		}
	}
	// Holders that are removed are forgotten one by one.
	model := r.Task(taskid.NewKey("model"))
	for i := range 95 {
		r.apply(&RemoveWorker{Worker: WorkerID(i), Safe: true})
	}
	if model.NumHolders() != 5 || model.wide == nil && len(model.holders) > manyHolders {
		t.Errorf("holders: got %d, want 5", model.NumHolders())
	}
}

func TestManyRestrictedTasksSpread(t *testing.T) {
	r := newRig(Config{Validate: true})
	r.addWorkers(40, 1)
	c := r.addClient("c")
	a := &Annotations{Workers: []string{"h"}} // host of all workers
	g := &Graph{}
	var keys []taskid.Key
	for i := range 200 {
		k := taskid.NewKey(fmt.Sprintf("x-%d", i))
		g.Nodes = append(g.Nodes, Node{Key: k, Spec: []byte("f"), Annotations: a})
		keys = append(keys, k)
	}
	r.apply(&UpdateGraph{Client: c, Graph: g, Keys: keys})
	for w := range r.Workers() {
		if n := w.NumProcessing(); n < 3 || n > 7 {
			t.Errorf("worker %s: got %d of 200 tasks on 40 workers", w.Name(), n)
		}
	}
	if len(r.notes.byID) != 1 {
		t.Errorf("copies of one annotation: got %d, want 1", len(r.notes.byID))
	}
}

func TestStealingEvensOut(t *testing.T) {
	r := newRig(Config{Validate: true, WorkerSaturation: 1e9})
	r.addWorkers(1, 1)
	c := r.addClient("c")
	g, keys := mapGraph("x", 40)
	r.apply(&UpdateGraph{Client: c, Graph: g, Keys: keys})
	r.finish(t, "x-0", 1, time.Second)
	for i := 1; i < 4; i++ {
		r.apply(&AddWorker{Address: fmt.Sprintf("tcp://w%d:1", i), Name: fmt.Sprintf("w%d", i), Threads: 1})
	}
	// The worker runs its first task, and gives up the others on request.
	for range 30 {
		r.now = r.now.Add(time.Second)
		list := r.apply(&Tick{})
		var asked []Action
		for _, a := range list {
			if a.Kind == StealRequest {
				asked = append(asked, a)
			}
		}
		for _, a := range asked {
			state := "ready"
			if a.Key == keys[1] {
				state = "executing"
			}
			r.apply(&StealResponse{Worker: a.Worker, Key: a.Key, Steal: a.Number, State: state})
		}
	}
	for w := range r.Workers() {
		if n := w.NumProcessing(); n < 6 || n > 14 {
			t.Errorf("worker %s: got %d of 39 tasks on 4 workers", w.Name(), n)
		}
	}
	if r.where("x-1") != "w0" {
		t.Error("running task: moved")
	}
}

func TestStealingRespectsRestrictions(t *testing.T) {
	r := newRig(Config{Validate: true, WorkerSaturation: 1e9})
	r.addWorkers(1, 1)
	c := r.addClient("c")
	g, keys := mapGraph("x", 10)
	for i := range g.Nodes {
		g.Nodes[i].Annotations = &Annotations{Workers: []string{"w0"}}
	}
	r.apply(&UpdateGraph{Client: c, Graph: g, Keys: keys})
	r.finish(t, "x-0", 1, time.Second)
	r.apply(&AddWorker{Address: "tcp://w1:1", Name: "w1", Threads: 1})
	r.now = r.now.Add(time.Second)
	for _, a := range r.apply(&Tick{}) {
		t.Errorf("unexpected %s", formatAction(r.State, &a))
	}
}

func TestStealingSwitchedOff(t *testing.T) {
	r := newRig(Config{Validate: true, WorkerSaturation: 1e9, NoStealing: true})
	r.addWorkers(1, 1)
	c := r.addClient("c")
	g, keys := mapGraph("x", 10)
	r.apply(&UpdateGraph{Client: c, Graph: g, Keys: keys})
	r.finish(t, "x-0", 1, time.Second)
	r.apply(&AddWorker{Address: "tcp://w1:1", Name: "w1", Threads: 1})
	r.now = r.now.Add(time.Second)
	for _, a := range r.apply(&Tick{}) {
		t.Errorf("unexpected %s", formatAction(r.State, &a))
	}
}

func TestDurations(t *testing.T) {
	r := newRig(Config{Validate: true, DefaultTaskDurations: map[string]time.Duration{"known": 3 * time.Second,
		"fast": time.Microsecond}})
	r.addWorkers(1, 1)
	c := r.addClient("c")
	r.submit(t, c, "known-1")
	if o := r.Occupancy(r.Worker(0)); o != 3 {
		t.Errorf("occupancy: got %g s, want the configured 3", o)
	}
	r.submit(t, c, "new-1")
	if o := r.TotalOccupancy(); o != 3.5 {
		t.Errorf("total occupancy: got %g s, want 3 and the estimate for the unknown", o)
	}
	r.apply(&Heartbeat{Worker: 0, Executing: []Executing{{taskid.NewKey("new-1"), 4 * time.Second}}})
	if o := r.TotalOccupancy(); o != 11 {
		t.Errorf("total occupancy: got %g s, want 3 and twice the run time", o)
	}
	r.finish(t, "new-1", 1, 2*time.Second)
	r.submit(t, c, "new-2")
	if o := r.TotalOccupancy(); o != 5 {
		t.Errorf("total occupancy: got %g s, want 3 and the measured time", o)
	}
	r.finish(t, "new-2", 1, 4*time.Second)
	for p := range r.Prefixes() {
		if p.Name() == "new" {
			if d, ok := p.Duration(); !ok || d != 3*time.Second {
				t.Errorf("average: got %v, want 3 s", d)
			}
			if runs, total := p.Finished(); runs != 2 || total != 6*time.Second {
				t.Errorf("got %d runs of %v, want 2 of 6 s", runs, total)
			}
		}
	}
	// Dependencies that have to be fetched count as well, once for all tasks that need them.
	r.apply(&AddWorker{Address: "tcp://w1:1", Name: "w1", Threads: 1})
	r.apply(&UpdateData{Client: c, Data: []NewData{{Key: taskid.NewKey("d"), NBytes: 2e8, Workers: []WorkerID{0}}}})
	before := r.Occupancy(r.Worker(1))
	a := &Annotations{Workers: []string{"w1"}}
	g := &Graph{Nodes: nodes("known-2 <- d", "known-3 <- d")}
	g.Nodes[0].Annotations, g.Nodes[1].Annotations = a, a
	r.apply(&UpdateGraph{Client: c, Graph: g, Keys: keysOf("known-2", "known-3")})
	if o := r.Occupancy(r.Worker(1)) - before; o != 8 {
		t.Errorf("occupancy of two tasks of 3 s that fetch 2 s of data: got %g s, want 8", o)
	}
	r.apply(&AddKeys{Worker: 1, Keys: keysOf("d")})
	if o := r.Occupancy(r.Worker(1)) - before; o != 6 {
		t.Errorf("occupancy when the data is held: got %g s, want 6", o)
	}
}
