package sqlexpr

import (
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/frame/internal/expr"
	"go.millstream.dev/frame/internal/sqltext"
)

// resolved parses an expression and makes its names columns.
func resolved(t *testing.T, text string) sqltext.Expr {
	t.Helper()
	q, err := sqltext.Parse("select " + text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	e, err := sqltext.Map(q.Body.(*sqltext.Select).Items[0].Expr, func(x sqltext.Expr) (sqltext.Expr, error) {
		if n, ok := x.(*sqltext.Name); ok {
			return &sqltext.Ref{Pos: n.Pos, Name: n.Column}, nil
		}
		return x, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestConvert checks expressions against those that methods build.
func TestConvert(t *testing.T) {
	a, b, d := expr.Col("a"), expr.Col("b"), expr.Col("d")
	date := func(s string) expr.Expr { return expr.TypedLit(s, arrow.FixedWidthTypes.Date32) }
	decimal := func(s string, p, scale int32) expr.Expr {
		return expr.TypedLit(s, &arrow.Decimal128Type{Precision: p, Scale: scale})
	}
	for text, want := range map[string]expr.Expr{
		"a + b * 2":                     a.Add(b.Mul(2)),
		"-a":                            a.Neg(),
		"-1":                            expr.Lit(-1),
		"0.05":                          decimal("0.05", 2, 2),
		"-12.50":                        decimal("-12.50", 4, 2),
		"99999999999999999999":          decimal("99999999999999999999", 20, 0),
		"1.5e3":                         expr.Lit(1500.0),
		"'x'":                           expr.Lit("x"),
		"null":                          expr.Lit(nil),
		"true":                          expr.Lit(true),
		"a = b and not a < 1 or b <> 2": a.Eq(b).And(a.Lt(1).Not()).Or(b.Ne(2)),
		"a between 1 and 2":             a.Ge(1).And(a.Le(2)),
		"a not in (1, 2)":               a.In(1, 2).Not(),
		"a is null or b is not null":    a.IsNull().Or(b.NotNull()),
		"a is not true":                 a.Coalesce(false).Not(),
		"a like 'x%'":                   a.Like("x%"),
		"a not ilike 'X'":               a.Lower().Like(expr.Lit("X").Lower()).Not(),
		"case when a then 1 end":        expr.If(a, 1, nil),
		"case a when 1 then 'x' when 2 then 'y' else 'z' end": expr.If(a.Eq(1), "x", expr.If(a.Eq(2), "y", "z")),
		"cast(a as bigint)":                           a.Cast(arrow.PrimitiveTypes.Int64),
		"try_cast(a as decimal(10, 2))":               a.TryCast(&arrow.Decimal128Type{Precision: 10, Scale: 2}),
		"extract(year from d)":                        d.Year(),
		"date_part('month', d)":                       d.Month(),
		"date_trunc('week', d)":                       d.Truncate("week"),
		"date_diff('day', d, date '2020-01-02')":      date("2020-01-02").DateDiff("day", d),
		"date '1998-12-01' - interval '90' day":       date("1998-09-02"),
		"date '1996-01-31' + interval '1' month":      date("1996-02-29"),
		"interval '1' year + date '1996-02-29'":       date("1997-02-28"),
		"d + interval '2 months 3 days'":              d.AddMonths(2).AddDays(3),
		"d - interval '48' hour":                      d.AddDays(-2),
		"a || b":                                      a.Concat(b),
		"substring(a from 2 for 3)":                   a.Substring(2, 3),
		"left(a, 2)":                                  a.Substring(1, 2),
		"coalesce(a, b, 0)":                           a.Coalesce(b, 0),
		"round(a, 2)":                                 a.Round(2),
		"a is distinct from b":                        a.Eq(b).Coalesce(false).Or(a.IsNull().And(b.IsNull())).Not(),
		"greatest(a, b)":                              expr.If(a.Ge(b).Or(b.IsNull()), a, b),
		"a // 2 % 3":                                  a.IntDiv(2).Mod(3),
		"a ^ 2":                                       a.Pow(2),
		"a / 2":                                       a.Div(2),
		"(a >= 1) = (b > 2) and a <= 3 and b - a = 1": a.Ge(1).Eq(b.Gt(2)).And(a.Le(3), b.Sub(a).Eq(1)),
	} {
		got, err := Convert(resolved(t, text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if !expr.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
}

// TestFunctions checks that every function converts with as many arguments as it takes, and not with more.
func TestFunctions(t *testing.T) {
	for name, f := range functions {
		args := make([]sqltext.Expr, f.least)
		for i := range args {
			args[i] = &sqltext.Ref{Name: "a"}
		}
		if _, err := Convert(&sqltext.Call{Function: name, Args: args}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if f.most < 0 {
			continue
		}
		for len(args) <= f.most {
			args = append(args, &sqltext.Ref{Name: "a"})
		}
		if _, err := Convert(&sqltext.Call{Function: name, Args: args}); err == nil {
			t.Errorf("%s takes %d arguments", name, len(args))
		}
	}
}

// TestErrors checks that errors name the position and what is not supported.
func TestErrors(t *testing.T) {
	for text, want := range map[string]string{
		"sum(a)":                             "line 1, column 8: the function sum is not supported",
		"frobnicate(a)":                      "the function frobnicate is not supported",
		"a + frobnicate(b)":                  "line 1, column 12: the function frobnicate",
		"count(*)":                           "the aggregate or window function count here",
		"lower(a, b)":                        "the function lower does not take 2 arguments",
		"round(a, b)":                        "a number of digits of round that is not constant",
		"interval '1' day":                   "an INTERVAL that is not added to a date",
		"d + interval '1' second":            "an INTERVAL that is not a number of days or months",
		"extract(century from d)":            "the field century of a time",
		"date_trunc(a, d)":                   "a unit of date_trunc that is not constant",
		"date_diff('day', d)":                "the function date_diff has 3 arguments, not 2",
		"a like 'x' escape '!'":              "ESCAPE is not supported",
		"case when frobnicate(a) then 1 end": "the function frobnicate",
		"1e999":                              "the number 1e999 is too large",
	} {
		_, err := Convert(resolved(t, text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

// TestConstants checks constants of parameters.
func TestConstants(t *testing.T) {
	if n, ok := Int(resolved(t, "-3")); n != -3 || !ok {
		t.Errorf("got %v %v, want -3", n, ok)
	}
	if _, ok := Int(resolved(t, "1.5")); ok {
		t.Error("1.5 is an integer")
	}
	if f, ok := Number(resolved(t, "0.25")); f != 0.25 || !ok {
		t.Errorf("got %v %v, want 0.25", f, ok)
	}
	if _, ok := Number(resolved(t, "a")); ok {
		t.Error("a column is a number")
	}
}
