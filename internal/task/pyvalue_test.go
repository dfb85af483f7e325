package task

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/wire"
)

func TestPyKey(t *testing.T) {
	for _, c := range []struct{ v, want any }{
		{"x", "'x'"}, {[]byte("x"), "b'x'"}, {5, "5"}, {2.5, "2.5"}, {[]any{"x", 1}, "('x', 1)"},
		{[]any{"x", []any{1, []any{}}}, "('x', (1, ()))"},
	} {
		k, err := KeyOf(c.v)
		if err != nil {
			t.Fatal(err)
		}
		got, err := PyKey(k)
		if err != nil || pickle.Repr(got) != c.want {
			t.Errorf("%v: got %s, %v, want %s", c.v, pickle.Repr(got), err, c.want)
		}
	}
	if got, err := PyKey("\xc1"); err == nil {
		t.Errorf("no key: got %v, want an error", got)
	}
}

// A future at any position makes its containers lazy.
func TestLazyContainers(t *testing.T) {
	ref := RefTo[int](NewKey("k"))
	for _, c := range []struct {
		v    any
		want string
	}{
		{[]any{ref, 1, 2}, "List(TaskRef('k'), 1, 2)"}, {[]any{1, ref, 2}, "List(1, TaskRef('k'), 2)"},
		{[]any{1, 2, ref}, "List(1, 2, TaskRef('k'))"}, {[]any{1, 2}, "[1, 2]"},
		{map[string]any{"a": ref, "b": 1}, "Dict({'a': TaskRef('k'), 'b': 1})"},
		{map[string]any{"a": 1, "b": ref}, "Dict({'a': 1, 'b': TaskRef('k')})"},
		{struct{ A, B, C any }{1, ref, 2}, "Dict({'A': 1, 'B': TaskRef('k'), 'C': 2})"},
		{wire.NewDict("a", []any{ref}, "b", 1), "Dict({'a': List(TaskRef('k')), 'b': 1})"},
		{[]any{[]any{1}, map[string]any{"x": ref}}, "List([1], Dict({'x': TaskRef('k')}))"},
		{wire.Tuple{1, ref}, "Tuple(1, TaskRef('k'))"}, {wire.Set{1, ref}, "Set(1, TaskRef('k'))"},
		{[2]any{ref, 1}, "List(TaskRef('k'), 1)"}, {&[]any{ref}, "List(TaskRef('k'))"},
		{wire.Tuple{}, "()"}, {[]any{}, "[]"}, {map[string]int{}, "{}"}, {[]any(nil), "None"}, {map[string]int(nil),
			"None"},
		{(*big.Int)(nil), "None"}, {(*big.Rat)(nil), "None"}, {(*wire.NDArray)(nil), "None"}, {any(nil), "None"},
		{map[[1]int]int{{7}: 1}, "{(7,): 1}"}, {map[point]int{{1, 2}: 3}, "{(1, 2): 3}"}, {true, "True"}, {[0]int{},
			"[]"},
	} {
		if got, _ := pyArg(t, c.v); got != c.want {
			t.Errorf("%T: got %s, want %s", c.v, got, c.want)
		}
	}
}

// Values of a call outside of the task system are decoded with the pickle; it accepts no futures.
func TestEagerValues(t *testing.T) {
	f, err := NewPyFunc("m:f")
	if err != nil {
		t.Fatal(err)
	}
	_, list, named, err := f.Request([]any{[]int{1}, pickle.Global{Module: "m", Name: "C"}, wire.Tuple{1}},
		[]PyKwarg{{"b", 1}, {"a", []any{"x"}}})
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		b    []byte
		want string
	}{
		"arguments": {list, "(distributed.protocol.serialize.merge_and_deserialize({"}, "keywords": {named,
			"{'b': 1, 'a': ['x']}"},
	} {
		tree, err := pickle.Load(c.b, nil, pickle.Limits{})
		if text := pickle.Repr(tree); err != nil || !strings.HasPrefix(text, c.want) || strings.Contains(text, "Task") {
			t.Errorf("%s: got %s, %v, want %s and no task", what, text, err, c.want)
		}
	}
	ref := RefTo[int](NewKey("k"))
	for what, c := range map[string]struct {
		args   []any
		kwargs []PyKwarg
	}{
		"future": {[]any{ref}, nil}, "future in a list": {[]any{[]any{1, ref}}, nil}, "keyword": {nil, []PyKwarg{{"a",
			ref}}},
	} {
		_, _, _, err := f.Request(c.args, c.kwargs)
		wants(t, what, err, "takes values, not futures")
	}
}

// A value without a Python equivalent is an error with the argument and the position in it.
func TestPyMistakes(t *testing.T) {
	f, err := NewPyFunc("m:f")
	if err != nil {
		t.Fatal(err)
	}
	var m fakeMemory
	array := m.array(t, 2)
	defer array.Release()
	compressedHeader := mustHeader(wire.NewDict("serializer", "dask", "compression", []any{nil, "lz4"}))
	for _, c := range []struct {
		args   []any
		kwargs []PyKwarg
		want   string
	}{
		{[]any{1, []any{"x", make(chan int)}}, nil,
			"argument 1 of Python function f: task: a value of type chan int at [1]"},
		{nil, []PyKwarg{{"k", map[string]any{"a": func() {}}}},
			"argument k of Python function f: task: a value of type func() at [a]"},
		{nil, []PyKwarg{{"k", 1}, {"j", 1}, {"k", 2}}, "duplicate argument k of Python function f"},
		{[]any{array}, nil, "the value is in GPU memory; scatter it and pass the future"},
		{[]any{&wire.Serialized{Header: compressedHeader}}, nil, "frames are compressed"},
		{[]any{&wire.Serialized{Header: []byte{0xc1}}}, nil, "argument 0 of Python function f"},
		{[]any{struct{ c int }{1}}, nil, "not exported"},
		{[]any{wire.Tuple{make(chan int)}}, nil, "at [0]"},
		{[]any{wire.Set{1, make(chan int)}}, nil, "at [1]"},
		{[]any{map[any]int{make(chan int): 1}}, nil, "chan int"},
	} {
		_, err := f.Call(c.args, c.kwargs)
		wants(t, fmt.Sprintf("%v, %v", c.args, c.kwargs), err, c.want)
	}
	type opaque struct{ argument }
	if _, err := f.Call([]any{opaque{refused{}}}, nil); err == nil {
		t.Error("argument without an encoding: got nil, want an error")
	}
	if _, err := f.Call([]any{opaque{refused{errors.New("no")}}}, nil); err == nil || !strings.Contains(err.Error(),
		"no") {
		t.Errorf("argument with an error: got %v, want the error", err)
	}
}

type refused struct{ err error }

func (r refused) AppendArg(*Builder) error { return r.err }

// Compression is set per frame: a list of only None means none.
func TestCompressed(t *testing.T) {
	for _, c := range []struct {
		v    any
		want bool
	}{{nil, false}, {[]any{}, false}, {[]any{nil, nil}, false}, {[]any{nil, "lz4"}, true}, {"lz4", false}} {
		if got := isCompressed(c.v); got != c.want {
			t.Errorf("%v: got %v, want %v", c.v, got, c.want)
		}
	}
}

// Values of Python types are passed unchanged, and times become Python times.
func TestPyLeaves(t *testing.T) {
	for _, c := range []struct {
		v    any
		want string
	}{
		{big.NewInt(7), "7"}, {wire.Date{Year: 2026, Month: 1, Day: 2}, "datetime.date"}, {wire.ByteArray("x"),
			"bytearray(b'x')"},
		{time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), "datetime.datetime"}, {time.Unix(0, 1).UTC(),
			"'1970-01-01T00:00:00.000000001Z'"},
		{time.Duration(1), "1"}, {celsius(2.5), "2.5"}, {[]byte(nil), "None"}, {[2]byte{1, 2}, "[1, 2]"},
		{marshaled{"a"}, "b'<a>'"},
		{"\xff", "b'\\xff'"}, {complex(1, 2), "builtins.complex(1.0, 2.0)"},
	} {
		if got, deps := pyArg(t, c.v); !strings.Contains(got, c.want) || len(deps) != 0 {
			t.Errorf("%T %v: got %s, want %s", c.v, c.v, got, c.want)
		}
	}
}
