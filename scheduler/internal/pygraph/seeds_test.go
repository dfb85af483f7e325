package pygraph

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/wire"
)

// seed is an expression that Dask pickled: see testdata/oracle.py.
type seed struct {
	Name   string
	OK     bool
	Frames [][]byte
	Keys   [][]byte
}

func seeds(t testing.TB) (out []seed) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "exprs.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func seedNamed(t testing.TB, name string) seed {
	t.Helper()
	for _, s := range seeds(t) {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no seed %q", name)
	return seed{}
}

func (s seed) keys() (out []task.Key) {
	for _, k := range s.Keys {
		out = append(out, task.Key(k))
	}
	return out
}

// expr returns the expression of an update-graph.
func expr(frames ...[]byte) *wire.Serialized {
	s := &wire.Serialized{Header: header(len(frames))}
	for _, f := range frames {
		s.Frames = append(s.Frames, wire.HeapFrame(f))
	}
	return s
}

func header(n int) []byte {
	h := msgpack.AppendMapHeader(nil, 2)
	h = msgpack.AppendString(msgpack.AppendString(h, "serializer"), "pickle")
	return msgpack.AppendInt(msgpack.AppendString(h, "num-sub-frames"), int64(n))
}

// dumped returns the pickle of a tree of a test.
func dumped(t testing.TB, v pickle.Value) *wire.Serialized {
	t.Helper()
	b, err := pickle.Append(nil, v, pickle.Options{Protocol: 5})
	if err != nil {
		t.Fatal(err)
	}
	return expr(b)
}

// function returns a function of __main__ in the form of cloudpickle.
func function(t testing.TB) pickle.Value {
	t.Helper()
	tree, err := pickle.Load(seedNamed(t, "map main").Frames[0], nil, pickle.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return tree.(*pickle.Object).Args[1]
}

// mapOf returns the expression of client.map(fn, *iterables, **kwargs).
func mapOf(fn pickle.Value, iterables pickle.Tuple, kwargs *pickle.Dict, keys ...pickle.Value) *pickle.Object {
	return pickle.Call(reconstruct, mapExpr, fn, iterables, "f", true, new(pickle.Dict), kwargs,
		&pickle.List{Items: keys}, "token", new(pickle.Dict))
}

// llg returns an LLGExpr.
func llg(pairs ...pickle.Value) *pickle.Object {
	return pickle.Call(reconstruct, llgExpr, pickle.NewDict(pairs...), "token", new(pickle.Dict))
}

// stateTask returns a Task in the form in which Dask pickles it.
func stateTask(key, fn pickle.Value, args pickle.Tuple, deps ...pickle.Value) *pickle.Object {
	return pickle.New(pickle.Global{Module: taskModule, Name: "Task"}).WithState(
		pickle.Tuple{false, &pickle.FrozenSet{Items: deps}, nil, nil, nil, args, fn, key, new(pickle.Dict)})
}

var add = pickle.Global{Module: "operator", Name: "add"}
