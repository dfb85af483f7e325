package task

import (
	"context"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/wire"
)

func TestPyFuncNames(t *testing.T) {
	for name, want := range map[string]string{
		"numpy:sum": "sum", "a.b_1:C.method": "method", "_m:_f": "_f", "möd:ü": "ü",
		"numpy.sum": "", "": "", ":f": "", "m:": "", "m:f()": "", "1m:f": "", "m..x:f": "", "m:f:g": "", "m x:f": "",
	} {
		f, err := NewPyFunc(name)
		var se *SpecError
		if want == "" && !errors.As(err, &se) || want != "" && (err != nil || f.Name() != want) {
			t.Errorf("%q: name %q, error %v", name, f.Name(), err)
		}
	}
	for source, want := range map[string]string{
		"lambda x: x": "lambda", " lambda: 1 ": "lambda", "numpy.sum": "lambda", "def f(x):\n  return x": "f",
		"\n\timport math\n\tclass K:\n\t\tdef inner(self): pass\n": "K", "def f(): pass\nasync def g(): pass": "g",
		"": "", " \n": "",
	} {
		f, err := PySource(source)
		if want == "" && err == nil || want != "" && (err != nil || f.Name() != want) {
			t.Errorf("%q: name %q, error %v", source, f.Name(), err)
		}
	}
}

func TestDedent(t *testing.T) {
	for in, want := range map[string]string{
		"\n\t\tdef f():\n\t\t\treturn 1\n\t": "def f():\n\treturn 1\n",
		"def f(): pass":                      "def f(): pass\n",
		"\n  a\n\n    b\nc\n":                "a\n\n  b\nc\n",
	} {
		if got := dedent(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

// pyArg returns an argument in its Python notation, and the keys that it refers to.
func pyArg(t *testing.T, v any) (string, []Key) {
	t.Helper()
	w := pyWriter{seen: make(map[Key]bool)}
	x, err := w.value(v)
	if err != nil {
		t.Fatalf("%T: %v", v, err)
	}
	b, err := pickle.Dump(x.tree)
	if err != nil {
		t.Fatalf("%T: %v", v, err)
	}
	tree, err := pickle.Load(b, nil, pickle.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if refs := len(pickle.References(tree)); refs != len(w.deps) {
		t.Errorf("%T: %d references in the tree, %d keys", v, refs, len(w.deps))
	}
	return strings.ReplaceAll(pickle.Repr(tree), "dask._task_spec.", ""), w.deps
}

func TestPyArguments(t *testing.T) {
	ref := RefTo[int](NewKey("k"))
	tuple, err := KeyOf([]any{"x", 0})
	if err != nil {
		t.Fatal(err)
	}
	type inner struct {
		R    Ref[int]
		Skip chan int `task:"-"`
	}
	type row struct {
		Name  string
		Inner *inner `task:"in"`
	}
	for _, c := range []struct {
		v    any
		want string
		deps int
	}{
		{nil, "None", 0},
		{5, "5", 0},
		{"x", "'x'", 0},
		{[]byte("x"), "b'x'", 0},
		{[]string{"a"}, "['a']", 0},
		{[]any{1, []any{}}, "[1, []]", 0},
		{map[string]int{"b": 1, "a": 2}, "{'a': 2, 'b': 1}", 0},
		{map[[2]string]bool{{"a", "b"}: true}, "{('a', 'b'): True}", 0},
		{wire.Tuple{1, "x"}, "(1, 'x')", 0},
		{wire.Set{1}, "{1}", 0},
		{wire.ByteArray("x"), "builtins.bytearray(b'x')", 0},
		{big.NewInt(7), "7", 0},
		{(*int)(nil), "None", 0},
		{wire.NewDict("a", 1), "{'a': 1}", 0},
		{ref, "TaskRef('k')", 1},
		{RefTo[int](tuple), "TaskRef(('x', 0))", 1},
		{RefOf(3), "3", 0},
		{Val(4), "4", 0},
		{List[int](Val(1), ref), "List(1, TaskRef('k'))", 1},
		{Dict(map[string]Arg[int]{"a": ref, "b": Val(2)}), "Dict({'a': TaskRef('k'), 'b': 2})", 1},
		{[]any{1, []any{ref, ref}}, "List(1, List(TaskRef('k'), TaskRef('k')))", 1},
		{wire.Tuple{ref}, "Tuple(TaskRef('k'))", 1},
		{wire.Set{ref}, "Set(TaskRef('k'))", 1},
		{row{"n", &inner{R: ref}}, "Dict({'Name': 'n', 'in': Dict({'R': TaskRef('k')})})", 1},
		{&row{"n", nil}, "{'Name': 'n', 'in': None}", 0},
		{[]float64{1}, "merge_and_deserialize", 0},
		{[]any{wire.NewNDArray([]int64{1})}, "List(Task(None, distributed.protocol.serialize.merge_and_deserialize", 0},
		{pickle.Call(pickle.Global{Module: "decimal", Name: "X"}), "Task(None, pickle.loads, b'", 0},
	} {
		got, deps := pyArg(t, c.v)
		if got != c.want && !(strings.Contains(c.want, "serialize") || strings.Contains(c.want, "loads")) ||
			!strings.Contains(got, c.want) || len(deps) != c.deps {
			t.Errorf("%T %v: got %s with %v, want %s", c.v, c.v, got, deps, c.want)
		}
	}
	if got, _ := pyArg(t, 90*time.Second); !strings.Contains(got, "timedelta") {
		t.Errorf("duration: got %s, want a timedelta", got)
	}
}

func TestPyCall(t *testing.T) {
	f, err := NewPyFunc("numpy:sum")
	if err != nil {
		t.Fatal(err)
	}
	call := func(args []any, kw ...PyKwarg) *PyCall {
		t.Helper()
		c, err := f.Call(args, kw)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	a := call([]any{1, RefTo[int](NewKey("k"))}, PyKwarg{"axis", RefTo[int](NewKey("j"))})
	if len(a.Deps()) != 2 {
		t.Errorf("the call needs %v", a.Deps())
	}
	spec, err := a.Append(nil, NewKey("key"))
	if err != nil {
		t.Fatal(err)
	}
	if IsSpec(spec) {
		t.Error("IsSpec of a Python call: got true, want false")
	}
	tree, err := pickle.Load(spec, nil, pickle.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	task, ok := pickle.AsTask(tree)
	if !ok || task.Key != "key" || len(task.Args) != 3 {
		t.Errorf("the task is %s", pickle.Repr(tree))
	}
	one, err := a.Hash()
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := call([]any{1, RefTo[int](NewKey("k"))}, PyKwarg{"axis",
		RefTo[int](NewKey("j"))}).Hash(); again != one {
		t.Error("equal calls have different hashes")
	}
	if other, _ := call([]any{2, RefTo[int](NewKey("k"))}).Hash(); other == one {
		t.Error("different calls have equal hashes")
	}
	for name, args := range map[string][]any{"a channel": {make(chan int)},
		"in a map":                  {map[string]any{"x": func() {}}},
		"a struct in an any as key": {map[any]int{struct{ C chan int }{}: 1}}} {
		if _, err := f.Call(args, nil); err == nil {
			t.Errorf("%s is an argument", name)
		}
	}
	loop := make([]any, 1)
	loop[0] = loop
	if _, err := f.Call(loop, nil); err == nil {
		t.Error("slice that contains itself: got nil, want an error")
	}
	if _, err := f.Call(nil, []PyKwarg{{"x", 1}, {"x", 2}}); err == nil {
		t.Error("duplicate keyword argument: got nil, want an error")
	}
	fn, list, named, err := f.Request([]any{1, []float64{2}}, []PyKwarg{{"axis", 0}})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"pkgutil.resolve_name('numpy:sum')",
		"(1, distributed.protocol.serialize.merge_and_deserialize", "{'axis': 0}"} {
		tree, err := pickle.Load([][]byte{fn, list, named}[i], nil, pickle.Limits{})
		if got := pickle.Repr(tree); err != nil || !strings.HasPrefix(got, want) {
			t.Errorf("part %d is %s, want %s (%v)", i, got, want, err)
		}
	}
	if _, _, _, err := f.Request([]any{RefTo[int](NewKey("k"))}, nil); err == nil {
		t.Error("Request with a future: got nil, want an error")
	}
}

// Any value can stay undecoded.
func TestClosedValues(t *testing.T) {
	for _, v := range []any{5, nil, "x", []float64{1, 2}, map[string]int{"a": 1}} {
		s, err := EncodeValue(v)
		if err != nil {
			t.Fatal(err)
		}
		var o *wire.Object
		if err := DecodeInto(s, &o); err != nil {
			t.Fatalf("%v: %v", v, err)
		}
		back, err := EncodeValue(o)
		if err != nil {
			t.Fatal(err)
		}
		got, err := back.Decode(wire.DecodeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		want, _ := s.Decode(wire.DecodeOptions{})
		if TypeName(got) != TypeName(want) {
			t.Errorf("%v became %v", v, got)
		}
		if v == nil {
			continue
		}
		if o, err := FromPlain[*wire.Object](v); err != nil || o == nil {
			t.Errorf("%v: %v, %v", v, o, err)
		}
	}
}

func init() {
	RegisterMethod0("pyfunc_test.zero", func(_ context.Context, s *int) (int, error) { return *s, nil })
	RegisterMethod2("pyfunc_test.two", func(_ context.Context, s *int, _ int, _ string) (int, error) {
		return *s + 2, nil
	})
	RegisterMethod3("pyfunc_test.three", func(_ context.Context, s *int, _, _, _ int) (int, error) {
		return *s + 3, nil
	})
}

func TestMethodsOfManyArguments(t *testing.T) {
	ctx := t.Context()
	state := 10
	for name, args := range map[string][]*Value{
		"pyfunc_test.zero": nil, "pyfunc_test.two": {NewValue(1), NewValue("x")},
		"pyfunc_test.three": {NewValue(1), NewValue(2), NewValue(3)},
	} {
		if v, err := CallMethod(ctx, name, &state, args); err != nil || v != 10+len(args) {
			t.Errorf("%s: %v, %v", name, v, err)
		}
		var se *SpecError
		if _, err := CallMethod(ctx, name, &state, append(args, NewValue(1))); !errors.As(err, &se) {
			t.Errorf("%s with an argument too many: %v", name, err)
		}
		if len(args) > 0 {
			bad := append([]*Value(nil), args...)
			bad[len(bad)-1] = NewValue([]bool{true})
			if _, err := CallMethod(ctx, name, &state, bad); err == nil {
				t.Errorf("%s takes an argument of another type", name)
			}
		}
	}
}
