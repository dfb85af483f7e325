package sqlplan

import (
	"go.millstream.dev/frame/internal/sqltext"
)

// aggregates are the functions that aggregate rows if they have no OVER. Those with an empty name are written with
// others, by rewriteAggregate.
var aggregates = map[string]string{
	"count": "count", "sum": "sum", "min": "min", "max": "max", "avg": "avg", "mean": "avg",
	"var": "var", "variance": "var", "var_samp": "var", "stddev": "std", "stddev_samp": "std", "std": "std",
	"median": "median", "quantile": "quantile", "quantile_cont": "quantile", "approx_quantile": "approx_quantile",
	"first": "first", "any_value": "first", "arbitrary": "first", "last": "last", "list": "list", "array_agg": "list",
	"var_pop": "", "stddev_pop": "", "corr": "", "covar_pop": "", "covar_samp": "", "count_if": "", "countif": "",
	"approx_count_distinct": "", "bool_and": "", "bool_or": "", "count_star": "",
}

// isAggregate reports whether a call aggregates rows.
func isAggregate(c *sqltext.Call) bool {
	_, ok := aggregates[c.Function]
	return ok && c.Over == nil
}

// findAggregate returns the first aggregate of an expression, or nil.
func findAggregate(e Expr) *sqltext.Call { return findCall(e, isAggregate) }

// findWindow returns the first window function of an expression, or nil.
func findWindow(e Expr) *sqltext.Call {
	return findCall(e, func(c *sqltext.Call) bool { return c.Over != nil })
}

func findCall(e Expr, is func(*sqltext.Call) bool) *sqltext.Call {
	var found *sqltext.Call
	sqltext.Walk(e, func(x Expr) bool {
		if c, ok := x.(*sqltext.Call); ok && found == nil && is(c) {
			found = c
		}
		return found == nil
	})
	return found
}

// arguments are the numbers of arguments of aggregates that do not have one.
var arguments = map[string]int{"quantile": 2, "quantile_cont": 2, "approx_quantile": 2, "corr": 2, "covar_pop": 2,
	"covar_samp": 2, "count_star": 0}

// rewriteAggregate returns an aggregate in the form that Group has, or as an expression of others. FILTER is a CASE.
func rewriteAggregate(c *sqltext.Call) (Expr, error) {
	want, ok := arguments[c.Function]
	if !ok {
		want = 1
	}
	if c.Function == "count" && len(c.Args) == 0 && !c.Distinct {
		c = &sqltext.Call{Pos: c.Pos, Function: "count", Star: true, Filter: c.Filter}
		want = 0
	}
	if len(c.Args) != want {
		return nil, sqltext.Errorf(c.Pos, "%s has %d arguments, not %d", c.Function, want, len(c.Args))
	}
	for _, a := range c.Args {
		if inner := findAggregate(a); inner != nil {
			return nil, sqltext.Errorf(inner.Pos, "the aggregate %s within the aggregate %s", inner.Function,
				c.Function)
		}
		if inner := findWindow(a); inner != nil {
			return nil, sqltext.Errorf(inner.Pos, "a window function within the aggregate %s", c.Function)
		}
		if hasQuery(a) {
			return nil, sqltext.Unsupported(a.At(), "a subquery within an aggregate")
		}
	}
	if len(c.OrderBy) > 0 {
		return nil, sqltext.Unsupported(c.Pos, "ORDER BY within the aggregate "+c.Function)
	}
	if c.Filter != nil {
		c = filtered(c)
	}
	if name := aggregates[c.Function]; name != "" {
		return plainAggregate(c, name)
	}
	return derivedAggregate(c)
}

// filtered returns an aggregate of rows that a condition selects as one of all rows.
func filtered(c *sqltext.Call) *sqltext.Call {
	out := *c
	out.Filter = nil
	value := Expr(&sqltext.Literal{Pos: c.Pos, Kind: sqltext.Integer, Text: "1"})
	if len(c.Args) > 0 {
		value = c.Args[0]
	}
	out.Star = false
	out.Args = append([]Expr{&sqltext.Case{Pos: c.Pos, Whens: []sqltext.When{{Cond: c.Filter, Value: value}}}},
		c.Args[min(1, len(c.Args)):]...)
	if out.Function == "count_star" {
		out.Function = "count"
	}
	return &out
}

// plainAggregate returns an aggregate with the name that Group has.
func plainAggregate(c *sqltext.Call, name string) (Expr, error) {
	out := *c
	out.Function = name
	if c.Distinct {
		switch name {
		case "min", "max":
			out.Distinct = false
		case "count":
		default:
			return nil, sqltext.Unsupported(c.Pos, c.Function+"(DISTINCT …)")
		}
	}
	return &out, nil
}

// derivedAggregate returns an aggregate as an expression of others.
func derivedAggregate(c *sqltext.Call) (Expr, error) {
	if c.Distinct {
		return nil, sqltext.Unsupported(c.Pos, c.Function+"(DISTINCT …)")
	}
	b := builder{c.Pos}
	switch c.Function {
	case "count_star":
		return &sqltext.Call{Pos: c.Pos, Function: "count", Star: true}, nil
	case "count_if", "countif":
		return b.call("count", b.when(c.Args[0], b.number("1"))), nil
	case "approx_count_distinct":
		return &sqltext.Call{Pos: c.Pos, Function: "count", Distinct: true, Args: c.Args}, nil
	case "bool_and":
		return b.call("min", c.Args[0]), nil
	case "bool_or":
		return b.call("max", c.Args[0]), nil
	case "var_pop", "stddev_pop":
		// The variance of one value is 0, where that of a sample has no value.
		n, x := b.call("count", c.Args[0]), c.Args[0]
		pop := b.binary("/", b.binary("*", b.call("coalesce", b.call("var", x), b.number("0")),
			b.binary("-", n, b.number("1"))), b.call("nullif", n, b.number("0")))
		if c.Function == "stddev_pop" {
			return b.call("sqrt", pop), nil
		}
		return pop, nil
	}
	return b.covariance(c), nil
}

// covariance returns corr, covar_pop and covar_samp as an expression of sums. Only rows with both values count.
func (b builder) covariance(c *sqltext.Call) Expr {
	double := func(e Expr) Expr { return &sqltext.Cast{Pos: b.pos, X: e, Type: sqltext.Type{Name: "DOUBLE"}} }
	both := func(e Expr) Expr {
		return b.when(&sqltext.Logic{Pos: b.pos, Op: "AND", Args: []Expr{
			&sqltext.IsTest{Pos: b.pos, X: c.Args[0], What: "NULL", Not: true},
			&sqltext.IsTest{Pos: b.pos, X: c.Args[1], What: "NULL", Not: true}}}, e)
	}
	x, y := both(double(c.Args[0])), both(double(c.Args[1]))
	sum := func(e Expr) Expr { return b.call("sum", e) }
	n := b.call("count", x)
	// n·Σxy − Σx·Σy
	co := func(x, y Expr) Expr {
		return b.binary("-", b.binary("*", n, sum(b.binary("*", x, y))), b.binary("*", sum(x), sum(y)))
	}
	switch c.Function {
	case "covar_pop":
		return b.binary("/", co(x, y), b.call("nullif", b.binary("*", n, n), b.number("0")))
	case "covar_samp":
		pairs := b.binary("*", n, b.binary("-", n, b.number("1")))
		return b.binary("/", co(x, y), b.call("nullif", pairs, b.number("0")))
	}
	return b.binary("/", co(x, y), b.call("nullif", b.call("sqrt", b.binary("*", co(x, x), co(y, y))), b.number("0")))
}

// builder builds expressions at a position.
type builder struct{ pos sqltext.Pos }

func (b builder) call(name string, args ...Expr) Expr {
	return &sqltext.Call{Pos: b.pos, Function: name, Args: args}
}

func (b builder) binary(op string, l, r Expr) Expr {
	return &sqltext.Binary{Pos: b.pos, Op: op, L: l, R: r}
}

func (b builder) number(text string) Expr {
	return &sqltext.Literal{Pos: b.pos, Kind: sqltext.Integer, Text: text}
}

func (b builder) when(cond, value Expr) Expr {
	return &sqltext.Case{Pos: b.pos, Whens: []sqltext.When{{Cond: cond, Value: value}}}
}
