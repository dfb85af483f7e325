package state

import (
	"slices"
	"testing"
	"time"

	"go.millstream.dev/internal/task/taskid"
)

// shortageRig has one client and submits single tasks.
type shortageRig struct {
	*rig
	t *testing.T
	c ClientID
}

func newShortageRig(t *testing.T) *shortageRig {
	r := newRig(Config{Validate: true})
	return &shortageRig{r, t, r.addClient("c")}
}

func (r *shortageRig) submit(registry string, needs Can, a *Annotations, keys ...string) {
	r.t.Helper()
	g := &Graph{Registry: registry, Ordered: true}
	ev := &UpdateGraph{Client: r.c, Graph: g}
	for i, k := range keys {
		g.Nodes = append(g.Nodes, Node{Key: taskid.NewKey(k), Spec: []byte{1}, Needs: needs, Annotations: a,
			Order: int64(i)})
		ev.Keys = append(ev.Keys, taskid.NewKey(k))
	}
	r.apply(ev)
	if ev.Err != nil {
		r.t.Fatal(ev.Err)
	}
}

func (r *shortageRig) worker(name, registry string, can Can, resources ...Resource) *AddWorker {
	r.t.Helper()
	ev := &AddWorker{Address: "tcp://" + name + ":1", Name: name, Host: name, Threads: 2, Registry: registry,
		Can: can, Status: StatusRunning, Resources: resources}
	r.apply(ev)
	if ev.Err != nil {
		r.t.Fatal(ev.Err)
	}
	return ev
}

func (r *shortageRig) one(want Reason) Shortage {
	r.t.Helper()
	all := r.Shortages(true)
	if len(all) != 1 || all[0].Reason != want {
		r.t.Fatalf("got shortages %+v, want one of reason %v", all, want)
	}
	return all[0]
}

func (r *shortageRig) none() {
	r.t.Helper()
	if all := r.Shortages(true); len(all) > 0 || r.Short() {
		r.t.Fatalf("got shortages %+v, want none", all)
	}
}

func TestShortageReasons(t *testing.T) {
	gpu := func(n float64) *Annotations { return &Annotations{Resources: []Resource{{"GPU", n}}} }
	for _, c := range []struct {
		name     string
		workers  func(r *shortageRig)
		registry string
		needs    Can
		notes    *Annotations
		want     Reason
		mend     func(r *shortageRig)
	}{
		{"no workers", nil, "f-1", 0, nil, NoWorkersThere, func(r *shortageRig) { r.worker("a", "f-1", Go) }},
		{"no workers, queued by anyone", nil, "", 0, nil, NoWorkersThere,
			func(r *shortageRig) { r.worker("a", "", Python) }},
		{"functions", func(r *shortageRig) { r.worker("a", "g-1", Go) }, "f-1", 0, nil, NoFunctions,
			func(r *shortageRig) { r.worker("b", "f-1", Go) }},
		{"build", func(r *shortageRig) { r.worker("a", "f-1", Go) }, "f-2", 0, nil, NoBuild,
			func(r *shortageRig) { r.worker("b", "f-2", Go) }},
		{"any build, no functions", func(r *shortageRig) { r.worker("a", "g-1", Go) }, "f", 0, nil, NoFunctions,
			func(r *shortageRig) { r.worker("b", "f-9", Go) }},
		{"python", func(r *shortageRig) { r.worker("a", "f-1", Go) }, "", Python, nil, NoAbility,
			func(r *shortageRig) { r.worker("b", "", Python) }},
		{"named", func(r *shortageRig) { r.worker("a", "f-1", Go) }, "f-1", 0, &Annotations{Workers: []string{"b"}},
			NoNamed, func(r *shortageRig) { r.worker("b", "f-1", Go) }},
		{"resources", func(r *shortageRig) { r.worker("a", "f-1", Go, Resource{"GPU", 1}) }, "f-1", 0, gpu(2),
			NoResources,
			func(r *shortageRig) { r.apply(&SetResources{Worker: 0, Resources: []Resource{{"GPU", 2}}}) }},
		{"restrictions",
			func(r *shortageRig) {
				r.worker("a", "f-1", Go)
				r.worker("b", "g-1", Go, Resource{"GPU",
					2})
			}, "f-1", 0, gpu(2), NoMatch,
			func(r *shortageRig) { r.worker("d", "f-1", Go, Resource{"GPU", 2}) }},
		{"paused", func(r *shortageRig) {
			w := r.worker("a", "f-1", Go)
			r.apply(&WorkerStatusChange{Worker: w.Worker, Status: StatusPaused})
		}, "f-1", 0, nil, NotRunning, func(r *shortageRig) {
			r.apply(&WorkerStatusChange{Worker: 0,
				Status: StatusRunning})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newShortageRig(t)
			if c.workers != nil {
				c.workers(r)
			}
			r.none()
			r.submit(c.registry, c.needs, c.notes, "x", "y", "z")
			x := r.one(c.want)
			if x.Tasks != 3 || x.Registry != c.registry || x.Example != taskid.NewKey("x") || x.Since.IsZero() {
				t.Errorf("shortage: got %+v", x)
			}
			if len(x.Clients) != 1 || x.Clients[0].Client != r.c || len(x.Clients[0].Keys) != 3 || x.Clients[0].More {
				t.Errorf("clients: got %+v", x.Clients)
			}
			if c.want == NoResources && (len(x.Best) != 1 || x.Best[0] != 1) {
				t.Errorf("best supply: got %v, want 1", x.Best)
			}
			c.mend(r)
			r.none()
		})
	}
}

// TestShortageAllowsOthers checks that a preference for unknown workers is not a shortage.
func TestShortageAllowsOthers(t *testing.T) {
	r := newShortageRig(t)
	r.worker("a", "f-1", Go)
	r.submit("f-1", 0, &Annotations{Workers: []string{"b"}, AllowOtherWorkers: true}, "x")
	r.none()
	if got := r.Task(taskid.NewKey("x")).State(); got != Processing {
		t.Errorf("task: got %v, want processing", got)
	}
}

// TestAnyBuild checks that a graph without a build runs on workers of every build with its functions.
func TestAnyBuild(t *testing.T) {
	r := newShortageRig(t)
	r.worker("a", "f-1", Go)
	r.worker("b", "f-2", Go)
	r.worker("d", "g-1", Go)
	r.submit("f", 0, nil, "x", "y")
	r.none()
	var on []string
	for _, k := range []string{"x", "y"} {
		on = append(on, r.Task(taskid.NewKey(k)).ProcessingOn().Name())
	}
	slices.Sort(on)
	if !slices.Equal(on, []string{"a", "b"}) {
		t.Errorf("workers of the tasks: got %v, want a and b", on)
	}
}

// TestShortageReachesDependents checks that the clients of dependents of a task without a worker are reported, and no
// others.
func TestShortageReachesDependents(t *testing.T) {
	r := newShortageRig(t)
	r.worker("a", "f-1", Go)
	other := r.addClient("other")
	g := &Graph{Registry: "f-1", Ordered: true, Nodes: []Node{
		{Key: taskid.NewKey("gpu"), Spec: []byte{1}, Annotations: &Annotations{Resources: []Resource{{"GPU", 1}}}},
		{Key: taskid.NewKey("mid"), Spec: []byte{1}, Deps: []taskid.Key{taskid.NewKey("gpu")}, Order: 1},
		{Key: taskid.NewKey("end"), Spec: []byte{1}, Deps: []taskid.Key{taskid.NewKey("mid")}, Order: 2},
	}}
	r.apply(&UpdateGraph{Client: r.c, Graph: g, Keys: []taskid.Key{taskid.NewKey("end")}})
	r.apply(&UpdateGraph{Client: other, Graph: &Graph{Registry: "f-1",
		Nodes: []Node{{Key: taskid.NewKey("fine"), Spec: []byte{1}}}}, Keys: []taskid.Key{taskid.NewKey("fine")}})
	x := r.one(NoResources)
	if len(x.Clients) != 1 || x.Clients[0].Client != r.c || !slices.Equal(x.Clients[0].Keys,
		[]taskid.Key{taskid.NewKey("end")}) {
		t.Errorf("got clients %+v, want %d with the key end", x.Clients, r.c)
	}
}

func TestFailShortage(t *testing.T) {
	r := newShortageRig(t)
	r.worker("a", "f-1", Go)
	r.submit("f-1", 0, &Annotations{Resources: []Resource{{"GPU", 1}}}, "x", "y")
	r.submit("f-1", 0, nil, "fine")
	x := r.one(NoResources)
	actions := r.apply(&FailShortage{Shortage: &x, Text: "because"})
	failed := 0
	for _, a := range actions {
		if a.Kind == KeyErred {
			failed++
			if got, want := a.Failure.Error(), "task "+a.Key.String()+" cannot run: because"; got != want ||
				a.Failure.Kind != NoValidWorker {
				t.Errorf("got %q of kind %v, want %q", got, a.Failure.Kind, want)
			}
		}
	}
	if failed != 2 || r.Task(taskid.NewKey("fine")).State() != Processing {
		t.Errorf("failed keys: got %d, want 2", failed)
	}
	r.none()

	r.submit("g-1", 0, nil, "q1", "q2", "q3", "q4", "q5", "q6") // queued
	x = r.one(NoFunctions)
	r.apply(&FailShortage{Shortage: &x, Text: "because"})
	if got := r.Task(taskid.NewKey("q6")).State(); got != Erred {
		t.Errorf("queued task: got %v, want erred", got)
	}
	r.none()
}

// TestNoWorkersTimeoutStartsWithTheTask checks that time without workers before the submission of a task does not
// count.
func TestNoWorkersTimeoutStartsWithTheTask(t *testing.T) {
	r := newRig(Config{Validate: true, NoWorkersTimeout: time.Minute})
	x := &shortageRig{r, t, r.addClient("c")}
	w := x.worker("a", "", Python)
	r.apply(&RemoveWorker{Worker: w.Worker, Reason: "test"})
	r.now = r.now.Add(time.Hour)
	x.submit("", Python, nil, "x")
	x.submit("", 0, nil, "y")
	r.apply(&Tick{})
	for _, k := range []string{"x", "y"} {
		if got := r.Task(taskid.NewKey(k)).State(); got == Erred {
			t.Errorf("task %s: failed immediately", k)
		}
	}
	r.now = r.now.Add(2 * time.Minute)
	r.apply(&Tick{})
	for _, k := range []string{"x", "y"} {
		if got := r.Task(taskid.NewKey(k)).State(); got != Erred {
			t.Errorf("task %s after the timeout: got %v, want erred", k, got)
		}
	}
}
