package group

import (
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"go.millstream.dev/frame/internal/vec"
)

// numeric reports whether a type has values that are numbers.
func numeric(t arrow.DataType) bool {
	switch t.ID() {
	case arrow.BOOL, arrow.FLOAT16, arrow.FLOAT32, arrow.FLOAT64, arrow.DECIMAL32, arrow.DECIMAL64, arrow.DECIMAL128:
		return true
	}
	return arrow.IsInteger(t.ID())
}

// floats converts columns of numbers to float64.
type floats struct {
	v     []float64
	valid []byte
	off   int
	own   []float64 // memory for conversions
}

func (f *floats) read(a arrow.Array) {
	f.valid, f.off = vec.Validity(a)
	switch a.DataType().ID() {
	case arrow.FLOAT64:
		f.v = vec.Values[float64](a)
	case arrow.FLOAT32:
		convert(f, vec.Values[float32](a))
	case arrow.FLOAT16:
		f.own = grow(f.own, a.Len())
		for i, v := range a.(*array.Float16).Values() {
			f.own[i] = float64(v.Float32())
		}
		f.v = f.own[:a.Len()]
	case arrow.BOOL:
		convert(f, boolBytes(a.(*array.Boolean)))
	case arrow.INT8:
		convert(f, vec.Values[int8](a))
	case arrow.INT16:
		convert(f, vec.Values[int16](a))
	case arrow.INT32:
		convert(f, vec.Values[int32](a))
	case arrow.INT64:
		convert(f, vec.Values[int64](a))
	case arrow.UINT8:
		convert(f, vec.Values[uint8](a))
	case arrow.UINT16:
		convert(f, vec.Values[uint16](a))
	case arrow.UINT32:
		convert(f, vec.Values[uint32](a))
	case arrow.UINT64:
		convert(f, vec.Values[uint64](a))
	default:
		f.readDecimal(a)
	}
}

func (f *floats) readDecimal(a arrow.Array) {
	switch t := a.DataType().(type) {
	case *arrow.Decimal32Type:
		convert(f, vec.Values[int32](a))
		f.scale(t.Scale)
	case *arrow.Decimal64Type:
		convert(f, vec.Values[int64](a))
		f.scale(t.Scale)
	case *arrow.Decimal128Type:
		f.own = grow(f.own, a.Len())
		f.v = f.own[:a.Len()]
		for i, v := range vec.Values[int128](a) {
			f.v[i] = v.float()
		}
		f.scale(t.Scale)
	}
}

// scale divides by a power of ten.
func (f *floats) scale(digits int32) {
	if p := math.Pow10(int(digits)); p != 1 {
		for i := range f.v {
			f.v[i] /= p
		}
	}
}

func convert[T integer | float32](f *floats, v []T) {
	f.own = grow(f.own, len(v))
	f.v = f.own[:len(v)]
	for i, x := range v {
		f.v[i] = float64(x)
	}
}

// moment is the number of values of a group, their mean, and the sum of the squares of their distances from it, which
// can be merged without loss of digits.
type moment struct{ n, mean, m2 float64 }

// moments has the moments of groups.
type moments struct {
	floats
	s []moment
}

func (h *moments) types() []arrow.DataType {
	return []arrow.DataType{arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Float64, arrow.PrimitiveTypes.Float64}
}

func (h *moments) bind(cols []arrow.Array, _ int64) error {
	h.read(cols[0])
	return nil
}

func (h *moments) add(from int, ids []uint32, groups int) error {
	h.s = grow(h.s, groups)
	if len(ids) == 0 {
		return nil
	}
	s, v := h.s, h.v[from:][:len(ids)]
	for i, g := range ids {
		if h.valid != nil && !isSet(h.valid, h.off+from+i) {
			continue
		}
		m := &s[g]
		x := v[i]
		m.n++
		d := x - m.mean
		m.mean += d / m.n
		m.m2 += d * (x - m.mean)
	}
	return nil
}

func (h *moments) end() error   { return nil }
func (h *moments) bytes() int64 { return int64(cap(h.s))*24 + int64(cap(h.own))*8 }

func (h *moments) states(groups int) ([]arrow.Array, error) {
	n, mean, m2 := make([]int64, groups), make([]float64, groups), make([]float64, groups)
	for g, m := range h.s[:groups] {
		n[g], mean[g], m2[g] = int64(m.n), m.mean, m.m2
	}
	return []arrow.Array{fixedArray(arrow.PrimitiveTypes.Int64, n, groups, all),
		fixedArray(arrow.PrimitiveTypes.Float64, mean, groups, all),
		fixedArray(arrow.PrimitiveTypes.Float64, m2, groups, all)}, nil
}

// variance returns the variance of groups, or its root.
func (h *moments) variance(groups int, root bool) arrow.Array {
	out := make([]float64, groups)
	for g, m := range h.s[:groups] {
		if m.n > 1 {
			out[g] = m.m2 / (m.n - 1)
			if root {
				out[g] = math.Sqrt(out[g])
			}
		}
	}
	return fixedArray(arrow.PrimitiveTypes.Float64, out, groups, func(g int) bool { return h.s[g].n > 1 })
}

// mergedMoments is moments of states.
type mergedMoments struct {
	moments
	n        []int64
	mean, m2 []float64
}

func (h *mergedMoments) bind(cols []arrow.Array, _ int64) error {
	h.n = vec.Values[int64](cols[0])
	h.mean, h.m2 = vec.Values[float64](cols[1]), vec.Values[float64](cols[2])
	return nil
}

func (h *mergedMoments) add(from int, ids []uint32, groups int) error {
	h.s = grow(h.s, groups)
	for i, g := range ids {
		row := from + i
		if h.n[row] <= 0 {
			continue
		}
		m, k := &h.s[g], float64(h.n[row])
		d := h.mean[row] - m.mean
		sum := m.n + k
		m.m2 += h.m2[row] + d*d*(m.n*k/sum)
		m.mean += d * (k / sum)
		m.n = sum
	}
	return nil
}
