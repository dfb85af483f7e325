// Package daskgraph converts graphs of this module to graphs of Dask.
//
// Dask's scheduler accepts pickled graphs: {key: Task} in an LLGExpr. A client collects a graph of this module (package
// task). Calls of Python functions are pickled Tasks already; calls of Go functions become tasks that Millstream
// workers recognize (internal/dask/gotask).
package daskgraph

import (
	"maps"
	"slices"
	"sync"

	"go.millstream.dev/internal/dask/gotask"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/task/lifetrace"
	"go.millstream.dev/internal/task/taskgraph"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/wire"
)

// goResource is the resource of Millstream workers on Dask's scheduler that restricts tasks of Go functions to them. An
// amount of zero only requires that the worker has the resource, and is never used up.
const goResource = "go"

// Graph has the fields of an update-graph message.
type Graph struct {
	// Expr is expr_ser.
	Expr *wire.Serialized
	// Priority is internal_priority as msgpack; if it is nil the scheduler orders the tasks.
	Priority []byte
	// Annotations are the common annotations of all tasks as msgpack; nil if they differ between tasks.
	Annotations []byte
	// Pickled is the header of a pickle with annotations that differ between tasks.
	Pickled []byte
}

// ExprHeader returns the header of a pickle in a separate frame.
var ExprHeader = sync.OnceValue(func() []byte {
	b, err := msgpack.Append(nil, wire.NewDict("serializer", "pickle", "writeable", []any{}, "num-sub-frames", 1))
	if err != nil {
		panic(err)
	}
	return b
})

// New converts a graph of this module to a graph of Dask. If order is false the scheduler orders the tasks.
func New(s *wire.Serialized, order bool) (*Graph, error) {
	r, err := taskgraph.Read(s)
	if err != nil {
		return nil, err
	}
	graph := new(pickle.Dict)
	notes := newNotes(r.Annotations)
	out := new(Graph)
	var n taskgraph.Node
	var nodeKeys []pickle.Value // by index, for dependencies that are indices
	load := pickle.Global{Module: "pickle", Name: "loads"}
	for r.Next(&n) {
		key, err := task.PyKey(task.Key(n.Key))
		if err != nil {
			return nil, err
		}
		nodeKeys = append(nodeKeys, key)
		if n.Spec == nil {
			continue
		}
		isGo := task.IsSpec(n.Spec)
		if isGo {
			info, err := task.ReadSpecInfo(n.Spec)
			if err != nil {
				return nil, err
			}
			deps := make([]pickle.Value, len(info.Deps))
			for i, d := range info.Deps {
				if deps[i], err = task.PyKey(d); err != nil {
					return nil, err
				}
			}
			graph.Set(key, gotask.NewTask(key, info.Name, n.Spec, deps, r.Registry))
		} else {
			graph.Set(key, pickle.Call(load, n.Spec))
		}
		notes.add(key, n.Annotations, isGo)
		if order {
			at := n.Order
			if at == taskgraph.None {
				at = int64(len(nodeKeys) - 1)
			}
			out.Priority = msgpack.AppendInt(append(out.Priority, n.Key...), at)
		}
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	if order {
		out.Priority = append(msgpack.AppendMapHeader(nil, graph.Len()), out.Priority...)
	}
	data, err := pickle.Dump(pickle.NewGraph(graph, ""))
	if err != nil {
		return nil, err
	}
	out.Expr = &wire.Serialized{Header: ExprHeader(), Frames: []wire.Frame{wire.HeapFrame(data)}}
	out.Annotations, out.Pickled, err = notes.finish()
	return out, err
}

// noteList collects the annotations of a graph's tasks.
type noteList struct {
	sets  []taskgraph.Annotations // those of the graph, and variants of them for Go functions
	which map[noteSet]int
	list  []taskgraph.Annotations
	keys  []pickle.Value
	of    []int // index in list, by key
}

type noteSet struct {
	at   int
	isGo bool
}

func newNotes(sets []taskgraph.Annotations) *noteList {
	return &noteList{sets: sets, which: make(map[noteSet]int)}
}

func (d *noteList) add(key pickle.Value, at int, isGo bool) {
	set := noteSet{at, isGo}
	i, ok := d.which[set]
	if !ok {
		var a taskgraph.Annotations
		if at >= 0 {
			a = d.sets[at]
		}
		if isGo {
			r := map[string]float64{goResource: 0}
			for k, v := range a.Resources {
				r[k] = v
			}
			a.Resources = r
		}
		i = len(d.list)
		d.list = append(d.list, a)
		d.which[set] = i
	}
	d.keys, d.of = append(d.keys, key), append(d.of, i)
}

// finish returns the annotations of update-graph: a map if they are the same for all tasks. Otherwise each annotation
// is a function of the key, which Dask's schedulers call: the lookup in a dict.
func (d *noteList) finish() (plain, pickled []byte, err error) {
	switch len(d.list) {
	case 0:
		return msgpack.AppendMapHeader(nil, 0), nil, nil
	case 1:
		return d.list[0].Append(nil), nil, nil
	}
	values := map[string]*pickle.Dict{}
	for _, name := range []string{"workers", "allow_other_workers", "resources", "priority", "retries", "timeout",
		lifetrace.Name} {
		values[name] = new(pickle.Dict)
	}
	used := map[string]bool{}
	for i, key := range d.keys {
		a := &d.list[d.of[i]]
		workers := make([]pickle.Value, len(a.Workers))
		for j, w := range a.Workers {
			workers[j] = w
		}
		resources := new(pickle.Dict)
		for _, k := range sortedNames(a.Resources) {
			resources.Set(k, a.Resources[k])
		}
		for _, x := range []struct {
			name  string
			there bool
			value pickle.Value
		}{
			{"workers", len(workers) > 0, &pickle.List{Items: workers}},
			{"allow_other_workers", a.AllowOtherWorkers, a.AllowOtherWorkers},
			{"resources", resources.Len() > 0, resources},
			{"priority", a.HasPriority, a.Priority},
			{"retries", a.Retries > 0, int64(a.Retries)},
			{"timeout", a.Timeout > 0, a.Timeout},
			{lifetrace.Name, a.Trace != "", a.Trace},
		} {
			used[x.name] = used[x.name] || x.there
			values[x.name].Set(key, x.value)
		}
	}
	all := new(pickle.Dict)
	for _, name := range sortedNames(values) {
		if used[name] {
			all.Set(name, pickle.Call(pickle.Global{Module: "builtins", Name: "getattr"}, values[name], "__getitem__"))
		}
	}
	data, err := pickle.Dump(all)
	if err != nil {
		return nil, nil, err
	}
	pickled, err = pickledHeader(data)
	return nil, pickled, err
}

// pickledHeader returns the header of a pickle within the message body.
func pickledHeader(data []byte) ([]byte, error) {
	return msgpack.Append(nil, wire.NewDict("pickled-obj", data, "compression", []any{}, "num-sub-frames", 0))
}

// SpanMetadata returns the span_metadata of tasks that were submitted one by one, as Dask's client sends it. It has to
// be pickled: the scheduler extends the list, which would be a tuple otherwise.
var SpanMetadata = sync.OnceValue(func() []byte {
	kind := pickle.NewDict("type", "Future")
	data, err := pickle.Dump(pickle.NewDict("collections", &pickle.List{Items: []pickle.Value{kind}}))
	if err != nil {
		panic(err)
	}
	h, err := pickledHeader(data)
	if err != nil {
		panic(err)
	}
	return h
})

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
