package inspect

import (
	"cmp"
	"context"
	"slices"

	"go.millstream.dev/internal/dashboard"
	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/scheduler/internal/loop"
)

// Bounds of the page of the graph: single tasks, groups, and slots of the table of tasks and dependencies that one
// visit of the loop walks, about a millisecond.
const (
	maxGraphTasks  = 300
	maxGraphGroups = 500
	walkSlots      = 1 << 14
	walkDeps       = 1 << 16
)

// groupEdge is a dependency of a group, the second, on another.
type groupEdge [2]*state.Group

// edgeWalk counts the dependencies between groups. A visit of the loop walks a bounded part of the tasks; when a pass
// is complete, the next one starts. The loop owns it.
type edgeWalk struct {
	next   int
	counts map[groupEdge]int // of the present pass
	whole  map[groupEdge]int // of the last complete pass; nil before
}

// maxEdges bounds the edges between groups.
const maxEdges = 1 << 14

// step walks the next part.
func (w *edgeWalk) step(s *state.State) {
	if w.next == 0 {
		w.counts = map[groupEdge]int{}
	}
	left := walkDeps
	w.next = state.Walk(s, w.next, walkSlots, func(t *state.Task) {
		n := min(t.NumDeps(), left)
		left -= n
		for i := range n {
			k := groupEdge{t.Dep(i).Group(), t.Group()}
			if n := w.counts[k]; n > 0 || len(w.counts) < maxEdges {
				w.counts[k] = n + 1
			}
		}
	})
	if w.next == 0 {
		w.whole = w.counts
	}
}

// edges returns the counts of the last complete pass, or what is known of the first one.
func (w *edgeWalk) edges() (counts map[groupEdge]int, complete bool) {
	if w.whole != nil {
		return w.whole, true
	}
	return w.counts, false
}

// Graph implements dashboard.Source.
func (s *source) Graph(ctx context.Context) (dashboard.Graph, error) {
	return loop.Ask(ctx, s.Loop, func() (dashboard.Graph, error) {
		if s.State.NumTasks() <= maxGraphTasks {
			s.walk = edgeWalk{}
			return s.taskGraph(), nil
		}
		s.walk.step(s.State)
		return s.groupGraph(), nil
	})
}

// taskGraph returns all tasks.
func (s *source) taskGraph() dashboard.Graph {
	g := dashboard.Graph{Complete: true, Nodes: []dashboard.Node{}, Edges: [][3]int{}}
	var tasks []*state.Task
	for t := range s.State.Tasks() {
		tasks = append(tasks, t)
	}
	slices.SortFunc(tasks, func(a, b *state.Task) int {
		return cmp.Or(a.Priority().Compare(b.Priority()), cmp.Compare(a.Key(), b.Key()))
	})
	index := make(map[*state.Task]int, len(tasks))
	for i, t := range tasks {
		index[t] = i
		g.Nodes = append(g.Nodes, dashboard.Node{ID: t.Key().String(), Label: t.Prefix().Name(),
			State: t.State().String(), Tasks: 1})
	}
	for i, t := range tasks {
		for j := range t.NumDeps() {
			g.Edges = append(g.Edges, [3]int{index[t.Dep(j)], i, 1})
		}
	}
	return g
}

// groupGraph returns the groups with the most tasks.
func (s *source) groupGraph() dashboard.Graph {
	g := dashboard.Graph{Grouped: true, Nodes: []dashboard.Node{}, Edges: [][3]int{}}
	for gr := range s.State.Groups() {
		n := dashboard.Node{ID: gr.Name(), Label: gr.Prefix().Name(), Counts: map[string]int{}}
		for _, st := range state.TaskStates() {
			if c := gr.Count(st); c > 0 {
				n.Counts[st.String()] = c
				n.Tasks += c
			}
		}
		g.Nodes = append(g.Nodes, n)
		if len(g.Nodes) >= 10*maxGraphGroups {
			break
		}
	}
	slices.SortFunc(g.Nodes, func(a, b dashboard.Node) int {
		return cmp.Or(cmp.Compare(b.Tasks, a.Tasks), cmp.Compare(a.ID, b.ID))
	})
	g.Nodes = g.Nodes[:min(len(g.Nodes), maxGraphGroups)]
	index := make(map[string]int, len(g.Nodes))
	for i, n := range g.Nodes {
		index[n.ID] = i
	}
	counts, complete := s.walk.edges()
	g.Complete = complete
	for k, n := range counts {
		from, ok1 := index[k[0].Name()]
		to, ok2 := index[k[1].Name()]
		if ok1 && ok2 {
			g.Edges = append(g.Edges, [3]int{from, to, n})
		}
	}
	slices.SortFunc(g.Edges, func(a, b [3]int) int {
		return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
	})
	return g
}
