package daskgraph

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/task/taskgraph"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/wire"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

var inc = task.Register1("daskgraph.inc", func(_ context.Context, x int) (int, error) { return x + 1, nil })

// call encodes a call of inc with a reference.
func call(t *testing.T, ref string) ([]byte, []task.Key) {
	t.Helper()
	var b task.Builder
	b.Begin(inc)
	if err := task.NewParam[int]().Arg(&b, task.RefTo[int](task.NewKey(ref))); err != nil {
		t.Fatal(err)
	}
	return b.Append(nil), slices.Clone(b.Deps())
}

// python encodes a call of a Python function.
func python(t *testing.T, key string) []byte {
	t.Helper()
	f, err := task.NewPyFunc("operator:neg")
	if err != nil {
		t.Fatal(err)
	}
	c, err := f.Call([]any{1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := c.Append(nil, task.NewKey(key))
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

func open(t *testing.T, g *Graph) *pickle.Dict {
	t.Helper()
	tree, err := pickle.Load(g.Expr.Frames[0].Bytes(), nil, pickle.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	d, _, ok := pickle.AsGraph(tree)
	if !ok {
		t.Fatalf("the pickle is %s, want a graph", pickle.Repr(tree))
	}
	return d
}

func TestGraph(t *testing.T) {
	var w taskgraph.Writer
	spec, deps := call(t, "dep")
	w.Spec(task.NewKey("go"), spec, deps, taskgraph.None, taskgraph.None)
	w.Spec(task.NewKey("known"), nil, nil, taskgraph.None, taskgraph.None) // the scheduler has it already
	w.Spec(task.NewKey("py"), python(t, "py"), nil, taskgraph.None, 9)
	g, err := New(w.SerializedFor("registry"), true)
	if err != nil {
		t.Fatal(err)
	}
	d := open(t, g)
	if d.Len() != 2 {
		t.Errorf("the graph has %d tasks, want 2", d.Len())
	}
	v, ok := d.Get("go")
	if !ok {
		t.Fatal("the task of the Go function is missing")
	}
	if refs := pickle.References(v); len(refs) != 1 || refs[0] != "dep" {
		t.Errorf("the task of the Go function needs %v, want dep", refs)
	}
	if text := pickle.Repr(v); !strings.Contains(text, "registry") || !strings.Contains(text, "daskgraph.inc") {
		t.Errorf("the task is %s, want registry and name in it", text)
	}
	order, err := msgpack.Decode(g.Priority)
	if err != nil {
		t.Fatal(err)
	}
	m := order.(msgpack.Map)
	if a, _ := m.Get("go"); a != int64(0) || len(m) != 2 {
		t.Errorf("the order is %v, want go at 0", m)
	}
	if a, _ := m.Get("py"); a != int64(9) {
		t.Errorf("the order is %v, want py at 9, as in the graph", m)
	}
	if g, err = New(w.SerializedFor(""), false); err != nil || g.Priority != nil {
		t.Errorf("a graph that the scheduler orders has the order %x, %v", g.Priority, err)
	}
}

func TestEqualAnnotations(t *testing.T) {
	var w taskgraph.Writer
	at := w.Annotations(&taskgraph.Annotations{Retries: 2})
	w.Spec(task.NewKey("a"), python(t, "a"), nil, at, 0)
	w.Spec(task.NewKey("b"), python(t, "b"), nil, at, 1)
	g, err := New(w.SerializedFor(""), true)
	if err != nil || g.Pickled != nil {
		t.Fatalf("equal annotations are pickled: %v", err)
	}
	v, err := msgpack.Decode(g.Annotations)
	if err != nil {
		t.Fatal(err)
	}
	m := v.(msgpack.Map)
	if n, _ := m.Get("retries"); n != int64(2) || len(m) != 1 {
		t.Errorf("annotations %v, want two retries", m)
	}
}

// Tasks of Go functions require a worker that has them, by a resource of which they use nothing.
func TestGoResource(t *testing.T) {
	var w taskgraph.Writer
	spec, deps := call(t, "x")
	at := w.Annotations(&taskgraph.Annotations{Resources: map[string]float64{"GPU": 2}})
	w.Spec(task.NewKey("a"), spec, deps, at, 0)
	g, err := New(w.SerializedFor(""), true)
	if err != nil {
		t.Fatal(err)
	}
	v, err := msgpack.Decode(g.Annotations)
	if err != nil {
		t.Fatal(err)
	}
	r, _ := v.(msgpack.Map).Get("resources")
	m := r.(msgpack.Map)
	gpu, _ := m.Get("GPU")
	goes, ok := m.Get("go")
	if gpu != 2.0 || !ok || goes != 0.0 || len(m) != 2 {
		t.Errorf("resources %v, want GPU: 2 and go: 0", m)
	}
}

// Only the tasks of Go functions require such a worker, whatever other tasks are in their graph.
func TestGoResourceAmongPython(t *testing.T) {
	spec, deps := call(t, "x")
	for _, names := range [][]string{{"go", "py"}, {"py", "go"}} {
		var w taskgraph.Writer
		for i, name := range names {
			if name == "go" {
				w.Spec(task.NewKey(name), spec, deps, taskgraph.None, int64(i))
			} else {
				w.Spec(task.NewKey(name), python(t, name), nil, taskgraph.None, int64(i))
			}
		}
		g, err := New(w.SerializedFor(""), true)
		if err != nil {
			t.Fatal(err)
		}
		if text := annotations(t, g); !strings.Contains(text, "'go': {'go': 0") || !strings.Contains(text, "'py': {}") {
			t.Errorf("%v: the annotations are %s, want the resource of go alone", names, text)
		}
	}
}

// annotations formats annotations that differ between tasks.
func annotations(t *testing.T, g *Graph) string {
	t.Helper()
	if g.Pickled == nil || g.Annotations != nil {
		t.Fatalf("annotations that differ are %x, pickled %x", g.Annotations, g.Pickled)
	}
	header, err := msgpack.Decode(g.Pickled)
	if err != nil {
		t.Fatal(err)
	}
	data, _ := header.(msgpack.Map).Get("pickled-obj")
	tree, err := pickle.Load(data.([]byte), nil, pickle.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return pickle.Repr(tree)
}

func TestDifferentAnnotations(t *testing.T) {
	var w taskgraph.Writer
	a := w.Annotations(&taskgraph.Annotations{Workers: []string{"w1"}, AllowOtherWorkers: true, Timeout: 2.5})
	b := w.Annotations(&taskgraph.Annotations{Priority: -1, HasPriority: true})
	w.Spec(task.NewKey("a"), python(t, "a"), nil, a, 0)
	w.Spec(task.NewKey("b"), python(t, "b"), nil, b, 1)
	g, err := New(w.SerializedFor(""), true)
	if err != nil {
		t.Fatal(err)
	}
	text := annotations(t, g)
	for _, part := range []string{"'workers'", "'allow_other_workers'", "'timeout'", "'priority'", "'w1'",
		"__getitem__"} {
		if !strings.Contains(text, part) {
			t.Errorf("the annotations are %s, want %s in them", text, part)
		}
	}
	for _, part := range []string{"'retries'", "'resources'"} {
		if strings.Contains(text, part) {
			t.Errorf("the annotations are %s, want no %s in them", text, part)
		}
	}
}

func TestMistakes(t *testing.T) {
	var w taskgraph.Writer
	w.Spec(task.NewKey("a"), []byte("MS\x01\xc1"), nil, taskgraph.None, 0)
	if _, err := New(w.SerializedFor(""), true); err == nil {
		t.Error("malformed call: got nil, want an error")
	}
	if _, err := New(&wire.Serialized{}, true); err == nil {
		t.Error("malformed graph: got nil, want an error")
	}
	empty := taskgraph.Writer{}
	g, err := New(empty.SerializedFor(""), true)
	if err != nil || open(t, g).Len() != 0 || string(g.Annotations) != "\x80" {
		t.Errorf("an empty graph: %v", err)
	}
}
