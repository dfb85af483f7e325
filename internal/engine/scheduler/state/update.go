package state

import (
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"go.millstream.dev/internal/task/taskid"
)

// grapher adds one graph. Tasks are created first, and unneeded ones are removed before they are visible, so that a
// graph costs one lookup per key.
type grapher struct {
	s     *State
	ev    *UpdateGraph
	c     *Client
	pool  *pool
	nodes []*Task // by the graph's index; nil for known keys
	fresh []*Task // created for this graph
	lost  []bool  // by the graph's index: has unknown dependencies
	bad   bool    // whether any is lost

	needs  Can // of the last node with needs
	other  *pool
	others []*pool // of nodes with needs
}

func (ev *UpdateGraph) apply(s *State) {
	ev.NewTasks, ev.Err = 0, nil
	c := s.Client(ev.Client)
	if c == nil {
		ev.Err = fmt.Errorf("scheduler: graph of unknown client %d", ev.Client)
		return
	}
	g := &grapher{s: s, ev: ev, c: c, pool: s.pools.of(ev.Graph.Registry, 0)}
	// The pool must not be removed with the first task.
	g.pool.tasks++
	g.run()
	g.pool.tasks--
	s.pools.drop(g.pool)
	for _, p := range g.others {
		s.pools.drop(p)
	}
}

func (g *grapher) run() {
	err := g.makeTasks()
	if err == nil {
		err = g.findDeps()
	}
	var wanted []*Task
	if err == nil {
		wanted, err = g.explore()
	}
	if err != nil {
		for _, t := range g.fresh {
			g.undoTask(t)
		}
		g.ev.Err = err
		f := &Failure{Kind: BadGraph, ExceptionText: err.Error()}
		for _, k := range g.ev.Keys {
			a := g.s.out.add(KeyErred)
			a.Client, a.Failure, a.Key = g.c.id, f, taskid.Key(strings.Clone(string(k)))
		}
		return
	}
	g.link()
	g.prioritize()
	g.start(wanted)
}

// makeTasks creates the tasks of all unknown nodes.
func (g *grapher) makeTasks() error {
	s, nodes := g.s, g.ev.Graph.Nodes
	g.nodes = make([]*Task, len(nodes))
	g.lost = make([]bool, len(nodes))
	g.fresh = make([]*Task, 0, len(nodes))
	for i := range nodes {
		n := &nodes[i]
		hash := s.tasks.Hash(n.Key)
		t := s.tasks.Find(n.Key, hash)
		if t != nil {
			// A task of this graph occurs twice. Clients that map over equal inputs write the same call twice, which is
			// one task; two calls under one key are an error.
			if t.turn < 0 && (t.spec != unsafe.String(unsafe.SliceData(n.Spec), len(n.Spec)) || t.shared != n.Shared) {
				return fmt.Errorf("scheduler: graph has two nodes with the key %s", n.Key)
			}
			continue
		}
		t = s.newTask(n.Key, hash, g.poolFor(n.Needs))
		t.spec = unsafe.String(unsafe.SliceData(n.Spec), len(n.Spec)) // immutable, see Graph
		t.shared, t.producer = n.Shared, n.Producer
		t.turn = int32(-1 - i) // the node's index until the graph is added
		g.nodes[i] = t
		g.fresh = append(g.fresh, t)
		if len(n.Spec) == 0 {
			g.lost[i], g.bad = true, true
		}
	}
	return nil
}

// poolFor returns the pool of a node: that of the graph's registry, or that of its needs.
func (g *grapher) poolFor(needs Can) *pool {
	if needs == 0 {
		return g.pool
	}
	if needs != g.needs {
		g.needs, g.other = needs, g.s.pools.of("", needs)
		g.others = append(g.others, g.other)
	}
	return g.other
}

// node returns the index of a fresh task's node.
func (t *Task) node() int { return int(-1 - t.turn) }

// findDeps looks up the dependencies of the new tasks. The reverse edges are added by link.
func (g *grapher) findDeps() error {
	s, nodes := g.s, g.ev.Graph.Nodes
	total := 0
	for _, t := range g.fresh {
		n := &nodes[t.node()]
		total += len(n.Deps) + len(n.DepNodes)
	}
	var slab []edge
	for _, t := range g.fresh {
		i := t.node()
		n := &nodes[i]
		need := len(n.Deps) + len(n.DepNodes)
		if need == 0 {
			continue
		}
		if cap(t.deps) < need {
			// Small pieces are cut from slabs, which are small enough that one task keeps little memory alive.
			const slabSize = 256
			if need > slabSize/4 {
				t.deps = make([]edge, 0, need)
			} else {
				if len(slab) < need {
					slab = make([]edge, min(slabSize, max(total, need)))
				}
				t.deps, slab = slab[:0:need], slab[need:]
			}
		}
		total -= need
		s.walk++
		for _, j := range n.DepNodes {
			if j < 0 || int(j) >= len(nodes) {
				return fmt.Errorf("scheduler: node %s of the graph depends on node number %d of %d", n.Key, j,
					len(nodes))
			}
			d := g.nodes[j]
			if d == nil {
				d = s.tasks.Get(nodes[j].Key)
			}
			t.addDep(d, s.walk)
		}
		for _, k := range n.Deps {
			if d := s.tasks.Get(k); d != nil {
				t.addDep(d, s.walk)
			} else {
				g.lost[i], g.bad = true, true
			}
		}
	}
	return nil
}

// addDep adds a dependency once: those that exist have the mark.
func (t *Task) addDep(d *Task, mark uint64) {
	if d.mark != mark {
		d.mark = mark
		t.deps = append(t.deps, edge{d, -1})
	}
}

// explore traverses the new tasks from the requested keys. It finds cycles and lost tasks, orders the tasks if the
// graph does not, and removes unneeded ones. It returns the requested tasks that can be computed.
func (g *grapher) explore() ([]*Task, error) {
	s := g.s
	wanted := make([]*Task, 0, len(g.ev.Keys))
	var unknown []taskid.Key
	nodes := g.ev.Graph.Nodes
	for i, k := range g.ev.Keys {
		var t *Task
		if i < len(nodes) && g.nodes[i] != nil && nodes[i].Key == k { // clients mostly request all, in order
			t = g.nodes[i]
		} else {
			t = s.tasks.Get(k)
		}
		if t != nil {
			wanted = append(wanted, t)
		} else {
			unknown = append(unknown, taskid.Key(strings.Clone(string(k))))
		}
	}
	w := newWalker(g)
	if err := w.visitAll(wanted); err != nil {
		return nil, err
	}
	if g.bad {
		good := wanted[:0]
		for _, t := range wanted {
			if t.turn < 0 && g.lost[t.node()] {
				unknown = append(unknown, t.key)
			} else {
				good = append(good, t)
			}
		}
		wanted = good
		w.reset()
		if err := w.visitAll(wanted); err != nil {
			return nil, err
		}
	}
	s.out.cancelKeys(g.c, unknown, "lost dependencies",
		"the graph depends on keys that are unknown to the scheduler; submit it again with all dependencies")
	if w.seen < len(g.fresh) {
		kept := g.fresh[:0]
		for _, t := range g.fresh {
			if w.done(t) {
				kept = append(kept, t)
			} else {
				g.undoTask(t)
			}
		}
		clear(g.fresh[len(kept):])
		g.fresh = kept
	}
	if !g.ev.Graph.Ordered {
		orderTasks(g, w, wanted)
	}
	return wanted, nil
}

// undoTask undoes newTask.
func (g *grapher) undoTask(t *Task) {
	s := g.s
	s.counts[Released]--
	t.group.states[Released]--
	t.group.total--
	s.tasks.Remove(t)
	t.pool.tasks--
	if gr := t.group; gr.states[Forgotten] == gr.total {
		s.groups.drop(gr)
	}
	t.state = Forgotten
	t.deps = t.deps[:0]
	s.tasks.gone = append(s.tasks.gone, t)
}

// link adds the reverse edges of the new tasks' dependencies.
func (g *grapher) link() {
	s := g.s
	for _, t := range g.fresh {
		for i := range t.deps {
			e := &t.deps[i]
			e.back = int32(len(e.t.dependents))
			e.t.dependents = append(e.t.dependents, edge{t, int32(i)})
			t.group.dependOn(e.t.group, s.cfg.RootishGroups)
			if e.t.state == Forgotten {
				t.orphan = true
			}
		}
	}
}

// prioritize sets the priorities and annotations of the new tasks.
func (g *grapher) prioritize() {
	s, ev := g.s, g.ev
	var generation float64
	switch parent := s.tasks.Get(ev.SubmittingTask); {
	case ev.SubmittingTask != "" && parent != nil:
		generation = parent.prio.User - 0.01 // before all others, as in Dask
	case ev.SubmittingTask != "":
		generation = s.generation
	default:
		if !s.graphSeen || s.now.Sub(s.lastGraph) > ev.FIFOTimeout {
			s.generation++
			s.lastGraph, s.graphSeen = s.now, true
		}
		generation = s.generation
	}
	var lastGiven *Annotations
	var last *notes
	for _, t := range g.fresh {
		n := &ev.Graph.Nodes[t.node()]
		user := ev.UserPriority
		if n.Annotations != nil {
			if n.Annotations == lastGiven {
				last.refs++
			} else {
				lastGiven, last = n.Annotations, s.notes.of(n.Annotations)
			}
			t.notes = last
			t.retries = int32(min(last.Retries, 1<<30))
			if last.HasPriority {
				user = last.Priority
			}
		}
		order := t.prio.Order
		if ev.Graph.Ordered {
			order = n.Order
		}
		t.prio = Priority{-user, generation, order}
		t.turn = 0
	}
}

// start makes the client hold its keys and starts them.
func (g *grapher) start(wanted []*Task) {
	s, ev := g.s, g.ev
	ev.NewTasks = len(g.fresh)
	if ev.Actors {
		for _, t := range wanted {
			t.makeActor()
		}
	}
	for _, k := range ev.ActorKeys {
		if t := s.tasks.Get(k); t != nil {
			t.makeActor()
		}
	}
	released := make([]*Task, 0, len(wanted))
	for _, t := range wanted {
		desire(s, t, g.c)
		if t.state == Released {
			released = append(released, t)
		}
	}
	if slices.IsSortedFunc(released, func(a, b *Task) int { return a.prio.Compare(b.prio) }) {
		slices.Reverse(released)
	} else {
		slices.SortStableFunc(released, func(a, b *Task) int { return b.prio.Compare(a.prio) })
	}
	for _, t := range released {
		s.recommend(t, toWaiting)
	}
}

// makeActor marks a task that has not run as one that creates an actor.
func (t *Task) makeActor() {
	if t.state == Released {
		t.actor = true
	}
}
