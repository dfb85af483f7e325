package scheduler

import (
	"fmt"
	"strings"
	"testing"

	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/internal/wire/pickled"
	"go.millstream.dev/wire"
)

// submitPickled sends the message of a Python client for a graph of calls of operator.add: each key with its arguments,
// of which those that begin with "@" are references.
func (c *testClient) submitPickled(annotations any, tasks ...[]any) {
	c.t.Helper()
	class := func(name string) pickle.Global { return pickle.Global{Module: "dask._task_spec", Name: name} }
	dsk := pickle.NewDict()
	var keys []string
	for _, t := range tasks {
		key := t[0].(string)
		keys = append(keys, key)
		var args pickle.Tuple
		deps := &pickle.FrozenSet{}
		for _, a := range t[1:] {
			if s, ok := a.(string); ok && strings.HasPrefix(s, "@") {
				deps.Items = append(deps.Items, s[1:])
				a = pickle.Call(class("TaskRef"), s[1:])
			}
			args = append(args, a)
		}
		dsk.Set(key, pickle.New(class("Task")).WithState(
			pickle.Tuple{false, deps, nil, nil, nil, args, pickle.Global{Module: "_operator", Name: "add"}, key,
				pickle.NewDict()}))
	}
	expr := func(name string) pickle.Global { return pickle.Global{Module: "dask._expr", Name: name} }
	data, err := pickle.Dump(pickle.Call(expr("Expr._reconstruct"), expr("LLGExpr"), dsk, "0123456789abcdef",
		pickle.NewDict()))
	if err != nil {
		c.t.Fatal(err)
	}
	header, err := msgpack.Append(nil, msgpack.MapOf("serializer", "pickle", "writeable", []any{}, "num-sub-frames", 1))
	if err != nil {
		c.t.Fatal(err)
	}
	c.send(msgpack.MapOf("op", "update-graph", "expr_ser",
		&wire.Serialized{Header: header, Frames: []wire.Frame{wire.HeapFrame(data)}}, "keys", names(keys...),
		"internal_priority", nil, "submitting_task", nil, "fifo_timeout", "1s", "actors", false, "code", []any{},
		"annotations", annotations, "span_metadata", msgpack.Map{}))
}

// python makes a test's worker a Dask worker.
func pythonWorker(m msgpack.Map) msgpack.Map {
	m.Set("extra", msgpack.Map{})
	return m
}

// expectPickled waits for a Python task on a worker, and returns its call.
func (w *testWorker) expectPickled(key string) (*pickle.Task, msgpack.Map) {
	w.t.Helper()
	m := w.expectKey("compute-task", key)
	spec, _ := m.Get("run_spec")
	var tree pickle.Value
	switch v := spec.(type) {
	case *wire.Pickled:
		var err error
		if tree, err = pickled.Tree(v, pickle.Limits{}); err != nil {
			w.t.Fatal(err)
		}
	default:
		tree = v
	}
	call, ok := pickle.AsTask(tree)
	if !ok {
		w.t.Fatalf("spec of %s: got %T %v, want a pickle", key, spec, spec)
	}
	return call, m
}

// Python tasks are sent to workers with Python, as pickles, with their annotations; a Go worker without Python receives
// none.
func TestPickledGraph(t *testing.T) {
	s := start(t, Config{Python: PythonConfig{Off: true}})
	plain := join(t, s, "plain")
	w := serveWorker(t, s, "dask")
	if r := w.register(pythonWorker, with("resources", msgpack.MapOf("gpu", 1))); r.GetString("status") != "OK" {
		t.Fatal(r)
	}
	w.on = w.finishPickled
	go w.read()
	c := connect(t, s, "client-1")
	c.submitPickled(msgpack.MapOf("retries", 2, "resources", msgpack.MapOf("gpu", 1), "team", "a"),
		[]any{"p", int64(1), int64(2)}, []any{"q", "@p", int64(3)})
	call, m := w.expectPickled("p")
	if g, ok := call.Func.(pickle.Global); !ok || g.Name != "add" || len(call.Args) != 2 {
		t.Errorf("call: got %+v, want add with 2 arguments", call)
	}
	notes, _ := m.Get("annotations")
	if d, ok := notes.(msgpack.Map); !ok || d.GetString("team") != "a" {
		t.Errorf("annotations: got %v, want team a", notes)
	}
	if need, _ := m.Get("resource_restrictions"); fmt.Sprint(need) != "[{gpu 1}]" {
		t.Errorf("resources: got %v, want gpu 1", need)
	}
	c.expectKey("key-in-memory", "p")
	_, m = w.expectPickled("q")
	if who, _ := m.Get("who_has"); !who.(msgpack.Map).Has("p") {
		t.Errorf("who_has: got %v, want p", who)
	}
	c.expectKey("key-in-memory", "q")
	if plain.count("p")+plain.count("q") > 0 {
		t.Error("worker without Python: got Python tasks, want none")
	}
}

// A Python graph survives the scheduler: its tasks are kept, and can be read again without Python.
func TestPickledGraphFromJournal(t *testing.T) {
	dir := t.TempDir()
	s := journaled(t, dir)
	c := connect(t, s, "client-1")
	c.submitPickled(msgpack.MapOf("priority", 7, "team", "a"), []any{"p", int64(1), int64(2)},
		[]any{"q", "@p", int64(3)})
	c.call("set_metadata", "keys", names("x"), "value", 1) // the graph was read before
	c.send(msgpack.MapOf("op", "client-desires-keys", "keys", names("p")))
	until(t, "the graph is added", func() bool {
		d, _ := c.call("get_task_status", "keys", names("q")).(msgpack.Map)
		return d.GetString("q") != ""
	})
	crash(t, s)

	s = journaled(t, dir)
	w := serveWorker(t, s, "dask")
	if r := w.register(pythonWorker); r.GetString("status") != "OK" {
		t.Fatal(r)
	}
	w.on = w.finishPickled
	go w.read()
	call, m := w.expectPickled("p")
	if len(call.Args) != 2 || call.Args[1] != int64(2) {
		t.Errorf("call: got %+v, want 2 arguments", call)
	}
	prio, _ := m.Get("priority")
	if list := prio.([]any); len(list) != 3 || list[0] != int64(-7) {
		t.Errorf("priority: got %v, want 3 numbers that start with -7", prio)
	}
	if notes, _ := m.Get("annotations"); notes.(msgpack.Map).GetString("team") != "a" {
		t.Errorf("annotations: got %v, want team a", notes)
	}
	w.expectPickled("q")
}

// finishPickled reports tasks as done without running them.
func (w *testWorker) finishPickled(m msgpack.Map) {
	if m.GetString("op") != "compute-task" {
		return
	}
	key, _ := m.Get("key")
	run, _ := m.Get("run_id")
	w.send(msgpack.MapOf("op", "task-finished", "key", key, "run_id", run, "status", "OK", "nbytes", 8, "type",
		[]byte("\x80\x04N."), "typename", "int",
		"metadata", msgpack.Map{}, "thread", 1, "startstops",
		[]any{msgpack.MapOf("action", "compute", "start", 1.0, "stop", 1.5)}, "stimulus_id", "done"))
}
