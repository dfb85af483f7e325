package inspect

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.millstream.dev/internal/dashboard"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/peers"
)

// submitMany adds a graph of n tasks a and one task b that depends on all of them.
func submitMany(r *rig, n int) {
	r.Do(func() {
		last := []string{"b-0"}
		var list [][]string
		for i := range n {
			key := fmt.Sprintf("a-%d", i)
			list = append(list, []string{key})
			last = append(last, key)
		}
		r.Submit(r.AddClient("many", nil), append(list, last)...)
	})
}

// Up to 300 tasks are shown one by one, more by group, with the numbers of dependencies.
func TestGraph(t *testing.T) {
	r := start(t)
	s := &source{Inspector: r.Inspector}
	g, err := s.Graph(t.Context())
	if err != nil || g.Grouped || !g.Complete || len(g.Nodes) != 2 || !slices.Equal(g.Edges, [][3]int{{0, 1, 1}}) ||
		g.Nodes[0].ID != "x" || g.Nodes[0].State != "memory" {
		t.Errorf("small graph: got %+v, error %v, want x and y", g, err)
	}
	submitMany(r, maxGraphTasks)
	g, err = s.Graph(t.Context())
	if err != nil || !g.Grouped || !g.Complete || g.Nodes[0].ID != "a" || g.Nodes[0].Tasks != maxGraphTasks {
		t.Fatalf("large graph: got %+v, error %v, want group a first", g, err)
	}
	edges := map[string]int{}
	for _, e := range g.Edges {
		edges[g.Nodes[e[0]].ID+" "+g.Nodes[e[1]].ID] = e[2]
	}
	if len(edges) != 2 || edges["a b"] != maxGraphTasks || edges["x y"] != 1 {
		t.Errorf("edges: got %v, want %d from a to b and 1 from x to y", edges, maxGraphTasks)
	}
}

// A pass over many tasks takes several visits; the last complete one is shown meanwhile.
func TestEdgeWalk(t *testing.T) {
	r := start(t)
	submitMany(r, 100)
	r.Do(func() {
		var w edgeWalk
		w.next = 1 // as in the middle of the first pass
		w.counts = map[groupEdge]int{}
		if _, complete := w.edges(); complete {
			t.Error("first pass: got complete, want not")
		}
		w.step(r.Host.State)
		if n, complete := w.edges(); !complete || len(n) == 0 {
			t.Errorf("after a pass: got %v, complete %v", n, complete)
		}
	})
}

func TestProgress(t *testing.T) {
	r := start(t)
	s := &source{Inspector: r.Inspector}
	submitMany(r, 3)
	list, err := s.Progress(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]dashboard.Prefix{}
	sum := 0
	for _, p := range list {
		got[p.Name] = p
		sum += p.Waiting + p.Queued + p.NoWorker + p.Processing + p.Memory
	}
	if sum != 6 || got["x"].Memory != 1 || got["x"].Bytes != 8 || got["b"].Waiting != 1 || got["x"].Forgotten != 0 {
		t.Errorf("progress: got %+v, want 6 tasks", list)
	}
}

// Workers are shown with what they report; impossible values are left out.
func TestWorkersPage(t *testing.T) {
	r := start(t)
	s := &source{Inspector: r.Inspector}
	r.Do(func() {
		r.worker.Metrics = msgpack.MapOf("task_counts", msgpack.MapOf("executing", int64(2), "ready", "x"),
			"gpu_memory_used", int64(5),
			"gpu_utilization", 1e300)
		r.worker.Services = msgpack.MapOf("dashboard", int64(8080))
		r.worker.Versions = msgpack.MapOf("packages", msgpack.MapOf("millstream", "v1.2"))
		r.worker.Recorded.RSS, r.worker.Recorded.Managed = 10, 20
	})
	list, err := s.Workers(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatalf("workers: got %+v, error %v, want one", list, err)
	}
	w := list[0]
	if w.Executing != 2 || w.Ready != 0 || w.Device == nil || w.Device.Used != 5 || w.Device.Utilization != 0 ||
		w.Dashboard != "http://h:8080" || w.Version != "v1.2" || w.Memory.Unmanaged != 0 || w.Held != 1 ||
		w.Processing != 1 || w.Transports == nil {
		t.Errorf("worker: got %+v", w)
	}
}

func TestCountsPage(t *testing.T) {
	r := start(t)
	r.Do(func() { r.worker.Recorded.RSS = 10 })
	s := &source{Inspector: r.Inspector}
	c, err := s.Counts(t.Context())
	if err != nil || c.Tasks["memory"] != 1 || c.Tasks["processing"] != 1 || c.Workers != 1 || c.Threads != 1 ||
		c.Memory != 10 {
		t.Errorf("counts: got %+v, error %v", c, err)
	}
	id := s.Identity()
	if id.ID != "the-id" || id.Started != 100 || id.Scheduler != "tcp://127.0.0.1:1" || id.Version == "" {
		t.Errorf("identity: got %+v", id)
	}
}

// The path follows the dependency that ended last.
func TestPath(t *testing.T) {
	r := start(t)
	submitMany(r, 3)
	s := &source{Inspector: r.Inspector}
	times := map[string]int64{"a-0": 1, "a-1": 3, "a-2": 2}
	stop := func(key string) (int64, bool) { n, ok := times[key]; return n, ok }
	path, err := s.Path(t.Context(), "b-0", stop)
	if err != nil || !slices.Equal(path, []string{"b-0", "a-1"}) {
		t.Errorf("path: got %v, error %v, want b-0 a-1", path, err)
	}
	if path, err = s.Path(t.Context(), "unknown", stop); err != nil || len(path) != 1 {
		t.Errorf("path of an unknown task: got %v, error %v, want itself", path, err)
	}
}

func TestStoryPage(t *testing.T) {
	r := start(t)
	s := &source{Inspector: r.Inspector}
	if list, err := s.Story(t.Context(), "x"); err != nil || len(list) < 3 || list[len(list)-1].Worker != "tcp://w" {
		t.Errorf("story of x: got %+v, error %v, want at least 3 steps that end on w", list, err)
	}
	for _, key := range []string{"", "unknown", "('x', 0)", strings.Repeat("k", 2*maxKeyText)} {
		if list, err := s.Story(t.Context(), key); err != nil || len(list) != 0 {
			t.Errorf("story of %.10q: got %+v, error %v, want none", key, list, err)
		}
	}
}

func TestLogsPage(t *testing.T) {
	r := start(t)
	r.Inspector.Lines = func(n int) []any { return []any{[]any{"INFO", "hello"}, "bad", []any{1}} }
	s := &source{Inspector: r.Inspector}
	if list, err := s.Logs(t.Context(), ""); err != nil || len(list) != 1 || list[0].Text != "hello" {
		t.Errorf("log: got %+v, error %v, want hello", list, err)
	}
	if _, err := s.Logs(t.Context(), "tcp://other:1"); !errors.Is(err, dashboard.ErrNoWorker) {
		t.Errorf("log of a stranger: got error %v, want %v", err, dashboard.ErrNoWorker)
	}
}

// The text of a key leads to the key.
func TestKeysOf(t *testing.T) {
	for _, v := range []any{"x", "it's", "", []any{"x", 1}, []any{"x"}, []any{"a'b", 1.5, []any{"y", -2}},
		[]any{[]any{}}} {
		k, err := task.KeyOf(v)
		if err != nil {
			t.Fatal(err)
		}
		if got := keysOf(k.String()); !slices.Contains(got, k) {
			t.Errorf("keys of %s: got %q, want %q", k.String(), got, string(k))
		}
	}
	for _, text := range []string{"(", "()x", "('x'", "('x' 1)", "(1", "(x)", strings.Repeat("(", 100), "(1,,2)"} {
		if got := keysOf(text); len(got) != 1 {
			t.Errorf("keys of %.20q: got %q, want the string only", text, got)
		}
	}
}

func FuzzKeysOf(f *testing.F) {
	f.Add("('x', 1, ('y',))")
	f.Add("((")
	f.Fuzz(func(t *testing.T, text string) {
		for _, k := range keysOf(text) {
			if _, err := task.ParseKey([]byte(k)); err != nil {
				t.Errorf("key of %q: %v", text, err)
			}
		}
	})
}

// The reports of the ranks of a clique are one entry; the rank that spent the least time is the slowest.
func TestCliquesPage(t *testing.T) {
	r := start(t)
	op := func(seconds float64) []peers.CliqueOp {
		return []peers.CliqueOp{{Name: "AllReduce", Count: 3, Bytes: 30, Seconds: seconds}}
	}
	r.Do(func() {
		r.worker.Recorded.Cliques = []peers.CliqueReport{
			{ID: "b", Rank: 0, Size: 1, Backend: "tcp", Error: "worker lost"},
			{ID: "a", Rank: 1, Size: 2, Backend: "ucx", Ops: op(1)},
			{ID: "a", Rank: 0, Size: 2, Backend: "ucx", Ops: op(3)},
			{ID: "0", Rank: 0, Size: 2, Backend: "ucx", End: 10},
			{ID: "0", Rank: 1, Size: 2, Backend: "ucx", End: 12, Error: "closed by the peer"},
			{ID: "1", Rank: 0, Size: 2, Backend: "ucx", End: 20}, // its other rank is not in the report yet
			{ID: "c", Rank: 0, Size: 2, Backend: "ucx", End: 11}, {ID: "c", Rank: 1, Size: 2, Backend: "ucx"},
		}
	})
	list, err := (&source{Inspector: r.Inspector}).Cliques(t.Context())
	var past []string
	for _, c := range list[min(3, len(list)):] {
		past = append(past, fmt.Sprint(c.ID, " ", c.State, " ", c.End))
	}
	if want := []string{"1 dissolved 20", "0 dissolved 12"}; !slices.Equal(past, want) {
		t.Errorf("dissolved cliques: got %q, want %q", past, want)
	}
	if len(list) > 2 && (list[2].ID != "c" || list[2].State != "running" || list[2].End != 0) {
		t.Errorf("clique with an open rank: got %+v", list[2])
	}
	if err != nil || len(list) != 5 || list[0].ID != "a" || len(list[0].Ranks) != 2 || list[0].Ranks[1].Rank != 1 ||
		list[1].State != "failed: worker lost" || list[0].State != "running" {
		t.Fatalf("cliques: got %+v, error %v, want a with two ranks and b", list, err)
	}
	if list[0].Name != "a over ucx" {
		t.Errorf("name: got %q, want %q", list[0].Name, "a over ucx")
	}
	id := "reduce-29090246057c3114c41f21f19298875e"
	if got := cliqueName(id, "shm"); got != "reduce over shm" {
		t.Errorf("name of %s: got %q, want %q", id, got, "reduce over shm")
	}
	want := dashboard.Collective{Op: "AllReduce", Count: 3, Bytes: 30, Seconds: 2,
		Slowest: dashboard.Slowest{Rank: 1, Seconds: 1}}
	if got := list[0].Collectives; len(got) != 1 || got[0] != want {
		t.Errorf("collectives: got %+v, want %+v", got, want)
	}
}
