package gotask_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.millstream.dev/internal/dask/gotask"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/wire"
)

// again pickles and unpickles a node, as if it were received.
func again(t testing.TB, v pickle.Value) pickle.Value {
	t.Helper()
	data, err := pickle.Dump(v)
	if err != nil {
		t.Fatal(err)
	}
	out, err := pickle.Load(data, nil, pickle.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func annotations(t testing.TB, m msgpack.Map) []byte {
	t.Helper()
	b, err := msgpack.Append(nil, m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var (
	add       = pickle.Global{Module: "operator", Name: "add"}
	namespace = pickle.Global{Module: "types", Name: "SimpleNamespace"}
	apply     = pickle.Global{Module: "dask.utils", Name: "apply"}
	apply2    = pickle.Global{Module: "dask.delayed", Name: "_apply2"}
)

// byValue returns a function as cloudpickle pickles it by value.
func byValue(name string) *pickle.Object {
	code := pickle.Call(pickle.Global{Module: "cloudpickle.cloudpickle", Name: "_builtin_type"}, int64(0), "file.py",
		name)
	o := pickle.Call(pickle.Global{Module: "cloudpickle.cloudpickle", Name: "_make_function"}, code,
		pickle.NewDict("__name__", "__main__"))
	return o
}

func kwargsTask(fn pickle.Value, kwargs *pickle.Dict, args ...pickle.Value) *pickle.Object {
	// A task as Dask's scheduler pickles it: the slots in the order of their names.
	state := pickle.Tuple{false, &pickle.FrozenSet{}, nil, nil, nil, pickle.Tuple(args), fn, "key", kwargs}
	return pickle.New(pickle.Global{Module: "dask._task_spec", Name: "Task"}).WithState(state)
}

func TestRecognise(t *testing.T) {
	ref := pickle.NewTaskRef("dep")
	alias := pickle.NewAlias(pickle.Tuple{"x", int64(1)}, pickle.Tuple{"x", int64(1)})
	spec := specOf(t)
	for what, c := range map[string]struct {
		node        pickle.Value
		annotations []byte
		want        string // name way args deps, "" for none
	}{
		"python":  {node: pickle.NewTask("key", add, int64(1), int64(2))},
		"no task": {node: "text"},
		"data":    {node: pickle.NewDataNode("key", int64(1))},
		"annotation": {node: pickle.NewTask("key", add),
			annotations: annotations(t, msgpack.MapOf("priority", 1, "go",
				msgpack.MapOf("fn", "f", "args", []any{1, "b"}))), want: "f annotation [1 b] []"},
		"annotation, no pickle": {annotations: annotations(t,
			msgpack.MapOf("go", msgpack.MapOf("fn", "f", "args", []any{}))), want: "f annotation [] []"},
		"annotation, a name": {node: pickle.NewTask("key", add, int64(3), ref),
			annotations: annotations(t, msgpack.MapOf("go", "f")), want: "f annotation [3 TaskRef] [dep]"},
		"annotation of another": {node: pickle.NewTask("key", add),
			annotations: annotations(t, msgpack.MapOf("go", 3))},
		"namespace": {node: kwargsTask(namespace,
			pickle.NewDict("go", "f", "args", &pickle.List{Items: []pickle.Value{int64(1), alias}})),
			want: "f namespace [1 Alias] [('x', 1)]"},
		"namespace, container": {node: kwargsTask(namespace,
			pickle.NewDict("go", "f", "args", pickle.NewTaskList(int64(1), ref))),
			want: "f namespace [1 TaskRef] [dep]"},
		"another namespace": {node: kwargsTask(namespace, pickle.NewDict("came", "f"))},
		"module": {node: pickle.NewTask("key", pickle.Global{Module: "gotask", Name: "a.f"}, int64(1)),
			want: "a.f module [1] []"},
		"name":         {node: pickle.NewTask("key", byValue("go_f"), int64(1)), want: "f name weak [1] []"},
		"another name": {node: pickle.NewTask("key", byValue("gone"))},
		"stub": {node: pickle.NewTask("key", gotask.Stub("f"), int64(1), ref),
			want: "f stub [1 TaskRef] [dep]"},
		"stub by apply": {node: pickle.NewTask("key", apply, gotask.Stub("f", "x", "y"),
			pickle.NewTaskList(int64(1)), pickle.NewDict("y", ref)), want: "f stub [1 TaskRef] [dep]"},
		"stub by apply2": {node: kwargsTask(apply2, pickle.NewDict("dask_kwargs", pickle.NewDict("y", ref)),
			gotask.Stub("f", "x", "y"), int64(1)), want: "f stub [1 TaskRef] [dep]"},
		"apply2 of another": {node: kwargsTask(apply2, pickle.NewDict("dask_kwargs", int64(1)),
			gotask.Stub("f", "x", "y"), int64(1))},
		"stub with names": {node: kwargsTask(gotask.Stub("f", "x", "y", "z"),
			pickle.NewDict("z", int64(3), "y", int64(2)), int64(1)), want: "f stub [1 2 3] []"},
		"eval of another": {node: pickle.NewTask("key",
			pickle.Call(pickle.Global{Module: "builtins", Name: "eval"}, "lambda: 1", pickle.NewDict("a", 1)))},
		"encoded": {node: gotask.NewTask("key", "gotasktest.add", spec, []pickle.Value{"dep"}, ""),
			want: "gotasktest.add encoded [] [dep]"},
		"encoded, with a hash": {node: gotask.NewTask("key", "gotasktest.add", spec, []pickle.Value{"dep"}, "f-1"),
			want: "gotasktest.add encoded f-1 [] [dep]"},
		"exec of another": {node: pickle.NewTask("key", pickle.Global{Module: "builtins", Name: "exec"}, "x = 1",
			pickle.NewDict("a", 1))},
	} {
		t.Run(what, func(t *testing.T) {
			got, err := gotask.Recognize(again(t, c.node), c.annotations)
			if err != nil {
				t.Fatal(err)
			}
			if s := describe(got); s != c.want {
				t.Errorf("got %q, want %q", s, c.want)
			}
			if gotask.Annotated(c.annotations) != (got != nil && got.Way == gotask.Annotation) {
				t.Error("Annotated differs from the way of the call")
			}
			data, _ := pickle.Dump(c.node)
			if got != nil && !gotask.Possible(data, c.annotations) {
				t.Error("Possible of a call: got false, want true")
			}
		})
	}
	if data, _ := pickle.Dump(pickle.NewTask("key", add, int64(1))); gotask.Possible(data,
		annotations(t, msgpack.MapOf("priority", 1))) {
		t.Error("Possible of a Python task: got true, want false")
	}
}

func describe(c *gotask.Call) string {
	if c == nil {
		return ""
	}
	var args []string
	for _, a := range c.Args {
		if tk, ok := pickle.AsTask(a); ok {
			args = append(args, tk.Class)
		} else {
			args = append(args, fmt.Sprint(a))
		}
	}
	weak := ""
	if c.Registry != "" {
		weak = " " + c.Registry
	}
	if c.Weak {
		weak = " weak"
	}
	return fmt.Sprintf("%s %v%s %v %v", c.Name, c.Way, weak, args, c.Deps)
}

// Calls that name a function and cannot be executed return an error with the cause.
func TestMistakes(t *testing.T) {
	for want, c := range map[string]struct {
		node        pickle.Value
		annotations []byte
	}{
		"by position":      {node: kwargsTask(gotask.Stub("f"), pickle.NewDict("x", int64(1)))},
		"no parameter 'z'": {node: kwargsTask(gotask.Stub("f", "x"), pickle.NewDict("z", int64(1)))},
		"two values for parameter x": {node: kwargsTask(gotask.Stub("f", "x"), pickle.NewDict("x", int64(1)),
			int64(1))},
		"missing value for":         {node: kwargsTask(gotask.Stub("f", "x", "y"), pickle.NewDict("y", int64(1)))},
		"takes 1 arguments but 2":   {node: kwargsTask(gotask.Stub("f", "x"), nil, int64(1), int64(2))},
		"the name of a Go function": {node: kwargsTask(namespace, pickle.NewDict("go", int64(5)))},
		"requires a list":           {node: kwargsTask(namespace, pickle.NewDict("go", "f", "args", "text"))},
		"accepts only args":         {node: kwargsTask(namespace, pickle.NewDict("go", "f", "more", int64(1)))},
		"without its bytes": {node: pickle.NewTask("key", pickle.Global{Module: "builtins", Name: "exec"}, "",
			pickle.NewTaskDict(pickle.NewDict(gotask.Marker, "text")))},
		"must have the form go=": {node: pickle.NewTask("key", add),
			annotations: annotations(t, msgpack.MapOf("go", msgpack.MapOf("fn", 5)))},
		"cannot be decoded": {node: "text", annotations: annotations(t, msgpack.MapOf("go", "f"))},
		"annotations can only have None": {node: "text", annotations: annotations(t,
			msgpack.MapOf("go", msgpack.MapOf("fn", "f", "args", []any{msgpack.MapOf("__Serialized__", 1)})))},
		"cannot be the key": {node: pickle.NewTask("key", gotask.Stub("f"),
			pickle.NewTaskRef(&pickle.List{}))},
	} {
		got, err := gotask.Recognize(again(t, c.node), c.annotations)
		var mistake *gotask.Error
		if !errors.As(err, &mistake) || !strings.Contains(err.Error(), want) || mistake.PythonType() != "TypeError" {
			t.Errorf("%s: got %s, %v", want, describe(got), err)
		}
	}
}

// Arguments become values: references are results, containers have plain values.
func TestValues(t *testing.T) {
	results := map[task.Key]*task.Value{task.NewKey("n"): task.NewValue(int64(7)),
		task.NewKey("l"): task.NewValue([]float64{1, 2})}
	get := func(k task.Key) (*task.Value, error) {
		if v := results[k]; v != nil {
			return v, nil
		}
		return nil, fmt.Errorf("no result of %v", k)
	}
	n := pickle.NewTaskRef("n")
	node := again(t, pickle.NewTask("key", gotask.Stub("f"), n,
		pickle.NewTaskList(int64(1), n, pickle.NewTaskTuple(n, "x")),
		pickle.NewTaskDict(pickle.NewDict("a", n, "b", nil)), pickle.NewTaskSet(int64(2)), pickle.NewDataNode("d", 1.5),
		&pickle.ByteArray{Data: []byte{1}},
		pickle.Tuple{true, []byte{2}}))
	c, err := gotask.Recognize(node, nil)
	if err != nil {
		t.Fatal(err)
	}
	args, err := c.Values(get)
	if err != nil {
		t.Fatal(err)
	}
	if args[0] != results[task.NewKey("n")] {
		t.Error("a reference is the result itself")
	}
	want := []string{"7", "[1 7 (7, 'x')]", "[{a 7} {b <nil>}]", "[2]", "1.5", "[1]", "(True, b'\\x02')"}
	for i, a := range args {
		if v, _ := a.Live(); fmt.Sprint(v) != want[i] {
			t.Errorf("argument %d: %v, want %s", i, v, want[i])
		}
	}
	if v, _ := args[1].Live(); fmt.Sprintf("%T", v) != "[]interface {}" {
		t.Errorf("a list is a %T", v)
	}
	if v, _ := args[3].Live(); fmt.Sprintf("%T", v) != fmt.Sprintf("%T", wire.Set{}) {
		t.Errorf("a set is a %T", v)
	}
	for want, arg := range map[string]pickle.Value{
		"no result of z":                    pickle.NewTaskRef("z"),
		"element 0: no res":                 pickle.NewTaskList(pickle.NewTaskRef("z")),
		"operator.add":                      pickle.NewTask(nil, add, int64(1)),
		"class or function":                 add,
		"cannot be converted to a Go value": pickle.Call(pickle.Global{Module: "mine", Name: "Thing"}, int64(1)),
	} {
		c, err := gotask.Recognize(again(t, pickle.NewTask("key", gotask.Stub("f"), arg)), nil)
		if err != nil {
			t.Fatal(want, err)
		}
		if _, err := c.Values(get); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// A few bytes that represent more values than memory can hold are rejected.
func TestValuesBounded(t *testing.T) {
	list := &pickle.List{Items: []pickle.Value{int64(1)}}
	for range 60 {
		list = &pickle.List{Items: []pickle.Value{list, list}}
	}
	c, err := gotask.Recognize(pickle.NewTask("key", gotask.Stub("f"), list), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Values(nil); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("got %v, want an error about the number of values", err)
	}
	self := &pickle.List{}
	self.Items = []pickle.Value{self}
	if c, err = gotask.Recognize(pickle.NewTask("key", gotask.Stub("f"), self), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Values(nil); err == nil || !strings.Contains(err.Error(), "nested too deeply") {
		t.Errorf("got %v, want an error about nesting", err)
	}
}
