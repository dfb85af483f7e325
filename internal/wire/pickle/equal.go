package pickle

import (
	"bytes"
	"math"
	"math/big"
	"reflect"
)

// Equal reports whether two trees are equal. An int is equal to an int of the same value only, not to a float or bool,
// and NaN is equal to NaN: it compares what is written, not equality in Python. Dicts and sets are equal in any order
// of their items, as far as Go can distinguish items; others (objects as keys) are compared in order. Values that are
// not nodes are compared as in Go. It terminates for cycles: two that cannot be distinguished are equal.
func Equal(a, b Value) bool {
	e := equality{done: make(map[[2]any]struct{})}
	return e.equal(a, b)
}

type equality struct {
	done map[[2]any]struct{} // pairs that are equal, or found to be so elsewhere
}

func (e *equality) equal(a, b Value) bool {
	switch x := a.(type) {
	case nil:
		return b == nil
	case bool, int64, string, Global:
		return a == b
	case float64:
		y, ok := b.(float64)
		return ok && (math.Float64bits(x) == math.Float64bits(y) || math.IsNaN(x) && math.IsNaN(y))
	case *big.Int:
		y, ok := b.(*big.Int)
		return ok && x.Cmp(y) == 0
	case []byte:
		y, ok := b.([]byte)
		return ok && bytes.Equal(x, y)
	}
	idA, okA := identity(a)
	idB, okB := identity(b)
	if okA && okB {
		pair := [2]any{idA, idB}
		if _, there := e.done[pair]; there {
			return true
		}
		e.done[pair] = struct{}{}
	}
	switch x := a.(type) {
	case *ByteArray:
		y, ok := b.(*ByteArray)
		return ok && bytes.Equal(x.Data, y.Data)
	case *Buffer:
		y, ok := b.(*Buffer)
		return ok && x.ReadOnly == y.ReadOnly && bytes.Equal(x.Data, y.Data)
	case *PersistentID:
		y, ok := b.(*PersistentID)
		return ok && e.equal(x.ID, y.ID)
	case *List:
		y, ok := b.(*List)
		return ok && e.all(x.Items, y.Items)
	case Tuple:
		y, ok := b.(Tuple)
		return ok && e.all(x, y)
	case *Set:
		y, ok := b.(*Set)
		return ok && e.sets(x.Items, y.Items)
	case *FrozenSet:
		y, ok := b.(*FrozenSet)
		return ok && e.sets(x.Items, y.Items)
	case *Dict:
		y, ok := b.(*Dict)
		return ok && e.dicts(x, y)
	case *Object:
		y, ok := b.(*Object)
		return ok && e.objects(x, y)
	}
	return reflect.DeepEqual(a, b) // no nodes: what Decode makes, or Go's own types
}

func (e *equality) all(a, b []Value) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !e.equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

// sets compares the items that have keys in any order and the others in theirs.
func (e *equality) sets(a, b []Value) bool {
	if len(a) != len(b) {
		return false
	}
	dict := func(items []Value) *Dict {
		d := new(Dict)
		for _, v := range items {
			d.Set(v, v)
		}
		return d
	}
	return e.dicts(dict(a), dict(b))
}

func (e *equality) dicts(a, b *Dict) bool {
	if a.Len() != b.Len() {
		return false
	}
	var restA, restB []Value
	for k, v := range a.All() {
		if !matchable(k) {
			restA = append(restA, k, v)
			continue
		}
		other, ok := b.Get(k)
		if !ok || !e.equal(v, other) {
			return false
		}
	}
	for k, v := range b.All() {
		if !matchable(k) {
			restB = append(restB, k, v)
		}
	}
	return e.all(restA, restB)
}

// matchable reports whether equal keys of two trees have the same keyOf, which is false for those identified by their
// pointer.
func matchable(k Value) bool {
	switch k.(type) {
	case *Object, *FrozenSet, *PersistentID, *Buffer:
		return false
	}
	_, _, ok := keyOf(k, keyBudget)
	return ok
}

func (e *equality) objects(a, b *Object) bool {
	if a.Kind != b.Kind || !e.equal(a.Func, b.Func) || !e.all(a.Args, b.Args) || len(a.Steps) != len(b.Steps) {
		return false
	}
	if a.Kwargs.Len() != b.Kwargs.Len() || a.Kwargs.Len() > 0 && !e.equal(a.Kwargs, b.Kwargs) {
		return false
	}
	for i, s := range a.Steps {
		o := b.Steps[i]
		if s.Kind != o.Kind || !e.equal(s.Key, o.Key) || !e.equal(s.Value, o.Value) {
			return false
		}
	}
	return true
}
