package task

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

type refHolder struct {
	One  Ref[int]
	Many []Ref[string]
	By   map[string]Ref[*point]
	Deep *refHolder
}

var (
	holderF = Register1("ref_test.holder", func(_ context.Context, h refHolder) (refHolder, error) { return h, nil })
	listsF  = Register1("ref_test.lists", func(_ context.Context, v [][]int) (int, error) {
		n := 0
		for _, list := range v {
			for _, x := range list {
				n += x
			}
		}
		return n, nil
	})
	mapsF = Register1("ref_test.maps", func(_ context.Context, m map[string]map[string]int) (string, error) {
		return fmt.Sprint(m), nil
	})
)

// References in fields, elements and values of maps are replaced by their results.
func TestRefsInValues(t *testing.T) {
	in := refHolder{One: RefTo[int](NewKey("n")), Many: []Ref[string]{RefOf("here"), RefTo[string](NewKey("s")), {}},
		By:   map[string]Ref[*point]{"p": RefTo[*point](NewKey("p")), "nil": {}},
		Deep: &refHolder{One: RefTo[int](NewKey("n"))}}
	spec := specOf(t, holderF, Val(in))
	call, err := ParseCall(spec)
	if err != nil {
		t.Fatal(err)
	}
	results := map[Key]any{NewKey("n"): 5, NewKey("s"): "there", NewKey("p"): &point{1, 2}}
	if len(call.Deps) != len(results) {
		t.Fatalf("got %v, want each of %d keys once", call.Deps, len(results))
	}
	var deps []*Value
	for _, k := range call.Deps {
		deps = append(deps, NewValue(results[k]))
	}
	v, err := call.Run(t.Context(), deps)
	if err != nil {
		t.Fatal(err)
	}
	got := v.(refHolder)
	want := refHolder{One: RefOf(5), Many: []Ref[string]{RefOf("here"), RefOf("there"), {}},
		By:   map[string]Ref[*point]{"p": RefOf(&point{1, 2}), "nil": {}},
		Deep: &refHolder{One: RefOf(5)}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got.One.Key() != "" || in.One.Key() != NewKey("n") || RefOf(3).Get() != 3 {
		t.Errorf("keys %v and %v, value %d", got.One.Key(), in.One.Key(), RefOf(3).Get())
	}
	sameSent(t, want) // in a result a Ref is its value
}

// Nested lists, and more consecutive ones than may be nested.
func TestListsOfReferences(t *testing.T) {
	for _, n := range []int{0, 1, 2, maxDepth, maxDepth + 1, 5 * maxDepth} {
		var outer []Arg[[]int]
		want := 0
		for i := range n {
			outer = append(outer, List(Val(i), RefTo[int](NewKey("one")), Val(1)))
			want += i + 1 + 1
		}
		var deps []*Value
		if n > 0 {
			deps = append(deps, NewValue(1))
		}
		if got, err := runSpec(t, specOf(t, listsF, List(outer...)), deps...); got != want || err != nil {
			t.Errorf("%d lists: got %v, %v, want %d", n, got, err, want)
		}
		maps := map[string]Arg[map[string]int]{}
		for i := range n {
			maps[fmt.Sprint(i)] = Dict(map[string]Arg[int]{"a": RefTo[int](NewKey("one"))})
		}
		want2 := map[string]map[string]int{}
		for k := range maps {
			want2[k] = map[string]int{"a": 1}
		}
		if got, err := runSpec(t, specOf(t, mapsF, Dict(maps)), deps...); got != fmt.Sprint(want2) || err != nil {
			t.Errorf("%d maps: got %.80v, %v, want %.80v", n, got, err, want2)
		}
	}
}

func TestMistakesInLists(t *testing.T) {
	var b Builder
	var ee *EncodeError
	for what, c := range map[string]struct {
		err  error
		path string
	}{
		"nil in a list": {NewParam[[]int]().Arg(&b, List(Val(1), nil)), "[1]"},
		"nil in a map":  {NewParam[map[string]int]().Arg(&b, Dict(map[string]Arg[int]{"x": nil})), `["x"]`},
		"channel in a list": {NewParam[[]chan int]().Arg(&b, List(Val[chan int](nil), Val(make(chan int)))),
			"[0]"},
		"channel in a map": {NewParam[map[string]any]().Arg(&b, Dict(map[string]Arg[any]{
			"y": Val[any](make(chan int))})), `["y"]`},
	} {
		if !errors.As(c.err, &ee) || ee.Path != c.path {
			t.Errorf("%s: got %v, want an EncodeError at %s", what, c.err, c.path)
		}
	}
	for what, c := range map[string]struct {
		spec []byte
		deps []*Value
		want string
	}{
		"result of another type in a list": {specOf(t, listsF, List(List(Val(1), RefTo[int](NewKey("k"))))),
			[]*Value{NewValue("x")}, "must be int"},
		"result of another type in a map": {specOf(t, mapsF, Dict(map[string]Arg[map[string]int]{
			"a": RefTo[map[string]int](NewKey("k"))})), []*Value{NewValue(1)}, "must be map[string]int"},
		"result is missing": {specOf(t, listsF, List(RefTo[[]int](NewKey("k")))), []*Value{nil}, "is missing"},
	} {
		if got, err := runSpec(t, c.spec, c.deps...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, %v, want %q", what, got, err, c.want)
		}
	}
	// A map for a parameter of slice type, and too deeply nested ones.
	call := Call{Func: listsF, args: []byte{nodeMap, 0}}
	var te *TypeError
	if _, err := call.Run(t.Context(), nil); !errors.As(err, &te) || te.Want != "[][]int" {
		t.Errorf("a map for a slice: got %v, want a TypeError", err)
	}
	type nest []nest
	deep := Register1("ref_test.nest", func(_ context.Context, n nest) (int, error) { return len(n), nil })
	var args []byte
	for range maxDepth + 2 {
		args = append(args, nodeList, 1)
	}
	call = Call{Func: deep, args: append(args, nodeList, 0)}
	if got, err := call.Run(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "nested too deeply") {
		t.Errorf("%d levels: got %v, %v, want an error", maxDepth+2, got, err)
	}
	call = Call{Func: deep, args: append(args[:2*(maxDepth-1)], nodeList, 0)}
	if got, err := call.Run(t.Context(), nil); got != 1 || err != nil {
		t.Errorf("%d levels: got %v, %v, want 1", maxDepth, got, err)
	}
}
