package expr

import (
	"bytes"
	"cmp"
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// truth is the value of an expression on one row.
type truth int8

const (
	no      truth = iota
	unknown       // a null is involved
	yes
)

func isTrue(b bool) truth {
	if b {
		return yes
	}
	return no
}

// evaluator computes the truth of every row of a batch.
type evaluator func(b arrow.RecordBatch, out []truth)

// compile returns the evaluator of a condition.
func compile(n *node) (evaluator, error) {
	switch n.op {
	case OpAnd, OpOr, OpNot:
		return compileLogic(n)
	case OpIn:
		either := &node{op: OpOr, t: boolType, src: n.src}
		for _, a := range n.args[1:] {
			either.args = append(either.args, &node{op: OpEq, t: boolType, args: []*node{n.args[0], a}, src: n.src})
		}
		return compileLogic(either)
	case OpLiteral:
		v := unknown
		if n.value != nil {
			v = isTrue(n.value.(bool))
		}
		return func(_ arrow.RecordBatch, out []truth) {
			for row := range out {
				out[row] = v
			}
		}, nil
	}
	if len(n.args) == 0 || n.args[0].op != OpColumn {
		return nil, n.mismatch("only comparisons of columns with constants are supported")
	}
	i := n.args[0].column
	switch {
	case n.op == OpIsNull || n.op == OpNotNull:
		null := n.op == OpIsNull
		return func(b arrow.RecordBatch, out []truth) {
			c := b.Column(i)
			for row := range out {
				out[row] = isTrue(c.IsNull(row) == null)
			}
		}, nil
	case !n.op.isComparison() || !n.args[1].isLiteral():
		return nil, n.mismatch("only comparisons of columns with constants are supported")
	}
	v := n.args[1].src.Value
	if at, _, ok := parseTime(fmt.Sprint(v)); ok && n.args[0].class().isTime() {
		v = at
	}
	compare, err := comparison(n.args[0].t, v)
	if err != nil {
		return nil, n.mismatch("%v", err)
	}
	accept := n.op.accepts()
	return func(b arrow.RecordBatch, out []truth) {
		c := b.Column(i)
		order := compare(c)
		for row := range out {
			if c.IsNull(row) {
				out[row] = unknown
			} else {
				out[row] = accept[order(row)+1]
			}
		}
	}, nil
}

func compileLogic(n *node) (evaluator, error) {
	args := make([]evaluator, len(n.args))
	for i, a := range n.args {
		var err error
		if args[i], err = compile(a); err != nil {
			return nil, err
		}
	}
	return func(b arrow.RecordBatch, out []truth) {
		if n.op == OpNot {
			args[0](b, out)
			for i := range out {
				out[i] = yes - out[i]
			}
			return
		}
		// Kleene logic: and is the minimum of its operands, or the maximum.
		start := yes
		if n.op == OpOr {
			start = no
		}
		for i := range out {
			out[i] = start
		}
		one := make([]truth, len(out))
		for _, a := range args {
			a(b, one)
			for i, t := range one {
				if n.op == OpAnd {
					out[i] = min(out[i], t)
				} else {
					out[i] = max(out[i], t)
				}
			}
		}
	}, nil
}

// unordered is the result of comparisons with NaN.
const unordered = 2

// accepts returns the truth for the orders less, equal, greater and unordered.
func (o Op) accepts() [4]truth {
	switch o {
	case OpEq:
		return [4]truth{no, yes, no, no}
	case OpNe:
		return [4]truth{yes, no, yes, yes}
	case OpLt:
		return [4]truth{yes, no, no, no}
	case OpLe:
		return [4]truth{yes, yes, no, no}
	case OpGt:
		return [4]truth{no, no, yes, no}
	}
	return [4]truth{no, yes, yes, no}
}

// orderer returns a function that compares a row with the constant: -1, 0, 1 or unordered.
type orderer func(c arrow.Array) func(row int) int

// comparison returns the orderer for the type of a column and a constant.
func comparison(t arrow.DataType, v any) (orderer, error) {
	switch t.ID() {
	case arrow.BOOL:
		if want, ok := v.(bool); ok {
			w := bit(want)
			return func(c arrow.Array) func(int) int {
				a := c.(*array.Boolean)
				return func(row int) int { return cmp.Compare(bit(a.Value(row)), w) }
			}, nil
		}
	case arrow.INT8:
		return integers[int8, *array.Int8](v, t)
	case arrow.INT16:
		return integers[int16, *array.Int16](v, t)
	case arrow.INT32:
		return integers[int32, *array.Int32](v, t)
	case arrow.INT64:
		return integers[int64, *array.Int64](v, t)
	case arrow.UINT8:
		return integers[uint8, *array.Uint8](v, t)
	case arrow.UINT16:
		return integers[uint16, *array.Uint16](v, t)
	case arrow.UINT32:
		return integers[uint32, *array.Uint32](v, t)
	case arrow.UINT64:
		return integers[uint64, *array.Uint64](v, t)
	case arrow.FLOAT32:
		return floats[float32, *array.Float32](v, t)
	case arrow.FLOAT64:
		return floats[float64, *array.Float64](v, t)
	case arrow.STRING:
		return texts[*array.String](v, t)
	case arrow.LARGE_STRING:
		return texts[*array.LargeString](v, t)
	case arrow.STRING_VIEW:
		return texts[*array.StringView](v, t)
	case arrow.BINARY:
		if want, ok := v.([]byte); ok {
			return func(c arrow.Array) func(int) int {
				a := c.(*array.Binary)
				return func(row int) int { return bytes.Compare(a.Value(row), want) }
			}, nil
		}
	case arrow.TIMESTAMP, arrow.DATE32, arrow.DATE64:
		if want, ok := v.(time.Time); ok {
			return times(t, want), nil
		}
	}
	return nil, mismatch(t, v)
}

func mismatch(t arrow.DataType, v any) error {
	return fmt.Errorf("cannot compare a column of type %v with a constant of type %T", t, v)
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// values is an array of values of one type.
type values[T any] interface {
	arrow.Array
	Value(i int) T
}

// integers compares exactly, independent of the type of the constant: no number is rounded.
func integers[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64, A values[T]](v any,
	t arrow.DataType) (orderer, error) {
	var want T
	side := 0 // of the constant, if the type cannot represent it
	switch x := v.(type) {
	case int64:
		if want = T(x); int64(want) != x || (want < 0) != (x < 0) {
			side = -1
			if x < 0 {
				side = 1
			}
		}
	case uint64:
		if want = T(x); uint64(want) != x || want < 0 {
			side = -1
		}
	case float64:
		return integersByFloat[T, A](x), nil
	default:
		return nil, mismatch(t, v)
	}
	return func(c arrow.Array) func(int) int {
		a := c.(A)
		if side != 0 {
			return func(int) int { return side }
		}
		return func(row int) int { return cmp.Compare(a.Value(row), want) }
	}, nil
}

// integersByFloat compares integers with a float exactly: 2^53+1 is greater than 2^53.
func integersByFloat[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64,
	A values[T]](x float64) orderer {
	return func(c arrow.Array) func(int) int {
		a := c.(A)
		if x != x {
			return func(int) int { return unordered }
		}
		want := new(big.Float).SetFloat64(x)
		return func(row int) int {
			v := a.Value(row)
			if f := float64(v); f != x {
				return cmp.Compare(f, x)
			}
			if v < 0 {
				return new(big.Float).SetInt64(int64(v)).Cmp(want)
			}
			return new(big.Float).SetUint64(uint64(v)).Cmp(want)
		}
	}
}

func floats[T float32 | float64, A values[T]](v any, t arrow.DataType) (orderer, error) {
	var want float64
	switch x := v.(type) {
	case int64:
		want = float64(x)
	case uint64:
		want = float64(x)
	case float64:
		want = x
	default:
		return nil, mismatch(t, v)
	}
	return func(c arrow.Array) func(int) int {
		a := c.(A)
		return func(row int) int {
			switch f := float64(a.Value(row)); {
			case f < want:
				return -1
			case f > want:
				return 1
			case f == want:
				return 0
			}
			return unordered
		}
	}, nil
}

func texts[A values[string]](v any, t arrow.DataType) (orderer, error) {
	want, ok := v.(string)
	if !ok {
		return nil, mismatch(t, v)
	}
	return func(c arrow.Array) func(int) int {
		a := c.(A)
		return func(row int) int { return strings.Compare(a.Value(row), want) }
	}, nil
}

func times(t arrow.DataType, want time.Time) orderer {
	return func(c arrow.Array) func(int) int {
		switch a := c.(type) {
		case *array.Timestamp:
			unit := t.(*arrow.TimestampType).Unit
			return func(row int) int { return a.Value(row).ToTime(unit).Compare(want) }
		case *array.Date32:
			return func(row int) int { return a.Value(row).ToTime().Compare(want) }
		}
		a := c.(*array.Date64)
		return func(row int) int { return a.Value(row).ToTime().Compare(want) }
	}
}
