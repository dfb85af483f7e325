package sim

import (
	"encoding/binary"
	"fmt"
	"time"

	sched "go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/task/taskid"
)

// node is a task of the simulation, with the expected result.
type node struct {
	id   int32
	key  taskid.Key
	deps []*node
	spec [12]byte // ID and seed, sent to the worker

	duration    time.Duration
	size        int64
	failures    int  // number of runs that fail before one succeeds
	hopeless    bool // every run fails
	secede      bool // leaves the thread pool while it runs
	resched     bool // reschedules itself once
	notes       *sched.Annotations
	value       uint64 // expected result
	fails       bool   // the task or a dependency is hopeless
	attempts    int    // failed runs so far
	rescheduled bool
	canceled    bool // the task or a dependency was canceled
	dependent   []*node
}

// mix is a hash step (splitmix64).
func mix(h, v uint64) uint64 {
	h += v + 0x9E3779B97F4A7C15
	h = (h ^ h>>30) * 0xBF58476D1CE4E5B9
	h = (h ^ h>>27) * 0x94D049BB133111EB
	return h ^ h>>31
}

// result returns the result of a run: a hash of the spec and of the values of the dependencies in order.
func result(spec []byte, deps func(i int) uint64, n int) uint64 {
	h := mix(binary.LittleEndian.Uint64(spec[4:]), uint64(n))
	for i := range n {
		h = mix(h, deps(i))
	}
	return h
}

// add creates a node; its dependencies exist already.
func (w *world) add(key taskid.Key, deps []*node) *node {
	n := &node{id: int32(len(w.nodes)), key: key, deps: deps}
	binary.LittleEndian.PutUint32(n.spec[:], uint32(n.id))
	binary.LittleEndian.PutUint64(n.spec[4:], w.rnd.Uint64())
	n.value = result(n.spec[:], func(i int) uint64 { return deps[i].value }, len(deps))
	for _, d := range deps {
		n.fails = n.fails || d.fails
		d.dependent = append(d.dependent, n)
	}
	w.nodes = append(w.nodes, n)
	w.byKey[key] = n
	return n
}

// submission is a graph that a client has submitted.
type submission struct {
	nodes  []*node
	wanted []*node
}

// randomGraph returns a graph of n nodes that may also depend on known ones.
func (w *world) randomGraph(name string, n int, known []*node) submission {
	r, f := w.rnd, &w.cfg.Tasks
	var s submission
	width := 1 + r.IntN(max(n/2, 1))
	// Dask groups tasks by the name before the last dash: a few prefixes per graph, as in real graphs.
	for i := range n {
		var deps []*node
		if i > 0 && r.IntN(5) > 0 {
			for range 1 + r.IntN(4) {
				from := max(0, i-width)
				d := s.nodes[from+r.IntN(i-from)]
				if !contains(deps, d) {
					deps = append(deps, d)
				}
			}
		}
		if len(known) > 0 && r.IntN(10) == 0 {
			if d := known[r.IntN(len(known))]; !contains(deps, d) {
				deps = append(deps, d)
			}
		}
		x := w.add(taskid.NewKey(fmt.Sprintf("%s-%c-%d", name, 'a'+rune(i*4/n), i)), deps)
		x.duration = time.Duration(r.ExpFloat64() * float64(f.Duration))
		x.size = int64(r.ExpFloat64() * float64(f.Size))
		w.behave(x)
		s.nodes = append(s.nodes, x)
	}
	for i, x := range s.nodes {
		// All nodes without dependents in the graph are requested, and some others.
		if len(x.dependent) == 0 || r.IntN(10) == 0 || i == n-1 {
			s.wanted = append(s.wanted, x)
		}
	}
	return s
}

// behave sets random properties of a node.
func (w *world) behave(x *node) {
	r, f := w.rnd, &w.cfg.Tasks
	notes := &sched.Annotations{}
	odd := false
	switch p := r.Float64(); {
	case p < f.Flaky:
		x.failures = 1 + r.IntN(3)
		notes.Retries = x.failures
		odd = true
	case p < f.Flaky+f.Hopeless:
		x.hopeless, x.fails = true, true
	case p < f.Flaky+f.Hopeless+f.Secede:
		x.secede = true
	case p < f.Flaky+f.Hopeless+f.Secede+f.Reschedule:
		x.resched = true
	}
	if r.Float64() < f.Resource {
		notes.Resources = []sched.Resource{{Name: "R", Amount: 1}}
		odd = true
	}
	if r.Float64() < f.Restrict {
		notes.Workers, notes.AllowOtherWorkers = []string{fmt.Sprintf("worker-%d", r.IntN(w.cfg.Workers))},
			r.IntN(2) == 0
		odd = true
	}
	if r.Float64() < f.Priority {
		notes.Priority, notes.HasPriority = float64(r.IntN(5)-2), true
		odd = true
	}
	if odd {
		x.notes = notes
	}
}

func contains(list []*node, n *node) bool {
	for _, x := range list {
		if x == n {
			return true
		}
	}
	return false
}

// graph returns a submission in the form of the scheduler.
func (s submission) graph() *sched.Graph {
	g := &sched.Graph{Nodes: make([]sched.Node, len(s.nodes))}
	index := make(map[*node]int32, len(s.nodes))
	for i, n := range s.nodes {
		index[n] = int32(i)
	}
	for i, n := range s.nodes {
		x := sched.Node{Key: n.key, Spec: n.spec[:], Annotations: n.notes}
		for _, d := range n.deps {
			if k, ok := index[d]; ok {
				x.DepNodes = append(x.DepNodes, k)
			} else {
				x.Deps = append(x.Deps, d.key)
			}
		}
		g.Nodes[i] = x
	}
	return g
}

// closure returns a submission with all dependencies of its requested nodes, which a client submits again when the
// scheduler has lost it.
func (s submission) closure() submission {
	seen := map[*node]bool{}
	var all []*node
	var visit func(n *node)
	visit = func(n *node) {
		if seen[n] {
			return
		}
		seen[n] = true
		for _, d := range n.deps {
			visit(d)
		}
		all = append(all, n)
	}
	for _, n := range s.wanted {
		visit(n)
	}
	return submission{nodes: all, wanted: s.wanted}
}

func keysOf(nodes []*node) []taskid.Key {
	keys := make([]taskid.Key, len(nodes))
	for i, n := range nodes {
		keys[i] = n.key
	}
	return keys
}
