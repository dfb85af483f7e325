package plan

import (
	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/frame/internal/expr"
)

// typeOf returns the type of an expression of columns.
func typeOf(e expr.Expr, s *arrow.Schema) (arrow.DataType, error) {
	for _, name := range expr.Columns(e) {
		if _, err := fieldOf(s, name); err != nil {
			return nil, err
		}
	}
	b, err := expr.Bind(e, s)
	if err != nil {
		return nil, err
	}
	return b.Type(), nil
}

// column returns the expression of a column.
func column(name string) expr.Expr { return expr.Col(name) }

// columnName returns the name of the column if an expression is only that.
func columnName(e expr.Expr) (string, bool) {
	e = expr.Unnamed(e)
	return e.Name, e.Op == expr.OpColumn
}

// rename replaces names of columns.
func rename(e expr.Expr, names map[string]string) expr.Expr {
	columns := make(map[string]expr.Expr, len(names))
	for from, to := range names {
		columns[from] = expr.Col(to)
	}
	return expr.Substitute(e, columns)
}

// conjunction returns the condition that all conditions are true, nil for none.
func conjunction(conds []expr.Expr) *expr.Expr {
	if len(conds) == 0 {
		return nil
	}
	e := expr.All(conds...)
	return &e
}

// equalOperands returns the operands of an equality.
func equalOperands(e expr.Expr) (x, y expr.Expr, ok bool) {
	if e = expr.Unnamed(e); e.Op != expr.OpEq || len(e.Args) != 2 {
		return x, y, false
	}
	return e.Args[0], e.Args[1], true
}

// commonType returns the type to which keys of two types are converted.
func commonType(a, b arrow.DataType) (arrow.DataType, bool) {
	switch {
	case arrow.TypeEqual(a, b):
		return a, true
	case isText(a) && isText(b):
		return arrow.BinaryTypes.LargeString, true
	case isUnsigned(a) && isUnsigned(b):
		return arrow.PrimitiveTypes.Uint64, true
	case a.ID() == arrow.UINT64 && arrow.IsInteger(b.ID()), b.ID() == arrow.UINT64 && arrow.IsInteger(a.ID()):
		return &arrow.Decimal128Type{Precision: 20}, true
	case arrow.IsInteger(a.ID()) && arrow.IsInteger(b.ID()):
		return arrow.PrimitiveTypes.Int64, true
	case isNumber(a) && isNumber(b):
		return arrow.PrimitiveTypes.Float64, true
	}
	return nil, false
}

func isText(t arrow.DataType) bool { return t.ID() == arrow.STRING || t.ID() == arrow.LARGE_STRING }

func isUnsigned(t arrow.DataType) bool { return arrow.IsUnsignedInteger(t.ID()) }

func isNumber(t arrow.DataType) bool {
	return arrow.IsInteger(t.ID()) || t.ID() == arrow.FLOAT32 || t.ID() == arrow.FLOAT64 ||
		t.ID() == arrow.DECIMAL128
}

// castTo converts an expression from one type to another.
func castTo(e expr.Expr, from, to arrow.DataType) expr.Expr {
	if arrow.TypeEqual(from, to) {
		return e
	}
	return e.Cast(to)
}

// joinable reports whether two expressions are columns of one type, which can be keys of a join.
func joinable(x, y expr.Expr, l, r *arrow.Schema) bool {
	a, ok1 := columnName(x)
	b, ok2 := columnName(y)
	if !ok1 || !ok2 {
		return false
	}
	i, j := l.FieldIndices(a), r.FieldIndices(b)
	return len(i) > 0 && len(j) > 0 && arrow.TypeEqual(l.Field(i[0]).Type, r.Field(j[0]).Type)
}
