package taskid

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// item is a value of a table.
type item struct{ key Key }

func (i *item) Key() Key { return i.key }

func TestTableModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tb Table[*item]
		model := map[Key]*item{}
		key := rapid.Custom(func(t *rapid.T) Key { return Key(rapid.StringN(0, 2, 2).Draw(t, "key")) })
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				for range rapid.IntRange(1, 60).Draw(t, "n") {
					if k := key.Draw(t, "k"); model[k] == nil {
						model[k] = &item{k}
						tb.Put(model[k], tb.Hash(k))
					}
				}
			},
			"set": func(t *rapid.T) {
				x := &item{key.Draw(t, "k")}
				tb.Set(x)
				model[x.key] = x
			},
			"remove": func(t *rapid.T) {
				for range rapid.IntRange(1, 40).Draw(t, "n") {
					k := key.Draw(t, "k")
					if tb.Remove(&item{k}) {
						t.Fatalf("%q: removed by another value", k)
					}
					if x := model[k]; x != nil {
						if !tb.Remove(x) || tb.Remove(x) {
							t.Fatalf("%q: not removed once", k)
						}
						delete(model, k)
					}
				}
			},
			"grow": func(t *rapid.T) {
				n := rapid.IntRange(0, 500).Draw(t, "n")
				tb.Grow(n)
				if room := tb.Slots()/4*3 - tb.Len(); room < n {
					t.Fatalf("room for %d values after Grow(%d)", room, n)
				}
			},
			"": func(t *rapid.T) {
				if tb.Len() != len(model) {
					t.Fatalf("values: got %d, want %d", tb.Len(), len(model))
				}
				for k, x := range model {
					if tb.Get(k) != x {
						t.Fatalf("%q: not found", k)
					}
				}
				if k := key.Draw(t, "k"); tb.Get(k) != model[k] {
					t.Fatalf("%q: got the wrong value", k)
				}
				if got := collect(&tb); !maps.Equal(got, model) {
					t.Fatalf("all: got %v, want %v", got, model)
				}
			},
		})
	})
}

// collect returns the values of All, and checks that At has the same.
func collect(tb *Table[*item]) map[Key]*item {
	var all, at []*item
	for x := range tb.All() {
		all = append(all, x)
	}
	for i := range tb.Slots() {
		if x, ok := tb.At(i); ok {
			at = append(at, x)
		}
	}
	if !slices.Equal(all, at) {
		return nil
	}
	out := map[Key]*item{}
	for _, x := range all {
		out[x.key] = x
	}
	return out
}

// An empty table finds nothing, and a walk may end early.
func TestTableEmpty(t *testing.T) {
	var tb Table[*item]
	if tb.Get("a") != nil || tb.Len() != 0 || tb.Remove(&item{"a"}) || tb.Slots() != 0 {
		t.Error("empty table has values")
	}
	for _, k := range []Key{"a", "b", "c"} {
		tb.Set(&item{k})
	}
	n := 0
	for range tb.All() {
		n++
		break
	}
	if n != 1 {
		t.Errorf("got %d values after break, want 1", n)
	}
}

// A table that was large must shrink.
func TestTableShrinks(t *testing.T) {
	var tb Table[*item]
	var all []*item
	for i := range 10_000 {
		x := &item{NewKey(string(rune('a' + i)))}
		all = append(all, x)
		tb.Put(x, tb.Hash(x.key))
	}
	large := tb.Slots()
	for _, x := range all {
		tb.Remove(x)
	}
	if tb.Slots() > large/8 || tb.Len() != 0 {
		t.Errorf("got %d slots for %d values, the full table had %d", tb.Slots(), tb.Len(), large)
	}
}
