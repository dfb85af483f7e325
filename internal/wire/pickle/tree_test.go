package pickle

import (
	"bytes"
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"
)

func TestRepr(t *testing.T) {
	for _, c := range []struct {
		v    Value
		want string
	}{
		{nil, "None"}, {true, "True"}, {false, "False"}, {int64(-5), "-5"}, {big.NewInt(5), "5"},
		{new(big.Int).Lsh(big.NewInt(1), 10000), "<int of 10001 bits>"},
		{1.0, "1.0"}, {0.1, "0.1"}, {1e16, "1e+16"}, {123456789.5, "123456789.5"}, {1e-5, "1e-05"}, {math.NaN(), "nan"},
		{math.Inf(-1), "-inf"}, {math.Inf(1), "inf"},
		{"it's \"é\"\n", `'it\'s "é"\n'`}, {[]byte("a'\\\x00é"), `b'a\'\\\x00\xc3\xa9'`},
		{&ByteArray{[]byte("x")}, "bytearray(b'x')"},
		{Tuple{}, "()"}, {Tuple{int64(1)}, "(1,)"}, {Tuple{int64(1), nil}, "(1, None)"}, {&List{}, "[]"},
		{&List{Items: []Value{"a", Tuple{}}}, "['a', ()]"},
		{&Set{}, "set()"}, {&Set{Items: []Value{int64(1)}}, "{1}"}, {&FrozenSet{}, "frozenset()"},
		{&FrozenSet{Items: []Value{int64(1)}}, "frozenset({1})"},
		{NewDict("a", int64(1), nil, &List{}), "{'a': 1, None: []}"}, {Global{"os", "system"}, "os.system"},
		{&PersistentID{ID: "x"}, "<persistent id 'x'>"},
		{&Buffer{Data: make([]byte, 3), Index: 1}, "<buffer 1 of 3 bytes>"},
		{Call(Global{"m", "f"}, int64(1), "a"), "m.f(1, 'a')"},
		{New(Global{"m", "C"}).WithState(NewDict("x", int64(1))), "m.C.__new__() | state {'x': 1}"},
		{&Object{Kind: NewObj, Func: Global{"m", "C"}, Args: Tuple{int64(1)}, Kwargs: NewDict("k", int64(2))},
			"m.C.__new__(1, **{'k': 2})"},
		{&Object{Func: Global{"m", "f"}, Steps: []Step{{Kind: AppendItem, Value: int64(1)}, {SetItem, "k", int64(2)},
			{SideCall, Global{"m", "g"}, Tuple{}}}},
			"m.f() | item 1 | 'k': 2 | m.g: ()"},
		{cyclicState(), "m.C.__new__() | state {'me': ...}"},
		{Date{2024, 1, 2}, "{2024 January 2}"},
	} {
		if got := Repr(c.v); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

func TestReprIsBounded(t *testing.T) {
	var deep Value = "leaf"
	for range 1000 {
		deep = &List{Items: []Value{deep, deep}}
	}
	long := strings.Repeat("é", maxRepr)
	wide := make(Tuple, 1<<20)
	d := new(Dict)
	for i := range 10_000 {
		d.Set(int64(i), nil)
	}
	for name, v := range map[string]Value{"deep": deep, "string": long, "bytes": []byte(long), "wide": wide,
		"strings": Tuple{long, long}, "dict": d,
		"items": &Object{Func: Global{"m", "f"}, Steps: make([]Step, 1<<16)}} {
		got := Repr(v)
		if len(got) > maxRepr+100 || !strings.HasSuffix(got, "…") && !strings.HasSuffix(got, "]") {
			t.Errorf("%s: %d bytes ending in %q", name, len(got), got[max(0, len(got)-20):])
		}
	}
}

func TestStringers(t *testing.T) {
	for _, v := range []fmt.Stringer{Call(Global{"m", "f"}), NewDict(), &List{}, Tuple{}, &Set{}, &FrozenSet{},
		&ByteArray{}, &Buffer{}, &PersistentID{}, Global{"a", "b"}} {
		if v.String() != Repr(v) {
			t.Errorf("%T: %s", v, v)
		}
	}
}

func TestEqual(t *testing.T) {
	values := []Value{
		nil, true, false, int64(0), int64(1), 0.0, 1.0, math.Copysign(0, -1), math.NaN(), "", "a", []byte{},
		[]byte("a"), new(big.Int).Lsh(big.NewInt(1), 70),
		Tuple{}, Tuple{nil}, Tuple{Tuple{}}, &List{}, &List{Items: []Value{nil}}, NewDict(), NewDict("a", nil),
		NewDict("a", int64(1)), NewDict(int64(1), "a"),
		&Set{}, &Set{Items: []Value{"a"}}, &FrozenSet{}, &FrozenSet{Items: []Value{"a"}}, &ByteArray{},
		&ByteArray{[]byte("a")}, Global{"a", "b"}, Global{"a", "c"},
		&Buffer{Data: []byte("a")}, &Buffer{Data: []byte("a"), ReadOnly: true}, &PersistentID{ID: "a"},
		&PersistentID{ID: "b"},
		Call(Global{"a", "b"}), New(Global{"a", "b"}), Call(Global{"a", "b"}, nil),
		Call(Global{"a", "b"}).WithState(nil),
		&Object{Func: Global{"a", "b"}, Steps: []Step{{Kind: AppendItem}}},
		&Object{Kind: NewObj, Func: Global{"a", "b"}, Kwargs: NewDict("a", nil)},
		cyclicState(), cyclicArgs(), cyclicTuple(2), cyclicDict(), cyclicFrozenSet(),
		NewDict(Call(Global{"a", "b"}), 1), NewDict(Call(Global{"a", "b"}), 2), 7, Date{2024, 1, 1},
	}
	for i, a := range values {
		for j, b := range values {
			if i == j {
				b = Clone(b)
			}
			if Equal(a, b) != (i == j) {
				t.Errorf("%s and %s: equal is %v", Repr(a), Repr(b), i != j)
			}
		}
	}
	if !Equal(NewDict("a", 1, "b", 2), NewDict("b", 2, "a", 1)) ||
		!Equal(&Set{Items: []Value{"a", "b"}}, &Set{Items: []Value{"b", "a"}}) {
		t.Error("order matters to dicts or sets")
	}
}

func TestClone(t *testing.T) {
	data := []byte(
		"\x80\x05]\x94(C\x04byteC\x04byte\x96\x04\x00\x00\x00\x00\x00\x00\x00arra\x97h\x00cm\nC\n)\x81h\x00b}(K\x01h\x00K\x02\x85h\x00ue.")
	buffer := []byte("buffer")
	v, err := Load(data, [][]byte{buffer}, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	again, _ := Load(bytes.Clone(data), [][]byte{bytes.Clone(buffer)}, Limits{})
	c := Clone(v)
	for i := range data {
		data[i] = 'x'
	}
	for i := range buffer {
		buffer[i] = 'x'
	}
	if !Equal(c, again) {
		t.Errorf("got %s, want %s", Repr(c), Repr(again))
	}
	if Equal(v, again) {
		t.Error("the original borrows nothing: the test is wrong")
	}
	for _, v := range []Value{cyclicState(), cyclicArgs(), cyclicTuple(4), cyclicDict(), cyclicFrozenSet(),
		&PersistentID{ID: Tuple{}}, (*big.Int)(nil)} {
		if c := Clone(v); !Equal(c, v) && v != Value((*big.Int)(nil)) {
			t.Errorf("got %s, want %s", Repr(c), Repr(v))
		}
	}
	large := new(Dict)
	for i := range 100 {
		large.Set(Tuple{"key", int64(i)}, int64(i))
	}
	if got, ok := Clone(large).(*Dict).Get(Tuple{"key", int64(77)}); !ok || got != int64(77) {
		t.Error("a key of a copy is not found:", got)
	}
	var deep Value
	for range 100_000 {
		deep = Tuple{deep}
	}
	if Clone(deep) == nil {
		t.Error("no copy")
	}
}

func TestWalk(t *testing.T) {
	v := load(t, "]\x94(h\x00cm\nf\n\x8c\x08longlong\x94\x85Rh\x01K\x01e.")
	var seen []string
	Walk(v, func(n Value) bool {
		seen = append(seen, TypeName(n))
		return true
	})
	if got := strings.Join(seen, ", "); got != "list, m.f object, global m.f, tuple, str, int" {
		t.Error(got)
	}
	n := 0
	Walk(v, func(n1 Value) bool { n++; _, isList := n1.(*List); return isList })
	if n != 4 { // the list, and in it the object, the string and the number
		t.Errorf("%d nodes", n)
	}
}

func TestTypeName(t *testing.T) {
	for want, v := range map[string]Value{
		"None": nil, "int": big.NewInt(1), "bytes": []byte{}, "frozenset": &FrozenSet{}, "global m.f": Global{"m", "f"},
		"m.f object": Call(Global{"m", "f"}),
		"object":     Call(Call(Global{"m", "f"})), "chan int": make(chan int), "persistent id": &PersistentID{},
	} {
		if got := TypeName(v); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestObject(t *testing.T) {
	o := &Object{Func: Global{"m", "f"}, Steps: []Step{
		{Kind: AppendItem, Value: 1}, {SetItem, "k", 2}, {Kind: AddItem, Value: 3}, {Kind: Build, Value: "first"},
		{Kind: Build, Value: "last"}}}
	if s, ok := o.State(); !ok || s != "last" {
		t.Error(s)
	}
	if len(o.Items()) != 2 || o.Pairs().Len() != 1 {
		t.Error(o.Items(), o.Pairs())
	}
	if _, ok := Call(o).Class(); ok {
		t.Error("an object is a class")
	}
	if _, ok := Call(o).State(); ok {
		t.Error("a state from nowhere")
	}
	if g, ok := o.Class(); !ok || !g.Is("m", "f") || g.Is("m", "g") {
		t.Error(g)
	}
}
