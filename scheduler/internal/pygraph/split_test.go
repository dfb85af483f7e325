package pygraph

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/wire"
)

// Pickles of Dask are split or left to Python like in the oracle; each task can be read by a worker.
func TestSeeds(t *testing.T) {
	for _, s := range seeds(t) {
		g, ok, err := Split(expr(s.Frames...), s.keys(), Limits{})
		if err != nil || ok != s.OK {
			t.Errorf("%s: got %v, error %v", s.Name, ok, err)
			continue
		}
		if ok != (whyNot(expr(s.Frames...), s.keys(), Limits{}) == nil) {
			t.Errorf("%s: Split and split differ", s.Name)
		}
		if ok {
			checkGraph(t, s.Name, g)
		}
	}
}

// checkGraph reads each task like a worker.
func checkGraph(t testing.TB, name string, g *Graph) {
	t.Helper()
	seen := make(map[task.Key]bool)
	for _, n := range g.Nodes {
		if seen[n.Key] {
			t.Errorf("%s: got %s twice", name, n.Key)
		}
		seen[n.Key] = true
		spec := n.Spec.Append(nil)
		if len(spec) != n.Spec.Len() {
			t.Errorf("%s: %s: got %d bytes, want %d", name, n.Key, len(spec), n.Spec.Len())
		}
		tree, used, err := pickle.LoadNext(spec, n.Spec.Buffers, pickle.Limits{Depth: 5000})
		if err != nil {
			t.Errorf("%s: %s: %v", name, n.Key, err)
			continue
		}
		if used != len(spec) {
			t.Errorf("%s: %s: got %d bytes of %d read", name, n.Key, used, len(spec))
		}
		x, ok := pickle.AsTask(tree)
		if !ok {
			t.Errorf("%s: %s: got %s, want a task", name, n.Key, pickle.Repr(tree))
			continue
		}
		var s splitter
		s.left = 1 << 30
		if key, err := s.key(x.Key); err != nil || key != n.Key {
			t.Errorf("%s: %s: got key %s, error %v", name, n.Key, key, err)
		}
		deps, err := s.deps(x.Dependencies)
		if err != nil || fmt.Sprint(deps) != fmt.Sprint(n.Deps) {
			t.Errorf("%s: %s: got dependencies %s, error %v, want %s", name, n.Key, deps, err, n.Deps)
		}
	}
}

func TestMapShares(t *testing.T) {
	fn := function(t)
	g, ok, err := Split(dumped(t, mapOf(fn, pickle.Tuple{&pickle.List{Items: []pickle.Value{int64(1), "x"}}},
		pickle.NewDict("k", int64(7)), "a", "b")), nil, Limits{})
	if !ok || err != nil || len(g.Nodes) != 2 || !g.Ordered {
		t.Fatal(g, ok, err)
	}
	checkGraph(t, "map", g)
	a, b := g.Nodes[0].Spec, g.Nodes[1].Spec
	if &a.Shared[0] != &b.Shared[0] || len(a.Own) > 40 || len(b.Own) > 40 {
		t.Errorf("unshared bytes: got %d and %d, want at most 40", len(a.Own), len(b.Own))
	}
	tree, err := pickle.Load(b.Append(nil), nil, pickle.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	x, _ := pickle.AsTask(tree)
	if !pickle.Equal(x.Func, fn) || !pickle.Equal(x.Args, pickle.Tuple{"x"}) ||
		!pickle.Equal(x.Kwargs, pickle.NewDict("k", int64(7))) || g.Nodes[1].Order != 1 {
		t.Errorf("got %s(%s, %s), number %d", pickle.Repr(x.Func), x.Args, x.Kwargs, g.Nodes[1].Order)
	}
}

// Objects that the function and an argument share are one object in each task.
func TestMapKeepsIdentity(t *testing.T) {
	common := &pickle.List{Items: []pickle.Value{int64(1)}}
	fn := pickle.Call(pickle.Global{Module: "functools", Name: "partial"},
		add).WithState(pickle.Tuple{add, pickle.Tuple{common}, new(pickle.Dict), nil})
	g, ok, err := Split(dumped(t, mapOf(fn, pickle.Tuple{&pickle.List{Items: []pickle.Value{common,
		pickle.Tuple{common, common}}}}, pickle.NewDict("k", common), "a", "b")), nil, Limits{})
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	for i, n := range g.Nodes {
		tree, err := pickle.Load(n.Spec.Append(nil), nil, pickle.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		x, _ := pickle.AsTask(tree)
		state, _ := x.Func.(*pickle.Object).State()
		want := state.(pickle.Tuple)[1].(pickle.Tuple)[0].(*pickle.List)
		k, _ := x.Kwargs.Get("k")
		got := []pickle.Value{k, x.Args[0]}
		if i == 1 {
			got = append(pickle.Tuple{k}, x.Args[0].(pickle.Tuple)...)
		}
		for j, v := range got {
			if v.(*pickle.List) != want {
				t.Errorf("task %d: got another list at %d", i, j)
			}
		}
	}
}

// Buffers stay out of band, in each task those that it uses, in order.
func TestBuffers(t *testing.T) {
	shared, one, two := []byte("shared"), []byte("one"), []byte("two")
	fn := pickle.Call(pickle.Global{Module: "functools", Name: "partial"},
		add).WithState(pickle.Tuple{add, pickle.Tuple{&pickle.Buffer{Data: shared, ReadOnly: true}}, new(pickle.Dict),
		nil})
	e := mapOf(fn, pickle.Tuple{&pickle.List{Items: []pickle.Value{&pickle.Buffer{Data: one}, int64(5),
		&pickle.Buffer{Data: two}}}}, new(pickle.Dict), "a", "b", "c")
	var bufs [][]byte
	b, err := pickle.Append(nil, e, pickle.Options{Protocol: 5, Buffers: &bufs})
	if err != nil || len(bufs) != 3 {
		t.Fatal(len(bufs), err)
	}
	g, ok, err := Split(expr(append([][]byte{b}, bufs...)...), nil, Limits{})
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	want := []string{"shared one", "shared", "shared two"}
	for i, n := range g.Nodes {
		var got []string
		for _, b := range n.Spec.Buffers {
			got = append(got, string(b))
		}
		if strings.Join(got, " ") != want[i] {
			t.Errorf("task %d: got buffers %q", i, got)
		}
	}
	checkGraph(t, "buffers", g)
}

func TestCull(t *testing.T) {
	e := dumped(t, llg(
		"a", stateTask("a", add, pickle.Tuple{int64(1)}),
		"b", stateTask("b", add, pickle.Tuple{pickle.NewTaskRef("a")}, "a"),
		"c", stateTask("c", add, pickle.Tuple{int64(2)}),
		"d", pickle.NewAlias("d", "d"),
		"e", pickle.NewAlias("e", "b"),
		"f", pickle.NewDataNode("f", int64(3)),
	))
	for _, c := range []struct{ wanted, want string }{
		{"a", "a"}, {"b", "a b"}, {"e", "a b e"}, {"d", ""}, {"c f", "c f"}, {"nothing", ""}, {"", ""},
	} {
		var keys []task.Key
		for _, k := range strings.Fields(c.wanted) {
			keys = append(keys, task.NewKey(k))
		}
		g, ok, err := Split(e, keys, Limits{})
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		var got []string
		for _, n := range g.Nodes {
			got = append(got, n.Key.String())
			if n.Producer != (n.Key.String() == "f") {
				t.Errorf("%s: got Producer %v", n.Key, n.Producer)
			}
		}
		if strings.Join(got, " ") != c.want || g.Ordered {
			t.Errorf("for %q: got %q", c.wanted, got)
		}
	}
}

// A truncated pickle is an error; other unusual ones are left to Python.
func TestBroken(t *testing.T) {
	s := seedNamed(t, "submit lambda")
	whole := s.Frames[0]
	for n := range whole {
		_, ok, err := Split(expr(whole[:n]), s.keys(), Limits{})
		if ok || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("%d of %d bytes: got %v, error %v, want io.ErrUnexpectedEOF", n, len(whole), ok, err)
		}
	}
	for name, e := range map[string]*wire.Serialized{
		"no header":    {Header: []byte{0xc1}, Frames: expr(whole).Frames},
		"no frames":    expr(),
		"other family": {Header: []byte("\x81\xaaserializer\xa4dask"), Frames: expr(whole).Frames},
		"a wrong split": {Header: []byte("\x82\xaaserializer\xa6pickle\xabcompression\x91\xa4none"),
			Frames: expr(whole).Frames},
	} {
		if _, ok, err := Split(e, s.keys(), Limits{}); ok || err == nil {
			t.Errorf("%s: got %v, error %v, want an error", name, ok, err)
		}
	}
	for name, v := range map[string]pickle.Value{
		"a number":     int64(1),
		"another call": pickle.Call(add, int64(1), int64(2)),
		"a bare class": llgExpr,
		"few operands": pickle.Call(reconstruct, mapExpr, add, "token", new(pickle.Dict)),
		"a cache":      pickle.Call(reconstruct, llgExpr, new(pickle.Dict), "token", pickle.NewDict("a", int64(1))),
		"no cache":     pickle.Call(reconstruct, llgExpr, new(pickle.Dict), "token"),
		"a step":       llg().WithState(int64(1)),
		"no dict":      pickle.Call(reconstruct, llgExpr, int64(1), "token", new(pickle.Dict)),
		"two layouts":  llg("a", stateTask("a", add, pickle.Tuple{}).WithState(int64(1))),
		"a subclass":   llg("a", pickle.New(pickle.Global{Module: "mine", Name: "Task"})),
		"a bool key":   llg(true, stateTask(true, add, pickle.Tuple{})),
		"float key":    llg(2.0, stateTask(2.0, add, pickle.Tuple{})),
		"None key":     llg(nil, stateTask(nil, add, pickle.Tuple{})),
		"list of deps": llg("a", pickle.New(pickle.Global{Module: taskModule,
			Name: "Task"}).WithState(pickle.Tuple{false, &pickle.List{}, nil, nil, nil, pickle.Tuple{}, add, "a",
			new(pickle.Dict)})),
		"positional": mapOf(add, pickle.Tuple{int64(5)}, new(pickle.Dict), "a"),
		"keyword":    mapOf(add, pickle.Tuple{}, pickle.NewDict(int64(1), int64(1)), "a"),
	} {
		if _, ok, err := Split(dumped(t, v), nil, Limits{}); ok || err != nil {
			t.Errorf("%s: got %v, error %v, want false", name, ok, err)
		}
	}
}

// whyNot returns why Split leaves an expression to Python, nil if it does not.
func whyNot(expr *wire.Serialized, keys []task.Key, lim Limits) error {
	_, err := split(expr, keys, lim.withDefaults())
	return err
}
