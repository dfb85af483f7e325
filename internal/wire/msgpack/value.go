package msgpack

import (
	"bytes"
	"iter"
)

// Map is an ordered map. Keys are strings, numbers, bools, nil, bytes and arrays of these, as returned by Decode.
type Map []Pair

// Pair is one entry of a Map.
type Pair struct {
	Key, Value any
}

// Raw is an encoded value; Append copies it unchanged.
type Raw []byte

// Get returns the value of a string key. Of entries with the same key the last counts, as in Python.
func (m Map) Get(key string) (any, bool) {
	for i := len(m) - 1; i >= 0; i-- {
		if k, ok := m[i].Key.(string); ok && k == key {
			return m[i].Value, true
		}
	}
	return nil, false
}

// Has reports whether there is an entry with a string key.
func (m Map) Has(key string) bool { _, ok := m.Get(key); return ok }

// GetString returns the string of a string key, "" if there is none.
func (m Map) GetString(key string) string {
	v, _ := m.Get(key)
	s, _ := v.(string)
	return s
}

// Set replaces the value of a string key or adds the entry at the end.
func (m *Map) Set(key string, value any) {
	for i := len(*m) - 1; i >= 0; i-- {
		if k, ok := (*m)[i].Key.(string); ok && k == key {
			(*m)[i].Value = value
			return
		}
	}
	*m = append(*m, Pair{key, value})
}

// Delete removes all entries of a string key.
func (m *Map) Delete(key string) {
	out := (*m)[:0]
	for _, p := range *m {
		if k, ok := p.Key.(string); !ok || k != key {
			out = append(out, p)
		}
	}
	clear((*m)[len(out):])
	*m = out
}

// All returns an iterator over the entries in order.
func (m Map) All() iter.Seq2[any, any] {
	return func(yield func(any, any) bool) {
		for _, p := range m {
			if !yield(p.Key, p.Value) {
				return
			}
		}
	}
}

// Equal compares two trees of values of Decode. Maps compare in order; a NaN equals itself.
func Equal(a, b any) bool {
	switch x := a.(type) {
	case []byte:
		y, ok := b.([]byte)
		return ok && bytes.Equal(x, y)
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for i := range x {
			if !Equal(x[i], y[i]) {
				return false
			}
		}
		return true
	case Map:
		y, ok := b.(Map)
		if !ok || len(x) != len(y) {
			return false
		}
		for i := range x {
			if !Equal(x[i].Key, y[i].Key) || !Equal(x[i].Value, y[i].Value) {
				return false
			}
		}
		return true
	case float64:
		y, ok := b.(float64)
		return ok && (x == y || x != x && y != y)
	}
	switch b.(type) {
	case []byte, []any, Map:
		return false // not comparable by ==
	}
	return a == b
}

// MapOf returns a map of alternating keys and values. It panics if their number is odd.
func MapOf(keysAndValues ...any) Map {
	if len(keysAndValues)%2 != 0 {
		panic("msgpack: MapOf: key without a value")
	}
	m := make(Map, len(keysAndValues)/2)
	for i := range m {
		m[i] = Pair{keysAndValues[2*i], keysAndValues[2*i+1]}
	}
	return m
}
