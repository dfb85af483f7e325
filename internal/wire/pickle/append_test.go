package pickle

import (
	"math/big"
	"strings"
	"testing"
	"time"
)

// again writes a value and reads it back.
func again(t *testing.T, v any, opts Options) Value {
	t.Helper()
	data, err := Append(nil, v, opts)
	if err != nil {
		t.Fatal(err)
	}
	var buffers [][]byte
	if opts.Buffers != nil {
		buffers = *opts.Buffers
	}
	got, err := Load(data, buffers, Limits{})
	if err != nil {
		t.Fatalf("%q: %v", data, err)
	}
	return got
}

func TestAppendGoValues(t *testing.T) {
	type named int8
	huge := new(big.Int).Lsh(big.NewInt(1), 64)
	one := int64(1)
	for _, c := range []struct {
		v    any
		want Value
	}{
		{nil, nil}, {true, true}, {false, false}, {1, one}, {int64(-1), int64(-1)}, {255, int64(255)},
		{256, int64(256)}, {65535, int64(65535)},
		{65536, int64(65536)}, {-1 << 31, int64(-1 << 31)}, {-1<<31 - 1, int64(-1<<31 - 1)}, {1 << 31, int64(1 << 31)},
		{int64(-1 << 63), int64(-1 << 63)},
		{uint64(1 << 63), new(big.Int).Lsh(big.NewInt(1), 63)}, {uint8(7), int64(7)}, {named(3), int64(3)},
		{float32(0.5), 0.5}, {1.5, 1.5},
		{huge, huge}, {new(big.Int).Neg(huge), new(big.Int).Neg(huge)}, {big.NewInt(5), int64(5)},
		{(*big.Int)(nil), nil},
		{new(big.Int).Lsh(big.NewInt(-1), 5000), new(big.Int).Lsh(big.NewInt(-1), 5000)},
		{"é", "é"}, {strings.Repeat("x", 300), strings.Repeat("x", 300)}, {"\xff!", "\uFFFD!"},
		{"\xed\xa0\xbd", "\xed\xa0\xbd"},
		{[]byte("ab"), []byte("ab")}, {make([]byte, 300), make([]byte, 300)},
		{[]any{1, "a"}, &List{Items: []Value{one, "a"}}}, {[]string{"a"}, &List{Items: []Value{"a"}}},
		{[2]int{1, 1}, &List{Items: []Value{one, one}}},
		{[]int(nil), &List{}}, {[]any{}, &List{}}, {map[string]any{}, &Dict{}}, {map[int]bool{}, &Dict{}},
		{map[string]any{"b": 1, "a": nil}, NewDict("a", nil, "b", one)}, {map[int]string{1: "x"}, NewDict(one, "x")},
		{Tuple{}, Tuple{}}, {Tuple{1}, Tuple{one}}, {Tuple{1, 1, 1, 1}, Tuple{one, one, one, one}},
		{&Set{Items: []Value{one}}, &Set{Items: []Value{one}}}, {&FrozenSet{}, &FrozenSet{}},
		{complex(1, 2), Call(Global{"builtins", "complex"}, 1.0, 2.0)},
		{90 * time.Second, Call(Global{"datetime", "timedelta"}, int64(0), int64(90), int64(0))},
		{-time.Microsecond, Call(Global{"datetime", "timedelta"}, int64(-1), int64(86399), int64(999999))},
		{new(int), int64(0)}, {(*int)(nil), nil},
	} {
		if got := again(t, c.v, Options{}); !Equal(got, c.want) {
			t.Errorf("%#v: %s, want %s", c.v, Repr(got), Repr(c.want))
		}
	}
}

func TestAppendKeepsShape(t *testing.T) {
	shared := &List{Items: []Value{"x"}}
	v := again(t, Tuple{shared, shared, strings.Repeat("long", 9)}, Options{}).(Tuple)
	if v[0].(*List) != v[1].(*List) {
		t.Error("one list became two")
	}
	inner := &List{}
	tuple := Tuple{inner, int64(2)}
	inner.Items = []Value{tuple}
	for name, v := range map[string]Value{
		"tuple": tuple,
		"long":  cyclicTuple(5),
		"list":  inner,
		"dict":  cyclicDict(),
		"set":   cyclicFrozenSet(),
		"state": cyclicState(),
		"args":  cyclicArgs(),
		"side":  load(t, "cm\nf\n)R\x94cm\ns\nh\x00]\x94h\x01a\x86R0."),
	} {
		if got := again(t, v, Options{}); !Equal(got, v) {
			t.Errorf("%s: %s, want %s", name, Repr(got), Repr(v))
		}
		if got := again(t, []any{v, 1}, Options{}).(*List).Items[0]; !Equal(got, v) {
			t.Errorf("%s in a Go slice: %s, want %s", name, Repr(got), Repr(v))
		}
		if got := again(t, [1]any{v}, Options{}).(*List).Items[0]; !Equal(got, v) {
			t.Errorf("%s in a Go array: %s, want %s", name, Repr(got), Repr(v))
		}
	}
}

func cyclicTuple(n int) Value {
	l := &List{}
	t := make(Tuple, n)
	t[n-1] = l
	l.Items = []Value{t, t}
	return t
}

func cyclicDict() Value {
	d := NewDict("a", nil)
	d.Set("self", d)
	return d
}

func cyclicFrozenSet() Value {
	o := New(Global{"m", "C"})
	s := &FrozenSet{Items: []Value{o}}
	o.WithState(s)
	return s
}

func cyclicState() Value {
	o := New(Global{"m", "C"})
	return o.WithState(NewDict("me", o))
}

func cyclicArgs() Value {
	l := &List{}
	o := Call(Global{"m", "f"}, l).WithState("state")
	l.Items = []Value{o}
	return o
}

func TestAppendSharedIsSmall(t *testing.T) {
	// 2^40 references spelled out would not fit anywhere.
	var v Value = Tuple{strings.Repeat("x", 1000)}
	for range 40 {
		v = Tuple{v, v}
	}
	data, err := Dump(v)
	if err != nil || len(data) > 2000 {
		t.Fatal(len(data), err)
	}
	got := load(t, string(data))
	if !Equal(got, v) || len(Repr(got)) > maxRepr+10 {
		t.Error("a deep tuple did not come back")
	}
	n := 0
	Walk(got, func(Value) bool { n++; return true })
	if n != 42 {
		t.Errorf("Walk visited %d nodes, want 42", n)
	}
}

func TestAppendBuffers(t *testing.T) {
	data := []byte("some memory")
	v := Tuple{&Buffer{Data: data, ReadOnly: true}, &Buffer{Data: data}, &ByteArray{Data: data}}
	var out [][]byte
	got := again(t, v, Options{Protocol: 5, Buffers: &out}).(Tuple)
	if len(out) != 2 || &out[0][0] != &data[0] || !Equal(got, v) {
		t.Errorf("%d buffers, %s", len(out), got)
	}
	in := again(t, v, Options{Protocol: 5}).(Tuple)
	if !Equal(in, Tuple{data, &ByteArray{Data: data}, &ByteArray{Data: data}}) {
		t.Errorf("in band: %s", in)
	}
	four := again(t, &ByteArray{Data: data}, Options{})
	if !Equal(four, Call(Global{"builtins", "bytearray"}, data)) {
		t.Errorf("protocol 4: %s", Repr(four))
	}
	if _, err := Append(nil, Tuple{&Buffer{Data: data}, make(chan int)},
		Options{Protocol: 5, Buffers: &out}); err == nil || len(out) != 2 {
		t.Errorf("after an error %d buffers: %v", len(out), err)
	}
}

func TestAppendGlobal(t *testing.T) {
	got := AppendGlobal([]byte("x"), "numpy", "ndarray")
	if string(got) != "x\x80\x04\x8c\x05numpy\x8c\x07ndarray\x93." {
		t.Errorf("%q", got)
	}
}

func TestAppendErrors(t *testing.T) {
	loop := []any{nil}
	loop[0] = loop
	self := make(Tuple, 1)
	self[0] = self
	for name, c := range map[string]struct {
		v    any
		opts Options
		says string
	}{
		"struct":      {struct{}{}, Options{}, "cannot convert a struct {} to Python"},
		"pointer":     {&struct{}{}, Options{}, "cannot convert a"},
		"channel":     {[]any{make(chan int)}, Options{}, "cannot convert a chan int"},
		"slice loop":  {loop, Options{}, "contains itself"},
		"tuple loop":  {self, Options{}, "contains itself"},
		"protocol":    {nil, Options{Protocol: 3}, "protocol 3"},
		"out of band": {nil, Options{Buffers: new([][]byte)}, "need protocol 5"},
		"no func":     {&Object{}, Options{}, "without Func"},
		"kwargs": {&Object{Func: Global{"m", "f"}, Kwargs: NewDict("a", 1)}, Options{},
			"m.f object: a Reduce has no keyword"},
		"side call": {&Object{Func: Global{"m", "f"}, Steps: []Step{{Kind: SideCall, Key: Global{"m", "f"}}}},
			Options{}, "not a Tuple"},
		"unknown step": {&Object{Func: Global{"m", "f"}, Steps: []Step{{Kind: 99}}}, Options{}, "unknown kind 99"},
		"year":         {time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), Options{}, "year 10000"},
		"in a map":     {map[string]any{"a": []any{struct{}{}}}, Options{}, "cannot convert a"},
	} {
		got, err := Append([]byte("before"), c.v, c.opts)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
		if string(got) != "before" {
			t.Errorf("%s: left %q", name, got)
		}
	}
}

func TestAppendCyclicPersistentID(t *testing.T) {
	l := &List{}
	p := &PersistentID{ID: l}
	l.Items = []Value{p}
	f := Call(Global{"m", "f"}, l)
	o := &Object{Kind: NewObj, Func: f, Args: Tuple{}, Kwargs: NewDict("a", nil)}
	o.Kwargs.Set("self", o)
	f.WithState(o)
	for _, v := range []Value{p, l, o, f} {
		if got := again(t, v, Options{}); !Equal(got, v) {
			t.Errorf("%s, want %s", Repr(got), Repr(v))
		}
	}
}

// TestAppendTupleBomb: a tuple of lists that each contain it would be written once for each
// of them, with all else that is in it. Python's own pickler gives up on it.
func TestAppendTupleBomb(t *testing.T) {
	bomb := func(lists int) Tuple {
		v := make(Tuple, lists, lists+3)
		for i := range v {
			v[i] = &List{}
		}
		v = append(v, strings.Repeat("x", 1<<16), make([]byte, 1<<16), &Buffer{Data: make([]byte, 1<<16)})
		for _, l := range v[:lists] {
			l.(*List).Items = []Value{v}
		}
		return v
	}
	data, err := Dump(bomb(400))
	if err != nil || len(data) > 2<<20 {
		t.Fatalf("%d bytes, %v", len(data), err)
	}
	var out [][]byte
	if !Equal(again(t, bomb(400), Options{Protocol: 5, Buffers: &out}), bomb(400)) || len(out) != 1 {
		t.Errorf("it is not what it was, or its buffer is there %d times", len(out))
	}
	if _, err := Dump(bomb(5000)); err == nil || !strings.Contains(err.Error(), "levels") {
		t.Error(err)
	}
	wide := append(bomb(900), make(Tuple, 1<<16)...) // the lists still have the narrow one
	for _, l := range wide[:900] {
		l.(*List).Items = []Value{wide}
	}
	if data, err := Dump(wide); err == nil || !strings.Contains(err.Error(), "nodes") {
		t.Errorf("%d bytes, %v", len(data), err)
	}
}

func TestAppendWithin(t *testing.T) {
	bad := make(chan int)
	for name, v := range map[string]any{
		"list": &List{Items: []Value{bad}}, "tuple": Tuple{bad}, "long tuple": Tuple{1, 2, 3, bad},
		"set": &Set{Items: []Value{bad}}, "frozenset": &FrozenSet{Items: []Value{bad}},
		"key": NewDict(bad, 1), "value": NewDict(1, bad), "func": Call(bad), "args": Call(Global{"m", "f"}, bad),
		"state":     New(Global{"m", "C"}).WithState(bad),
		"kwargs":    &Object{Kind: NewObj, Func: Global{"m", "C"}, Kwargs: NewDict("a", bad)},
		"item":      &Object{Func: Global{"m", "f"}, Steps: []Step{{Kind: AppendItem, Value: bad}}},
		"set item":  &Object{Func: Global{"m", "f"}, Steps: []Step{{SetItem, bad, nil}}},
		"side":      &Object{Func: Global{"m", "f"}, Steps: []Step{{SideCall, bad, Tuple{}}}},
		"side args": &Object{Func: Global{"m", "f"}, Steps: []Step{{SideCall, Global{"m", "g"}, Tuple{bad}}}},
		"id":        &PersistentID{ID: bad}, "slice": []chan int{bad},
		"map key": map[any]any{bad: 1}, "map value": map[string]chan int{"a": bad}, "range": Range{bad, 1, 1},
		"deque": Deque{Items: []any{bad}}, "naive": NaiveTime{},
		"ordered": OrderedDict{NewDict("a", bad)}, "objects": &Array{DType: &DType{Kind: 'O'}, Shape: []int{1},
			Objects: []any{bad}}, "pointer": &bad,
	} {
		if data, err := Dump(v); name == "naive" {
			if err != nil { // the year 1 is Python's first
				t.Error(err)
			}
		} else if err == nil || !strings.Contains(err.Error(), "cannot convert a chan int") {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
}

func TestAppendRarely(t *testing.T) {
	type text string
	nested := map[int][]map[string]any{1: {{"a": Tuple{1}}}}
	for _, c := range []struct {
		v    any
		want Value
	}{
		{Counter{}, Call(Global{"collections", "Counter"})}, {text("x"), "x"}, {struct{ b bool }{true}.b, true},
		{complex64(1), Call(Global{"builtins", "complex"}, 1.0, 0.0)},
		{nested, NewDict(int64(1), &List{Items: []Value{NewDict("a", Tuple{int64(1)})}})},
		{map[bool]int{true: 1, false: 0}, NewDict(false, int64(0), true, int64(1))},
		{(*big.Rat)(nil), nil}, {big.NewRat(1, 3), Call(Global{"fractions", "Fraction"}, int64(1), int64(3))},
		{json("bytes"), []byte("bytes")},
		{UUID{15: 7}, New(Global{"uuid", "UUID"}).WithState(NewDict("int", int64(7)))},
		{Deque{MaxLen: -1}, Call(Global{"collections", "deque"})},
		{time.FixedZone("x", 1).String(), "x"}, {Slice{}, Call(Global{"builtins", "slice"}, nil, nil, nil)},
		{any(&[]string{"p"}), &List{Items: []Value{"p"}}},
	} {
		if got := again(t, c.v, Options{}); !Equal(got, c.want) {
			t.Errorf("%#v: %s, want %s", c.v, Repr(got), Repr(c.want))
		}
	}
}

// json is a type of bytes, as there are many.
type json []byte
