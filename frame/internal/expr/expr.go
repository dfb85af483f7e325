package expr

import (
	"reflect"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
)

// Expr is a value for every row of a table: a column, a constant, or a function of other expressions. A condition is an
// Expr of type bool.
//
//	frame.Col("age").Ge(18).And(frame.Col("name").Ne("unknown"))
//	frame.Col("price").Mul(frame.Col("count")).As("total")
//
// Methods take other expressions and constants: nil, bool, numbers, text, bytes and time.Time. They never fail; an
// expression that does not fit a schema is an error of the function that uses it.
//
// A comparison with a null is neither true nor false, and neither is its negation; And and Or use the three-valued
// logic of SQL. Numbers of different types are compared exactly. NaN compares as in Go: it is unequal to everything.
//
// An Expr is sent to workers as an argument of tasks, so all its fields are exported; construct it with Col, Lit and
// methods. It is immutable.
type Expr struct {
	// Op is the operation.
	Op Op
	// Name is the name of a column or of a result, or the unit of a function of times.
	Name string
	// Value is the value of a constant: nil, bool, int64, uint64, float64, string, []byte or time.Time.
	Value any
	// Type is the type to which a cast converts, or into which the value of a constant is converted, as text.
	Type string
	// Args are the operands.
	Args []Expr
}

// Col returns the column with a name.
func Col(name string) Expr { return Expr{Op: OpColumn, Name: name} }

// Lit returns a constant: nil, a bool, number, text, bytes or time.
func Lit(v any) Expr { return Expr{Op: OpLiteral, Value: constant(v)} }

// TypedLit returns a constant of type t from its text, such as a decimal or a date.
func TypedLit(text string, t arrow.DataType) Expr {
	return Expr{Op: OpLiteral, Value: text, Type: TypeName(t)}
}

// Call returns the result of an operation. The operands are expressions and constants.
func Call(op Op, operands ...any) Expr {
	e := Expr{Op: op, Args: make([]Expr, len(operands))}
	for i, v := range operands {
		e.Args[i] = operand(v)
	}
	return e
}

// If returns then for rows whose condition is true, otherwise for all others, those with a null included.
func If(condition Expr, then, otherwise any) Expr { return Call(OpIf, condition, then, otherwise) }

// operand returns an expression unchanged and other values as constants.
func operand(v any) Expr {
	switch x := v.(type) {
	case Expr:
		return x
	case *Expr:
		if x != nil {
			return *x
		}
	}
	return Lit(v)
}

// constant converts a value to one of the types of Expr.Value. Other values are returned unchanged; Bind rejects them.
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

// As returns the expression with a name, which is that of the column of a result.
func (e Expr) As(name string) Expr { return Expr{Op: OpAs, Name: name, Args: []Expr{e}} }

// Eq returns an expression that is true if e equals v.
func (e Expr) Eq(v any) Expr { return Call(OpEq, e, v) }

// Ne returns an expression that is true if e does not equal v.
func (e Expr) Ne(v any) Expr { return Call(OpNe, e, v) }

// Lt returns an expression that is true if e is less than v. False is less than true, texts are compared by their
// bytes.
func (e Expr) Lt(v any) Expr { return Call(OpLt, e, v) }

// Le returns an expression that is true if e is at most v.
func (e Expr) Le(v any) Expr { return Call(OpLe, e, v) }

// Gt returns an expression that is true if e is greater than v.
func (e Expr) Gt(v any) Expr { return Call(OpGt, e, v) }

// Ge returns an expression that is true if e is at least v.
func (e Expr) Ge(v any) Expr { return Call(OpGe, e, v) }

// IsNull returns an expression that is true if e has no value.
func (e Expr) IsNull() Expr { return Call(OpIsNull, e) }

// NotNull returns an expression that is true if e has a value.
func (e Expr) NotNull() Expr { return Call(OpNotNull, e) }

// Between returns an expression that is true if e is at least from and at most to.
func (e Expr) Between(from, to any) Expr { return e.Ge(from).And(e.Le(to)) }

// In returns an expression that is true if e equals one of the values.
func (e Expr) In(values ...any) Expr { return Call(OpIn, append([]any{e}, values...)...) }

// And returns an expression that is true if all operands are.
func (e Expr) And(others ...Expr) Expr { return chain(OpAnd, e, others) }

// Or returns an expression that is true if at least one operand is.
func (e Expr) Or(others ...Expr) Expr { return chain(OpOr, e, others) }

// chain extends e if it is a chain of the same operation, so that long chains are not deep trees.
func chain(op Op, e Expr, others []Expr) Expr {
	out := Expr{Op: op}
	if e.Op == op {
		out.Args = append(out.Args, e.Args...)
	} else {
		out.Args = append(out.Args, e)
	}
	out.Args = append(out.Args, others...)
	return out
}

// Not returns an expression that is true if e is false.
func (e Expr) Not() Expr { return Call(OpNot, e) }

// Cast converts e to a type. A value that the type cannot represent is an error that names it.
func (e Expr) Cast(t arrow.DataType) Expr {
	return Expr{Op: OpCast, Type: TypeName(t), Args: []Expr{e}}
}

// TryCast converts e to a type. A value that the type cannot represent becomes a null.
func (e Expr) TryCast(t arrow.DataType) Expr {
	return Expr{Op: OpTryCast, Type: TypeName(t), Args: []Expr{e}}
}

// Coalesce returns the first of e and the values that is not null.
func (e Expr) Coalesce(values ...any) Expr { return Call(OpCoalesce, append([]any{e}, values...)...) }

// NullIf returns null where e equals v, and e elsewhere.
func (e Expr) NullIf(v any) Expr { return Call(OpNullIf, e, v) }

// Op is the operation of an Expr.
type Op string

// The operations. Functions have the names under which String prints them.
const (
	OpColumn  Op = "column"
	OpLiteral Op = "literal"
	OpAs      Op = "as"

	OpEq      Op = "=="
	OpNe      Op = "!="
	OpLt      Op = "<"
	OpLe      Op = "<="
	OpGt      Op = ">"
	OpGe      Op = ">="
	OpIn      Op = "in"
	OpIsNull  Op = "is null"
	OpNotNull Op = "is not null"

	OpAnd Op = "and"
	OpOr  Op = "or"
	OpNot Op = "not"

	OpAdd    Op = "+"
	OpSub    Op = "-"
	OpMul    Op = "*"
	OpDiv    Op = "/"
	OpIntDiv Op = "//"
	OpMod    Op = "%"
	OpNeg    Op = "neg"
	OpAbs    Op = "abs"
	OpRound  Op = "round"
	OpFloor  Op = "floor"
	OpCeil   Op = "ceil"
	OpSqrt   Op = "sqrt"
	OpExp    Op = "exp"
	OpLog    Op = "log"
	OpPow    Op = "pow"

	OpCast     Op = "cast"
	OpTryCast  Op = "try_cast"
	OpIf       Op = "if"
	OpCoalesce Op = "coalesce"
	OpNullIf   Op = "null_if"

	OpLower      Op = "lower"
	OpUpper      Op = "upper"
	OpLength     Op = "length"
	OpSubstring  Op = "substring"
	OpConcat     Op = "concat"
	OpContains   Op = "contains"
	OpStartsWith Op = "starts_with"
	OpEndsWith   Op = "ends_with"
	OpLike       Op = "like"
	OpReplace    Op = "replace"
	OpTrim       Op = "trim"

	OpYear      Op = "year"
	OpQuarter   Op = "quarter"
	OpMonth     Op = "month"
	OpDay       Op = "day"
	OpHour      Op = "hour"
	OpMinute    Op = "minute"
	OpSecond    Op = "second"
	OpDayOfWeek Op = "day_of_week"
	OpDayOfYear Op = "day_of_year"
	OpTruncate  Op = "truncate"
	OpAddDays   Op = "add_days"
	OpAddMonths Op = "add_months"
	OpDateDiff  Op = "date_diff"
)

// flip returns the comparison with its operands exchanged.
func (o Op) flip() Op {
	switch o {
	case OpLt:
		return OpGt
	case OpLe:
		return OpGe
	case OpGt:
		return OpLt
	case OpGe:
		return OpLe
	}
	return o
}
