package state

import (
	"strings"
	"testing"
	"time"

	"go.millstream.dev/internal/task/taskid"
)

func TestUpdateGraphErrors(t *testing.T) {
	for _, c := range []struct {
		name  string
		graph *Graph
		want  string
	}{
		{"cycle of two", &Graph{Nodes: nodes("a <- b", "b <- a")}, "cycle: b is needed by a is needed by b"},
		{"cycle far from the wanted key", &Graph{Nodes: nodes("a <- b", "b <- c", "c <- d", "d <- c")},
			"cycle: d is needed by c is needed by d"},
		{"cycle by index",
			&Graph{Nodes: []Node{{Key: taskid.NewKey("a"), Spec: []byte("f"),
				DepNodes: []int32{0}}}}, "cycle: a is needed by a"},
		{"index out of range",
			&Graph{Nodes: []Node{{Key: taskid.NewKey("a"), Spec: []byte("f"),
				DepNodes: []int32{1}}}}, "depends on node number 1 of 1"},
		{"negative index",
			&Graph{Nodes: []Node{{Key: taskid.NewKey("a"), Spec: []byte("f"),
				DepNodes: []int32{-1}}}}, "depends on node number -1"},
		{"two nodes with one key",
			&Graph{Nodes: []Node{{Key: taskid.NewKey("a"), Spec: []byte("f")}, {Key: taskid.NewKey("a"),
				Spec: []byte("g")}}}, "two nodes with the key a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(Config{Validate: true})
			r.addWorkers(1, 1)
			id := r.addClient("c")
			ev := &UpdateGraph{Client: id, Graph: c.graph, Keys: keysOf("a")}
			list := r.apply(ev)
			if ev.Err == nil || !strings.Contains(ev.Err.Error(), c.want) {
				t.Fatalf("got error %v, want %q", ev.Err, c.want)
			}
			if len(list) != 1 || list[0].Kind != KeyErred || list[0].Failure.Kind != BadGraph ||
				list[0].Task != nil || list[0].Client != id {
				t.Fatalf("actions: got %s", formatActions(r.State, list))
			}
			if r.NumTasks() != 0 || len(r.groups.byName) != 0 {
				t.Fatalf("tasks: got %d, want 0", r.NumTasks())
			}
			// The cluster continues: the same keys can be used.
			if list := r.submit(t, id, "a", "b <- a"); len(list) == 0 {
				t.Fatal("next graph: got no actions")
			}
		})
	}
}

func TestLongCycleIsShortened(t *testing.T) {
	var g Graph
	for i := range 1000 {
		g.Nodes = append(g.Nodes, Node{Key: taskid.NewKey("k" + strings.Repeat("x", i%7) +
			time.Duration(i).String()), Spec: []byte("f"), DepNodes: []int32{int32((i + 1) % 1000)}})
	}
	r := newRig(Config{Validate: true})
	ev := &UpdateGraph{Client: r.addClient("c"), Graph: &g, Keys: []taskid.Key{g.Nodes[0].Key}}
	if r.apply(ev); ev.Err == nil || len(ev.Err.Error()) > 500 {
		t.Errorf("long cycle: got error %v, want a short one", ev.Err)
	}
}

func TestUnknownClient(t *testing.T) {
	r := newRig(Config{Validate: true})
	ev := &UpdateGraph{Client: 17, Graph: &Graph{Nodes: nodes("a")}, Keys: keysOf("a")}
	if r.apply(ev); ev.Err == nil || r.NumTasks() != 0 {
		t.Errorf("got error %v, %d tasks, want an error and 0", ev.Err, r.NumTasks())
	}
	for _, e := range []Event{&ClientDesires{Client: 9, Keys: keysOf("a")}, &ClientReleases{Client: 9},
		&CancelKeys{Client: -1}, &RemoveClient{Client: 9},
		&RemoveClient{Client: FireAndForget}, &ReportKey{Client: 9}, &RemoveWorker{Worker: 9},
		&WorkerStatusChange{Worker: -1}, &SetResources{Worker: 9},
		&Heartbeat{Worker: 9}, &TaskFinished{Worker: 9}, &TaskErred{Worker: 9}, &AddKeys{Worker: 9},
		&RequestRefreshWhoHas{Worker: 9}} {
		if list := r.apply(e); len(list) != 0 {
			t.Errorf("%T of an unknown sender: got %s, want no actions", e, formatActions(r.State, list))
		}
	}
}

// A graph that is sent again, alone or as part of another, uses existing tasks.
func TestKnownKeysAreUsed(t *testing.T) {
	r := newRig(Config{Validate: true})
	r.addWorkers(1, 4)
	c := r.addClient("c")
	r.submit(t, c, "x", "y <- x")
	r.finish(t, "x", 1, time.Second)
	ev := &UpdateGraph{Client: c, Graph: &Graph{Nodes: nodes("x", "z <- x")}, Keys: keysOf("x", "z")}
	list := r.apply(ev)
	if ev.NewTasks != 1 {
		t.Errorf("new tasks: got %d, want z only", ev.NewTasks)
	}
	if got := formatActions(r.State, list); got != "c key-in-memory x\nw0 compute-task z run=3 x@w0\n" {
		t.Errorf("actions: got\n%s", got)
	}
	// Another definition of a known key does not change it.
	r.apply(&UpdateGraph{Client: c, Graph: &Graph{Nodes: nodes("y <- z")}, Keys: keysOf("y")})
	if y := r.Task(taskid.NewKey("y")); y.NumDeps() != 1 || y.Dep(0).Key() != taskid.NewKey("x") {
		t.Error("known task: got other dependencies")
	}
	// A node without a spec refers to a key that must be known.
	list = r.apply(&UpdateGraph{Client: c,
		Graph: &Graph{Nodes: []Node{{Key: taskid.NewKey("x")}, {Key: taskid.NewKey("new")}}}, Keys: keysOf("x", "new")})
	if got := formatActions(r.State, list); !strings.Contains(got, "cancelled-keys new (lost dependencies)") ||
		!strings.Contains(got, "key-in-memory x") {
		t.Errorf("actions: got\n%s", got)
	}
}

func TestGenerations(t *testing.T) {
	r := newRig(Config{Validate: true})
	c := r.addClient("c")
	send := func(name string, fifo time.Duration, from string, user float64) Priority {
		ev := &UpdateGraph{Client: c, Graph: &Graph{Nodes: nodes(name)}, Keys: keysOf(name), FIFOTimeout: fifo,
			UserPriority: user}
		if from != "" {
			ev.SubmittingTask = taskid.NewKey(from)
		}
		r.apply(ev)
		return r.Task(taskid.NewKey(name)).Priority()
	}
	a := send("a", time.Second, "", 0)
	r.now = r.now.Add(500 * time.Millisecond)
	b := send("b", time.Second, "", 0) // soon after: the same generation
	r.now = r.now.Add(10 * time.Second)
	d := send("d", time.Second, "", 0)
	child := send("e", time.Second, "d", 0)
	orphan := send("f", time.Second, "gone", 0)
	urgent := send("g", time.Second, "", 7)
	if a.Generation != 1 || b.Generation != 1 || d.Generation != 2 || orphan.Generation != 2 {
		t.Errorf("generations: got %g %g %g %g", a.Generation, b.Generation, d.Generation, orphan.Generation)
	}
	if child.Compare(a) >= 0 || urgent.Compare(child) >= 0 || a.Compare(d) >= 0 {
		t.Errorf("order: got %v %v %v %v", urgent, child, a, d)
	}
}

func TestWorkersAreChecked(t *testing.T) {
	r := newRig(Config{Validate: true})
	r.addWorkers(1, 1)
	for _, c := range []struct {
		ev   AddWorker
		want string
	}{
		{AddWorker{Address: "tcp://w0:1", Name: "other", Threads: 1}, "worker tcp://w0:1 already exists"},
		{AddWorker{Address: "tcp://other:1", Name: "w0", Threads: 1}, "name taken, w0: used by worker tcp://w0:1"},
		{AddWorker{Address: "tcp://other:1", Name: "other"}, "0 threads"},
		{AddWorker{Name: "other", Threads: 1}, "no address"},
	} {
		ev := c.ev
		if r.apply(&ev); ev.Err == nil || !strings.Contains(ev.Err.Error(), c.want) || ev.Worker != NoWorker {
			t.Errorf("%+v: got error %v, want %q", c.ev, ev.Err, c.want)
		}
	}
	// An ID is free for another worker when the next event has begun, not within the same.
	r.apply(&RemoveWorker{Worker: 0})
	ev := &AddWorker{Address: "tcp://w0:1", Name: "w0", Threads: 1}
	if r.apply(ev); ev.Err != nil || ev.Worker != 0 {
		t.Errorf("worker: got ID %d, error %v, want 0", ev.Worker, ev.Err)
	}
	c1 := r.addClient("c1")
	r.apply(&RemoveClient{Client: c1})
	if c2 := r.addClient("c2"); c2 != c1 {
		t.Errorf("client: got ID %d, want the free %d", c2, c1)
	}
	if again := r.addClient("c2"); again != c1 {
		t.Error("client that reconnects: got another ID")
	}
}

// A call that is in a graph twice is one task.
func TestUpdateGraphRepeats(t *testing.T) {
	r := newRig(Config{Validate: true})
	r.addWorkers(1, 1)
	id := r.addClient("c")
	ev := &UpdateGraph{Client: id, Graph: &Graph{Nodes: nodes("a", "b <- a", "b <- a", "a")}, Keys: keysOf("b", "b",
		"a")}
	if r.apply(ev); ev.Err != nil || ev.NewTasks != 2 || r.NumTasks() != 2 {
		t.Fatalf("got %d new tasks of %d, error %v, want 2", ev.NewTasks, r.NumTasks(), ev.Err)
	}
	r.apply(&ClientReleases{Client: id, Keys: keysOf("a", "b")})
	if n := r.NumTasks(); n != 0 {
		t.Errorf("tasks after the release: got %d, want 0", n)
	}
}
