package pickle

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"testing"
	"time"
)

func TestDictKeys(t *testing.T) {
	two63 := new(big.Int).Lsh(big.NewInt(1), 63)
	utc := time.Date(2024, 1, 1, 12, 0, 0, 0, time.UTC)
	// Each line holds what Python takes for one key; no two lines share one.
	lines := [][]Value{
		{int64(1), 1.0, true, big.NewInt(1), 1},
		{int64(0), 0.0, math.Copysign(0, -1), false},
		{nil}, {"1"}, {[]byte("1")}, {""}, {[]byte{}}, {1.5}, {math.Inf(1)},
		{two63, new(big.Int).Set(two63), math.Ldexp(1, 63)},
		{new(big.Int).Neg(two63), int64(-1 << 63), -math.Ldexp(1, 63)},
		{math.Ldexp(1, 100), new(big.Int).Lsh(big.NewInt(1), 100)},
		{Tuple{}}, {Tuple{nil}}, {Tuple{int64(1), "a"}, Tuple{true, "a"}, Tuple{1.0, "a"}}, {Tuple{"a", int64(1)}},
		{Tuple{Tuple{int64(1)}, int64(2)}}, {Tuple{Tuple{int64(1), int64(2)}}}, {Tuple{[]byte("a")}}, {Tuple{"a"}},
		{Tuple{1.5, two63, Global{"a", "bc"}}}, {Tuple{1.5, two63, Global{"ab", "c"}}},
		{Global{"a", "b"}}, {utc, utc.In(time.FixedZone("", 3600))}, {NaiveTime{Time: utc}}, {Date{2024, 1, 1}},
		{UUID{1}}, {time.Second},
	}
	for _, size := range []int{0, 50} { // few items are searched otherwise than many
		d := new(Dict)
		for i := range size {
			d.Set(fmt.Sprint("filler", i), nil)
		}
		for i, line := range lines {
			for _, k := range line {
				d.Set(k, int64(i))
			}
		}
		if d.Len() != size+len(lines) {
			t.Errorf("%d keys, want %d", d.Len(), size+len(lines))
		}
		for i, line := range lines {
			for _, k := range line {
				if v, ok := d.Get(k); !ok || v != int64(i) {
					t.Errorf("%v (%T): %v, want %d", k, k, v, i)
				}
			}
		}
	}
}

func TestDictWithoutEquals(t *testing.T) {
	o := New(Global{"m", "C"})
	nan := math.NaN()
	d := NewDict(o, 1, nan, 2, nan, 3, Tuple{o}, 4, Tuple{o}, 5)
	if d.Len() != 5 {
		t.Errorf("%d items: what is equal to nothing was found equal", d.Len())
	}
	if v, ok := d.Get(o); !ok || v != 1 {
		t.Error("an object is not found by itself")
	}
	if _, ok := d.Get(New(Global{"m", "C"})); ok {
		t.Error("an object is found by another")
	}
	if _, ok := d.Get(nan); ok {
		t.Error("NaN is found")
	}
	if _, ok := (*Dict)(nil).Get("x"); ok || (*Dict)(nil).Len() != 0 || (*Dict)(nil).Items() != nil {
		t.Error("a nil dict has something")
	}
	var deep Value = Tuple{}
	for range 40 {
		deep = Tuple{deep, deep}
	}
	if d.Set(deep, 6); d.Len() != 6 {
		t.Error("a key beyond the budget is lost")
	}
}

func TestDictOrder(t *testing.T) {
	d := NewDict("b", 1, "a", 2)
	d.Set("b", 3).Set("c", 4)
	if got := Repr(d); got != "{'b': 3, 'a': 2, 'c': 4}" {
		t.Error(got)
	}
	m, ok := d.Strings()
	if !ok || len(m) != 3 || m["b"] != 3 {
		t.Error(m, ok)
	}
	if _, ok := NewDict(1, 2).Strings(); ok {
		t.Error("numbers are strings")
	}
	n := 0
	for range d.All() {
		if n++; n == 2 {
			break
		}
	}
	if n != 2 {
		t.Error("All does not stop")
	}
	defer func() {
		if recover() == nil {
			t.Error("a key without a value is no error")
		}
	}()
	NewDict(slices.Repeat([]Value{"a"}, d.Len())...)
}

func TestSetHas(t *testing.T) {
	s := &Set{Items: []Value{int64(1), "a", math.NaN()}}
	f := &FrozenSet{Items: s.Items}
	for _, v := range []Value{1.0, true, "a"} {
		if !s.Has(v) || !f.Has(v) {
			t.Errorf("%v is missing", v)
		}
	}
	for _, v := range []Value{"b", math.NaN(), &List{}} {
		if s.Has(v) || f.Has(v) {
			t.Errorf("%v is there", v)
		}
	}
}
