// Package sqlexpr converts expressions of SQL, whose columns are resolved, to expressions of frames.
package sqlexpr

import (
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/frame/internal/expr"
	"go.millstream.dev/frame/internal/sqltext"
)

// Convert returns an expression for frames. Aggregates, window functions and queries must have been replaced by
// columns.
func Convert(e sqltext.Expr) (expr.Expr, error) {
	switch x := e.(type) {
	case *sqltext.Ref:
		return expr.Col(x.Name), nil
	case *sqltext.Literal:
		return literal(x)
	case *sqltext.Interval:
		return expr.Expr{}, sqltext.Unsupported(x.Pos, "an INTERVAL that is not added to a date or subtracted from one")
	case *sqltext.Unary:
		return unary(x)
	case *sqltext.Binary:
		return binary(x)
	case *sqltext.Logic:
		args, err := list(x.Args)
		if err != nil {
			return expr.Expr{}, err
		}
		if x.Op == "AND" {
			return args[0].And(args[1:]...), nil
		}
		return args[0].Or(args[1:]...), nil
	case *sqltext.IsTest:
		return isTest(x)
	case *sqltext.Between:
		args, err := list([]sqltext.Expr{x.X, x.Low, x.High})
		if err != nil {
			return expr.Expr{}, err
		}
		return not(x.Not, args[0].Ge(args[1]).And(args[0].Le(args[2]))), nil
	case *sqltext.InList:
		args, err := list(append([]sqltext.Expr{x.X}, x.List...))
		if err != nil {
			return expr.Expr{}, err
		}
		values := make([]any, len(args)-1)
		for i, a := range args[1:] {
			values[i] = a
		}
		return not(x.Not, args[0].In(values...)), nil
	case *sqltext.Like:
		return like(x)
	case *sqltext.Case:
		return caseExpr(x)
	case *sqltext.Cast:
		return cast(x)
	case *sqltext.Extract:
		return part(x.Pos, x.Field, x.X)
	case *sqltext.Call:
		return call(x)
	}
	return expr.Expr{}, sqltext.Unsupported(e.At(), "this expression: "+sqltext.Format(e))
}

func not(is bool, e expr.Expr) expr.Expr {
	if is {
		return e.Not()
	}
	return e
}

// list converts several expressions.
func list(in []sqltext.Expr) ([]expr.Expr, error) {
	out := make([]expr.Expr, len(in))
	for i, e := range in {
		var err error
		if out[i], err = Convert(e); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// literal returns a constant. A number with a point is a decimal, so that 0.06 + 0.01 is exactly 0.07.
func literal(l *sqltext.Literal) (expr.Expr, error) {
	switch l.Kind {
	case sqltext.Null:
		return expr.Lit(nil), nil
	case sqltext.Bool:
		return expr.Lit(l.Text == "true"), nil
	case sqltext.Integer:
		if n, err := strconv.ParseInt(l.Text, 10, 64); err == nil {
			return expr.Lit(n), nil
		}
		return decimal(l, l.Text)
	case sqltext.Decimal:
		return decimal(l, l.Text)
	case sqltext.Float:
		return float(l)
	case sqltext.Date:
		return expr.TypedLit(l.Text, arrow.FixedWidthTypes.Date32), nil
	case sqltext.Timestamp:
		return expr.TypedLit(l.Text, &arrow.TimestampType{Unit: arrow.Microsecond}), nil
	}
	return expr.Lit(l.Text), nil
}

// decimal returns a decimal with as many digits as the text has.
func decimal(l *sqltext.Literal, text string) (expr.Expr, error) {
	const most = 38
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(text, "-"), ".")
	whole = strings.TrimLeft(whole, "0")
	if n := len(whole) + len(fraction); n > most {
		return float(l)
	}
	t := &arrow.Decimal128Type{Precision: int32(max(1, len(whole)+len(fraction))), Scale: int32(len(fraction))}
	if r, ok := new(big.Rat).SetString(text); ok {
		text = r.FloatString(len(fraction))
	}
	return expr.TypedLit(text, t), nil
}

func float(l *sqltext.Literal) (expr.Expr, error) {
	f, err := strconv.ParseFloat(l.Text, 64)
	if err != nil {
		return expr.Expr{}, sqltext.Errorf(l.Pos, "the number %s is too large", l.Text)
	}
	return expr.Lit(f), nil
}

func unary(x *sqltext.Unary) (expr.Expr, error) {
	e, err := Convert(x.X)
	if err != nil {
		return e, err
	}
	if x.Op == "NOT" {
		return e.Not(), nil
	}
	return e.Neg(), nil
}

func binary(x *sqltext.Binary) (expr.Expr, error) {
	if i, ok := x.R.(*sqltext.Interval); ok && (x.Op == "+" || x.Op == "-") {
		return addInterval(x.L, i, x.Op == "-")
	}
	if i, ok := x.L.(*sqltext.Interval); ok && x.Op == "+" {
		return addInterval(x.R, i, false)
	}
	args, err := list([]sqltext.Expr{x.L, x.R})
	if err != nil {
		return expr.Expr{}, err
	}
	l, r := args[0], args[1]
	same := func() expr.Expr { return l.Eq(r).Coalesce(false).Or(l.IsNull().And(r.IsNull())) }
	switch x.Op {
	case "+":
		return l.Add(r), nil
	case "-":
		return l.Sub(r), nil
	case "*":
		return l.Mul(r), nil
	case "/":
		return l.Div(r), nil
	case "//":
		return l.IntDiv(r), nil
	case "%":
		return l.Mod(r), nil
	case "^":
		return l.Pow(r), nil
	case "||":
		return l.Concat(r), nil
	case "=":
		return l.Eq(r), nil
	case "<>":
		return l.Ne(r), nil
	case "<":
		return l.Lt(r), nil
	case "<=":
		return l.Le(r), nil
	case ">":
		return l.Gt(r), nil
	case ">=":
		return l.Ge(r), nil
	case sqltext.IsNotDistinct:
		return same(), nil
	case sqltext.IsDistinct:
		return same().Not(), nil
	}
	return expr.Expr{}, sqltext.Unsupported(x.Pos, "the operator "+x.Op)
}

// addInterval adds an interval to a date or time. That of a constant date and whole days is a constant date.
func addInterval(x sqltext.Expr, i *sqltext.Interval, negative bool) (expr.Expr, error) {
	months, days := i.Months, i.Days
	if i.Micros%(24*3600e6) != 0 {
		return expr.Expr{}, sqltext.Unsupported(i.Pos, "an INTERVAL that is not a number of days or months")
	}
	days += i.Micros / (24 * 3600e6)
	if negative {
		months, days = -months, -days
	}
	if l, ok := x.(*sqltext.Literal); ok && l.Kind == sqltext.Date {
		at, err := time.Parse(time.DateOnly, l.Text)
		if err == nil && max(months, -months) < 12e4 && max(days, -days) < 4e6 {
			at = addMonths(at, int(months)).AddDate(0, 0, int(days))
			if at.Year() > 0 && at.Year() < 10000 {
				return literal(&sqltext.Literal{Pos: l.Pos, Kind: sqltext.Date, Text: at.Format(time.DateOnly)})
			}
		}
	}
	e, err := Convert(x)
	if err != nil {
		return e, err
	}
	if months != 0 {
		e = e.AddMonths(months)
	}
	if days != 0 || months == 0 {
		e = e.AddDays(days)
	}
	return e, nil
}

// addMonths adds months to a date: on the last day of the month if that is shorter.
func addMonths(at time.Time, n int) time.Time {
	first := time.Date(at.Year(), at.Month()+time.Month(n), 1, 0, 0, 0, 0, time.UTC)
	last := first.AddDate(0, 1, -1).Day()
	return first.AddDate(0, 0, min(at.Day(), last)-1)
}

func isTest(x *sqltext.IsTest) (expr.Expr, error) {
	e, err := Convert(x.X)
	if err != nil {
		return e, err
	}
	switch {
	case x.What == "NULL" && x.Not:
		return e.NotNull(), nil
	case x.What == "NULL":
		return e.IsNull(), nil
	case x.What == "FALSE":
		e = e.Not()
	}
	return not(x.Not, e.Coalesce(false)), nil
}

func like(x *sqltext.Like) (expr.Expr, error) {
	if x.Escape != nil {
		return expr.Expr{}, sqltext.Unsupported(x.Escape.At(), "ESCAPE")
	}
	args, err := list([]sqltext.Expr{x.X, x.Pattern})
	if err != nil {
		return expr.Expr{}, err
	}
	if x.Fold {
		args[0], args[1] = args[0].Lower(), args[1].Lower()
	}
	return not(x.Not, args[0].Like(args[1])), nil
}

func caseExpr(x *sqltext.Case) (expr.Expr, error) {
	out := expr.Lit(nil)
	var err error
	if x.Else != nil {
		if out, err = Convert(x.Else); err != nil {
			return out, err
		}
	}
	for i := len(x.Whens) - 1; i >= 0; i-- {
		cond := x.Whens[i].Cond
		if x.Operand != nil {
			cond = &sqltext.Binary{Pos: cond.At(), Op: "=", L: x.Operand, R: cond}
		}
		args, err := list([]sqltext.Expr{cond, x.Whens[i].Value})
		if err != nil {
			return out, err
		}
		out = expr.If(args[0], args[1], out)
	}
	return out, nil
}

// types are the types of casts but DECIMAL.
var types = map[string]arrow.DataType{
	"BOOLEAN": arrow.FixedWidthTypes.Boolean, "TINYINT": arrow.PrimitiveTypes.Int8,
	"SMALLINT": arrow.PrimitiveTypes.Int16, "INTEGER": arrow.PrimitiveTypes.Int32, "BIGINT": arrow.PrimitiveTypes.Int64,
	"UTINYINT": arrow.PrimitiveTypes.Uint8, "USMALLINT": arrow.PrimitiveTypes.Uint16,
	"UINTEGER": arrow.PrimitiveTypes.Uint32, "UBIGINT": arrow.PrimitiveTypes.Uint64,
	"FLOAT": arrow.PrimitiveTypes.Float32, "DOUBLE": arrow.PrimitiveTypes.Float64, "VARCHAR": arrow.BinaryTypes.String,
	"BLOB": arrow.BinaryTypes.Binary, "DATE": arrow.FixedWidthTypes.Date32,
	"TIMESTAMP":   &arrow.TimestampType{Unit: arrow.Microsecond},
	"TIMESTAMPTZ": &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"},
}

func cast(x *sqltext.Cast) (expr.Expr, error) {
	e, err := Convert(x.X)
	if err != nil {
		return e, err
	}
	t, ok := types[x.Type.Name]
	if x.Type.Name == "DECIMAL" {
		t, ok = &arrow.Decimal128Type{Precision: int32(x.Type.Precision), Scale: int32(x.Type.Scale)}, true
	}
	switch {
	case !ok:
		return e, sqltext.Unsupported(x.Pos, "the type "+x.Type.String())
	case x.Try:
		return e.TryCast(t), nil
	}
	return e.Cast(t), nil
}
