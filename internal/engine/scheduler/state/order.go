package state

import (
	"fmt"
	"slices"
	"strings"
)

// walker walks through the new tasks of a graph, dependencies first.
type walker struct {
	g     *grapher
	color []uint8 // by node
	seen  int     // tasks that are done
	path  []step
}

// step is a task on the way from a wanted key, and the dependency that it has come to.
type step struct {
	t    *Task
	next int
}

const (
	white uint8 = iota
	grey        // on the path
	black       // done
)

func newWalker(g *grapher) *walker { return &walker{g: g, color: make([]uint8, len(g.nodes))} }

func (w *walker) reset() {
	clear(w.color)
	w.seen = 0
}

func (w *walker) done(t *Task) bool { return w.color[t.node()] == black }

func (w *walker) visitAll(wanted []*Task) error {
	for _, t := range wanted {
		if t.turn < 0 && w.color[t.node()] == white {
			if err := w.visit(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// visit colours everything that t needs. A task on the path that is met again is a cycle.
func (w *walker) visit(t *Task) error {
	w.color[t.node()] = grey
	w.path = append(w.path[:0], step{t, 0})
	for len(w.path) > 0 {
		top := &w.path[len(w.path)-1]
		if top.next == len(top.t.deps) {
			w.finish(top.t)
			w.path = w.path[:len(w.path)-1]
			continue
		}
		d := top.t.deps[top.next].t
		top.next++
		if d.turn >= 0 { // known before: it cannot depend on a new task
			continue
		}
		switch w.color[d.node()] {
		case white:
			w.color[d.node()] = grey
			w.path = append(w.path, step{d, 0})
		case grey:
			return w.cycle(d)
		}
	}
	return nil
}

// finish passes on what is lost: who needs it is lost as well.
func (w *walker) finish(t *Task) {
	i := t.node()
	w.color[i] = black
	w.seen++
	if !w.g.bad {
		return
	}
	for j := range t.deps {
		if d := t.deps[j].t; d.turn < 0 && w.g.lost[d.node()] {
			w.g.lost[i] = true
		}
	}
}

// cycle describes the cycle that closes with t, as far as people want to read it.
func (w *walker) cycle(t *Task) error {
	var names []string
	for i := len(w.path) - 1; i >= 0; i-- {
		names = append(names, w.path[i].t.key.String())
		if w.path[i].t == t {
			break
		}
	}
	names = append(names, names[0])
	if len(names) > 12 {
		names = append(append(names[:6:6], fmt.Sprintf("… %d more …", len(names)-11)), names[len(names)-5:]...)
	}
	return fmt.Errorf("scheduler: the graph has a cycle: %s", strings.Join(names, " is needed by "))
}

// orderTasks finds the order in which the new tasks of a graph should run: depth first, so that results are
// used up soon after they are there. Where several ways lead on, the one that needs most goes first: what
// it leaves behind is one result, while the others have not begun to fill memory. Outputs that need little
// go before those that need much, and equals as the client sent them. The time is that of sorting the edges.
func orderTasks(g *grapher, w *walker, wanted []*Task) {
	weight := weigh(g, w)
	byWeight := func(a, b *Task) int {
		x, y := weight[a.node()], weight[b.node()]
		switch {
		case x != y && x > y:
			return -1
		case x != y:
			return 1
		}
		return a.node() - b.node()
	}
	for _, t := range g.fresh {
		if len(t.deps) < 2 {
			continue
		}
		slices.SortStableFunc(t.deps, func(a, b edge) int {
			if a.t.turn >= 0 || b.t.turn >= 0 { // known ones first: they cost nothing
				return int(b2i(a.t.turn < 0)) - int(b2i(b.t.turn < 0))
			}
			return byWeight(a.t, b.t)
		})
	}
	outputs := make([]*Task, 0, len(wanted))
	for _, t := range wanted {
		if t.turn < 0 {
			outputs = append(outputs, t)
		}
	}
	slices.SortStableFunc(outputs, func(a, b *Task) int {
		x, y := weight[a.node()], weight[b.node()]
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return a.node() - b.node()
	})
	o := &orderer{w: w}
	w.reset()
	for _, t := range outputs {
		o.visit(t)
	}
}

func b2i(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// weigh counts what each task needs, itself included. What is needed along two ways counts twice, as in a tree:
// that is cheap, and good enough to compare by.
func weigh(g *grapher, w *walker) []float32 {
	weight := make([]float32, len(g.nodes))
	w.reset()
	var path []step
	for _, first := range g.fresh {
		if w.color[first.node()] != white {
			continue
		}
		w.color[first.node()] = grey
		path = append(path[:0], step{first, 0})
		for len(path) > 0 {
			top := &path[len(path)-1]
			if top.next < len(top.t.deps) {
				d := top.t.deps[top.next].t
				top.next++
				if d.turn < 0 && w.color[d.node()] == white {
					w.color[d.node()] = grey
					path = append(path, step{d, 0})
				}
				continue
			}
			sum := float32(1)
			for i := range top.t.deps {
				if d := top.t.deps[i].t; d.turn < 0 {
					sum += weight[d.node()]
				}
			}
			weight[top.t.node()] = min(sum, 1e30)
			path = path[:len(path)-1]
		}
	}
	return weight
}

// orderer numbers tasks when all that they need has been numbered.
type orderer struct {
	w    *walker
	next int64
	path []step
}

func (o *orderer) visit(t *Task) {
	color := o.w.color
	if color[t.node()] != white {
		return
	}
	color[t.node()] = grey
	o.path = append(o.path[:0], step{t, 0})
	for len(o.path) > 0 {
		top := &o.path[len(o.path)-1]
		if top.next == len(top.t.deps) {
			top.t.prio.Order = o.next
			o.next++
			o.path = o.path[:len(o.path)-1]
			continue
		}
		d := top.t.deps[top.next].t
		top.next++
		if d.turn < 0 && color[d.node()] == white {
			color[d.node()] = grey
			o.path = append(o.path, step{d, 0})
		}
	}
}
