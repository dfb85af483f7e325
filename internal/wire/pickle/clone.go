package pickle

import (
	"bytes"
	"math/big"
)

// Clone copies a tree with all bytes and buffers in it, so that it no longer borrows from the input of Load. Shared
// nodes stay shared in the copy, and cycles are preserved. Results of Decode are not copied: clone the tree, then
// decode.
func Clone(v Value) Value {
	c := cloner{done: make(map[any]Value)}
	r := c.node(v)
	// Nodes are created empty and filled from a list, to support any depth.
	for len(c.todo) > 0 {
		fill := c.todo[len(c.todo)-1]
		c.todo = c.todo[:len(c.todo)-1]
		fill()
	}
	for _, d := range c.dicts {
		d.reindex() // now that tuples among the keys are filled
	}
	return r
}

type cloner struct {
	done  map[any]Value // copies by the identity of the originals
	todo  []func()
	dicts []*Dict // that have an index
}

// node returns the copy of a node, to be filled later.
func (c *cloner) node(v Value) Value {
	id, ok := identity(v)
	if ok {
		if r, there := c.done[id]; there {
			return r
		}
	}
	r := c.empty(v)
	if ok {
		c.done[id] = r
	}
	return r
}

func (c *cloner) empty(v Value) Value {
	switch x := v.(type) {
	case []byte:
		return bytes.Clone(x)
	case *big.Int:
		if x == nil {
			return x
		}
		return new(big.Int).Set(x)
	case *ByteArray:
		return &ByteArray{Data: bytes.Clone(x.Data)}
	case *Buffer:
		return &Buffer{Data: bytes.Clone(x.Data), Index: x.Index, ReadOnly: x.ReadOnly}
	case *PersistentID:
		r := new(PersistentID)
		c.todo = append(c.todo, func() { r.ID = c.node(x.ID) })
		return r
	case *List:
		return &List{Items: c.items(x.Items)}
	case *Set:
		return &Set{Items: c.items(x.Items)}
	case *FrozenSet:
		return &FrozenSet{Items: c.items(x.Items)}
	case Tuple:
		return Tuple(c.items(x))
	case *Dict:
		r := new(Dict)
		c.todo = append(c.todo, func() {
			r.items = make([]Item, len(x.items))
			for i, it := range x.items {
				r.items[i] = Item{c.node(it.Key), c.node(it.Value)}
			}
			if x.index != nil {
				c.dicts = append(c.dicts, r)
			}
		})
		return r
	case *Object:
		r := &Object{Kind: x.Kind}
		c.todo = append(c.todo, func() { c.object(r, x) })
		return r
	}
	return v
}

// items allocates the copies immediately, so that a tuple is identified by its memory.
func (c *cloner) items(items []Value) []Value {
	if items == nil {
		return nil
	}
	r := make([]Value, len(items))
	if len(items) > 0 {
		c.todo = append(c.todo, func() {
			for i, v := range items {
				r[i] = c.node(v)
			}
		})
	}
	return r
}

func (c *cloner) object(r, x *Object) {
	r.Func = c.node(x.Func)
	r.Args, _ = c.node(x.Args).(Tuple)
	if x.Kwargs != nil {
		r.Kwargs, _ = c.node(x.Kwargs).(*Dict)
	}
	for _, s := range x.Steps {
		r.Steps = append(r.Steps, Step{s.Kind, c.node(s.Key), c.node(s.Value)})
	}
}

// reindex builds the index of all keys again.
func (d *Dict) reindex() {
	d.index = make(map[any]int, len(d.items))
	for i, it := range d.items {
		if k, _, ok := keyOf(it.Key, keyBudget); ok {
			d.index[k] = i
		}
	}
}
