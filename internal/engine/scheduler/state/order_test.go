package state

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.millstream.dev/internal/task/taskid"
	"pgregory.net/rapid"
)

// orderOf submits a graph without an order and returns the names of its tasks in the determined order.
func orderOf(t *testing.T, nodes []Node, want ...string) []string {
	t.Helper()
	r := newRig(Config{Validate: true})
	c := r.addClient("c")
	ev := &UpdateGraph{Client: c, Graph: &Graph{Nodes: nodes}, Keys: keysOf(want...)}
	if r.apply(ev); ev.Err != nil {
		t.Fatal(ev.Err)
	}
	var tasks []*Task
	for x := range r.Tasks() {
		tasks = append(tasks, x)
	}
	slices.SortFunc(tasks, func(a, b *Task) int { return a.prio.Compare(b.prio) })
	names := make([]string, len(tasks))
	for i, x := range tasks {
		names[i] = x.key.String()
	}
	return names
}

func nodes(lines ...string) []Node {
	var ns []Node
	for _, l := range lines {
		name, deps, _ := strings.Cut(l, "<-")
		ns = append(ns, Node{Key: taskid.NewKey(strings.TrimSpace(name)), Spec: []byte("f"),
			Deps: keysOf(strings.Fields(deps)...)})
	}
	return ns
}

func TestOrder(t *testing.T) {
	for _, c := range []struct {
		name  string
		nodes []Node
		want  []string
		order string
	}{
		{"chain", nodes("c <- b", "b <- a", "a"), []string{"c"}, "a b c"},
		{"depth first", nodes("a1", "a2", "b1 <- a1", "b2 <- a2", "c <- b1 b2"), []string{"c"}, "a1 b1 a2 b2 c"},
		{"heavy side first", nodes("light", "h1", "h2", "h3", "heavy <- h1 h2 h3", "out <- light heavy"),
			[]string{"out"}, "h1 h2 h3 heavy light out"},
		{"light output first", nodes("big1", "big2", "big <- big1 big2", "small"), []string{"big", "small"},
			"small big1 big2 big"},
		{"shared input is near its first use", nodes("s", "x <- s", "y <- s", "z <- x y"), []string{"z"}, "s x y z"},
		{"culled", nodes("a", "b <- a", "unused <- a"), []string{"b"}, "a b"},
		{"independent as sent", nodes("p", "q", "r"), []string{"r", "q", "p"}, "p q r"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := strings.Join(orderOf(t, c.nodes, c.want...), " "); got != c.order {
				t.Errorf("order: got %s, want %s", got, c.order)
			}
		})
	}
}

// pressure returns the maximum number of results in memory if tasks run one by one in the determined order: a result is
// released when its last dependent has run.
func pressure(g *Graph, order []int) int {
	users := make([]int, len(g.Nodes))
	for i := range g.Nodes {
		for _, d := range g.Nodes[i].DepNodes {
			users[d]++
		}
	}
	now, most := 0, 0
	for _, i := range order {
		now++
		most = max(most, now)
		for _, d := range g.Nodes[i].DepNodes {
			if users[d]--; users[d] == 0 {
				now--
			}
		}
	}
	return most
}

func TestOrderSavesMemory(t *testing.T) {
	g, keys := treeGraph(1024)
	r := newRig(Config{})
	c := r.addClient("c")
	r.apply(&UpdateGraph{Client: c, Graph: g, Keys: keys})
	order := make([]int, len(g.Nodes))
	for i := range g.Nodes {
		order[r.Task(g.Nodes[i].Key).prio.Order] = i
	}
	if most := pressure(g, order); most > 12 { // the depth of the tree, and a little
		t.Errorf("results at once of a tree of 1024 leaves: got %d, want at most 12", most)
	}
}

// Tasks must be able to run in the order, with each number used once.
func TestOrderIsTopological(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 60).Draw(t, "n")
		g := &Graph{Nodes: make([]Node, n)}
		perm := rapid.Permutation(func() (p []int) {
			for i := range n {
				p = append(p, i)
			}
			return p
		}()).Draw(t, "perm")
		keys := make([]taskid.Key, n)
		for at, i := range perm { // i may depend on those before it in perm
			keys[i] = taskid.NewKey(fmt.Sprintf("k-%d", i))
			g.Nodes[i] = Node{Key: keys[i], Spec: []byte("f")}
			for range rapid.IntRange(0, min(at, 3)).Draw(t, "deps") {
				g.Nodes[i].DepNodes = append(g.Nodes[i].DepNodes, int32(perm[rapid.IntRange(0, at-1).Draw(t, "dep")]))
			}
		}
		r := newRig(Config{Validate: true})
		c := r.addClient("c")
		ev := &UpdateGraph{Client: c, Graph: g, Keys: keys}
		if r.apply(ev); ev.Err != nil {
			t.Fatal(ev.Err)
		}
		seen := make([]bool, n)
		for i := range g.Nodes {
			o := r.Task(keys[i]).prio.Order
			if o < 0 || o >= int64(n) || seen[o] {
				t.Fatalf("number %d: out of range or used twice", o)
			}
			seen[o] = true
			for _, d := range g.Nodes[i].DepNodes {
				if r.Task(keys[d]).prio.Order >= o {
					t.Fatalf("%s: before a dependency", keys[i])
				}
			}
		}
	})
}

// Deep graphs must not need a deep stack.
func TestDeepGraph(t *testing.T) {
	const n = 50_000
	g := &Graph{Nodes: make([]Node, n)}
	for i := range n {
		g.Nodes[i] = Node{Key: taskid.NewKey(fmt.Sprintf("d-%d", i)), Spec: []byte("f")}
		if i > 0 {
			g.Nodes[i].DepNodes = []int32{int32(i - 1)}
		}
	}
	last := g.Nodes[n-1].Key
	r := newRig(Config{})
	r.addWorkers(2, 1)
	c := r.addClient("c")
	if ran := r.run(r.apply(&UpdateGraph{Client: c, Graph: g, Keys: []taskid.Key{last}})); ran != n {
		t.Fatalf("runs: got %d, want %d", ran, n)
	}
	r.apply(&ClientReleases{Client: c, Keys: []taskid.Key{last}})
	if r.NumTasks() != 0 {
		t.Fatalf("tasks: got %d, want 0", r.NumTasks())
	}
}
