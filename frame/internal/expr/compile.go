package expr

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
)

// form is the form in which values of a type are computed.
type form int

const (
	noForm form = iota
	formBool
	formInt8
	formInt16
	formInt32
	formInt64 // int64, timestamps, date64 and decimals of at most 18 digits
	formUint8
	formUint16
	formUint32
	formUint64
	formFloat32
	formFloat64
	formInt128
	formText
)

// smallDigits is the number of digits of decimals that are computed as int64.
const smallDigits = 18

func formOf(t arrow.DataType) form {
	switch t.ID() {
	case arrow.BOOL:
		return formBool
	case arrow.INT8:
		return formInt8
	case arrow.INT16:
		return formInt16
	case arrow.INT32, arrow.DATE32:
		return formInt32
	case arrow.INT64, arrow.TIMESTAMP, arrow.DATE64:
		return formInt64
	case arrow.UINT8:
		return formUint8
	case arrow.UINT16:
		return formUint16
	case arrow.UINT32:
		return formUint32
	case arrow.UINT64:
		return formUint64
	case arrow.FLOAT32:
		return formFloat32
	case arrow.FLOAT64:
		return formFloat64
	case arrow.DECIMAL128:
		if t.(*arrow.Decimal128Type).Precision <= smallDigits {
			return formInt64
		}
		return formInt128
	case arrow.STRING, arrow.LARGE_STRING, arrow.STRING_VIEW, arrow.BINARY, arrow.LARGE_BINARY, arrow.BINARY_VIEW:
		return formText
	}
	return noForm
}

// failf returns an error of evaluation that names the expression.
func (n *node) failf(format string, args ...any) error {
	return fmt.Errorf("expr: %v: %s", n.src, fmt.Sprintf(format, args...))
}

// compileAny returns the source or predicate of n.
func compileAny(n *node) (any, error) {
	switch formOf(n.t) {
	case formBool:
		return compilePredicate(n)
	case formInt8:
		return compile[int8](n)
	case formInt16:
		return compile[int16](n)
	case formInt32:
		return compile[int32](n)
	case formInt64:
		return compile[int64](n)
	case formUint8:
		return compile[uint8](n)
	case formUint16:
		return compile[uint16](n)
	case formUint32:
		return compile[uint32](n)
	case formUint64:
		return compile[uint64](n)
	case formFloat32:
		return compile[float32](n)
	case formFloat64:
		return compile[float64](n)
	case formInt128:
		return compile[int128](n)
	case formText:
		return compile[string](n)
	}
	return nil, n.mismatch("values of type %v cannot be computed", n.t)
}

// compile returns the source of n, whose form is that of T.
func compile[T any](n *node) (source[T], error) {
	switch n.op {
	case OpColumn:
		return compileColumn[T](n), nil
	case OpLiteral:
		return literal[T]{scalarAs[T](n.value), n.value == nil}, nil
	case OpIf:
		return compileIf[T](n)
	case OpCoalesce:
		return compileCoalesce[T](n)
	case OpNullIf:
		return compileNullIf[T](n)
	}
	s, err := compileOp[T](n)
	if err != nil {
		return nil, err
	}
	out, ok := s.(source[T])
	if !ok {
		return nil, n.mismatch("operation %s has no values of type %v", n.op, n.t)
	}
	return out, nil
}

// compileOp returns the source of an operation that depends on its form.
func compileOp[T any](n *node) (any, error) {
	if n.op == OpCast || n.op == OpTryCast {
		return compileCast(n)
	}
	var zero T
	switch any(zero).(type) {
	case int64:
		switch {
		case n.class() == decimal:
			return compileDecimal(n)
		case n.class().isTime():
			return compileTime[int64](n)
		}
		return compileInteger(n)
	case int32:
		if n.class() == date {
			return compileTime[int32](n)
		}
	case uint64:
		return compileUint(n)
	case float32:
		return compileFloat[float32](n)
	case float64:
		return compileFloat[float64](n)
	case int128:
		return compileDecimal(n)
	case string:
		return compileText(n)
	}
	switch n.op { // other integer types
	case OpRound, OpFloor, OpCeil:
		return compileRoundInteger[T](n)
	}
	return nil, nil
}

func compileColumn[T any](n *node) source[T] {
	switch any((*T)(nil)).(type) {
	case *string:
		return any(textColumn{n.column}).(source[T])
	case *int64:
		if n.class() == decimal {
			return any(smallDecimals{n.column, n}).(source[T])
		}
	}
	return column[T]{n.column}
}

// scalarAs converts the value of a constant, one of bool, int64, uint64, float64, int128 and string, to the form T.
func scalarAs[T any](v any) T {
	var out T
	switch p := any(&out).(type) {
	case *int8:
		*p = int8(scalarInt(v))
	case *int16:
		*p = int16(scalarInt(v))
	case *int32:
		*p = int32(scalarInt(v))
	case *int64:
		*p = scalarInt(v)
	case *uint8:
		*p = uint8(scalarInt(v))
	case *uint16:
		*p = uint16(scalarInt(v))
	case *uint32:
		*p = uint32(scalarInt(v))
	case *uint64:
		*p = uint64(scalarInt(v))
	case *float32:
		x, _ := v.(float64)
		*p = float32(x)
	case *float64:
		*p, _ = v.(float64)
	case *int128:
		*p, _ = v.(int128)
	case *string:
		*p, _ = v.(string)
	}
	return out
}

// scalarInt returns the lower 64 bits of the value of a constant.
func scalarInt(v any) int64 {
	switch x := v.(type) {
	case int64:
		return x
	case uint64:
		return int64(x)
	case int128:
		return int64(x.lo)
	}
	return 0
}

// scalarOf converts a value of a form to that of a constant.
func scalarOf[T any](v T, t arrow.DataType) any {
	switch x := any(v).(type) {
	case int8:
		return int64(x)
	case int16:
		return int64(x)
	case int32:
		return int64(x)
	case int64:
		if t.ID() == arrow.DECIMAL128 {
			return int128Of(x)
		}
		return x
	case uint8:
		return uint64(x)
	case uint16:
		return uint64(x)
	case uint32:
		return uint64(x)
	case float32:
		return float64(x)
	case string:
		return string([]byte(x)) // of its own memory
	}
	return v
}

// validity computes which rows have a value.
type validity interface {
	rows(x *exec) ([]uint64, error)
}

type columnValidity struct{ index int }

func (c columnValidity) rows(x *exec) ([]uint64, error) { return validBits(x, x.columns[c.index]), nil }

type sourceValidity[T any] struct{ of source[T] }

func (s sourceValidity[T]) rows(x *exec) ([]uint64, error) {
	v, err := s.of.eval(x)
	return v.valid, err
}

type predicateValidity struct{ of predicate }

func (p predicateValidity) rows(x *exec) ([]uint64, error) {
	v, err := p.of.test(x)
	return v.valid, err
}

// compileValidity returns the rows of n that have a value, for all types.
func compileValidity(n *node) (validity, error) {
	switch {
	case n.op == OpColumn:
		return columnValidity{n.column}, nil
	case n.isLiteral():
		return predicateValidity{boolLiteral{null: n.value == nil}}, nil
	case formOf(n.t) == formBool:
		p, err := compilePredicate(n)
		return predicateValidity{p}, err
	}
	s, err := compileAny(n)
	if err != nil {
		return nil, err
	}
	switch s := s.(type) {
	case source[int8]:
		return sourceValidity[int8]{s}, nil
	case source[int16]:
		return sourceValidity[int16]{s}, nil
	case source[int32]:
		return sourceValidity[int32]{s}, nil
	case source[int64]:
		return sourceValidity[int64]{s}, nil
	case source[uint8]:
		return sourceValidity[uint8]{s}, nil
	case source[uint16]:
		return sourceValidity[uint16]{s}, nil
	case source[uint32]:
		return sourceValidity[uint32]{s}, nil
	case source[uint64]:
		return sourceValidity[uint64]{s}, nil
	case source[float32]:
		return sourceValidity[float32]{s}, nil
	case source[float64]:
		return sourceValidity[float64]{s}, nil
	case source[int128]:
		return sourceValidity[int128]{s}, nil
	}
	return sourceValidity[string]{s.(source[string])}, nil
}
