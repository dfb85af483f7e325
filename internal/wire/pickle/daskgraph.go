package pickle

import (
	"crypto/rand"
	"encoding/hex"
)

// The functions below make the nodes of a Dask graph by constructors that Dask has had
// from 2025.4 on: they are written as plain calls and do not depend on the layout of
// Dask's own pickles.

func taskNode(class string, args ...Value) *Object {
	return &Object{Func: Global{taskModule, class}, Args: args}
}

// NewTask makes Task(key, fn, *args). References among the arguments must be there
// themselves or in NewTaskList, NewTaskTuple, NewTaskSet or NewTaskDict: Dask does not look
// into plain lists.
func NewTask(key, fn Value, args ...Value) *Object {
	return &Object{Func: Global{taskModule, "Task"}, Args: append(Tuple{key, fn}, args...)}
}

// NewTaskKwargs is NewTask with keyword arguments. Keyword arguments of a constructor cannot
// be pickled as a call, so the constructor is wrapped: partial(Task, **kwargs)(key, fn,
// *args). References are allowed among them as among args.
func NewTaskKwargs(key, fn Value, args []Value, kwargs *Dict) *Object {
	if kwargs.Len() == 0 {
		return NewTask(key, fn, args...)
	}
	class := Global{taskModule, "Task"}
	// partial's own pickle: the class, and (func, args, kwargs, dict) as its state.
	partial := Call(Global{"functools", "partial"}, class).WithState(Tuple{class, Tuple{}, kwargs, nil})
	return &Object{Func: partial, Args: append(Tuple{key, fn}, args...)}
}

// NewTaskRef makes TaskRef(key): the result of another task.
func NewTaskRef(key Value) *Object { return taskNode("TaskRef", key) }

// NewAlias makes Alias(key, target): another name for a result.
func NewAlias(key, target Value) *Object { return taskNode("Alias", key, target) }

// NewDataNode makes DataNode(key, value): data in the graph itself.
func NewDataNode(key, value Value) *Object { return taskNode("DataNode", key, value) }

// NewTaskList makes a list in which references are replaced by results.
func NewTaskList(items ...Value) *Object { return taskNode("List", items...) }

// NewTaskTuple makes a tuple in which references are replaced by results.
func NewTaskTuple(items ...Value) *Object { return taskNode("Tuple", items...) }

// NewTaskSet makes a set in which references are replaced by results.
func NewTaskSet(items ...Value) *Object { return taskNode("Set", items...) }

// NewTaskDict makes a dict in which references are replaced by results, also among keys. It
// is written as Dict({…}), which all releases take.
func NewTaskDict(d *Dict) *Object { return taskNode("Dict", d) }

// NewGraph makes what a client sends as update-graph's expr_ser: the graph {key: node} as
// an LLGExpr with a token. Without one the scheduler would hash the whole graph in its
// event loop. An empty token is replaced by a random one; equal tokens mean equal graphs.
func NewGraph(graph *Dict, token string) *Object {
	if token == "" {
		var b [16]byte
		_, _ = rand.Read(b[:]) // it never fails
		token = hex.EncodeToString(b[:])
	}
	return Call(Global{"dask._expr", "Expr._reconstruct"}, Global{"dask._expr", "LLGExpr"}, graph, token, new(Dict))
}

// AsGraph reads what NewGraph makes, and what Dask's own clients send for graphs that need
// no optimisation.
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
