package group

import (
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/frame/internal/vec"
)

type ordered interface {
	integer | float32 | float64
}

// extreme has the least or greatest value of groups. NaN is greater than all numbers.
type extreme[T ordered] struct {
	column[T]
	typ   arrow.DataType
	max   bool
	start T // value of a new group, which any value replaces
	s     []T
}

func newExtreme[T ordered](t arrow.DataType, greatest bool, least, most T) *extreme[T] {
	h := &extreme[T]{typ: t, max: greatest, start: most}
	if greatest {
		h.start = least
	}
	return h
}

func (h *extreme[T]) types() []arrow.DataType { return []arrow.DataType{h.typ} }

func (h *extreme[T]) bind(cols []arrow.Array, _ int64) error {
	if b, ok := cols[0].(*array.Boolean); ok {
		h.v = any(boolBytes(b)).([]T)
		h.valid, h.off = vec.Validity(b)
		return nil
	}
	h.bindValues(cols[0])
	return nil
}

func (h *extreme[T]) add(from int, ids []uint32, groups int) error {
	v := h.rows(from, ids, groups)
	if old := len(h.s); groups > old {
		h.s = grow(h.s, groups)
		for i := old; i < groups; i++ {
			h.s[i] = h.start
		}
	}
	s := h.s
	switch {
	case h.valid != nil:
		for i, g := range ids {
			if !h.isValid(from + i) {
				continue
			}
			h.seen[g] = true
			x := v[i]
			if h.max && (x > s[g] || x != x) || !h.max && (x < s[g] || s[g] != s[g]) {
				s[g] = x
			}
		}
	case h.none:
		h.addOne(v)
	case h.max:
		for i, g := range ids {
			if x := v[i]; x > s[g] || x != x {
				s[g] = x
			}
		}
	default:
		for i, g := range ids {
			if x := v[i]; x < s[g] || s[g] != s[g] {
				s[g] = x
			}
		}
	}
	return nil
}

// addOne adds values to the only group.
func (h *extreme[T]) addOne(v []T) {
	if len(v) == 0 {
		return
	}
	s := h.s[0]
	for _, x := range v {
		if h.max && (x > s || x != x) || !h.max && (x < s || s != s) {
			s = x
		}
	}
	h.s[0] = s
}

func (h *extreme[T]) array(groups int) arrow.Array {
	if h.typ.ID() != arrow.BOOL {
		return fixedArray(h.typ, h.s, groups, h.hasValue)
	}
	valid, nulls := validity(groups, h.hasValue)
	return vec.Make(h.typ, groups, nulls, []*memory.Buffer{valid,
		memory.NewBufferBytes(pack(groups, func(g int) bool { return h.s[g] == 1 }))})
}

func (h *extreme[T]) states(groups int) ([]arrow.Array, error) {
	return []arrow.Array{h.array(groups)}, nil
}

func (h *extreme[T]) bytes() int64 { return int64(cap(h.s))*8 + int64(cap(h.seen)) }

// newExtremeOf returns the holder for the least or greatest value of a type, or nil.
func newExtremeOf(t arrow.DataType, greatest bool, none bool) holder {
	switch t.ID() {
	case arrow.BOOL, arrow.UINT8:
		return with(newExtreme[uint8](t, greatest, 0, math.MaxUint8), none)
	case arrow.UINT16:
		return with(newExtreme[uint16](t, greatest, 0, math.MaxUint16), none)
	case arrow.UINT32:
		return with(newExtreme[uint32](t, greatest, 0, math.MaxUint32), none)
	case arrow.UINT64:
		return with(newExtreme[uint64](t, greatest, 0, math.MaxUint64), none)
	case arrow.INT8:
		return with(newExtreme[int8](t, greatest, math.MinInt8, math.MaxInt8), none)
	case arrow.INT16:
		return with(newExtreme[int16](t, greatest, math.MinInt16, math.MaxInt16), none)
	case arrow.INT32, arrow.DATE32, arrow.TIME32, arrow.DECIMAL32:
		return with(newExtreme[int32](t, greatest, math.MinInt32, math.MaxInt32), none)
	case arrow.INT64, arrow.DATE64, arrow.TIME64, arrow.TIMESTAMP, arrow.DURATION, arrow.DECIMAL64:
		return with(newExtreme[int64](t, greatest, math.MinInt64, math.MaxInt64), none)
	case arrow.FLOAT32:
		return with(newExtreme(t, greatest, float32(math.Inf(-1)), float32(math.NaN())), none)
	case arrow.FLOAT64:
		return with(newExtreme(t, greatest, math.Inf(-1), math.NaN()), none)
	case arrow.DECIMAL128:
		h := &extremeWide{typ: t, max: greatest}
		h.none = none
		return h
	case arrow.STRING, arrow.BINARY, arrow.LARGE_STRING, arrow.LARGE_BINARY:
		return &extremeBytes{typ: t, max: greatest}
	}
	return nil
}

func with[T ordered](h *extreme[T], none bool) *extreme[T] {
	h.none = none
	return h
}

// extremeWide is extreme for decimals.
type extremeWide struct {
	column[int128]
	typ arrow.DataType
	max bool
	s   []int128
	has []bool
}

func (h *extremeWide) types() []arrow.DataType { return []arrow.DataType{h.typ} }

func (h *extremeWide) bind(cols []arrow.Array, _ int64) error {
	h.bindValues(cols[0])
	return nil
}

func (h *extremeWide) add(from int, ids []uint32, groups int) error {
	v := h.rows(from, ids, groups)
	h.s, h.has = grow(h.s, groups), grow(h.has, groups)
	for i, g := range ids {
		if !h.isValid(from + i) {
			continue
		}
		x := v[i]
		if !h.has[g] || h.max && h.s[g].less(x) || !h.max && x.less(h.s[g]) {
			h.s[g], h.has[g] = x, true
		}
	}
	return nil
}

func (h *extremeWide) array(groups int) arrow.Array {
	return fixedArray(h.typ, h.s, groups, func(g int) bool { return h.has[g] })
}

func (h *extremeWide) states(groups int) ([]arrow.Array, error) {
	return []arrow.Array{h.array(groups)}, nil
}

func (h *extremeWide) bytes() int64 { return int64(cap(h.s))*16 + int64(cap(h.has)) }
