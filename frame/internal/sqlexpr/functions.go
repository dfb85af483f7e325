package sqlexpr

import (
	"math"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/frame/internal/expr"
	"go.millstream.dev/frame/internal/sqltext"
)

// function is a function of SQL.
type function struct {
	// least and most are the numbers of its arguments, most is -1 without a limit.
	least, most int
	call        func(args []expr.Expr) expr.Expr
}

func one(f func(expr.Expr) expr.Expr) function {
	return function{1, 1, func(a []expr.Expr) expr.Expr { return f(a[0]) }}
}

func two(f func(a, b expr.Expr) expr.Expr) function {
	return function{2, 2, func(a []expr.Expr) expr.Expr { return f(a[0], a[1]) }}
}

// values returns expressions as arguments of methods.
func values(list []expr.Expr) []any {
	out := make([]any, len(list))
	for i, e := range list {
		out[i] = e
	}
	return out
}

// functions are the functions by name. Those of times are in part.
var functions = map[string]function{
	"abs": one(expr.Expr.Abs), "floor": one(expr.Expr.Floor), "ceil": one(expr.Expr.Ceil),
	"ceiling": one(expr.Expr.Ceil), "sqrt": one(expr.Expr.Sqrt), "exp": one(expr.Expr.Exp), "ln": one(expr.Expr.Log),
	"log10": one(logarithm(10)), "log": one(logarithm(10)), "log2": one(logarithm(2)),
	"pow":   two(func(a, b expr.Expr) expr.Expr { return a.Pow(b) }),
	"power": two(func(a, b expr.Expr) expr.Expr { return a.Pow(b) }),
	"mod":   two(func(a, b expr.Expr) expr.Expr { return a.Mod(b) }),
	"sign": one(func(a expr.Expr) expr.Expr {
		return expr.If(a.IsNull(), nil, expr.If(a.Gt(0), 1, expr.If(a.Lt(0), -1, 0)))
	}),

	"lower": one(expr.Expr.Lower), "lcase": one(expr.Expr.Lower), "upper": one(expr.Expr.Upper),
	"ucase": one(expr.Expr.Upper), "length": one(expr.Expr.Length), "len": one(expr.Expr.Length),
	"char_length": one(expr.Expr.Length), "character_length": one(expr.Expr.Length), "trim": one(expr.Expr.Trim),
	"contains":    two(func(a, b expr.Expr) expr.Expr { return a.Contains(b) }),
	"starts_with": two(func(a, b expr.Expr) expr.Expr { return a.StartsWith(b) }),
	"prefix":      two(func(a, b expr.Expr) expr.Expr { return a.StartsWith(b) }),
	"ends_with":   two(func(a, b expr.Expr) expr.Expr { return a.EndsWith(b) }),
	"suffix":      two(func(a, b expr.Expr) expr.Expr { return a.EndsWith(b) }),
	"replace":     {3, 3, func(a []expr.Expr) expr.Expr { return a[0].Replace(a[1], a[2]) }},
	"substring":   {2, 3, substring}, "substr": {2, 3, substring},
	"left": two(func(a, n expr.Expr) expr.Expr { return a.Substring(1, n) }),
	"right": two(func(a, n expr.Expr) expr.Expr {
		return expr.If(n.Eq(0), a.Substring(1, 0), a.Substring(n.Neg(), n))
	}),
	// Unlike ||, concat takes a null for an empty text.
	"concat": {1, -1, func(a []expr.Expr) expr.Expr {
		text := make([]expr.Expr, len(a))
		for i, e := range a {
			text[i] = e.Cast(arrow.BinaryTypes.String).Coalesce("")
		}
		return text[0].Concat(values(text[1:])...)
	}},

	"coalesce": {1, -1, func(a []expr.Expr) expr.Expr { return a[0].Coalesce(values(a[1:])...) }},
	"ifnull":   two(func(a, b expr.Expr) expr.Expr { return a.Coalesce(b) }),
	"nullif":   two(func(a, b expr.Expr) expr.Expr { return a.NullIf(b) }),
	"if":       {3, 3, func(a []expr.Expr) expr.Expr { return expr.If(a[0], a[1], a[2]) }},
	"greatest": {1, -1, func(a []expr.Expr) expr.Expr { return extreme(a, expr.Expr.Ge) }},
	"least":    {1, -1, func(a []expr.Expr) expr.Expr { return extreme(a, expr.Expr.Le) }},
}

func logarithm(base float64) func(expr.Expr) expr.Expr {
	return func(e expr.Expr) expr.Expr { return e.Log().Div(math.Log(base)) }
}

func substring(a []expr.Expr) expr.Expr {
	if len(a) == 2 {
		return a[0].Substring(a[1], math.MaxInt32)
	}
	return a[0].Substring(a[1], a[2])
}

// extreme returns the operand that compares as before all others. Nulls are skipped.
func extreme(a []expr.Expr, before func(expr.Expr, any) expr.Expr) expr.Expr {
	out := a[0]
	for _, e := range a[1:] {
		out = expr.If(before(out, e).Or(e.IsNull()), out, e)
	}
	return out
}

// call converts a call of a function.
func call(c *sqltext.Call) (expr.Expr, error) {
	if c.Over != nil || c.Distinct || c.Star || c.Filter != nil || len(c.OrderBy) > 0 {
		return expr.Expr{}, sqltext.Unsupported(c.Pos, "the aggregate or window function "+c.Function+" here")
	}
	if slices.Contains(parts, c.Function) && len(c.Args) == 1 {
		return part(c.Pos, c.Function, c.Args[0])
	}
	switch c.Function {
	case "date_part", "datepart", "date_trunc", "datetrunc", "date_diff", "datediff":
		return withUnit(c)
	case "round":
		return round(c)
	}
	f, ok := functions[c.Function]
	if !ok {
		return expr.Expr{}, sqltext.Unsupported(c.Pos, "the function "+c.Function)
	}
	if len(c.Args) < f.least || f.most >= 0 && len(c.Args) > f.most {
		return expr.Expr{}, sqltext.Errorf(c.Pos, "the function %s does not take %d arguments", c.Function, len(c.Args))
	}
	args, err := list(c.Args)
	if err != nil {
		return expr.Expr{}, err
	}
	return f.call(args), nil
}

// round converts round(x) and round(x, digits).
func round(c *sqltext.Call) (expr.Expr, error) {
	if len(c.Args) < 1 || len(c.Args) > 2 {
		return expr.Expr{}, sqltext.Errorf(c.Pos, "the function round does not take %d arguments", len(c.Args))
	}
	x, err := Convert(c.Args[0])
	if err != nil || len(c.Args) == 1 {
		return x.Round(0), err
	}
	digits, ok := Int(c.Args[1])
	if !ok {
		return x, sqltext.Unsupported(c.Args[1].At(), "a number of digits of round that is not constant")
	}
	return x.Round(int(digits)), nil
}

// parts are the parts of times that have a function.
var parts = []string{"year", "quarter", "month", "day", "hour", "minute", "second", "dayofweek", "dow", "weekday",
	"dayofyear", "doy", "dayofmonth", "isodow"}

// part returns a part of a date or time.
func part(pos sqltext.Pos, field string, of sqltext.Expr) (expr.Expr, error) {
	x, err := Convert(of)
	if err != nil {
		return x, err
	}
	switch strings.ToLower(field) {
	case "year":
		return x.Year(), nil
	case "quarter":
		return expr.Call(expr.OpQuarter, x), nil
	case "month":
		return x.Month(), nil
	case "day", "dayofmonth":
		return x.Day(), nil
	case "hour":
		return x.Hour(), nil
	case "minute":
		return x.Minute(), nil
	case "second":
		return x.Second(), nil
	case "dow", "dayofweek", "weekday":
		return x.DayOfWeek(), nil
	case "isodow":
		return expr.If(x.DayOfWeek().Eq(0), 7, x.DayOfWeek()), nil
	case "doy", "dayofyear":
		return expr.Call(expr.OpDayOfYear, x), nil
	}
	return x, sqltext.Unsupported(pos, "the field "+field+" of a time")
}

// withUnit converts functions whose first argument is the name of a unit.
func withUnit(c *sqltext.Call) (expr.Expr, error) {
	want := 2
	if strings.HasSuffix(c.Function, "diff") {
		want = 3
	}
	if len(c.Args) != want {
		return expr.Expr{}, sqltext.Errorf(c.Pos, "the function %s has %d arguments, not %d", c.Function, want,
			len(c.Args))
	}
	unit, ok := c.Args[0].(*sqltext.Literal)
	if !ok || unit.Kind != sqltext.String {
		return expr.Expr{}, sqltext.Unsupported(c.Args[0].At(), "a unit of "+c.Function+" that is not constant")
	}
	if strings.HasSuffix(c.Function, "part") {
		return part(unit.Pos, unit.Text, c.Args[1])
	}
	args, err := list(c.Args[1:])
	if err != nil {
		return expr.Expr{}, err
	}
	name := strings.ToLower(unit.Text)
	if want == 3 {
		return args[1].DateDiff(name, args[0]), nil
	}
	return args[0].Truncate(name), nil
}

// Int returns the value of a constant integer.
func Int(e sqltext.Expr) (int64, bool) {
	l, ok := e.(*sqltext.Literal)
	if !ok || l.Kind != sqltext.Integer {
		return 0, false
	}
	x, err := literal(l)
	n, ok := x.Value.(int64)
	return n, ok && err == nil
}

// Number returns the value of a constant number.
func Number(e sqltext.Expr) (float64, bool) {
	l, ok := e.(*sqltext.Literal)
	if !ok || l.Kind != sqltext.Integer && l.Kind != sqltext.Decimal && l.Kind != sqltext.Float {
		return 0, false
	}
	x, err := float(l)
	f, ok := x.Value.(float64)
	return f, ok && err == nil
}
