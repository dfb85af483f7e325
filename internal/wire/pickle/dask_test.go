package pickle

import (
	"slices"
	"strings"
	"testing"
)

func reprs(vs []Value) []string {
	var out []string
	for _, v := range vs {
		out = append(out, Repr(v))
	}
	return out
}

// TestAsTaskForms has the forms of several releases of Dask, beside those of the golden
// files.
func TestAsTaskForms(t *testing.T) {
	add := Global{"operator", "add"}
	ref := NewTaskRef("x")
	args := Tuple{int64(1), ref}
	kwargs := NewDict("k", int64(2))
	deps := &FrozenSet{Items: []Value{"x"}}
	slots := NewDict("_data_producer", true, "_dependencies", deps, "args", args, "func", add, "key", "t", "kwargs",
		kwargs)
	task := func() *Object { return New(Global{taskModule, "Task"}) }
	for name, v := range map[string]Value{
		"tuple of slots": task().WithState(Tuple{true, deps, nil, nil, nil, args, add, "t", kwargs}),
		"list of slots":  task().WithState(&List{Items: []Value{true, deps, nil, nil, nil, args, add, "t", kwargs}}),
		"dict of slots":  task().WithState(Tuple{nil, slots}),
		"dict":           task().WithState(slots),
		"a slot more": New(Global{"distributed.shuffle._core", "P2PBarrierTask"}).WithState(Tuple{true, deps, nil,
			nil, nil, args, add, "t", kwargs, "spec"}),
		"without its own": task().WithState(Tuple{true, nil, nil, nil, nil, args, add, "t", kwargs}),
		"args in a list":  task().WithState(Tuple{true, deps, nil, nil, nil, &List{Items: args}, add, "t", kwargs}),
	} {
		got, ok := AsTask(v)
		if !ok {
			t.Errorf("%s: no task", name)
			continue
		}
		if got.Key != "t" || got.Func != Value(add) || !Equal(got.Args, args) || !Equal(got.Kwargs, kwargs) ||
			!slices.Equal(reprs(got.Dependencies), []string{"'x'"}) ||
			!got.DataProducer || got.Node == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	old, ok := AsTask(Tuple{add, int64(1), &List{Items: []Value{ref}}})
	if !ok || old.Class != "tuple" || old.Func != Value(add) || len(old.Args) != 2 ||
		!slices.Equal(reprs(old.Dependencies), []string{"'x'"}) {
		t.Errorf("a task of 2024.5: %+v", old)
	}
	alias, ok := AsTask(New(Global{taskModule, "Alias"}).WithState(Tuple{nil, NewDict("key", "a", "target", "b")}))
	if !ok || alias.Key != "a" || alias.Target != "b" || alias.Dependencies[0] != "b" {
		t.Errorf("%+v", alias)
	}
	data, ok := AsTask(New(Global{taskModule, "DataNode"}).WithState(Tuple{nil, NewDict("key", "a", "value", nil)}))
	if !ok || data.Key != "a" || data.Value != nil {
		t.Errorf("%+v", data)
	}
	future, ok := AsTask(call("distributed.client", "Future", "f"))
	if !ok || future.Target != "f" {
		t.Errorf("%+v", future)
	}
}

func TestAsTaskOfGo(t *testing.T) {
	add := Global{"operator", "add"}
	for want, v := range map[string]Value{
		"Task (1, dask._task_spec.TaskRef('x')) 'x'": NewTask("k", add, int64(1), NewTaskRef("x")),
		"List (dask._task_spec.TaskRef('x'),) 'x'":   NewTaskList(NewTaskRef("x")),
		"Tuple () ": NewTaskTuple(),
		"Set (1,) ": NewTaskSet(int64(1)),
		"Dict ('a', dask._task_spec.TaskRef('x'), 'b', None) 'x'": NewTaskDict(NewDict("a", NewTaskRef("x"), "b", nil)),
		"Dict ('a', 1) ": taskNode("Dict", NewDict("a", int64(1))),
		"Dict ('a', 2) ": taskNode("Dict", "a", int64(2)),
		"Dict ('a', 3) ": taskNode("Dict", &List{Items: []Value{Tuple{"a", int64(3)}}}),
		"Alias () 'b'":   NewAlias("a", "b"),
		"Alias () 'c'":   taskNode("Alias", NewTaskRef("a"), NewTaskRef("c")),
		"TaskRef () 'x'": NewTaskRef("x"),
		"DataNode () ":   NewDataNode("a", "value"),
	} {
		task, ok := AsTask(v)
		if !ok {
			t.Errorf("%s: no task", Repr(v))
			continue
		}
		args := task.Args
		if args == nil {
			args = Tuple{}
		}
		if got := task.Class + " " + Repr(args) + " " + strings.Join(reprs(task.Dependencies), ", "); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestAsTaskRefuses(t *testing.T) {
	add := Global{"operator", "add"}
	task := func() *Object { return New(Global{taskModule, "Task"}) }
	for _, v := range []Value{
		nil, "key", int64(1), Tuple{}, Tuple{"key", int64(0)}, Tuple{int64(1)}, &List{}, add, call("m", "f"),
		call(taskModule, "execute_graph"), Call(call("m", "f")),
		task(), task().WithState("x"), task().WithState(Tuple{true}),
		task().WithState(Tuple{true, nil, nil, nil, nil, "args", add, "t", NewDict()}),
		task().WithState(NewDict("args", Tuple{})),
		taskNode("Task", "k"), taskNode("TaskRef"), taskNode("Alias"), taskNode("Alias", 1, 2, 3),
		taskNode("DataNode", "k"), taskNode("Dict", "odd"), taskNode("Dict", "a", "b", "c"),
		taskNode("Dict", Tuple{"a"}), taskNode("Dict", &List{Items: []Value{Tuple{"a"}}}),
		NewTaskRef("x").WithState("x"), New(Global{taskModule, "List"}).WithState(Tuple{1, 2, 3, 4, 5, 6, 7, 8, 9}),
		New(Global{taskModule, "Alias"}).WithState(Tuple{nil, NewDict("key", "a")}),
		New(Global{taskModule, "DataNode"}).WithState(Tuple{nil, NewDict("key", "a")}),
	} {
		if task, ok := AsTask(v); ok {
			t.Errorf("%s is a task: %+v", Repr(v), task)
		}
	}
}

func TestReferences(t *testing.T) {
	shared := NewTaskRef("a")
	cycle := &List{}
	cycle.Items = []Value{cycle, NewTaskRef(Tuple{"t", int64(1)}), NewTaskRef(Tuple{"t", int64(1)})}
	v := Tuple{shared, shared, NewTaskRef("a"), NewDict("x", NewAlias("b", "c"), NewTaskRef("d"), cycle),
		&Set{Items: []Value{NewTaskRef("e")}},
		New(Global{"m", "C"}).WithState(NewDict("hidden", NewTaskRef("f"))), call("distributed.client", "Future", "g")}
	if got := strings.Join(reprs(References(v)), " "); got != "'a' 'c' 'd' ('t', 1) 'e' 'f' 'g'" {
		t.Error(got)
	}
	if got := References("nothing"); got != nil {
		t.Error(got)
	}
}

func TestFuncName(t *testing.T) {
	cp := func(name string, args ...Value) *Object { return call("cloudpickle.cloudpickle", name, args...) }
	code := Call(cp("_builtin_type", "CodeType"), int64(1), []byte("code"), Tuple{}, "file.py", "co_name", "qual")
	state := func(d *Dict) Step {
		return Step{SideCall, Global{"cloudpickle.cloudpickle", "_function_setstate"}, Tuple{Tuple{NewDict(), d}}}
	}
	function := func(steps ...Step) *Object {
		o := cp("_make_function", code, NewDict("__name__", "mod"), nil, nil, nil)
		o.Steps = steps
		return o
	}
	partial := func(v Value) Value { return call("functools", "partial", v) }
	deep := Value(Global{"m", "f"})
	for range 100 {
		deep = partial(deep)
	}
	for _, c := range []struct {
		v          Value
		want       string
		importable bool
	}{
		{Global{"operator", "add"}, "operator.add", true},
		{partial(Global{"m", "f"}), "m.f", true}, {partial(partial(function())), "mod.co_name", false},
		{function(), "mod.co_name", false}, {function(state(NewDict("__name__", "f", "__module__", "__main__"))),
			"__main__.f", false},
		{function(state(NewDict("__name__", "f", "__qualname__", "g.<locals>.f"))), "mod.g.<locals>.f", false},
		{cp("_make_function"), "<function>", false},
		{cp("_make_function", code), "co_name", false},
		{cp("_make_skeleton_class", Global{"builtins", "type"}, "C", Tuple{}, NewDict("__module__", "__main__")),
			"__main__.C", false},
		{call("builtins", "getattr", Global{"m", "C"}, "method"), "m.C.method", true},
		{call("builtins", "getattr", "x", "method"), "builtins.getattr", false},
		{call("dask.utils", "methodcaller", "sum"), "sum", false},
		{call("operator", "itemgetter", int64(1)), "operator.itemgetter", false},
		{Call(Call(Global{"m", "f"})), "", false},
		{nil, "", false}, {"f", "", false}, {call("m", "f"), "m.f", false}, {deep, "", false},
	} {
		if name, importable := FuncName(c.v); name != c.want || importable != c.importable {
			t.Errorf("%s: %q, %v; want %q", Repr(c.v), name, importable, c.want)
		}
	}
}

func TestNewGraph(t *testing.T) {
	graph := NewDict("k", NewDataNode("k", int64(1)))
	a, token1, ok1 := AsGraph(NewGraph(graph, ""))
	_, token2, ok2 := AsGraph(NewGraph(graph, ""))
	if !ok1 || !ok2 || a != graph || len(token1) != 32 || token1 == token2 {
		t.Errorf("tokens %q, %q", token1, token2)
	}
	if got, _, ok := AsGraph(call("dask._expr", "LLGExpr", graph)); !ok || got != graph {
		t.Error("a plain LLGExpr is no graph")
	}
	for _, v := range []Value{nil, graph, call("m", "f"), call("m", "f", graph), call("dask._expr", "LLGExpr", "x"),
		call("dask._expr", "Expr._reconstruct", Global{"dask._expr", "Other"}, graph, "t", NewDict())} {
		if _, _, ok := AsGraph(v); ok {
			t.Errorf("%s is a graph", Repr(v))
		}
	}
	if got := NewTaskKwargs("k", Global{"m", "f"}, []Value{1}, nil); !Equal(got, NewTask("k", Global{"m", "f"}, 1)) {
		t.Error(got)
	}
}
