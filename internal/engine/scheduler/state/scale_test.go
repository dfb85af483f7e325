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

// A task must cost no more than 600 bytes besides its key and its spec, whatever shape the graph has and however
// many there are; the million is the same code.
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
				jobs := r.run(list) // most memory is used when everything is in memory, as far as it is kept
				per := float64(heap()-before) / float64(len(g.Nodes))
				t.Logf("%d tasks, %d ran: %.0f bytes each", len(g.Nodes), jobs, per)
				if per > 600 {
					t.Errorf("a task takes %.0f bytes, want at most 600 (and never 1024 with key and spec)", per)
				}
				r.apply(&ClientReleases{Client: c, Keys: keys})
				if r.NumTasks() != 0 {
					t.Errorf("%d tasks are left", r.NumTasks())
				}
				r.out = Actions{}
				if left := float64(int64(heap())-int64(before)) / float64(len(g.Nodes)); left > 150 {
					t.Errorf("%.0f bytes per task stay when all are forgotten", left)
				}
				runtime.KeepAlive(g)
				runtime.KeepAlive(keys)
			})
		}
	}
}

// The work that a task causes must not grow with the number of workers or tasks. What can be counted is
// counted: actions and transitions; time is what the benchmarks are for.
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
			t.Fatalf("%d of %d tasks ran", len(jobs), n)
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

// Lives after the first allocate next to nothing: what they need is used again.
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
		t.Errorf("100 lives allocate %.0f times", n)
	}
}

// Keys that are names without numbers make every task a prefix of its own: that must cost no more than a
// constant, on a worker that gets them all.
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
		t.Errorf("occupancy %g s", o)
	}
	for w := range r.Workers() {
		if len(w.counts) > mostCounts {
			t.Errorf("%d counts", len(w.counts))
		}
	}
	if ran := r.run(list); ran != n {
		t.Fatalf("%d of %d ran", ran, n)
	}
	if o := r.TotalOccupancy() + r.Occupancy(r.Worker(0)) + r.Occupancy(r.Worker(1)); o != 0 {
		t.Errorf("occupancy %g s when all is done", o)
	}
	r.apply(&ClientReleases{Client: c, Keys: keys})
	if len(r.groups.prefixes) > mostPrefixes+1 {
		t.Errorf("%d prefixes are remembered", len(r.groups.prefixes))
	}
	if err := r.Check(); err != nil {
		t.Fatal(err)
	}
}
