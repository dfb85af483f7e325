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
		t.Errorf("%d workers, %d running, %d threads", all, running, r.TotalThreads())
	}
	if r.WorkerByAddress("tcp://w1:1") != r.WorkerByName("w1") || r.FindWorker("w1") != r.FindWorker("tcp://w1:1") ||
		r.FindWorker("x") != nil {
		t.Error("workers are not found")
	}
	if r.Worker(99) != nil || r.Worker(-1) != nil || r.Client(99) != nil || r.Client(-1) != nil ||
		r.ClientByName("c") != r.Client(c) {
		t.Error("ids that are not there")
	}
	if r.Count(Processing) != 6 || r.Count(Queued) != 14 || r.Idle() {
		t.Errorf("%d processing, %d queued", r.Count(Processing), r.Count(Queued))
	}
	if o := r.QueuedOccupancy(); o != 7 {
		t.Errorf("queued occupancy %g s, want 14 times the guess", o)
	}
	x := r.TaskBytes([]byte(keys[0]))
	if x != r.Task(keys[0]) || string(x.Spec()) != "f" || x.Priority().User != -2 || x.RunID() == 0 ||
		x.NBytes() != -1 || x.Actor() ||
		x.ProcessingOn() == nil || x.Group().Name() != "x" || x.Prefix().Name() != "x" || x.Type() != nil ||
		x.Annotations() != nil || x.Registry() != "" {
		t.Errorf("task %+v", x)
	}
	w := x.ProcessingOn()
	if w.NumProcessing() != 3 || w.NumHeld() != 0 || w.Status() != StatusRunning || w.Host() != "h" ||
		!slices.Contains(slices.Collect(w.Processing()), x) {
		t.Errorf("worker %+v", w)
	}
	r.finish(t, "x-0", 50, time.Second)
	if x.NBytes() != 50 || x.Type().Name != "int" || x.NumHolders() != 1 || x.Holder(0) != w || w.Held(0) != x ||
		w.NBytes() != 50 || x.Group().NBytes() != 50 {
		t.Errorf("task %+v", x)
	}
	if !slices.Contains(slices.Collect(x.WhoWants()), r.Client(c)) || r.Client(c).NumWanted() != 20 ||
		r.Client(c).Wanted(0) == nil || r.Client(c).Name() != "c" {
		t.Error("wants")
	}
	if n := r.Counters(); n.WorkersAdded != 2 || n.Transitions == 0 || n.Events == 0 {
		t.Errorf("%+v", n)
	}
	for gr := range r.Groups() {
		if gr.Name() != "x" || gr.Count(Memory) != 1 || gr.IsDone() {
			t.Errorf("group %s", gr.Name())
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
		t.Error("a status that is none")
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
		t.Errorf("%s\nwant %s", got, want)
	}
	r.submit(t, c, "y")
	r.finish(t, "y", 1, time.Second)
	if n := len(r.Story()); n != 6 {
		t.Errorf("a log of 6 has %d entries", n)
	}
	story := r.Story(keysOf("y")...)
	if len(story) != 3 || !strings.Contains(story[2].String(), "y processing -> memory") {
		t.Errorf("%v", story)
	}
	if r.log.text(taskid.NewKey("z")) == "" {
		t.Error("no story is a story")
	}
}

func TestAdaptive(t *testing.T) {
	r := newRig(Config{Validate: true})
	c := r.addClient("c")
	if n := r.AdaptiveTarget(0); n != 0 {
		t.Errorf("nothing to do wants %d workers", n)
	}
	g, keys := mapGraph("x", 100)
	r.apply(&UpdateGraph{Client: c, Graph: g, Keys: keys})
	if n := r.AdaptiveTarget(5 * time.Second); n != 10 {
		t.Errorf("50 s of work in 5 s want %d workers", n)
	}
	r.addWorkers(4, 1)
	if n := r.AdaptiveTarget(5 * time.Second); n < 9 || n > 10 {
		t.Errorf("with 4 workers they want %d", n)
	}
	if ids := r.WorkersToClose(0, 0, 0); len(ids) != 0 {
		t.Errorf("%d workers can go while tasks are queued", len(ids))
	}
	r.apply(&ClientReleases{Client: c, Keys: keys})
	if ids := r.WorkersToClose(0, 1, 0); len(ids) != 3 {
		t.Errorf("%d idle workers can go, want all but one", len(ids))
	}
	if ids := r.WorkersToClose(2, 0, 0); len(ids) != 2 {
		t.Errorf("%d workers, want 2", len(ids))
	}
	// Results that must be held keep workers.
	r2 := newRig(Config{Validate: true})
	d := r2.addClient("c")
	for _, n := range []string{"a", "b", "e"} {
		r2.apply(&AddWorker{Address: "tcp://" + n + ":1", Name: n, Threads: 1, MemoryLimit: 100})
	}
	r2.apply(&UpdateData{Client: d, Data: []NewData{{Key: taskid.NewKey("k"), NBytes: 90, Workers: []WorkerID{0}}}})
	if ids := r2.WorkersToClose(0, 0, 0); len(ids) != 1 || ids[0] == 0 {
		t.Errorf("%v can go, want one of the empty ones: 90 bytes want room for 180", ids)
	}
	if ids := r2.WorkersToClose(0, 0, 1); len(ids) != 2 {
		t.Errorf("%v can go, want both of the empty ones: 90 bytes want room for 90", ids)
	}
	if ids := r2.WorkersToClose(0, 0, 3); len(ids) != 0 {
		t.Errorf("%v can go although 90 bytes want room for 270", ids)
	}
	r2.apply(&UpdateData{Client: d, Data: []NewData{{Key: taskid.NewKey("l"), NBytes: 99, Workers: []WorkerID{1}}}})
	if n := r2.AdaptiveTarget(0); n != 6 {
		t.Errorf("full memory wants %d workers, want twice as many", n)
	}
}

func TestScatterTargets(t *testing.T) {
	r := newRig(Config{})
	if ids := r.ScatterTargets(nil, 3, nil); len(ids) != 0 {
		t.Errorf("without workers: %v", ids)
	}
	r.apply(&AddWorker{Address: "tcp://a:1", Name: "a", Threads: 2})
	r.apply(&AddWorker{Address: "tcp://b:1", Name: "b", Threads: 1})
	r.apply(&AddWorker{Address: "tcp://p:1", Name: "p", Threads: 1, Status: StatusPaused})
	if ids := r.ScatterTargets(nil, 6, nil); !slices.Equal(ids, []WorkerID{0, 0, 1, 0, 0, 1}) {
		t.Errorf("%v", ids)
	}
	if ids := r.ScatterTargets(nil, 2, []WorkerID{1}); !slices.Equal(ids, []WorkerID{1, 1}) {
		t.Errorf("%v", ids)
	}
}
