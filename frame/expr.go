package frame

import (
	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/frame/internal/expr"
)

// Expr is a value for every row of a frame: a column, a constant, or a function of other expressions. A condition is an
// Expr of type bool.
//
//	frame.Col("age").Ge(18).And(frame.Col("name").Ne("unknown"))
//	frame.Col("price").Mul(frame.Col("count")).As("total")
//
// Methods take other expressions and constants: nil, bool, numbers, text, bytes and time.Time. They never fail; an
// expression that does not fit the columns of a frame is an error of the function that uses it, which matches
// ErrSchema.
//
// A comparison with a null is neither true nor false, and neither is its negation; And and Or use the three-valued
// logic of SQL. Numbers of different types are compared exactly. NaN compares as in Go: it is unequal to everything.
//
// An Expr is immutable and may be an argument of a task.
type Expr = expr.Expr

// Col returns the column with a name.
func Col(name string) Expr { return expr.Col(name) }

// Lit returns a constant: nil, a bool, number, text, bytes or time.
func Lit(v any) Expr { return expr.Lit(v) }

// If returns then for rows whose condition is true, and otherwise for all others, those with a null included.
func If(condition Expr, then, otherwise any) Expr { return expr.If(condition, then, otherwise) }

// columnIndex returns the index of the only column of a name.
func columnIndex(s *arrow.Schema, name string) (int, error) {
	i, err := expr.ColumnIndex(s, name)
	return i, exprError(err)
}
