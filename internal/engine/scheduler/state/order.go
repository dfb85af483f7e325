package state

import (
	"fmt"
	"slices"
	"strings"
)

// walker traverses the new tasks of a graph, dependencies first.
type walker struct {
	g     *grapher
	color []uint8 // by node
	seen  int     // number of black tasks
	path  []step
}

// step is a task on the path from a requested key, and the index of its current dependency.
type step struct {
	t    *Task
	next int
}

const (
	white uint8 = iota
	gray        // on the path
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

// visit colors all dependencies of t. A task on the path that is visited again is a cycle.
func (w *walker) visit(t *Task) error {
	w.color[t.node()] = gray
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
		if d.turn >= 0 { // a known task cannot depend on a new one
			continue
		}
		switch w.color[d.node()] {
		case white:
			w.color[d.node()] = gray
			w.path = append(w.path, step{d, 0})
		case gray:
			return w.cycle(d)
		}
	}
	return nil
}

// finish propagates lost tasks to their dependents.
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

// cycle describes the cycle that closes with t, abbreviated.
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
	return fmt.Errorf("scheduler: graph has a cycle: %s", strings.Join(names, " is needed by "))
}

// orderTasks determines the order in which the new tasks of a graph run: depth first, so that results are used soon
// after they are computed. Of several dependencies the one with the most work goes first: it leaves one result, while
// the others have not started to fill memory. Outputs with little work go before those with much, and equal ones in the
// order of the client. The time is that of sorting the edges.
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
			if a.t.turn >= 0 || b.t.turn >= 0 { // known ones first: they need no work
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

// weigh counts the dependencies of each task, including itself. Shared dependencies are counted once per path, which is
// cheap and good enough for comparisons.
func weigh(g *grapher, w *walker) []float32 {
	weight := make([]float32, len(g.nodes))
	w.reset()
	var path []step
	for _, first := range g.fresh {
		if w.color[first.node()] != white {
			continue
		}
		w.color[first.node()] = gray
		path = append(path[:0], step{first, 0})
		for len(path) > 0 {
			top := &path[len(path)-1]
			if top.next < len(top.t.deps) {
				d := top.t.deps[top.next].t
				top.next++
				if d.turn < 0 && w.color[d.node()] == white {
					w.color[d.node()] = gray
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

// orderer numbers tasks when all their dependencies have been numbered.
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
	color[t.node()] = gray
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
			color[d.node()] = gray
			o.path = append(o.path, step{d, 0})
		}
	}
}
