package config

import (
	"fmt"
	"iter"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"
)

// List is a YAML sequence or a Python list.
type List []any

// Tuple is a Python tuple, which only a variable can contain.
type Tuple []any

// Set is a Python set, in the order written.
type Set []any

// Date is a YAML date without a time.
type Date struct {
	Year  int
	Month time.Month
	Day   int
}

// String returns the date in YAML's form.
func (d Date) String() string { return fmt.Sprintf("%04d-%02d-%02d", d.Year, d.Month, d.Day) }

// Time is a YAML timestamp.
type Time struct {
	time.Time
	// Naive reports whether the file has no time zone; Time is then in UTC.
	Naive bool
}

// Entry is one key of a Map.
type Entry struct {
	// Key is a string where Dask can merge; inside lists it can be any hashable value.
	Key any
	// Value is one of the types that the package lists.
	Value any
	// Source is the source of the value.
	Source Source
}

// Map keeps its keys in order, like Python's dict. Only the package modifies one, and only before it is shared.
type Map struct {
	entries []Entry
	index   map[string]int // hash of the key to its place in entries
}

// Len returns the number of keys. A nil Map is empty.
func (m *Map) Len() int {
	if m == nil {
		return 0
	}
	return len(m.entries)
}

// All yields the entries in order.
func (m *Map) All() iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		if m == nil {
			return
		}
		for _, e := range m.entries {
			if !yield(e) {
				return
			}
		}
	}
}

// Entry returns the entry of exactly this key; hyphens and underscores differ here.
func (m *Map) Entry(key any) (Entry, bool) {
	if m == nil {
		return Entry{}, false
	}
	hash, ok := hashKey(key)
	if !ok {
		return Entry{}, false
	}
	i, ok := m.index[hash]
	if !ok {
		return Entry{}, false
	}
	return m.entries[i], true
}

func (m *Map) has(key any) bool {
	_, ok := m.Entry(key)
	return ok
}

// put replaces in place, or appends. It reports whether the key is hashable.
func (m *Map) put(key, value any, src Source) bool {
	hash, ok := hashKey(key)
	if !ok {
		return false
	}
	if i, ok := m.index[hash]; ok {
		m.entries[i].Value, m.entries[i].Source = value, src
		return true
	}
	if m.index == nil {
		m.index = map[string]int{}
	}
	m.index[hash] = len(m.entries)
	m.entries = append(m.entries, Entry{key, value, src})
	return true
}

func (m *Map) remove(key any) {
	hash, ok := hashKey(key)
	if !ok {
		return
	}
	i, ok := m.index[hash]
	if !ok {
		return
	}
	m.entries = slices.Delete(m.entries, i, i+1)
	delete(m.index, hash)
	for h, j := range m.index {
		if j > i {
			m.index[h] = j - 1
		}
	}
}

// clone copies the maps, not the lists, which never change.
func (m *Map) clone() *Map {
	c := &Map{entries: slices.Clone(m.entries), index: make(map[string]int, len(m.index))}
	for h, i := range m.index {
		c.index[h] = i
	}
	for i := range c.entries {
		if sub, ok := c.entries[i].Value.(*Map); ok {
			c.entries[i].Value = sub.clone()
		}
	}
	return c
}

// hashKey returns equal text for keys that are equal in Python, where 1 == 1.0 == True. Lists, sets and maps are not
// hashable.
func hashKey(key any) (string, bool) {
	switch k := key.(type) {
	case nil:
		return "none", true
	case string:
		return "s" + k, true
	case []byte:
		return "b" + string(k), true
	case bool:
		if k {
			return "n1", true
		}
		return "n0", true
	case int64:
		return "n" + strconv.FormatInt(k, 10), true
	case *big.Int:
		return "n" + k.String(), true
	case float64:
		if k == math.Trunc(k) && !math.IsInf(k, 0) {
			f, _ := new(big.Float).SetFloat64(k).Int(nil)
			return "n" + f.String(), true
		}
		return "f" + strconv.FormatFloat(k, 'g', -1, 64), true
	case complex128:
		if imag(k) == 0 {
			return hashKey(real(k))
		}
		return fmt.Sprint("c", k), true
	case Date:
		return "d" + k.String(), true
	case Time:
		return fmt.Sprint("t", k.UnixNano(), k.Naive), true
	case Tuple:
		var b strings.Builder
		b.WriteByte('(')
		for _, x := range k {
			h, ok := hashKey(x)
			if !ok {
				return "", false
			}
			fmt.Fprintf(&b, "%d:%s", len(h), h)
		}
		return b.String(), true
	}
	return "", false
}

// equal compares values like Python's ==.
func equal(a, b any) bool {
	switch x := a.(type) {
	case List:
		y, ok := b.(List)
		return ok && slices.EqualFunc(x, y, equal)
	case Tuple:
		y, ok := b.(Tuple)
		return ok && slices.EqualFunc(x, y, equal)
	case Set:
		y, ok := b.(Set)
		if !ok || len(x) != len(y) {
			return false
		}
		for _, e := range x {
			if !slices.ContainsFunc(y, func(f any) bool { return equal(e, f) }) {
				return false
			}
		}
		return true
	case *Map:
		y, ok := b.(*Map)
		if !ok || x.Len() != y.Len() {
			return false
		}
		for e := range x.All() {
			other, ok := y.Entry(e.Key)
			if !ok || !equal(e.Value, other.Value) {
				return false
			}
		}
		return true
	case float64:
		if math.IsNaN(x) {
			return false
		}
	}
	ha, oka := hashKey(a)
	hb, okb := hashKey(b)
	return oka && okb && ha == hb
}

// typeName returns the name of a value's type for users.
func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case int64, *big.Int:
		return "integer"
	case float64, complex128:
		return "number"
	case string:
		return "string"
	case []byte:
		return "bytes"
	case Date, Time:
		return "timestamp"
	case List, Tuple, Set:
		return "list"
	case *Map:
		return "object"
	}
	return fmt.Sprintf("%T", v)
}

// aType returns the name of a value's type with its article.
func aType(v any) string {
	switch name := typeName(v); name[0] {
	case 'a', 'e', 'i', 'o', 'u':
		return "an " + name
	default:
		return "a " + name
	}
}
