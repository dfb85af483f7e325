package state

import (
	"fmt"
	"testing"
	"time"

	"go.millstream.dev/internal/task/taskid"
)

// benchLife runs tasks from submission to removal: submitted, assigned, finished, released, forgotten.
func benchLife(b *testing.B, workers int, graph func() (*Graph, []taskid.Key)) {
	r := newRig(Config{TransitionLog: -1})
	r.addWorkers(workers, 2)
	c := r.addClient("c")
	g, keys := graph()
	type job struct {
		w   WorkerID
		key taskid.Key
		run int64
	}
	var jobs []job
	fin := &TaskFinished{NBytes: 8, TypeName: "int", Duration: time.Millisecond}
	up := &UpdateGraph{Client: c, Graph: g, Keys: keys}
	rel := &ClientReleases{Client: c, Keys: keys}
	take := func() {
		for i := range r.out.list {
			if a := &r.out.list[i]; a.Kind == ComputeTask {
				jobs = append(jobs, job{a.Worker, a.Key, a.RunID})
			}
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	n := 0
	for n < b.N {
		jobs = jobs[:0]
		r.Apply(r.now, up, &r.out)
		take()
		for i := 0; i < len(jobs); i++ {
			fin.Worker, fin.Key, fin.RunID = jobs[i].w, jobs[i].key, jobs[i].run
			r.Apply(r.now, fin, &r.out)
			take()
		}
		r.Apply(r.now, rel, &r.out)
		n += len(g.Nodes)
	}
	b.StopTimer()
	if r.NumTasks() != 0 {
		b.Fatalf("tasks: got %d, want 0", r.NumTasks())
	}
}

func BenchmarkTaskLife(b *testing.B) {
	for _, workers := range []int{10, 1000} {
		b.Run(fmt.Sprintf("map/workers=%d", workers), func(b *testing.B) {
			benchLife(b, workers, func() (*Graph, []taskid.Key) { return mapGraph("inc", 10_000) })
		})
		b.Run(fmt.Sprintf("large/workers=%d", workers), func(b *testing.B) {
			benchLife(b, workers, func() (*Graph, []taskid.Key) { return mapGraph("inc", 300_000) })
		})
		b.Run(fmt.Sprintf("tree/workers=%d", workers), func(b *testing.B) {
			benchLife(b, workers, func() (*Graph, []taskid.Key) { return treeGraph(1 << 13) })
		})
		b.Run(fmt.Sprintf("random/workers=%d", workers), func(b *testing.B) {
			benchLife(b, workers, func() (*Graph, []taskid.Key) { return randomGraph(10_000, 1) })
		})
	}
}

// randomGraph returns a DAG whose nodes depend on two to four of the hundred before them; all nodes without dependents
// are requested.
func randomGraph(n int, seed uint64) (*Graph, []taskid.Key) {
	g := &Graph{Nodes: make([]Node, n)}
	x := seed*2 + 1
	next := func(bound int) int {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		return int(x % uint64(bound))
	}
	used := make([]bool, n)
	for i := range g.Nodes {
		node := &g.Nodes[i]
		node.Key, node.Spec = taskid.NewKey(fmt.Sprintf("node-%d", i)), []byte("f")
		if i < 100 {
			continue
		}
		for range 2 + next(3) {
			d := i - 1 - next(100)
			used[d] = true
			node.DepNodes = append(node.DepNodes, int32(d))
		}
	}
	var keys []taskid.Key
	for i, u := range used {
		if !u {
			keys = append(keys, g.Nodes[i].Key)
		}
	}
	return g, keys
}
