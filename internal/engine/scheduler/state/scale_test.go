package state

import (
	"fmt"
	"runtime"
	"testing"

	"go.millstream.dev/internal/task/taskid"
)

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A task must cost no more than 600 bytes in addition to its key and its spec, whatever the shape of the graph and the
// number of tasks.
func TestMemoryPerTask(t *testing.T) {
	shapes := map[string]func(n int) (*Graph, []taskid.Key){
		"map":    func(n int) (*Graph, []taskid.Key) { return mapGraph("inc", n) },
		"tree":   func(n int) (*Graph, []taskid.Key) { return treeGraph(n / 2) },
		"random": func(n int) (*Graph, []taskid.Key) { return randomGraph(n, 7) },
	}
	for name, shape := range shapes {
		for _, n := range []int{5_000, 30_000} {
			t.Run(fmt.Sprintf("%s/%d", name, n), func(t *testing.T) {
				g, keys := shape(n)
				r := newRig(Config{TransitionLog: -1})
				r.addWorkers(10, 2)
				c := r.addClient("c")
				before := heap()
				list := r.apply(&UpdateGraph{Client: c, Graph: g, Keys: keys})
				jobs := r.run(list) // memory is highest when all kept results are in memory
				per := float64(heap()-before) / float64(len(g.Nodes))
				t.Logf("%d tasks, %d ran: %.0f bytes each", len(g.Nodes), jobs, per)
				if per > 600 {
					t.Errorf("bytes of a task: got %.0f, want at most 600 (and never 1024 with key and spec)", per)
				}
				r.apply(&ClientReleases{Client: c, Keys: keys})
				if r.NumTasks() != 0 {
					t.Errorf("tasks: got %d, want 0", r.NumTasks())
				}
				r.out = Actions{}
				if left := float64(int64(heap())-int64(before)) / float64(len(g.Nodes)); left > 150 {
					t.Errorf("bytes per task after all are forgotten: got %.0f, want at most 150", left)
				}
				runtime.KeepAlive(g)
				runtime.KeepAlive(keys)
			})
		}
	}
}

// The work that a task causes must not grow with the number of workers or tasks. Actions and transitions are counted;
// benchmarks measure time.
func TestWorkPerTask(t *testing.T) {
	count := func(workers, n int) (transitions, actions float64) {
		r := newRig(Config{})
		r.addWorkers(workers, 2)
		c := r.addClient("c")
		g, keys := randomGraph(n, 3)
		before := r.Counters().Transitions
		total := 0
		list := r.apply(&UpdateGraph{Client: c, Graph: g, Keys: keys})
		type job struct {
			w   WorkerID
			key taskid.Key
			run int64
		}
		var jobs []job
		for i := 0; ; i++ {
			for _, a := range list {
				total++
				if a.Kind == ComputeTask {
					jobs = append(jobs, job{a.Worker, a.Key, a.RunID})
				}
			}
			if i == len(jobs) {
				break
			}
			list = r.apply(&TaskFinished{Worker: jobs[i].w, Key: jobs[i].key, RunID: jobs[i].run, NBytes: 8,
				TypeName: "int"})
		}
		if len(jobs) != n {
			t.Fatalf("runs: got %d, want %d", len(jobs), n)
		}
		return float64(r.Counters().Transitions-before) / float64(n), float64(total) / float64(n)
	}
	smallT, smallA := count(10, 2000)
	for _, c := range []struct{ workers, n int }{{10, 10_000}, {1000, 10_000}} {
		tr, ac := count(c.workers, c.n)
		if tr > 1.1*smallT || ac > 3*smallA {
			t.Errorf(
				"%d workers, %d tasks: %.2f transitions and %.2f actions per task; with 10 and 2000: %.2f and %.2f",
				c.workers, c.n, tr, ac, smallT, smallA)
		}
	}
}

// Tasks after the first ones allocate almost nothing: memory is reused.
func TestSteadyStateAllocations(t *testing.T) {
	r := newRig(Config{})
	r.addWorkers(4, 2)
	c := r.addClient("c")
	g, keys := mapGraph("inc", 100)
	fin := &TaskFinished{NBytes: 8, TypeName: "int"}
	up, rel := &UpdateGraph{Client: c, Graph: g, Keys: keys}, &ClientReleases{Client: c, Keys: keys}
	jobs := make([]Action, 0, 200)
	life := func() {
		jobs = jobs[:0]
		take := func() {
			for i := range r.out.list {
				if r.out.list[i].Kind == ComputeTask {
					jobs = append(jobs, r.out.list[i])
				}
			}
		}
		r.Apply(r.now, up, &r.out)
		take()
		for i := 0; i < len(jobs); i++ {
			fin.Worker, fin.Key, fin.RunID = jobs[i].Worker, jobs[i].Key, jobs[i].RunID
			r.Apply(r.now, fin, &r.out)
			take()
		}
		r.Apply(r.now, rel, &r.out)
	}
	life()
	if n := testing.AllocsPerRun(20, life); n > 40 {
		t.Errorf("allocations of 100 tasks: got %.0f, want at most 40", n)
	}
}

// Keys that are names without numbers make every task a separate prefix: the cost must be bounded, on a worker that
// receives all of them.
func TestManyPrefixes(t *testing.T) {
	r := newRig(Config{})
	r.addWorkers(2, 1)
	c := r.addClient("c")
	const n = 15_000
	g := &Graph{Nodes: make([]Node, n)}
	keys := make([]taskid.Key, n)
	for i := range n {
		keys[i] = taskid.NewKey(fmt.Sprintf("name%d", i))
		g.Nodes[i] = Node{Key: keys[i], Spec: []byte("f")}
	}
	list := r.apply(&UpdateGraph{Client: c, Graph: g, Keys: keys})
	if err := r.Check(); err != nil {
		t.Fatal(err)
	}
	if o := r.TotalOccupancy(); o != n/2 {
		t.Errorf("occupancy: got %g s", o)
	}
	for w := range r.Workers() {
		if len(w.counts) > mostCounts {
			t.Errorf("counts: got %d, want at most mostCounts", len(w.counts))
		}
	}
	if ran := r.run(list); ran != n {
		t.Fatalf("runs: got %d, want %d", ran, n)
	}
	if o := r.TotalOccupancy() + r.Occupancy(r.Worker(0)) + r.Occupancy(r.Worker(1)); o != 0 {
		t.Errorf("occupancy when all is done: got %g s, want 0", o)
	}
	r.apply(&ClientReleases{Client: c, Keys: keys})
	if len(r.groups.prefixes) > mostPrefixes+1 {
		t.Errorf("prefixes: got %d, want at most mostPrefixes+1", len(r.groups.prefixes))
	}
	if err := r.Check(); err != nil {
		t.Fatal(err)
	}
}
