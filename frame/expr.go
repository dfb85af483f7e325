package frame

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Expr is a condition on rows, for Filter: comparisons of columns with constants, joined by
// And, Or and Not.
//
//	frame.Col("age").Ge(18).And(frame.Col("name").Ne("nobody"))
//
// A comparison with a null is neither true nor false, and neither is Not of it; And and Or
// have SQL's three-valued logic. Filter keeps the rows for which the whole is true. NaN
// compares as in Go: it is unequal to everything.
//
// It travels to workers as a task's argument, so all its fields are exported; make it with
// Col.
type Expr struct {
	// Op is the operation.
	Op operation
	// Column is the one that is compared.
	Column string
	// Value is what it is compared with: bool, int64, uint64, float64, string, []byte or
	// time.Time.
	Value any
	// Args are the operands of And, Or and Not.
	Args []Expr
}

// operation is what an Expr does.
type operation string

// The operations.
const (
	opEq      operation = "=="
	opNe      operation = "!="
	opLt      operation = "<"
	opLe      operation = "<="
	opGt      operation = ">"
	opGe      operation = ">="
	opIsNull  operation = "is null"
	opNotNull operation = "is not null"
	opAnd     operation = "and"
	opOr      operation = "or"
	opNot     operation = "not"
)

// Column is a column of a frame in an expression.
type Column struct{ name string }

// Col is the column of a name.
func Col(name string) Column { return Column{name} }

// Eq is true where the column equals a constant: a bool, number, text, bytes or time.
func (c Column) Eq(v any) Expr { return c.compare(opEq, v) }

// Ne is true where it does not.
func (c Column) Ne(v any) Expr { return c.compare(opNe, v) }

// Lt is true where the column is less than a constant. False is less than true, text goes by
// its bytes.
func (c Column) Lt(v any) Expr { return c.compare(opLt, v) }

// Le is true where the column is at most a constant.
func (c Column) Le(v any) Expr { return c.compare(opLe, v) }

// Gt is true where the column is greater than a constant.
func (c Column) Gt(v any) Expr { return c.compare(opGt, v) }

// Ge is true where the column is at least a constant.
func (c Column) Ge(v any) Expr { return c.compare(opGe, v) }

// IsNull is true where the column has no value.
func (c Column) IsNull() Expr { return Expr{Op: opIsNull, Column: c.name} }

// NotNull is true where the column has a value.
func (c Column) NotNull() Expr { return Expr{Op: opNotNull, Column: c.name} }

// Between is true where the column is at least from and at most to.
func (c Column) Between(from, to any) Expr { return c.Ge(from).And(c.Le(to)) }

// In is true where the column equals one of the constants.
func (c Column) In(values ...any) Expr {
	out := Expr{Op: opOr}
	for _, v := range values {
		out.Args = append(out.Args, c.Eq(v))
	}
	return out
}

func (c Column) compare(op operation, v any) Expr {
	return Expr{Op: op, Column: c.name, Value: constant(v)}
}

// constant is a value as one of the few types that travel. What cannot be one stays, and is
// the error of Filter.
func constant(v any) any {
	if _, ok := v.(time.Time); ok {
		return v
	}
	rv := reflect.ValueOf(v)
	switch rv.Kind() {
	case reflect.Bool:
		return rv.Bool()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return rv.Int()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return rv.Uint()
	case reflect.Float32, reflect.Float64:
		return rv.Float()
	case reflect.String:
		return rv.String()
	}
	return v
}

// And is true where all are.
func (e Expr) And(others ...Expr) Expr { return Expr{Op: opAnd, Args: append([]Expr{e}, others...)} }

// Or is true where at least one is.
func (e Expr) Or(others ...Expr) Expr { return Expr{Op: opOr, Args: append([]Expr{e}, others...)} }

// Not is true where the expression is false.
func (e Expr) Not() Expr { return Expr{Op: opNot, Args: []Expr{e}} }

// String is the expression for people.
func (e Expr) String() string {
	switch e.Op {
	case opAnd, opOr:
		var parts []string
		for _, a := range e.Args {
			parts = append(parts, a.String())
		}
		return "(" + strings.Join(parts, " "+string(e.Op)+" ") + ")"
	case opNot:
		if len(e.Args) == 1 {
			return "not " + e.Args[0].String()
		}
	case opIsNull, opNotNull:
		return e.Column + " " + string(e.Op)
	}
	v := fmt.Sprint(e.Value)
	switch x := e.Value.(type) {
	case string:
		v = strconv.Quote(x)
	case []byte:
		v = strconv.Quote(string(x))
	}
	return fmt.Sprintf("%s %s %s", e.Column, e.Op, v)
}
