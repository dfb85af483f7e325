package group

import (
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// stated returns the result of a holder whose state is its result.
func stated(h holder) func(groups int) (arrow.Array, error) {
	return func(groups int) (arrow.Array, error) {
		out, err := h.states(groups)
		if err != nil {
			return nil, err
		}
		return out[0], nil
	}
}

// resolve makes the holders of an aggregate.
func (h *holders) resolve(s Spec) (result, error) {
	if s.Func == CountAll {
		rows, err := h.rowCounts(true)
		if err != nil {
			return result{}, err
		}
		return result{arrow.Field{Type: arrow.PrimitiveTypes.Int64}, stated(rows)}, nil
	}
	field := h.in.Field(s.Column)
	switch s.Func {
	case Count:
		c, err := h.counts(s.Column)
		if err != nil {
			return result{}, err
		}
		return result{arrow.Field{Type: arrow.PrimitiveTypes.Int64}, stated(c.(holder))}, nil
	case Sum:
		return h.resolveSum(s, field)
	case Mean:
		return h.resolveMean(s, field)
	case Min, Max:
		k := minKind
		if s.Func == Max {
			k = maxKind
		}
		made, err := h.state(k, s.Column, true, func() (holder, error) {
			if e := newExtremeOf(field.Type, s.Func == Max, h.single); e != nil {
				return e, nil
			}
			return nil, typeError(s.Func, field)
		})
		if err != nil {
			return result{}, err
		}
		return result{arrow.Field{Type: field.Type}, stated(made)}, nil
	case First, Last:
		k := firstKind
		if s.Func == Last {
			k = lastKind
		}
		made, err := h.state(k, s.Column, true, func() (holder, error) {
			return &firstLast{typ: field.Type, last: s.Func == Last, merged: !h.mode.rowInput()}, nil
		})
		if err != nil {
			return result{}, err
		}
		return result{arrow.Field{Type: field.Type}, made.(*firstLast).values}, nil
	case NUnique:
		return h.resolveDistinct(s, field)
	case CollectList:
		made, err := h.state(collectKind, s.Column, true, func() (holder, error) {
			return &collect{typ: field.Type, merged: !h.mode.rowInput()}, nil
		})
		if err != nil {
			return result{}, err
		}
		return result{arrow.Field{Type: arrow.ListOf(field.Type)}, stated(made)}, nil
	}
	return h.resolveNumbers(s, field)
}

func (h *holders) rowCounts(sent bool) (holder, error) {
	return h.state(rowKind, -1, sent, func() (holder, error) {
		if h.mode.rowInput() {
			return &rowCount{single: h.single}, nil
		}
		return newMergedCount(), nil
	})
}

// counts returns the counter of the values of a column.
func (h *holders) counts(column int) (counter, error) {
	if !h.mode.rowInput() {
		c, err := h.state(countKind, column, true, func() (holder, error) { return newMergedCount(), nil })
		if err != nil {
			return nil, err
		}
		return c.(counter), nil
	}
	rows, err := h.rowCounts(false)
	if err != nil {
		return nil, err
	}
	c, err := h.state(countKind, column, true, func() (holder, error) {
		return &valueCount{rows: rows.(*rowCount)}, nil
	})
	if err != nil {
		return nil, err
	}
	return c.(counter), nil
}

func (h *holders) resolveSum(s Spec, field arrow.Field) (result, error) {
	made, err := h.sum(s, field)
	if err != nil {
		return result{}, err
	}
	t := sumType(field.Type)
	if w, ok := made.(*sumWide); ok && t.ID() != arrow.DECIMAL128 {
		return result{arrow.Field{Type: t}, func(groups int) (arrow.Array, error) { return w.integers(groups, t) }}, nil
	}
	return result{arrow.Field{Type: t}, stated(made)}, nil
}

// sum returns the holder of the sum of a column. Integers of 64 bits are summed with more, as their mean needs it, and
// so that the order of values does not decide whether a sum overflows.
func (h *holders) sum(s Spec, field arrow.Field) (holder, error) {
	return h.state(sumKind, s.Column, true, func() (holder, error) {
		t := field.Type
		switch {
		case t.ID() == arrow.INT64 || t.ID() == arrow.UINT64:
			return newSumWide(0, field.Name, h.single), nil
		case !h.mode.rowInput():
			t = sumType(t)
		}
		switch t.ID() {
		case arrow.INT64:
			return newSumInt[int64, int64](field.Name, h.single, t), nil
		case arrow.UINT64:
			return newSumInt[uint64, uint64](field.Name, h.single, t), nil
		}
		if made := newSum(t, field.Name, h.single); made != nil {
			return made, nil
		}
		return nil, typeError(s.Func, field)
	})
}

// sumType returns the type of the sum of a type, or nil.
func sumType(t arrow.DataType) arrow.DataType {
	switch {
	case t.ID() == arrow.BOOL || arrow.IsSignedInteger(t.ID()):
		return arrow.PrimitiveTypes.Int64
	case arrow.IsUnsignedInteger(t.ID()):
		return arrow.PrimitiveTypes.Uint64
	case t.ID() == arrow.FLOAT32 || t.ID() == arrow.FLOAT64:
		return arrow.PrimitiveTypes.Float64
	case t.ID() == arrow.DECIMAL128:
		return &arrow.Decimal128Type{Precision: 38, Scale: t.(*arrow.Decimal128Type).Scale}
	}
	return arrow.Null
}

// newSum returns the holder of a sum, or nil.
func newSum(t arrow.DataType, name string, none bool) holder {
	switch t.ID() {
	case arrow.BOOL:
		return newSumInt[uint8, int64](name, none, arrow.PrimitiveTypes.Int64)
	case arrow.INT8:
		return newSumInt[int8, int64](name, none, arrow.PrimitiveTypes.Int64)
	case arrow.INT16:
		return newSumInt[int16, int64](name, none, arrow.PrimitiveTypes.Int64)
	case arrow.INT32:
		return newSumInt[int32, int64](name, none, arrow.PrimitiveTypes.Int64)
	case arrow.UINT8:
		return newSumInt[uint8, uint64](name, none, arrow.PrimitiveTypes.Uint64)
	case arrow.UINT16:
		return newSumInt[uint16, uint64](name, none, arrow.PrimitiveTypes.Uint64)
	case arrow.UINT32:
		return newSumInt[uint32, uint64](name, none, arrow.PrimitiveTypes.Uint64)
	case arrow.FLOAT32:
		h := &sumFloat[float32]{}
		h.none = none
		return h
	case arrow.FLOAT64:
		h := &sumFloat[float64]{}
		h.none = none
		return h
	case arrow.DECIMAL128:
		return newSumWide(t.(*arrow.Decimal128Type).Scale, name, none)
	}
	return nil
}

func newSumInt[T integer, S int64 | uint64](name string, none bool, t arrow.DataType) *sumInt[T, S] {
	h := &sumInt[T, S]{typ: t, name: name}
	h.none = none
	return h
}

func newSumWide(scale int32, name string, none bool) *sumWide {
	h := &sumWide{typ: &arrow.Decimal128Type{Precision: 38, Scale: scale}, name: name}
	h.none = none
	return h
}

// resolveMean divides a sum by a count.
func (h *holders) resolveMean(s Spec, field arrow.Field) (result, error) {
	made, err := h.sum(s, field)
	if err != nil {
		return result{}, err
	}
	n, err := h.counts(s.Column)
	if err != nil {
		return result{}, err
	}
	sum := made.(interface{ float(g int) float64 })
	scale := 1.0
	if d, ok := field.Type.(*arrow.Decimal128Type); ok {
		scale = math.Pow10(int(d.Scale))
	}
	return result{arrow.Field{Type: arrow.PrimitiveTypes.Float64}, func(groups int) (arrow.Array, error) {
		out := make([]float64, groups)
		for g := range out {
			if k := n.count(g); k > 0 {
				out[g] = sum.float(g) / (float64(k) * scale)
			}
		}
		return fixedArray(arrow.PrimitiveTypes.Float64, out, groups, func(g int) bool { return n.count(g) > 0 }), nil
	}}, nil
}

func (h *holders) resolveDistinct(s Spec, field arrow.Field) (result, error) {
	made, err := h.state(distinctKind, s.Column, true, func() (holder, error) {
		t := field.Type
		if !h.mode.rowInput() {
			t = keyType(t)
		}
		d, err := newDistinct(t, !h.mode.rowInput())
		if err != nil {
			return nil, typeError(s.Func, field)
		}
		return d, nil
	})
	if err != nil {
		return result{}, err
	}
	d := made.(*distinct)
	return result{arrow.Field{Type: arrow.PrimitiveTypes.Int64}, func(groups int) (arrow.Array, error) {
		return fixedArray(arrow.PrimitiveTypes.Int64, d.counts(groups), groups, all), nil
	}}, nil
}

// resolveNumbers is for functions of numbers as float64.
func (h *holders) resolveNumbers(s Spec, field arrow.Field) (result, error) {
	if !numeric(field.Type) {
		return result{}, typeError(s.Func, field)
	}
	rows := h.mode.rowInput()
	out := result{field: arrow.Field{Type: arrow.PrimitiveTypes.Float64}}
	var err error
	switch s.Func {
	case Var, Std:
		made, e := h.state(momentsKind, s.Column, true, func() (holder, error) {
			if rows {
				return &moments{}, nil
			}
			return &mergedMoments{}, nil
		})
		err = e
		m := made.(interface {
			variance(groups int, root bool) arrow.Array
		})
		out.compute = func(groups int) (arrow.Array, error) { return m.variance(groups, s.Func == Std), nil }
	case ApproxQuantile:
		made, e := h.state(digestKind, s.Column, true, func() (holder, error) {
			if rows {
				return newDigests(), nil
			}
			return &mergedDigests{digests: *newDigests()}, nil
		})
		err = e
		quantile := made.(interface {
			quantile(groups int, q float64) arrow.Array
		})
		out.compute = func(groups int) (arrow.Array, error) { return quantile.quantile(groups, s.Q), nil }
	default:
		made, e := h.state(valuesKind, s.Column, true, func() (holder, error) {
			if rows {
				return &values{}, nil
			}
			return &mergedValues{}, nil
		})
		err = e
		q := s.Q
		if s.Func == Median {
			q = 0.5
		}
		quantile := made.(interface {
			quantile(groups int, q float64) arrow.Array
		})
		out.compute = func(groups int) (arrow.Array, error) { return quantile.quantile(groups, q), nil }
	}
	return out, err
}

// validIn reports whether a row of a dictionary array is valid, as is its value.
func validIn(a arrow.Array, i int) bool {
	d, ok := a.(*array.Dictionary)
	return a.IsValid(i) && (!ok || d.Dictionary().IsValid(d.GetValueIndex(i)))
}
