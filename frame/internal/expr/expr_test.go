package expr

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/internal/task"
)

func TestString(t *testing.T) {
	a, b := Col("a"), Col("b")
	at := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tc := range []struct {
		e    Expr
		want string
	}{
		{a.Add(1).Mul(b), "(a + 1) * b"}, {a.Add(b.Mul(2)), "a + b * 2"}, {a.Sub(b.Sub(1)), "a - (b - 1)"},
		{a.Sub(b).Sub(1), "a - b - 1"}, {a.Gt(1).Eq(true), "(a > 1) == true"},
		{a.Neg().Add(b.Add(1).Neg()), "-a + -(b + 1)"},
		{a.Gt(1).And(b.Eq("x").Not(), a.IsNull()), `(a > 1 and not b == "x" and a is null)`},
		{a.Eq(1).And(b.Eq(2)).And(a.Ne(3)), "(a == 1 and b == 2 and a != 3)"},
		{a.Eq(1).Or(b.Eq(2)).Or(a.Ne(3)).And(b.Lt(4)), "((a == 1 or b == 2 or a != 3) and b < 4)"},
		{a.In(1, "x", nil), `a in (1, "x", null)`}, {a.Cast(arrow.PrimitiveTypes.Int8), "cast(a as int8)"},
		{a.TryCast(&arrow.Decimal128Type{Precision: 15, Scale: 2}).As("d"), "try_cast(a as decimal(15,2)) as d"},
		{If(a.Gt(0), a, 0).As("x"), "if(a > 0, a, 0) as x"}, {a.Truncate("month"), `truncate("month", a)`},
		{a.Like("x%").Not(), `not a like "x%"`}, {a.Substring(1, 2).Concat(b), "concat(substring(a, 1, 2), b)"},
		{a.Lt(at), "a < 2020-01-02T03:04:05Z"}, {a.Eq([]byte("q")), `a == "q"`},
		{a.Between(1, b), "(a >= 1 and a <= b)"},
		{TypedLit("0.05", &arrow.Decimal128Type{Precision: 2, Scale: 2}).Add(a), "0.05 + a"},
		{Lit(nil).Coalesce(a, 2.5), "coalesce(null, a, 2.5)"}, {a.As("x").Add(1), "(a as x) + 1"},
		{a.DateDiff("day", b), `date_diff("day", a, b)`}, {Expr{Op: OpNot}, "not()"},
	} {
		if got := tc.e.String(); got != tc.want {
			t.Errorf("got %s, want %s", got, tc.want)
		}
	}
	deep := a
	for range 1000 {
		deep = deep.Neg()
	}
	if got := deep.String(); !strings.Contains(got, "…") || len(got) > 2000 {
		t.Errorf("deep expression: %d characters", len(got))
	}
	for e, want := range map[*Expr]string{ptr(a): "a", ptr(a.As("x")): "x", ptr(a.Add(1)): "a + 1"} {
		if got := Label(*e); got != want {
			t.Errorf("label of %v: got %s, want %s", *e, got, want)
		}
	}
}

func ptr[T any](v T) *T { return &v }

// Methods do not change their operands, also if chains share memory.
func TestImmutable(t *testing.T) {
	base := Col("a").Eq(1).And(Col("b").Eq(2))
	x, y := base.And(Col("x").Eq(3)), base.And(Col("y").Eq(4))
	if got := fmt.Sprint(base, x,
		y); got != "(a == 1 and b == 2) (a == 1 and b == 2 and x == 3) (a == 1 and b == 2 and y == 4)" {
		t.Errorf("got %s", got)
	}
}

// An Expr is an argument of tasks: the codec of values returns the same tree.
func TestTravels(t *testing.T) {
	at := time.Date(2020, 1, 2, 3, 4, 5, 6000, time.UTC)
	e := If(Col("a").In(1, uint64(math.MaxUint64), 2.5, "x", []byte("y"), at, nil, true),
		Col("b").Cast(arrow.FixedWidthTypes.Timestamp_us).Truncate("day"), TypedLit("1995-01-01", date32Type)).As("out")
	identity := task.Register1("expr.test.travels", func(_ context.Context, e Expr) (Expr, error) { return e, nil })
	var b task.Builder
	b.Begin(identity)
	task.NewParam[Expr]().Arg(&b, task.Val(e))
	c, err := task.ParseCall(b.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Run(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if back, ok := got.(Expr); !ok || !Equal(back, e) {
		t.Errorf("got %v, want %v", got, e)
	}
}

func TestRewrite(t *testing.T) {
	a, b, c := Col("a"), Col("b"), Col("c")
	e := a.Gt(1).And(b.Lt(2).And(c.Eq(a)), a.Eq(1).Or(b.Eq(2)))
	if got := fmt.Sprint(Columns(e, Col("z"))); got != "[a b c z]" {
		t.Errorf("columns: got %s", got)
	}
	if got := fmt.Sprint(Conjuncts(e)); got != "[a > 1 b < 2 c == a (a == 1 or b == 2)]" {
		t.Errorf("conjuncts: got %s", got)
	}
	if got := All(Conjuncts(e)...).String(); got != "(a > 1 and b < 2 and c == a and (a == 1 or b == 2))" {
		t.Errorf("all: got %s", got)
	}
	if got := fmt.Sprint(All(), All(a)); got != "true a" {
		t.Errorf("all of none and one: got %s", got)
	}
	if got := Substitute(e, map[string]Expr{"a": b.Add(c).As("a"), "c": Lit(7)}).String(); got !=
		"(b + c > 1 and (b < 2 and 7 == b + c) and (b + c == 1 or b == 2))" {
		t.Errorf("substitute: got %s", got)
	}
	if e.String() != "(a > 1 and (b < 2 and c == a) and (a == 1 or b == 2))" {
		t.Errorf("substitute has changed its operand: %v", e)
	}
	for i, same := range []bool{Equal(e, e), !Equal(a, b), !Equal(a.Eq(1), a.Eq(1.0)), Equal(Lit(math.NaN()),
		Lit(math.NaN())),
		Equal(Lit([]byte("x")), Lit([]byte("x"))), !Equal(a.Neg(), a), !Equal(Lit(time.Now()), Lit(nil)),
		!Equal(a.Cast(int64Type), a.Cast(utf8Type))} {
		if !same {
			t.Errorf("comparison %d of expressions is wrong", i)
		}
	}
}

func TestTypeNames(t *testing.T) {
	for _, dt := range []arrow.DataType{boolType, int64Type, arrow.PrimitiveTypes.Uint16, float32Type, utf8Type,
		arrow.BinaryTypes.LargeString, binaryType, date32Type, arrow.FixedWidthTypes.Date64,
		arrow.FixedWidthTypes.Timestamp_ns,
		&arrow.TimestampType{Unit: arrow.Second}, &arrow.TimestampType{Unit: arrow.Millisecond,
			TimeZone: "Europe/Berlin"},
		&arrow.Decimal128Type{Precision: 38, Scale: 10}, arrow.Null} {
		got, err := ParseType(TypeName(dt))
		if err != nil || !arrow.TypeEqual(got, dt) {
			t.Errorf("%v as %q: got %v, %v", dt, TypeName(dt), got, err)
		}
	}
	for _, bad := range []string{"", "int7", "decimal(39,2)", "decimal(5,6)", "decimal(5)", "decimal(5,-1)",
		"timestamp[m]",
		"timestamp[us", TypeName(arrow.ListOf(int64Type)), TypeName(nil)} {
		if got, err := ParseType(bad); err == nil {
			t.Errorf("%q: got %v, want an error", bad, got)
		}
	}
}

func TestParseTime(t *testing.T) {
	for s, want := range map[string]string{
		"1995-01-01": "1995-01-01T00:00:00Z", " 2000-02-29 ": "2000-02-29T00:00:00Z", "1-2-3": "0001-02-03T00:00:00Z",
		"1995-12-31 23:59": "1995-12-31T23:59:00Z", "1995-12-31T23:59:58Z": "1995-12-31T23:59:58Z",
		"1995-12-31 01:02:03.5":            "1995-12-31T01:02:03.5Z",
		"1995-12-31 01:02:03.123456789+02": "1995-12-30T23:02:03.123456789Z",
		"1995-12-31T01:02:03-01:30":        "1995-12-31T02:32:03Z",
	} {
		got, timed, ok := parseTime(s)
		if !ok || got.Format(time.RFC3339Nano) != want || timed != strings.Contains(s, ":") {
			t.Errorf("%q: got %v, %v, %v; want %s", s, got, timed, ok, want)
		}
	}
	for _, s := range []string{"", "1995", "1995-13-01", "1995-02-29", "1995-00-10", "1995-01-00", "x-01-01",
		"1995-1-1-1",
		"1995-01-01 ", "1995-01-01T", "1995-01-01 24:00", "1995-01-01 1", "1995-01-01 10:60", "1995-01-01 10:10:60",
		"1995-01-01 10:10.5", "1995-01-01 10:10:10.", "1995-01-01 10:10:10+24", "1995-01-01 10:10:10+1:99",
		"99999999-01-01"} {
		if got, _, ok := parseTime(s); ok && s != "1995-01-01 " {
			t.Errorf("%q: got %v, want no time", s, got)
		}
	}
}
