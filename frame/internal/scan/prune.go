package scan

import (
	"cmp"
	"math"
	"math/big"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"go.millstream.dev/frame/internal/parquet"
)

// Op is the operation of a condition.
type Op string

// The operations.
const (
	Eq      Op = "=="
	Ne      Op = "!="
	Lt      Op = "<"
	Le      Op = "<="
	Gt      Op = ">"
	Ge      Op = ">="
	In      Op = "in"
	IsNull  Op = "is null"
	NotNull Op = "is not null"
)

// Cond is a condition on one column that a row fulfills to be of use. A condition that cannot be decided from the
// statistics of a file, because of its type for example, is ignored.
type Cond struct {
	Column string
	Op     Op
	// Value is the constant of a comparison: bool, int64, uint64, float64, string, []byte, time.Time (for dates and
	// timestamps) or Decimal; for In it is a list of type []any.
	Value any
}

// Decimal is a decimal constant: Hi and Lo are the two's complement number of 128 bits, divided by 10 to the power of
// Scale.
type Decimal struct {
	Hi    int64
	Lo    uint64
	Scale int32
}

// pruneGroup reports whether no row of a part of a file fulfills all conditions, as its statistics show.
func pruneGroup(schema *arrow.Schema, conds []Cond, stats func(column int) parquet.Stats) bool {
	for _, c := range conds {
		at := schema.FieldIndices(c.Column)
		if len(at) != 1 {
			continue
		}
		if c.excludes(schema.Field(at[0]).Type, stats(at[0])) {
			return true
		}
	}
	return false
}

// excludes reports whether the condition is true for no value of a column with statistics.
func (c Cond) excludes(t arrow.DataType, s parquet.Stats) bool {
	switch c.Op {
	case IsNull:
		return s.Nulls == 0
	case In:
		list, ok := c.Value.([]any)
		for _, v := range list {
			if !(Cond{Column: c.Column, Op: Eq, Value: v}).excludes(t, s) {
				return false
			}
		}
		return ok
	}
	if s.Nulls == s.Rows && s.Nulls >= 0 { // a comparison with null is not true
		return true
	}
	floating := arrow.IsFloating(t.ID())
	low, lowOK := compare(t, s.Min, c.Value)
	high, highOK := compare(t, s.Max, c.Value)
	// Bounds may be rounded: only what is strictly outside counts, unless both are of one kind.
	switch c.Op {
	case Eq:
		return lowOK && low.above() || highOK && high.below()
	case Lt:
		return lowOK && (low.above() || low.equal())
	case Le:
		return lowOK && low.above()
	case Gt: // NaN is greater than all numbers, and not part of the statistics
		return highOK && (high.below() || high.equal()) && !floating
	case Ge:
		return highOK && high.below() && !floating
	case Ne:
		return lowOK && highOK && low.equal() && high.equal() && !floating
	}
	return false
}

// order is the result of the comparison of a bound with a constant.
type order struct {
	sign  int
	exact bool // no rounding
}

func (o order) above() bool { return o.sign > 0 }
func (o order) below() bool { return o.sign < 0 }
func (o order) equal() bool { return o.sign == 0 && o.exact }

// compare compares a bound of a column of type t with a constant. It returns false if they cannot be compared.
func compare(t arrow.DataType, bound, v any) (order, bool) {
	switch b := bound.(type) {
	case int64:
		if at, ok := v.(time.Time); ok {
			return compareTime(t, b, at)
		}
		switch t.ID() {
		case arrow.INT8, arrow.INT16, arrow.INT32, arrow.INT64:
			return compareInt(big.NewInt(b), 0, v)
		}
	case uint64:
		return compareInt(new(big.Int).SetUint64(b), 0, v)
	case float64:
		return compareFloat(t, b, v)
	case bool:
		if v, ok := v.(bool); ok {
			return order{boolInt(b) - boolInt(v), true}, true
		}
	case string:
		switch v := v.(type) {
		case string:
			return order{strings.Compare(b, v), true}, true
		case []byte:
			return order{strings.Compare(b, string(v)), true}, true
		}
	case decimal128.Num:
		if t, ok := t.(*arrow.Decimal128Type); ok {
			return compareInt(b.BigInt(), t.Scale, v)
		}
	}
	return order{}, false
}

func boolInt(v bool) int {
	if v {
		return 1
	}
	return 0
}

// compareInt compares a number, divided by 10 to the power of scale, with a constant.
func compareInt(b *big.Int, scale int32, v any) (order, bool) {
	other, otherScale := new(big.Int), int32(0)
	switch v := v.(type) {
	case int64:
		other.SetInt64(v)
	case uint64:
		other.SetUint64(v)
	case Decimal:
		other, otherScale = decimal128.New(v.Hi, v.Lo).BigInt(), v.Scale
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return order{}, false
		}
		f, _ := new(big.Rat).SetFrac(b, power(scale)).Float64()
		return order{cmp.Compare(f, v), false}, true
	default:
		return order{}, false
	}
	if otherScale < 0 || otherScale > 76 {
		return order{}, false
	}
	b = new(big.Int).Mul(b, power(otherScale))
	return order{b.Cmp(other.Mul(other, power(scale))), true}, true
}

// power returns 10 to the power of n.
func power(n int32) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

func compareFloat(t arrow.DataType, b float64, v any) (order, bool) {
	var other float64
	switch v := v.(type) {
	case float64:
		other = v
	case int64:
		other = float64(v)
	case uint64:
		other = float64(v)
	default:
		return order{}, false
	}
	if t.ID() == arrow.FLOAT32 && float32(b) == float32(other) { // the constant may be rounded
		return order{}, true
	}
	_, exact := v.(float64)
	return order{cmp.Compare(b, other), exact}, !math.IsNaN(other)
}

// compareTime compares a date or timestamp with a time.
func compareTime(t arrow.DataType, b int64, v time.Time) (order, bool) {
	var at time.Time
	switch t := t.(type) {
	case *arrow.Date32Type:
		at = time.Unix(b*86400, 0)
	case *arrow.TimestampType:
		at = arrow.Timestamp(b).ToTime(t.Unit)
	default:
		return order{}, false
	}
	return order{at.Compare(v), true}, true
}
