package group

import (
	"fmt"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/frame/internal/vec"
)

// grow returns a slice of n elements, which are zero if new.
func grow[T any](s []T, n int) []T {
	if n <= len(s) {
		return s
	}
	if n <= cap(s) {
		return s[:n]
	}
	out := make([]T, n, max(n, 2*cap(s), 64))
	copy(out, s)
	return out
}

// column is the part of a holder that reads one column of numbers, and records which groups have values. As long as
// all rows are valid, all groups have.
type column[T any] struct {
	v     []T
	valid []byte
	off   int
	known int    // groups before the block
	seen  []bool // groups with values, or nil if all have
	none  bool   // a group may have no rows
}

func (c *column[T]) bindValues(a arrow.Array) {
	c.v = vec.Values[T](a)
	c.valid, c.off = vec.Validity(a)
}

// rows starts a block and returns its values.
func (c *column[T]) rows(from int, ids []uint32, groups int) []T {
	if c.seen == nil && (c.valid != nil || c.none) {
		c.seen = make([]bool, groups)
		if !c.none {
			for i := range c.known {
				c.seen[i] = true
			}
		}
	}
	c.known = groups
	if c.none && c.valid == nil && len(ids) > 0 {
		c.seen[0] = true
	} else if c.seen != nil {
		c.seen = grow(c.seen, groups)
		if c.valid == nil {
			for _, g := range ids {
				c.seen[g] = true
			}
		}
	}
	if len(ids) == 0 || c.v == nil {
		return nil
	}
	return c.v[from:][:len(ids)]
}

// isValid reports whether a row of the batch is valid.
func (c *column[T]) isValid(row int) bool { return isSet(c.valid, c.off+row) }

// hasValue reports whether a group has values.
func (c *column[T]) hasValue(g int) bool { return c.seen == nil || c.seen[g] }

func (c *column[T]) end() error { return nil }

// fixedArray returns values as an array.
func fixedArray[T any](t arrow.DataType, s []T, groups int, valid func(g int) bool) arrow.Array {
	bitmap, nulls := validity(groups, valid)
	return vec.Make(t, groups, nulls, []*memory.Buffer{bitmap, vec.Buffer(s[:groups])})
}

// all is valid for columns without nulls.
func all(int) bool { return true }

// sumInt sums integers, S being int64 or uint64.
type sumInt[T integer, S int64 | uint64] struct {
	column[T]
	typ  arrow.DataType
	name string
	s    []S
	n    int64 // rows so far
}

func (h *sumInt[T, S]) types() []arrow.DataType { return []arrow.DataType{h.typ} }

func (h *sumInt[T, S]) bind(cols []arrow.Array, _ int64) error {
	if b, ok := cols[0].(*array.Boolean); ok {
		h.v = any(boolBytes(b)).([]T)
		h.valid, h.off = vec.Validity(b)
		return nil
	}
	h.bindValues(cols[0])
	return nil
}

func (h *sumInt[T, S]) add(from int, ids []uint32, groups int) error {
	v := h.rows(from, ids, groups)
	h.s = grow(h.s, groups)
	h.n += int64(len(ids))
	s := h.s
	// Sums of up to 2³¹ numbers of 32 bits cannot overflow.
	if h.valid == nil && h.n < 1<<31 && unsafe.Sizeof(*new(T)) <= 4 {
		if h.none {
			for _, x := range v {
				s[0] += S(x)
			}
			return nil
		}
		for i, g := range ids {
			s[g] += S(v[i])
		}
		return nil
	}
	var over S
	if h.valid == nil {
		for i, g := range ids {
			x := S(v[i])
			t := s[g] + x
			over |= overflow(s[g], x, t)
			s[g] = t
		}
	} else {
		for i, g := range ids {
			if h.isValid(from + i) {
				x := S(v[i])
				t := s[g] + x
				over |= overflow(s[g], x, t)
				s[g] = t
				h.seen[g] = true
			}
		}
	}
	var none S
	if none--; none > 0 && over>>63 != 0 || over < 0 {
		return fmt.Errorf("group: sum of column %q overflows %v; cast it to float64 or decimal128", h.name, h.typ)
	}
	return nil
}

// overflow returns a number whose upper bit is set if t = a+b overflowed.
func overflow[S int64 | uint64](a, b, t S) S {
	var none S
	if none--; none > 0 {
		return (a & b) | ((a | b) &^ t) // carry
	}
	return (a ^ t) & (b ^ t)
}

func (h *sumInt[T, S]) states(groups int) ([]arrow.Array, error) {
	return []arrow.Array{h.array(groups)}, nil
}

func (h *sumInt[T, S]) array(groups int) arrow.Array {
	return fixedArray(h.typ, h.s, groups, h.hasValue)
}

func (h *sumInt[T, S]) bytes() int64 { return int64(cap(h.s))*8 + int64(cap(h.seen)) }

func (h *sumInt[T, S]) float(g int) float64 { return float64(h.s[g]) }

// sumFloat sums floats.
type sumFloat[T float32 | float64] struct {
	column[T]
	s []float64
}

func (h *sumFloat[T]) types() []arrow.DataType { return []arrow.DataType{arrow.PrimitiveTypes.Float64} }

func (h *sumFloat[T]) bind(cols []arrow.Array, _ int64) error {
	h.bindValues(cols[0])
	return nil
}

func (h *sumFloat[T]) add(from int, ids []uint32, groups int) error {
	v := h.rows(from, ids, groups)
	h.s = grow(h.s, groups)
	s := h.s
	if h.valid == nil {
		if h.none {
			s[0] += sumOf(v)
			return nil
		}
		for i, g := range ids {
			s[g] += float64(v[i])
		}
		return nil
	}
	for i, g := range ids {
		if h.isValid(from + i) {
			s[g] += float64(v[i])
			h.seen[g] = true
		}
	}
	return nil
}

// sumOf adds in four sums, none of which waits for another.
func sumOf[T float32 | float64](v []T) float64 {
	var a, b, c, d float64
	for ; len(v) >= 4; v = v[4:] {
		a, b, c, d = a+float64(v[0]), b+float64(v[1]), c+float64(v[2]), d+float64(v[3])
	}
	for _, x := range v {
		a += float64(x)
	}
	return a + b + (c + d)
}

func (h *sumFloat[T]) states(groups int) ([]arrow.Array, error) {
	return []arrow.Array{h.array(groups)}, nil
}

func (h *sumFloat[T]) array(groups int) arrow.Array {
	return fixedArray(arrow.PrimitiveTypes.Float64, h.s, groups, h.hasValue)
}

func (h *sumFloat[T]) bytes() int64 { return int64(cap(h.s))*8 + int64(cap(h.seen)) }

func (h *sumFloat[T]) float(g int) float64 { return h.s[g] }
