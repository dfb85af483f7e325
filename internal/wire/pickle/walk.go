package pickle

import (
	"math/big"
	"unsafe"
)

// sliceID is the identity of nodes that are slices or strings: their memory.
type sliceID struct {
	at unsafe.Pointer
	n  int
}

// identity returns a comparable value that identifies a node, for nodes that can be shared and are worth it.
func identity(v Value) (id any, ok bool) {
	switch x := v.(type) {
	case *List, *Dict, *Set, *FrozenSet, *Object, *ByteArray, *Buffer, *PersistentID:
		return v, true
	case Tuple:
		if len(x) > 0 {
			return sliceID{unsafe.Pointer(&x[0]), len(x)}, true
		}
	case []byte:
		if len(x) >= worthSharing {
			return sliceID{unsafe.Pointer(&x[0]), len(x)}, true
		}
	case string:
		if len(x) >= worthSharing {
			return sliceID{unsafe.Pointer(unsafe.StringData(x)), len(x)}, true
		}
	case *big.Int:
		return v, x != nil
	case Global:
		return v, true
	}
	return nil, false
}

// worthSharing is the length from which a memo entry and a reference cost less than bytes or a string written twice.
const worthSharing = 8

// children calls f for each node below v, in the order in which they are written, until it returns false.
func children(v Value, f func(Value) bool) bool {
	all := func(items []Value) bool {
		for _, it := range items {
			if !f(it) {
				return false
			}
		}
		return true
	}
	pairs := func(d *Dict) bool {
		for _, it := range d.Items() {
			if !f(it.Key) || !f(it.Value) {
				return false
			}
		}
		return true
	}
	switch x := v.(type) {
	case *List:
		return all(x.Items)
	case Tuple:
		return all(x)
	case *Set:
		return all(x.Items)
	case *FrozenSet:
		return all(x.Items)
	case *Dict:
		return pairs(x)
	case *PersistentID:
		return f(x.ID)
	case *Object:
		if !f(x.Func) || !f(x.Args) || x.Kwargs != nil && !f(x.Kwargs) {
			return false
		}
		for _, s := range x.Steps {
			if s.Kind == SetItem || s.Kind == SideCall {
				if !f(s.Key) {
					return false
				}
			}
			if !f(s.Value) {
				return false
			}
		}
	}
	return true
}

// Walk calls f for v and for every node below it, containers before their contents. A shared node is visited once, so
// that it terminates for cycles and for trees whose expansion would not fit into memory. If f returns false, Walk does
// not descend.
func Walk(v Value, f func(Value) bool) {
	seen := make(map[any]struct{})
	todo := []Value{v}
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if id, ok := identity(n); ok {
			if _, there := seen[id]; there {
				continue
			}
			seen[id] = struct{}{}
		}
		if !f(n) {
			continue
		}
		from := len(todo)
		children(n, func(c Value) bool {
			todo = append(todo, c)
			return true
		})
		// The last is processed first.
		for i, j := from, len(todo)-1; i < j; i, j = i+1, j-1 {
			todo[i], todo[j] = todo[j], todo[i]
		}
	}
}

// checkDepth measures the longest path without cycles. Recursive functions rely on it. It visits each node once.
func checkDepth(v Value, limit int) error {
	type frame struct {
		id    any
		below []Value
		depth int // of the deepest child so far
	}
	const open = -1
	depth := make(map[any]int)
	containers := func(v Value) (list []Value) {
		children(v, func(c Value) bool {
			switch c.(type) {
			case *List, Tuple, *Dict, *Set, *FrozenSet, *Object, *PersistentID:
				list = append(list, c)
			}
			return true
		})
		return list
	}
	id, ok := identity(v)
	if !ok {
		return nil
	}
	depth[id] = open
	path := []frame{{id: id, below: containers(v)}}
	for len(path) > 0 {
		if len(path) > limit {
			return limitError("Depth", limit)
		}
		f := &path[len(path)-1]
		if len(f.below) == 0 {
			d := f.depth + 1
			if d+len(path)-1 > limit {
				return limitError("Depth", limit)
			}
			depth[f.id] = d
			path = path[:len(path)-1]
			if len(path) > 0 {
				up := &path[len(path)-1]
				up.depth = max(up.depth, d)
			}
			continue
		}
		c := f.below[0]
		f.below = f.below[1:]
		id, ok := identity(c)
		if !ok {
			continue
		}
		if d, seen := depth[id]; seen {
			if d != open {
				f.depth = max(f.depth, d)
			}
			continue
		}
		depth[id] = open
		path = append(path, frame{id: id, below: containers(c)})
	}
	return nil
}
