package pickle

import (
	"crypto/rand"
	"encoding/hex"
	"slices"
)

// taskModule is the module of Dask's graph nodes.
const taskModule = "dask._task_spec"

// Task is one of Dask's graph nodes, as received by a worker in run_spec: the function and its arguments. Nothing of it
// is decoded: Func and Args are nodes.
type Task struct {
	// Class is the class's name: Task, Alias, DataNode, TaskRef; List, Tuple, Set or Dict for
	// a container of tasks; or a subclass of Task, like P2PBarrierTask. "tuple" is the form
	// of Dask before 2024.12: (function, argument, …).
	Class string
	// Key is the task's key: str, int, float, bytes or a tuple of such; nil in containers.
	Key Value
	// Func is the function: a Global, or the form of cloudpickle for a function that cannot be imported. nil for Alias,
	// DataNode and TaskRef.
	Func Value
	// Args are the arguments; of a List, Tuple or Set the items; of a Dict key, value, key,
	// value, ….
	Args Tuple
	// Kwargs are the keyword arguments.
	Kwargs *Dict
	// Target is the key that an Alias or TaskRef refers to.
	Target Value
	// Value is the value of a DataNode.
	Value Value
	// Dependencies are the keys that the node declares; if it declares none, the references in its arguments.
	Dependencies []Value
	// DataProducer reports whether Dask considers the task a source of data.
	DataProducer bool

	// Node is the node that it was read from.
	Node Value
}

// slots are the attributes of Task in the order of their names, in which they are pickled.
var (
	taskSlots = []string{"_data_producer", "_dependencies", "_is_coro", "_repr", "_token", "args", "func", "key",
		"kwargs"}
	// containers have two more
	containerSlots = []string{"_data_producer", "_dependencies", "_is_coro", "_repr", "_token", "args", "constructor",
		"func", "key", "klass", "kwargs"}
)

// AsTask reads a node as a task. ok is false for any other node.
func AsTask(v Value) (t *Task, ok bool) {
	switch x := v.(type) {
	case *Object:
		return taskObject(x)
	case Tuple:
		if len(x) == 0 || !isFunction(x[0]) {
			return nil, false
		}
		t := &Task{Class: "tuple", Func: x[0], Args: x[1:], Node: v}
		t.Dependencies = References(x[1:])
		return t, true
	}
	return nil, false
}

// isFunction distinguishes a function from data, as Dask before 2024.12 did with callable().
func isFunction(v Value) bool {
	switch x := v.(type) {
	case Global:
		return true
	case *Object:
		g, _ := x.Class()
		return isCloudpickle(g, "_make_function") || isCloudpickle(g, "_make_skel_func") || g.Is("functools", "partial")
	}
	return false
}

func taskObject(o *Object) (*Task, bool) {
	g, ok := o.Class()
	if !ok {
		return nil, false
	}
	if g.Module != taskModule && !(g.Is("distributed.shuffle._core", "P2PBarrierTask") ||
		g.Is("distributed.client", "Future")) {
		return nil, false
	}
	t := &Task{Class: g.Name, Node: o}
	if o.Kind == NewObj {
		return t, t.fromState(o)
	}
	if len(o.Steps) > 0 {
		return nil, false
	}
	return t, t.fromCall(o.Args)
}

// fromCall reads the constructors as which graph nodes are pickled, and those written by Go.
func (t *Task) fromCall(args Tuple) bool {
	switch t.Class {
	case "TaskRef", "Future":
		if len(args) == 0 {
			return false
		}
		t.Key, t.Target = args[0], args[0]
		t.Dependencies = []Value{args[0]}
		return true
	case "Alias":
		if len(args) < 1 || len(args) > 2 {
			return false
		}
		t.Key, t.Target = keyOfRef(args[0]), keyOfRef(args[len(args)-1])
		t.Dependencies = []Value{t.Target}
		return true
	case "DataNode":
		if len(args) != 2 {
			return false
		}
		t.Key, t.Value = args[0], args[1]
		return true
	case "Task":
		if len(args) < 2 {
			return false
		}
		t.Key, t.Func, t.Args = args[0], args[1], args[2:]
	case "List", "Tuple", "Set":
		t.Args = args
	case "Dict":
		if !t.dictArgs(args) {
			return false
		}
	default:
		return false
	}
	t.Dependencies = References(t.Args)
	return true
}

// dictArgs reads Dict(((k, v), …)), Dict({k: v}) and Dict(k, v, …).
func (t *Task) dictArgs(args Tuple) bool {
	if len(args) != 1 {
		t.Args = args
		return len(args)%2 == 0
	}
	switch x := args[0].(type) {
	case *Dict:
		for k, v := range x.All() {
			t.Args = append(t.Args, k, v)
		}
		return true
	case Tuple:
		return t.pairArgs(x)
	case *List:
		return t.pairArgs(x.Items)
	}
	return false
}

func (t *Task) pairArgs(pairs []Value) bool {
	for _, p := range pairs {
		pair, ok := p.(Tuple)
		if !ok || len(pair) != 2 {
			return false
		}
		t.Args = append(t.Args, pair...)
	}
	return true
}

// keyOfRef returns the key of a value that may be a TaskRef or Alias, as Alias accepts them.
func keyOfRef(v Value) Value {
	if k, ok := RefKey(v); ok {
		return k
	}
	return v
}

// fromState reads the state of a NEWOBJ: the slots' values in order (since 2025.2), or (None, {slot: value}) (2024.12
// to 2025.1).
func (t *Task) fromState(o *Object) bool {
	state, ok := o.State()
	if !ok {
		return false
	}
	var values []Value
	get := func(string) (Value, bool) { return nil, false }
	switch s := state.(type) {
	case Tuple:
		values = s
		if len(s) == 2 && s[0] == nil {
			if d, ok := s[1].(*Dict); ok {
				values = nil
				get = func(name string) (Value, bool) { return d.Get(name) }
			}
		}
	case *List:
		values = s.Items
	case *Dict:
		get = func(name string) (Value, bool) { return s.Get(name) }
	default:
		return false
	}
	if values != nil {
		// A subclass may have a few further slots: those of Task come first, and a name after "kwargs" does not move
		// them.
		slots := taskSlots
		if slices.Contains([]string{"List", "Tuple", "Set", "Dict"}, t.Class) {
			slots = containerSlots
		}
		if len(values) < len(slots) {
			return false
		}
		get = func(name string) (Value, bool) { return values[slices.Index(slots, name)], true }
	}
	return t.fromSlots(get)
}

func (t *Task) fromSlots(get func(string) (Value, bool)) bool {
	t.Key, _ = get("key")
	switch t.Class {
	case "Alias":
		t.Target, _ = get("target")
		t.Dependencies = []Value{t.Target}
		return t.Target != nil
	case "DataNode":
		var ok bool
		t.Value, ok = get("value")
		return ok
	}
	fn, okf := get("func")
	args, _ := get("args")
	kwargs, _ := get("kwargs")
	deps, _ := get("_dependencies")
	producer, _ := get("_data_producer")
	t.Func = fn
	t.DataProducer, _ = producer.(bool)
	switch a := args.(type) {
	case Tuple:
		t.Args = a
	case *List: // a container of a list keeps the list
		t.Args = a.Items
	default:
		return false
	}
	t.Kwargs, _ = kwargs.(*Dict)
	switch d := deps.(type) {
	case *FrozenSet:
		t.Dependencies = d.Items
	case *Set:
		t.Dependencies = d.Items
	default:
		t.Dependencies = References(t.Args)
	}
	return okf
}

// RefKey returns the key that a node refers to: a TaskRef, an Alias or a Future. The
// client pickles futures among arguments as Alias(key, key).
func RefKey(v Value) (key Value, ok bool) {
	o, ok := v.(*Object)
	if !ok || o.Kind != Reduce || len(o.Args) == 0 {
		return nil, false
	}
	g, _ := o.Class()
	switch {
	case g.Is(taskModule, "TaskRef"), g.Is("distributed.client", "Future"):
		return o.Args[0], true
	case g.Is(taskModule, "Alias") && len(o.Args) <= 2:
		return o.Args[len(o.Args)-1], true
	}
	return nil, false
}

// References returns the keys of all references in a value, each once, in order of occurrence. It descends into
// everything, since a worker has to replace them all.
func References(v Value) []Value {
	var keys []Value
	seen := make(map[any]struct{})
	same := make(map[any]struct{}) // by identity: a long key is looked at once
	Walk(v, func(n Value) bool {
		key, ok := RefKey(n)
		if !ok {
			return true
		}
		if id, ok := identity(key); ok {
			if _, there := same[id]; there {
				return false
			}
			same[id] = struct{}{}
		}
		if k, _, ok := keyOf(key, keyBudget); ok {
			if _, there := seen[k]; there {
				return false
			}
			seen[k] = struct{}{}
		}
		keys = append(keys, key)
		return false
	})
	return keys
}

// The functions below create the nodes of a Dask graph by constructors that Dask has from 2025.4 on: they are written
// as plain calls and do not depend on the layout of pickles of Dask.

func taskNode(class string, args ...Value) *Object {
	return &Object{Func: Global{taskModule, class}, Args: args}
}

// NewTask returns Task(key, fn, *args). References among the arguments must be arguments themselves or inside
// NewTaskList, NewTaskTuple, NewTaskSet or NewTaskDict: Dask does not descend into plain lists.
func NewTask(key, fn Value, args ...Value) *Object {
	return &Object{Func: Global{taskModule, "Task"}, Args: append(Tuple{key, fn}, args...)}
}

// NewTaskKwargs is NewTask with keyword arguments. Keyword arguments of a constructor cannot be pickled as a call, so
// the constructor is wrapped: partial(Task, **kwargs)(key, fn, *args). References are allowed among them as among args.
func NewTaskKwargs(key, fn Value, args []Value, kwargs *Dict) *Object {
	if kwargs.Len() == 0 {
		return NewTask(key, fn, args...)
	}
	class := Global{taskModule, "Task"}
	// partial's own pickle: the class, and (func, args, kwargs, dict) as its state.
	partial := Call(Global{"functools", "partial"}, class).WithState(Tuple{class, Tuple{}, kwargs, nil})
	return &Object{Func: partial, Args: append(Tuple{key, fn}, args...)}
}

// NewTaskRef returns TaskRef(key): the result of another task.
func NewTaskRef(key Value) *Object { return taskNode("TaskRef", key) }

// NewAlias returns Alias(key, target): another name for a result.
func NewAlias(key, target Value) *Object { return taskNode("Alias", key, target) }

// NewDataNode returns DataNode(key, value): data in the graph itself.
func NewDataNode(key, value Value) *Object { return taskNode("DataNode", key, value) }

// NewTaskList returns a list in which references are replaced by results.
func NewTaskList(items ...Value) *Object { return taskNode("List", items...) }

// NewTaskTuple returns a tuple in which references are replaced by results.
func NewTaskTuple(items ...Value) *Object { return taskNode("Tuple", items...) }

// NewTaskSet returns a set in which references are replaced by results.
func NewTaskSet(items ...Value) *Object { return taskNode("Set", items...) }

// NewTaskDict returns a dict in which references are replaced by results, also among keys. It is written as Dict({…}),
// which all releases accept.
func NewTaskDict(d *Dict) *Object { return taskNode("Dict", d) }

// NewGraph returns the value of expr_ser of update-graph: the graph {key: node} as an LLGExpr with a token. Without one
// the scheduler would hash the whole graph in its event loop. An empty token is replaced by a random one; equal tokens
// mean equal graphs.
func NewGraph(graph *Dict, token string) *Object {
	if token == "" {
		var b [16]byte
		_, _ = rand.Read(b[:]) // it never fails
		token = hex.EncodeToString(b[:])
	}
	return Call(Global{"dask._expr", "Expr._reconstruct"}, Global{"dask._expr", "LLGExpr"}, graph, token, new(Dict))
}

// AsGraph reads the result of NewGraph, and the form of Dask clients for graphs that need no optimization.
func AsGraph(v Value) (graph *Dict, token string, ok bool) {
	o, ok := v.(*Object)
	if !ok || o.Kind != Reduce || len(o.Args) == 0 {
		return nil, "", false
	}
	g, _ := o.Class()
	switch {
	case g.Is("dask._expr", "LLGExpr") && len(o.Args) == 1:
		graph, ok = o.Args[0].(*Dict)
		return graph, "", ok
	case g.Is("dask._expr", "Expr._reconstruct") && len(o.Args) == 4 &&
		o.Args[0] == Value(Global{"dask._expr", "LLGExpr"}):
		graph, ok = o.Args[1].(*Dict)
		token, _ = o.Args[2].(string)
		return graph, token, ok
	}
	return nil, "", false
}
