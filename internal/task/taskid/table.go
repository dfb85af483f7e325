package taskid

import (
	"hash/maphash"
	"iter"
)

// Table finds values by their keys. It is an open-addressing table instead of a map because it holds a million tasks:
// it grows without hashing keys again, and has one pointer per value for the garbage collector instead of two and a
// length. Its seed is random, which affects only the order of All. The zero value is empty.
type Table[V Keyed] struct {
	slots []slot[V] // a power of two, or none
	n     int
	seed  maphash.Seed
}

// Keyed is the constraint of the values of a Table. The key of a value must not change while it is in a Table.
type Keyed interface {
	comparable
	Key() Key
}

type slot[V Keyed] struct {
	hash uint64 // 0 for an empty slot
	v    V
}

const leastSlots = 64

// Hash returns the hash of a key in this table, for Find and Put.
func (t *Table[V]) Hash(k Key) uint64 {
	if t.slots == nil {
		t.slots, t.seed = make([]slot[V], leastSlots), maphash.MakeSeed()
	}
	return maphash.String(t.seed, string(k)) | 1<<63
}

// Len returns the number of values.
func (t *Table[V]) Len() int { return t.n }

// Get returns the value with a key, the zero value if there is none.
func (t *Table[V]) Get(k Key) (v V) {
	if t.n == 0 {
		return v
	}
	return t.Find(k, t.Hash(k))
}

// Find is Get for a key with a known hash.
func (t *Table[V]) Find(k Key, hash uint64) (v V) {
	slots := t.slots
	mask := uint64(len(slots) - 1)
	for i := hash & mask; slots[i].hash != 0; i = (i + 1) & mask {
		if slots[i].hash == hash && slots[i].v.Key() == k {
			return slots[i].v
		}
	}
	return v
}

// Put adds a value with the hash of its key. The key must not be in the table.
func (t *Table[V]) Put(v V, hash uint64) {
	if t.n >= len(t.slots)/4*3 {
		t.resize(2 * len(t.slots))
	}
	t.n++
	t.place(slot[V]{hash, v})
}

// Set adds a value, and replaces one with the same key.
func (t *Table[V]) Set(v V) {
	k := v.Key()
	hash := t.Hash(k)
	mask := uint64(len(t.slots) - 1)
	for i := hash & mask; t.slots[i].hash != 0; i = (i + 1) & mask {
		if t.slots[i].hash == hash && t.slots[i].v.Key() == k {
			t.slots[i].v = v
			return
		}
	}
	t.Put(v, hash)
}

func (t *Table[V]) place(s slot[V]) {
	mask := uint64(len(t.slots) - 1)
	i := s.hash & mask
	for t.slots[i].hash != 0 {
		i = (i + 1) & mask
	}
	t.slots[i] = s
}

// Remove removes a value, and reports whether it was in the table. Displaced values move up, so that no tombstones are
// needed.
func (t *Table[V]) Remove(v V) bool {
	if t.n == 0 {
		return false
	}
	mask := uint64(len(t.slots) - 1)
	i := t.Hash(v.Key()) & mask
	for t.slots[i].v != v {
		if t.slots[i].hash == 0 {
			return false
		}
		i = (i + 1) & mask
	}
	t.n--
	for j := i; ; {
		j = (j + 1) & mask
		if t.slots[j].hash == 0 {
			break
		}
		// Values whose home is between the hole and here stay.
		if home := t.slots[j].hash & mask; (j-home)&mask >= (j-i)&mask {
			t.slots[i] = t.slots[j]
			i = j
		}
	}
	t.slots[i] = slot[V]{}
	if len(t.slots) > leastSlots && t.n < len(t.slots)/8 {
		t.resize(len(t.slots) / 2)
	}
	return true
}

// Grow makes room for n more values.
func (t *Table[V]) Grow(n int) {
	t.Hash("") // allocates an empty table
	size := len(t.slots)
	for t.n+n > size/4*3 {
		size *= 2
	}
	if size > len(t.slots) {
		t.resize(size)
	}
}

func (t *Table[V]) resize(size int) {
	old := t.slots
	t.slots = make([]slot[V], size)
	for i := range old {
		if old[i].hash != 0 {
			t.place(old[i])
		}
	}
}

// All returns the values in no order. The table must not be changed meanwhile.
func (t *Table[V]) All() iter.Seq[V] {
	return func(yield func(V) bool) {
		for i := range t.slots {
			if t.slots[i].hash != 0 && !yield(t.slots[i].v) {
				return
			}
		}
	}
}

// Slots returns the number of slots, At the value in one of them: for walks in steps, during which the table may
// change.
func (t *Table[V]) Slots() int { return len(t.slots) }

// At returns the value in a slot, and whether there is one.
func (t *Table[V]) At(i int) (V, bool) { return t.slots[i].v, t.slots[i].hash != 0 }
