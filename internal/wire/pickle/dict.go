package pickle

import (
	"iter"
	"math/big"
)

// Item is one key and its value.
type Item struct {
	Key, Value Value
}

// Dict is Python's dict: ordered, with keys of any kind. Keys that are equal in Python are one key (1, 1.0 and True
// are), if Go can determine it without running code: objects are equal only to themselves. The zero Dict is empty. It
// must not be modified concurrently with reads.
type Dict struct {
	items []Item
	index map[any]int // of keys that have a keyOf, once there are more than few
}

// few is the number of items up to which a linear search is cheaper than a map.
const few = 8

// NewDict returns a dict of alternating keys and values. It panics if their number is odd.
func NewDict(pairs ...Value) *Dict {
	if len(pairs)%2 != 0 {
		panic("pickle: NewDict: key without a value")
	}
	d := new(Dict)
	for i := 0; i < len(pairs); i += 2 {
		d.Set(pairs[i], pairs[i+1])
	}
	return d
}

// Len returns the number of items. A nil Dict has none.
func (d *Dict) Len() int {
	if d == nil {
		return 0
	}
	return len(d.items)
}

// Items returns the items in order. They must not be modified.
func (d *Dict) Items() []Item {
	if d == nil {
		return nil
	}
	return d.items
}

// All returns an iterator over keys and values in order.
func (d *Dict) All() iter.Seq2[Value, Value] {
	return func(yield func(Value, Value) bool) {
		for _, it := range d.Items() {
			if !yield(it.Key, it.Value) {
				return
			}
		}
	}
}

// Get returns the value of a key, and whether it exists.
func (d *Dict) Get(key Value) (Value, bool) {
	if d == nil {
		return nil, false
	}
	k, _, ok := keyOf(key, keyBudget)
	if !ok {
		return nil, false
	}
	if i := d.find(k); i >= 0 {
		return d.items[i].Value, true
	}
	return nil, false
}

// Set sets the value of a key. An existing key keeps its position, as in Python.
func (d *Dict) Set(key, value Value) *Dict {
	k, _, ok := keyOf(key, keyBudget)
	d.set(key, value, k, ok)
	return d
}

// set is Set with the result of keyOf for the key.
func (d *Dict) set(key, value Value, k any, ok bool) {
	if ok {
		if i := d.find(k); i >= 0 {
			d.items[i].Value = value
			return
		}
	}
	d.items = append(d.items, Item{key, value})
	switch {
	case d.index != nil:
		if ok {
			d.index[k] = len(d.items) - 1
		}
	case len(d.items) > few || dear(key):
		d.reindex()
	}
}

// dear reports whether a key is too expensive for a linear search.
func dear(key Value) bool {
	switch key.(type) {
	case Tuple, []byte, *big.Int:
		return true
	}
	return false
}

// find returns the position of a key, or -1.
func (d *Dict) find(k any) int {
	if d.index != nil {
		if i, ok := d.index[k]; ok {
			return i
		}
		return -1
	}
	for i, it := range d.items {
		if o, _, ok := keyOf(it.Key, keyBudget); ok && o == k {
			return i
		}
	}
	return -1
}

// Strings returns the dict as a Go map, if all keys are strings.
func (d *Dict) Strings() (map[string]Value, bool) {
	m := make(map[string]Value, d.Len())
	for _, it := range d.Items() {
		s, ok := it.Key.(string)
		if !ok {
			return nil, false
		}
		m[s] = it.Value
	}
	return m, true
}

// Has reports whether the set has an item equal to v, as far as Go can determine.
func (s *Set) Has(v Value) bool { return has(s.Items, v) }

// Has reports whether the set has an item equal to v, as far as Go can determine.
func (s *FrozenSet) Has(v Value) bool { return has(s.Items, v) }

func has(items []Value, v Value) bool {
	k, _, ok := keyOf(v, keyBudget)
	if !ok {
		return false
	}
	for _, it := range items {
		if o, _, ok := keyOf(it, keyBudget); ok && o == k {
			return true
		}
	}
	return false
}
