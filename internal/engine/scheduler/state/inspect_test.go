package state

import (
	"slices"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/internal/task/taskid"
)

func TestInspection(t *testing.T) {
	r := newRig(Config{Validate: true})
	r.addWorkers(2, 2)
	c := r.addClient("c")
	g, keys := mapGraph("x", 20)
	r.apply(&UpdateGraph{Client: c, Graph: g, Keys: keys, UserPriority: 2})
	if all, running := r.NumWorkers(); all != 2 || running != 2 || r.TotalThreads() != 4 {
		t.Errorf("got %d workers, %d running, %d threads, want 2, 2 and 4", all, running, r.TotalThreads())
	}
	if r.WorkerByAddress("tcp://w1:1") != r.WorkerByName("w1") || r.FindWorker("w1") != r.FindWorker("tcp://w1:1") ||
		r.FindWorker("x") != nil {
		t.Error("FindWorker: got the wrong worker")
	}
	if r.Worker(99) != nil || r.Worker(-1) != nil || r.Client(99) != nil || r.Client(-1) != nil ||
		r.ClientByName("c") != r.Client(c) {
		t.Error("unknown IDs: got a worker or client")
	}
	if r.Count(Processing) != 6 || r.Count(Queued) != 14 || r.Idle() {
		t.Errorf("got %d processing, %d queued, want 6 and 14", r.Count(Processing), r.Count(Queued))
	}
	if o := r.QueuedOccupancy(); o != 7 {
		t.Errorf("queued occupancy: got %g s, want 14 times the estimate", o)
	}
	x := r.TaskBytes([]byte(keys[0]))
	if x != r.Task(keys[0]) || string(x.Spec()) != "f" || x.Priority().User != -2 || x.RunID() == 0 ||
		x.NBytes() != -1 || x.Actor() ||
		x.ProcessingOn() == nil || x.Group().Name() != "x" || x.Prefix().Name() != "x" || x.Type() != nil ||
		x.Annotations() != nil || x.Registry() != "" {
		t.Errorf("task: got %+v", x)
	}
	w := x.ProcessingOn()
	if w.NumProcessing() != 3 || w.NumHeld() != 0 || w.Status() != StatusRunning || w.Host() != "h" ||
		!slices.Contains(slices.Collect(w.Processing()), x) {
		t.Errorf("worker: got %+v", w)
	}
	r.finish(t, "x-0", 50, time.Second)
	if x.NBytes() != 50 || x.Type().Name != "int" || x.NumHolders() != 1 || x.Holder(0) != w || w.Held(0) != x ||
		w.NBytes() != 50 || x.Group().NBytes() != 50 {
		t.Errorf("finished task: got %+v", x)
	}
	if !slices.Contains(slices.Collect(x.WhoWants()), r.Client(c)) || r.Client(c).NumWanted() != 20 ||
		r.Client(c).Wanted(0) == nil || r.Client(c).Name() != "c" {
		t.Error("keys of the client: got the wrong ones")
	}
	if n := r.Counters(); n.WorkersAdded != 2 || n.Transitions == 0 || n.Events == 0 {
		t.Errorf("counters: got %+v", n)
	}
	for gr := range r.Groups() {
		if gr.Name() != "x" || gr.Count(Memory) != 1 || gr.IsDone() {
			t.Errorf("group: got %s", gr.Name())
		}
	}
	if s := x.State().String() + w.Status().String(); s != "memoryrunning" {
		t.Error(s)
	}
	for _, st := range TaskStates() {
		if st.String() == "unknown" || st == Forgotten {
			t.Error(st)
		}
	}
	if st, ok := ParseStatus("closing_gracefully"); !ok || st != StatusClosingGracefully {
		t.Error(st)
	}
	if _, ok := ParseStatus("?"); ok {
		t.Error("unknown status: got a value")
	}
}

func TestStory(t *testing.T) {
	r := newRig(Config{TransitionLog: 6})
	r.addWorkers(1, 1)
	c := r.addClient("c")
	r.submit(t, c, "x")
	r.finish(t, "x", 1, time.Second)
	r.apply(&ClientReleases{Client: c, Keys: keysOf("x")})
	var steps []string
	for _, s := range r.Story(keysOf("x")...) {
		steps = append(steps, s.From.String()+">"+s.To.String()+" by "+s.Cause)
	}
	want := "released>waiting by update-graph, waiting>processing by update-graph, processing>memory by task-finished, " +
		"memory>forgotten by client-releases-keys"
	if got := strings.Join(steps, ", "); got != want {
		t.Errorf("steps: got %s\nwant %s", got, want)
	}
	r.submit(t, c, "y")
	r.finish(t, "y", 1, time.Second)
	if n := len(r.Story()); n != 6 {
		t.Errorf("entries of a log of 6: got %d", n)
	}
	story := r.Story(keysOf("y")...)
	if len(story) != 3 || !strings.Contains(story[2].String(), "y processing -> memory") {
		t.Errorf("story: got %v", story)
	}
	if r.log.text(taskid.NewKey("z")) == "" {
		t.Error("story of an unknown key: got an empty text")
	}
}

func TestAdaptive(t *testing.T) {
	r := newRig(Config{Validate: true})
	c := r.addClient("c")
	if n := r.AdaptiveTarget(0); n != 0 {
		t.Errorf("target without work: got %d, want 0", n)
	}
	g, keys := mapGraph("x", 100)
	r.apply(&UpdateGraph{Client: c, Graph: g, Keys: keys})
	if n := r.AdaptiveTarget(5 * time.Second); n != 10 {
		t.Errorf("target for 50 s of work in 5 s: got %d, want 10", n)
	}
	r.addWorkers(4, 1)
	if n := r.AdaptiveTarget(5 * time.Second); n < 9 || n > 10 {
		t.Errorf("target with 4 workers: got %d, want 9 or 10", n)
	}
	if ids := r.WorkersToClose(0, 0, 0); len(ids) != 0 {
		t.Errorf("workers to close while tasks are queued: got %d, want 0", len(ids))
	}
	r.apply(&ClientReleases{Client: c, Keys: keys})
	if ids := r.WorkersToClose(0, 1, 0); len(ids) != 3 {
		t.Errorf("idle workers to close: got %d, want all but one", len(ids))
	}
	if ids := r.WorkersToClose(2, 0, 0); len(ids) != 2 {
		t.Errorf("workers to close: got %d, want 2", len(ids))
	}
	// Workers are kept for results that must be held.
	r2 := newRig(Config{Validate: true})
	d := r2.addClient("c")
	for _, n := range []string{"a", "b", "e"} {
		r2.apply(&AddWorker{Address: "tcp://" + n + ":1", Name: n, Threads: 1, MemoryLimit: 100})
	}
	r2.apply(&UpdateData{Client: d, Data: []NewData{{Key: taskid.NewKey("k"), NBytes: 90, Workers: []WorkerID{0}}}})
	if ids := r2.WorkersToClose(0, 0, 0); len(ids) != 1 || ids[0] == 0 {
		t.Errorf("workers to close: got %v, want one of the empty ones: 90 bytes need 180", ids)
	}
	if ids := r2.WorkersToClose(0, 0, 1); len(ids) != 2 {
		t.Errorf("workers to close: got %v, want both of the empty ones: 90 bytes need 90", ids)
	}
	if ids := r2.WorkersToClose(0, 0, 3); len(ids) != 0 {
		t.Errorf("workers to close: got %v, want none: 90 bytes need 270", ids)
	}
	r2.apply(&UpdateData{Client: d, Data: []NewData{{Key: taskid.NewKey("l"), NBytes: 99, Workers: []WorkerID{1}}}})
	if n := r2.AdaptiveTarget(0); n != 6 {
		t.Errorf("target with full memory: got %d, want twice the number of workers", n)
	}
}

func TestScatterTargets(t *testing.T) {
	r := newRig(Config{})
	if ids := r.ScatterTargets(nil, 3, nil); len(ids) != 0 {
		t.Errorf("targets without workers: got %v, want none", ids)
	}
	r.apply(&AddWorker{Address: "tcp://a:1", Name: "a", Threads: 2})
	r.apply(&AddWorker{Address: "tcp://b:1", Name: "b", Threads: 1})
	r.apply(&AddWorker{Address: "tcp://p:1", Name: "p", Threads: 1, Status: StatusPaused})
	if ids := r.ScatterTargets(nil, 6, nil); !slices.Equal(ids, []WorkerID{0, 0, 1, 0, 0, 1}) {
		t.Errorf("targets: got %v, want 0 0 1 0 0 1", ids)
	}
	if ids := r.ScatterTargets(nil, 2, []WorkerID{1}); !slices.Equal(ids, []WorkerID{1, 1}) {
		t.Errorf("targets among 1: got %v, want 1 1", ids)
	}
}

// Walk visits every task once, in parts.
func TestWalk(t *testing.T) {
	r := newRig(Config{Validate: true})
	c := r.addClient("c")
	g, keys := mapGraph("x", 200)
	r.apply(&UpdateGraph{Client: c, Graph: g, Keys: keys})
	seen, steps := map[*Task]int{}, 0
	for next := Walk(r.State, 0, 50, func(t *Task) { seen[t]++ }); ; steps++ {
		if next == 0 {
			break
		}
		next = Walk(r.State, next, 50, func(t *Task) { seen[t]++ })
	}
	if len(seen) != 200 || steps < 4 {
		t.Errorf("got %d tasks in %d steps, want 200 in at least 4", len(seen), steps)
	}
	for x, n := range seen {
		if n != 1 {
			t.Errorf("task %s: got %d visits, want 1", x.Key(), n)
		}
	}
	if next := Walk(r.State, 1<<30, 50, func(*Task) { t.Error("a task after the last slot") }); next != 0 {
		t.Errorf("after the last slot: got %d, want 0", next)
	}
}

// Apply sets the prefix of a finished task.
func TestFinishedPrefix(t *testing.T) {
	r := newRig(Config{Validate: true})
	r.addWorkers(1, 1)
	c := r.addClient("c")
	g, keys := mapGraph("x", 1)
	r.apply(&UpdateGraph{Client: c, Graph: g, Keys: keys})
	x := r.Task(keys[0])
	ev := &TaskFinished{Worker: x.ProcessingOn().ID(), Key: keys[0], RunID: x.RunID()}
	r.apply(ev)
	if ev.Prefix == nil || ev.Prefix.Name() != "x" || ev.Prefix.Tag != 0 {
		t.Errorf("prefix: got %+v, want x", ev.Prefix)
	}
	unknown := &TaskFinished{Worker: 0, Key: taskid.NewKey("nothing"), RunID: 99}
	r.apply(unknown)
	if unknown.Prefix != nil {
		t.Errorf("prefix of an unknown task: got %+v, want nil", unknown.Prefix)
	}
}
