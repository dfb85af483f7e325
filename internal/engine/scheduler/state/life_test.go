package state

import (
	"fmt"
	"testing"
	"time"

	"go.millstream.dev/internal/task/taskid"
)

// rig drives a state in tests: it keeps the clock and the actions.
type rig struct {
	*State
	now time.Time
	out Actions
}

func newRig(cfg Config) *rig {
	return &rig{State: New(cfg), now: time.Unix(1_700_000_000, 0)}
}

func (r *rig) apply(ev Event) []Action {
	r.Apply(r.now, ev, &r.out)
	return r.out.List()
}

func (r *rig) addWorkers(n, threads int) {
	for i := range n {
		ev := &AddWorker{Address: fmt.Sprintf("tcp://w%d:1", i), Name: fmt.Sprintf("w%d", i), Host: "h",
			Threads: threads}
		if r.apply(ev); ev.Err != nil {
			panic(ev.Err)
		}
	}
}

func (r *rig) addClient(name string) ClientID {
	ev := &AddClient{Name: name}
	r.apply(ev)
	return ev.Client
}

// run answers every ComputeTask with TaskFinished until nothing is left to do, and returns the number of runs.
func (r *rig) run(pending []Action) int {
	type job struct {
		w   WorkerID
		key taskid.Key
		run int64
	}
	var jobs []job
	take := func(list []Action) {
		for _, a := range list {
			if a.Kind == ComputeTask {
				jobs = append(jobs, job{a.Worker, a.Key, a.RunID})
			}
		}
	}
	take(pending)
	ev := &TaskFinished{NBytes: 8, TypeName: "int", Duration: time.Millisecond}
	n := 0
	for ; n < len(jobs); n++ {
		ev.Worker, ev.Key, ev.RunID = jobs[n].w, jobs[n].key, jobs[n].run
		take(r.apply(ev))
	}
	return n
}

func mapGraph(prefix string, n int) (*Graph, []taskid.Key) {
	g := &Graph{Nodes: make([]Node, n), Ordered: true}
	keys := make([]taskid.Key, n)
	for i := range n {
		keys[i] = taskid.NewKey(fmt.Sprintf("%s-%d", prefix, i))
		g.Nodes[i] = Node{Key: keys[i], Spec: []byte("f"), Order: int64(i)}
	}
	return g, keys
}

// treeGraph returns a reduction by pairs over n leaves.
func treeGraph(n int) (*Graph, []taskid.Key) {
	g := &Graph{}
	level := make([]int32, n)
	for i := range n {
		level[i] = int32(len(g.Nodes))
		g.Nodes = append(g.Nodes, Node{Key: taskid.NewKey(fmt.Sprintf("leaf-%d", i)), Spec: []byte("f")})
	}
	for depth := 0; len(level) > 1; depth++ {
		var next []int32
		for i := 0; i < len(level); i += 2 {
			next = append(next, int32(len(g.Nodes)))
			g.Nodes = append(g.Nodes, Node{Key: taskid.NewKey(fmt.Sprintf("sum-%d-%d", depth, i/2)),
				Spec: []byte("g"), DepNodes: level[i:min(i+2, len(level))]})
		}
		level = next
	}
	return g, []taskid.Key{g.Nodes[len(g.Nodes)-1].Key}
}

func TestMapLife(t *testing.T) {
	r := newRig(Config{Validate: true})
	r.addWorkers(3, 2)
	c := r.addClient("c")
	g, keys := mapGraph("inc", 200)
	list := r.apply(&UpdateGraph{Client: c, Graph: g, Keys: keys})
	if n := r.run(list); n != 200 {
		t.Fatalf("runs: got %d, want 200", n)
	}
	if n := r.Count(Memory); n != 200 {
		t.Fatalf("results in memory: got %d, want 200", n)
	}
	r.apply(&ClientReleases{Client: c, Keys: keys})
	if n := r.NumTasks(); n != 0 {
		t.Fatalf("tasks: got %d, want 0", n)
	}
	for w := range r.Workers() {
		if w.NumHeld() != 0 || w.NBytes() != 0 {
			t.Errorf("worker %s: got %d results, want 0", w.Name(), w.NumHeld())
		}
	}
}

func TestTreeLife(t *testing.T) {
	r := newRig(Config{Validate: true})
	r.addWorkers(2, 2)
	c := r.addClient("c")
	g, keys := treeGraph(64)
	list := r.apply(&UpdateGraph{Client: c, Graph: g, Keys: keys})
	if n := r.run(list); n != 127 {
		t.Fatalf("runs: got %d, want 127", n)
	}
	if m := r.Count(Memory); m != 1 {
		t.Fatalf("results in memory: got %d, want the root only", m)
	}
	r.apply(&ClientReleases{Client: c, Keys: keys})
	if n := r.NumTasks(); n != 0 {
		t.Fatalf("tasks: got %d, want 0", n)
	}
}
