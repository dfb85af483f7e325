package pygraph

import (
	"slices"
	"testing"

	"go.millstream.dev/internal/dask/gotask"
	"go.millstream.dev/internal/wire/pickle"
)

// Pickles that could fail to open are left to Python, as on Dask's scheduler.
func TestSafety(t *testing.T) {
	call := func(module, name string, args ...pickle.Value) *pickle.Object {
		return pickle.Call(pickle.Global{Module: module, Name: name}, args...)
	}
	cloud := "cloudpickle.cloudpickle"
	for name, c := range map[string]struct {
		v  pickle.Value
		ok bool
	}{
		"a division":        {call("operator", "truediv", int64(1), int64(0)), false},
		"an end":            {call("os", "_exit", int64(3)), false},
		"a user's class":    {pickle.New(pickle.Global{Module: "mine", Name: "C"}).WithState(new(pickle.Dict)), false},
		"a user's function": {call("mine", "make"), false},
		"a method of a name": {call("builtins", "getattr", pickle.Global{Module: "builtins", Name: "str"}, "upper"),
			true},
		"a method of a call": {call("builtins", "getattr", call("mine", "make"), "upper"), false},
		"a method":           {call("builtins", "getattr", int64(1), "upper"), false},
		"eval":               {call("builtins", "eval", "1/0"), false},
		"a stub":             {gotask.Stub("f"), true},
		"an error":           {call("builtins", "ValueError", "x"), true},
		"a hard error":       {call("builtins", "UnicodeDecodeError", "x"), false},
		"code":               {pickle.Call(call(cloud, "_builtin_type", "CodeType"), int64(1)), true},
		"another type":       {pickle.Call(call(cloud, "_builtin_type", "ModuleType"), "x"), false},
		"a class by value":   {call(cloud, "_make_skeleton_class"), false},
		"a module":           {call(cloud, "subimport", "mine"), true},
		"a persistent id":    {&pickle.PersistentID{ID: "x"}, false},
		"an array": {call("numpy._core.multiarray", "_reconstruct",
			pickle.Global{Module: "numpy", Name: "ndarray"}, pickle.Tuple{int64(0)}, []byte("b")), true},
		"an old array":       {call("numpy.core.multiarray", "_reconstruct"), true},
		"another multiarray": {call("mine.multiarray", "_reconstruct"), false},
		"numpy's own code":   {call("numpy", "load", "x"), false},
		"an effect": {&pickle.Object{Func: pickle.Global{Module: "builtins", Name: "list"},
			Steps: []pickle.Step{{Kind: pickle.SideCall, Key: pickle.Global{Module: "os", Name: "remove"},
				Value: pickle.Tuple{}}}}, false},
	} {
		for where, e := range map[string]*pickle.Object{
			"argument": mapOf(add, pickle.Tuple{&pickle.List{Items: []pickle.Value{c.v}}}, new(pickle.Dict), "a"),
			"keyword": mapOf(add, pickle.Tuple{&pickle.List{Items: []pickle.Value{int64(1)}}},
				pickle.NewDict("k", &pickle.List{Items: []pickle.Value{c.v}}), "a"),
			"function": mapOf(c.v, pickle.Tuple{&pickle.List{Items: []pickle.Value{int64(1)}}}, new(pickle.Dict), "a"),
			"submit":   llg("a", stateTask("a", add, pickle.Tuple{c.v})),
		} {
			if _, ok, err := Split(dumped(t, e), nil, Limits{}); ok != c.ok || err != nil {
				t.Errorf("%s as %s: got %v, error %v", name, where, ok, err)
			}
		}
	}
}

// A graph has the names that a worker must have.
func TestGlobals(t *testing.T) {
	mine := pickle.Global{Module: "mine.part", Name: "f"}
	other := pickle.Call(pickle.Global{Module: "cloudpickle.cloudpickle", Name: "subimport"}, "pandas.core")
	method := pickle.Call(pickle.Global{Module: "builtins", Name: "getattr"}, pickle.Global{Module: "mine", Name: "C"},
		"make")
	upper := pickle.Call(pickle.Global{Module: "builtins", Name: "getattr"},
		pickle.Global{Module: "builtins", Name: "str"}, "nothing")
	e := dumped(t, mapOf(mine, pickle.Tuple{&pickle.List{Items: []pickle.Value{mine, other, method, upper}}},
		new(pickle.Dict), "a", "b", "c", "d"))
	want := []string{"builtins\x00str.nothing", "mine\x00C", "mine\x00C.make", "mine.part\x00f", "pandas.core"}
	g, ok, err := Split(e, nil, Limits{})
	if !ok || err != nil || !slices.Equal(g.Globals, want) || g.Code {
		t.Errorf("Split: got globals %q, %v, error %v", g.Globals, ok, err)
	}
	if got, err := Globals(e, Limits{}); err != nil || !slices.Equal(got, want) {
		t.Errorf("Globals: got %q, error %v", got, err)
	}
	// Of any expression.
	any := dumped(t, pickle.Call(pickle.Global{Module: "dask.dataframe", Name: "read"},
		pickle.Global{Module: "pandas", Name: "DataFrame"}, pickle.Call(mine)))
	if got, err := Globals(any, Limits{}); err != nil ||
		!slices.Equal(got, []string{"mine.part\x00f", "pandas\x00DataFrame"}) {
		t.Errorf("Globals: got %q, error %v", got, err)
	}
	if _, err := Globals(expr([]byte("x")), Limits{}); err == nil {
		t.Error("Globals of invalid data: got no error")
	}
	s := seedNamed(t, "submit lambda")
	if g, ok, err := Split(expr(s.Frames...), s.keys(), Limits{}); !ok || err != nil || !g.Code || len(g.Globals) > 0 {
		t.Errorf("Split: got %v, %v, error %v", g, ok, err)
	}
}
