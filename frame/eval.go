package frame

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

// maxExprDepth bounds the nesting of expressions, which are received in messages.
const maxExprDepth = 100

// validate returns an error if the expression does not fit a schema, before any task runs.
func (e Expr) validate(s *arrow.Schema) error {
	_, err := e.compile(s, 0)
	return err
}

// evaluator computes the truth of every row of a batch.
type evaluator func(b arrow.RecordBatch, out []truth)

// compile resolves columns and types once.
func (e Expr) compile(s *arrow.Schema, depth int) (evaluator, error) {
	if depth > maxExprDepth {
		return nil, fmt.Errorf("frame: expression is nested more than %d deep", maxExprDepth)
	}
	switch e.Op {
	case opAnd, opOr, opNot:
		return e.compileLogic(s, depth)
	}
	i, err := columnIndex(s, e.Column)
	if err != nil {
		return nil, err
	}
	switch e.Op {
	case opIsNull, opNotNull:
		null := e.Op == opIsNull
		return func(b arrow.RecordBatch, out []truth) {
			c := b.Column(i)
			for row := range out {
				out[row] = isTrue(c.IsNull(row) == null)
			}
		}, nil
	case opEq, opNe, opLt, opLe, opGt, opGe:
	default:
		return nil, fmt.Errorf("frame: unknown operation %q", string(e.Op))
	}
	t := s.Field(i).Type
	compare, err := comparison(t, e.Value)
	if err != nil {
		return nil, schemaErrorf(-1, "%v: %v", e, err)
	}
	accept := e.Op.accepts()
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

func (e Expr) compileLogic(s *arrow.Schema, depth int) (evaluator, error) {
	if e.Op == opNot && len(e.Args) != 1 {
		return nil, fmt.Errorf("frame: not has %d operands, want one", len(e.Args))
	}
	args := make([]evaluator, len(e.Args))
	for i, a := range e.Args {
		var err error
		if args[i], err = a.compile(s, depth+1); err != nil {
			return nil, err
		}
	}
	return func(b arrow.RecordBatch, out []truth) {
		if e.Op == opNot {
			args[0](b, out)
			for i := range out {
				out[i] = yes - out[i]
			}
			return
		}
		// Kleene logic: and is the minimum of its operands, or the maximum.
		start := yes
		if e.Op == opOr {
			start = no
		}
		for i := range out {
			out[i] = start
		}
		one := make([]truth, len(out))
		for _, a := range args {
			a(b, one)
			for i, t := range one {
				if e.Op == opAnd {
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
func (o operation) accepts() [4]truth {
	switch o {
	case opEq:
		return [4]truth{no, yes, no, no}
	case opNe:
		return [4]truth{yes, no, yes, yes}
	case opLt:
		return [4]truth{yes, no, no, no}
	case opLe:
		return [4]truth{yes, yes, no, no}
	case opGt:
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

// columnIndex returns the index of the only column of a name.
func columnIndex(s *arrow.Schema, name string) (int, error) {
	switch at := s.FieldIndices(name); len(at) {
	case 1:
		return at[0], nil
	case 0:
		return 0, schemaErrorf(-1, "no column %q among %s", name, columns(s))
	default:
		return 0, schemaErrorf(-1, "%d columns named %q", len(at), name)
	}
}
