package frame

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Expr is a condition on rows, for Filter: comparisons of columns with constants, combined by And, Or and Not.
//
//	frame.Col("age").Ge(18).And(frame.Col("name").Ne("unknown"))
//
// A comparison with a null is neither true nor false, and neither is its negation; And and Or use the three-valued
// logic of SQL. Filter keeps the rows for which the expression is true. NaN compares as in Go: it is unequal to
// everything.
//
// An Expr is sent to workers as an argument of tasks, so all its fields are exported; construct it with Col.
type Expr struct {
	// Op is the operation.
	Op operation
	// Column is the column that is compared.
	Column string
	// Value is the constant of a comparison: bool, int64, uint64, float64, string, []byte or time.Time.
	Value any
	// Args are the operands of And, Or and Not.
	Args []Expr
}

// operation is the operation of an Expr.
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

// Col returns the column with a name.
func Col(name string) Column { return Column{name} }

// Eq returns an expression that is true if the column equals a constant: a bool, number, text, bytes or time.
func (c Column) Eq(v any) Expr { return c.compare(opEq, v) }

// Ne returns an expression that is true if the column does not equal a constant.
func (c Column) Ne(v any) Expr { return c.compare(opNe, v) }

// Lt returns an expression that is true if the column is less than a constant. False is less than true, texts are
// compared by their bytes.
func (c Column) Lt(v any) Expr { return c.compare(opLt, v) }

// Le returns an expression that is true if the column is at most a constant.
func (c Column) Le(v any) Expr { return c.compare(opLe, v) }

// Gt returns an expression that is true if the column is greater than a constant.
func (c Column) Gt(v any) Expr { return c.compare(opGt, v) }

// Ge returns an expression that is true if the column is at least a constant.
func (c Column) Ge(v any) Expr { return c.compare(opGe, v) }

// IsNull returns an expression that is true if the column has no value.
func (c Column) IsNull() Expr { return Expr{Op: opIsNull, Column: c.name} }

// NotNull returns an expression that is true if the column has a value.
func (c Column) NotNull() Expr { return Expr{Op: opNotNull, Column: c.name} }

// Between returns an expression that is true if the column is at least from and at most to.
func (c Column) Between(from, to any) Expr { return c.Ge(from).And(c.Le(to)) }

// In returns an expression that is true if the column equals one of the constants.
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

// constant converts a value to one of the types of Expr.Value. Other values are returned unchanged; Filter rejects
// them.
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

// And returns an expression that is true if all operands are.
func (e Expr) And(others ...Expr) Expr { return Expr{Op: opAnd, Args: append([]Expr{e}, others...)} }

// Or returns an expression that is true if at least one operand is.
func (e Expr) Or(others ...Expr) Expr { return Expr{Op: opOr, Args: append([]Expr{e}, others...)} }

// Not returns an expression that is true if e is false.
func (e Expr) Not() Expr { return Expr{Op: opNot, Args: []Expr{e}} }

// String returns the expression as text.
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
