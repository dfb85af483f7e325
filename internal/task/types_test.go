package task

import (
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/wire"
)

const here = "go.millstream.dev/internal/task."

type generic[T any] struct{ V T }

func TestFullName(t *testing.T) {
	for _, c := range []struct {
		t    reflect.Type
		want string
	}{
		{reflect.TypeFor[int](), "int"}, {reflect.TypeFor[point](), here + "point"}, {reflect.TypeFor[*point](),
			"*" + here + "point"},
		{reflect.TypeFor[[]*point](), "[]*" + here + "point"}, {reflect.TypeFor[[3][]int](), "[3][]int"},
		{reflect.TypeFor[map[point]time.Duration](), "map[" + here + "point]time.Duration"},
		{reflect.TypeFor[generic[int]](), here + "generic[int]"}, {reflect.TypeFor[any](), "interface {}"},
		{reflect.TypeFor[struct{ A int }](), "struct { A int }"}, {reflect.TypeFor[error](), "error"},
	} {
		if got := fullName(c.t); got != c.want {
			t.Errorf("%v: got %q, want %q", c.t, got, c.want)
		}
	}
}

// Types are found by their names, with slices of and pointers to them, up to three levels.
func TestTypeByName(t *testing.T) {
	type part struct{ N int }
	type whole struct {
		Parts map[string][]*part
		Times [2]time.Time
		hide  generic[bool]
	}
	_ = whole{}.hide
	name := fullName(reflect.TypeFor[whole]())
	if _, ok := typeByName([]byte(name)); ok {
		t.Fatal("type found before it is registered")
	}
	RegisterType[whole]()
	RegisterType[whole]()
	for _, c := range []struct {
		name string
		want reflect.Type // nil: not registered
	}{
		{name, reflect.TypeFor[whole]()}, {"[]" + name, reflect.TypeFor[[]whole]()}, {"*" + name,
			reflect.TypeFor[*whole]()},
		{"[]*" + name, reflect.TypeFor[[]*whole]()}, {"[]*[]" + name, reflect.TypeFor[[]*[]whole]()},
		{"[]*[]*" + name, nil}, {"map[string]" + name, nil}, {"[2]" + name, nil},
		{fullName(reflect.TypeFor[part]()), reflect.TypeFor[part]()},
		{fullName(reflect.TypeFor[map[string][]*part]()), reflect.TypeFor[map[string][]*part]()},
		{"[2]time.Time", reflect.TypeFor[[2]time.Time]()}, {fullName(reflect.TypeFor[generic[bool]]()), nil},
		{"", nil}, {"[]", nil}, {"*", nil}, {"int", reflect.TypeFor[int]()}, {"[][]int", reflect.TypeFor[[][]int]()},
		{"*" + fullName(reflect.TypeFor[time.Time]()), reflect.TypeFor[*time.Time]()},
	} {
		got, ok := typeByName([]byte(c.name))
		if ok != (c.want != nil) || ok && got != c.want {
			t.Errorf("%q: got %v, %v, want %v", c.name, got, ok, c.want)
		}
	}
}

// A value in an any keeps its type if both sides have registered it.
func TestAnyArguments(t *testing.T) {
	RegisterType[generic[string]]()
	n := 5
	for _, v := range []any{nil, 1, int8(2), "x", 2.5, true, []int{1}, []string{"a"}, map[string]any{"a": []any{nil,
		1}},
		generic[string]{"v"}, &generic[string]{"v"}, []generic[string]{{"v"}}, time.Second, &n, (*int)(nil),
		[]byte("b")} {
		same(t, v)
		same(t, []any{v, v})
		same(t, map[string]any{"k": v})
	}
	var b Builder
	type notRegistered struct{ A int }
	for _, v := range []any{notRegistered{}, &notRegistered{}, []any{map[string]any{"k": []notRegistered{}}}} {
		wants(t, "a type that is not registered", codecFor[any]().append(&b, v), "call task.RegisterType[")
	}
	long := strings.Repeat("x", 3*MaxName)
	for name, args := range map[string]string{
		"unknown": "\xa7unknown\x01", "long name": "\xda\x0c\x00" + long, "no value": "\xa3int", "number": "\x05",
		"value of another type": "\xa3int\xa1x",
	} {
		_, _, errs := readAs[any]([]byte(args))
		if errs[0] == nil || len(errs[0].Error()) > MaxName+200 {
			t.Errorf("%s: got %.80v, want a short error", name, errs[0])
		}
	}
}

// sameName returns values of two types with the same name.
func sameName() (one, other any) {
	type local struct{ A int }
	return local{1}, func() any {
		type local struct{ B string }
		return local{"x"}
	}()
}

// Of two types with the same name the first is registered. Values of the other are not decoded as the first.
func TestTypesOfOneName(t *testing.T) {
	first, second := sameName()
	if fullName(reflect.TypeOf(first)) != fullName(reflect.TypeOf(second)) {
		t.Fatal("the types have different names")
	}
	noteType(reflect.TypeOf(first))
	noteType(reflect.TypeOf(second))
	same(t, first)
	var b Builder
	for _, v := range []any{second, []any{second}} {
		wants(t, "an argument", codecFor[any]().append(&b, v), "another type with this name is registered")
	}
	if got := sent(t, first); got != first {
		t.Errorf("a result of the type that is known: got %#v, want %#v", got, first)
	}
	if got, want := sent(t, second), any(wire.NewDict("B", "x")); !reflect.DeepEqual(got, want) {
		t.Errorf("a result of the other: got %#v, want %#v as of any type that is not known", got, want)
	}
	list := reflect.MakeSlice(reflect.SliceOf(reflect.TypeOf(second)), 1, 1).Interface()
	if got, want := sent(t, list), any([]any{wire.NewDict("B", "")}); !reflect.DeepEqual(got, want) {
		t.Errorf("a slice of the other: got %#v, want %#v", got, want)
	}
}

// Types are registered and looked up concurrently.
func TestTypesConcurrently(t *testing.T) {
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				RegisterType[generic[[7]int]]()
				if got, ok := typeByName([]byte("[7]int")); !ok || got != reflect.TypeFor[[7]int]() {
					t.Errorf("got %v, %v, want [7]int", got, ok)
				}
				planOf(reflect.TypeFor[generic[map[string]generic[int]]]())
				codecFor[generic[uint8]]()
			}
		})
	}
	wg.Wait()
}

// Signatures differ if the encoding of arguments differs.
func TestSignatureText(t *testing.T) {
	type named int
	type tree struct {
		Left, Right *tree
		N           named
	}
	in := func(types ...reflect.Type) []reflect.Type { return types }
	for _, c := range []struct {
		params []reflect.Type
		result reflect.Type
		want   string
	}{
		{nil, nil, "() nothing"},
		{in(reflect.TypeFor[int](), reflect.TypeFor[string]()), reflect.TypeFor[bool](), "(int, string) bool"},
		{in(reflect.TypeFor[named]()), reflect.TypeFor[named](), "(" + here + "named=int) " + here + "named"},
		{in(reflect.TypeFor[[]byte](), reflect.TypeFor[[3]*int]()), nil, "([]uint8, [3]*int) nothing"},
		{in(reflect.TypeFor[map[string]named]()), nil, "(map[string]" + here + "named=int) nothing"},
		{in(reflect.TypeFor[point]()), nil, "(" + here + "point=struct{X int; Y int}) nothing"},
		{in(reflect.TypeFor[tree]()), nil,
			"(" + here + "tree=struct{Left *" + here + "tree; Right *" + here + "tree; N " +
				here + "named=int}) nothing"},
		{in(reflect.TypeFor[any](), reflect.TypeFor[error]()), nil, "(interface {}, error) nothing"},
		{in(reflect.TypeFor[struct{ A int }]()), nil, "(struct{A int}) nothing"},
		{in(reflect.TypeFor[chan int]()), nil, "(chan int) nothing"},
	} {
		if got := signature(c.params, c.result); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}
