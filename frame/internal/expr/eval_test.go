package expr

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// sample has a few rows of many types; the last one is null.
func sample(t testing.TB) arrow.RecordBatch {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "i", Type: int64Type, Nullable: true}, {Name: "u", Type: uint64Type, Nullable: true},
		{Name: "f", Type: float64Type, Nullable: true}, {Name: "p", Type: dec(15, 2), Nullable: true},
		{Name: "q", Type: dec(38, 2), Nullable: true}, {Name: "s", Type: utf8Type, Nullable: true},
		{Name: "d", Type: date32Type, Nullable: true},
		{Name: "t", Type: arrow.FixedWidthTypes.Timestamp_us, Nullable: true},
		{Name: "b", Type: boolType, Nullable: true},
		{Name: "z", Type: &arrow.TimestampType{Unit: arrow.Second, TimeZone: "America/New_York"}, Nullable: true},
	}, nil)
	b, _, err := array.RecordFromJSON(heap, schema, strings.NewReader(`[
{"i":7,"u":3,"f":2.5,"p":"10.25","q":"1.50","s":"Hello","d":"1995-03-31","t":"1995-03-31T10:20:30.5Z","b":true,"z":"2024-07-01T02:00:00Z"},
{"i":-7,"u":0,"f":-0.5,"p":"-0.05","q":"99999999999999999999.99","s":"Grüße","d":"1996-02-29","t":"1969-12-31T23:59:59Z","b":false,"z":"2024-01-01T02:00:00Z"},
{"i":null,"u":null,"f":null,"p":null,"q":null,"s":null,"d":null,"t":null,"b":null,"z":null}]`))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func evalText(b arrow.RecordBatch, e Expr) (string, error) {
	bound, err := Bind(e, b.Schema())
	if err != nil {
		return "", err
	}
	a, err := bound.Eval(b)
	if err != nil {
		return "", err
	}
	defer a.Release()
	var out []string
	for i := range a.Len() {
		out = append(out, a.ValueStr(i))
	}
	return strings.Join(out, " | "), nil
}

func TestEval(t *testing.T) {
	b := sample(t)
	defer b.Release()
	c := Col
	for _, tc := range []struct {
		e    Expr
		want string
	}{
		{c("i").Add(1), "8 | -6 | (null)"}, {c("i").IntDiv(2), "3 | -3 | (null)"}, {c("i").Mod(3), "1 | -1 | (null)"},
		{c("i").IntDiv(0), "(null) | (null) | (null)"}, {c("i").Mod(c("u")), "1 | (null) | (null)"},
		{c("i").Div(2), "3.5 | -3.5 | (null)"}, {Lit(1).Sub(c("i")), "-6 | 8 | (null)"},
		{c("u").Add(1), "4 | 1 | (null)"},
		{c("f").Mul(c("i")), "17.5 | 3.5 | (null)"}, {c("f").Round(0), "3 | -1 | (null)"},
		{c("f").Floor(), "2 | -1 | (null)"},
		{c("f").Pow(2), "6.25 | 0.25 | (null)"}, {c("i").Abs().Sqrt().Round(3), "2.646 | 2.646 | (null)"},
		{c("i").Round(-1), "10 | -10 | (null)"},
		{c("p").Mul(c("p")), "105.0625 | 0.0025 | (null)"}, {c("p").Add(c("i")), "17.25 | -7.05 | (null)"},
		{Lit(1).Sub(c("p")), "-9.25 | 1.05 | (null)"}, {c("p").Round(1), "10.3 | -0.1 | (null)"},
		{c("p").Floor(), "10 | -1 | (null)"}, {c("p").Ceil(), "11 | 0 | (null)"},
		{c("p").Div(2), "5.125 | -0.025 | (null)"},
		{c("p").Mod(3), "1.25 | -0.05 | (null)"}, {c("q").Sub(c("p")), "-8.75 | 100000000000000000000.04 | (null)"},
		{c("q").Mul(2), "3 | 199999999999999999999.98 | (null)"}, {c("p").Mul(0.5), "5.125 | -0.025 | (null)"},
		{c("p").Neg(), "-10.25 | 0.05 | (null)"}, {c("q").Neg().Abs(), "1.5 | 99999999999999999999.99 | (null)"},
		// Comparisons: decimals with floats as they are written, with integers exactly.
		{c("p").Ge(-0.05), "true | true | (null)"}, {c("p").Gt(-0.05), "true | false | (null)"},
		{c("p").Eq(10.25), "true | false | (null)"}, {c("p").Lt(c("i")), "false | false | (null)"},
		{c("q").Gt(c("p")), "false | true | (null)"}, {c("p").In(10.25, 7, nil), "true | (null) | (null)"},
		{c("d").Ge("1995-03-31"), "true | true | (null)"}, {c("d").Lt("1995-03-31 00:00:01"), "true | false | (null)"},
		{c("t").Lt(c("d")), "false | true | (null)"}, {c("t").Ge("1970-01-01"), "true | false | (null)"},
		{c("d").In("1996-02-29", "2000-01-01"), "false | true | (null)"},
		{c("b").Eq(c("i").Gt(0)), "true | true | (null)"},
		{c("b").Or(Lit(nil)), "true | (null) | (null)"}, {c("b").And(Lit(nil)), "(null) | false | (null)"},
		{c("i").IsNull(), "false | false | true"}, {c("i").Add(1).NotNull(), "true | true | false"},
		// Choices.
		{If(c("b"), c("s"), "?"), "Hello | ? | ?"}, {If(c("b"), 1, nil), "1 | (null) | (null)"},
		{c("i").Coalesce(0), "7 | -7 | 0"}, {c("s").Coalesce(c("d").Cast(utf8Type), "none"), "Hello | Grüße | none"},
		{c("i").NullIf(7), "(null) | -7 | (null)"}, {c("b").Coalesce(true), "true | false | true"},
		{If(c("i").Gt(0), c("b"), c("b").Not()), "true | true | (null)"},
		{c("b").NullIf(false), "true | (null) | (null)"},
		// Texts.
		{c("s").Upper(), "HELLO | GRÜßE | (null)"}, {c("s").Lower(), "hello | grüße | (null)"},
		{c("s").Length(), "5 | 5 | (null)"},
		{c("s").Substring(2, 3), "ell | rüß | (null)"}, {c("s").Substring(-2, 2), "lo | ße | (null)"},
		{c("s").Substring(0, 2), "H | G | (null)"}, {c("s").Substring(c("i"), 9), " | Grüße | (null)"},
		{c("s").Concat("-", c("i")), "Hello-7 | Grüße--7 | (null)"}, {c("s").Like("_r_ße"), "false | true | (null)"},
		{c("s").Like("%l%o"), "true | false | (null)"}, {c("s").Contains("ll"), "true | false | (null)"},
		{c("s").Replace("l", "L"), "HeLLo | Grüße | (null)"},
		{Lit(" a ").Trim().Concat(c("s")), "aHello | aGrüße | (null)"},
		{c("s").StartsWith("G").Or(c("s").EndsWith("o")), "true | true | (null)"},
		// Times.
		{c("d").Year(), "1995 | 1996 | (null)"}, {c("t").Month(), "3 | 12 | (null)"},
		{c("t").Day(), "31 | 31 | (null)"},
		{c("t").Hour(), "10 | 23 | (null)"}, {c("t").Minute(), "20 | 59 | (null)"},
		{c("t").Second(), "30 | 59 | (null)"},
		{c("d").DayOfWeek(), "5 | 4 | (null)"}, {c("d").Truncate("month"), "1995-03-01 | 1996-02-01 | (null)"},
		{c("t").Truncate("hour").Cast(utf8Type), "1995-03-31 10:00:00 | 1969-12-31 23:00:00 | (null)"},
		{c("d").AddMonths(-1), "1995-02-28 | 1996-01-29 | (null)"},
		{c("d").AddDays(1), "1995-04-01 | 1996-03-01 | (null)"},
		{c("d").AddMonths(12), "1996-03-31 | 1997-02-28 | (null)"},
		{c("d").Sub(Lit("1995-03-01").Cast(date32Type)), "30 | 365 | (null)"},
		{c("t").DateDiff("day", "1995-01-01"), "89 | -9132 | (null)"},
		{c("d").DateDiff("month", c("t")), "0 | 314 | (null)"},
		{c("z").Hour(), "22 | 21 | (null)"}, {c("z").Day(), "30 | 31 | (null)"},
		{c("z").Truncate("day").Cast(utf8Type), "2024-06-30 04:00:00 | 2023-12-31 05:00:00 | (null)"},
		{c("z").Cast(date32Type), "2024-06-30 | 2023-12-31 | (null)"},
		// Conversions.
		{c("f").Cast(int64Type), "2 | 0 | (null)"}, {c("p").Cast(int64Type), "10 | 0 | (null)"},
		{c("i").Cast(dec(5, 2)), "7 | -7 | (null)"}, {c("f").Cast(dec(5, 1)).Cast(utf8Type), "2.5 | -0.5 | (null)"},
		{c("b").Cast(int64Type), "1 | 0 | (null)"}, {c("i").Cast(boolType), "true | true | (null)"},
		{c("f").Cast(utf8Type), "2.5 | -0.5 | (null)"}, {Lit(3.0).Cast(utf8Type), "3.0 | 3.0 | 3.0"},
		{c("s").TryCast(int64Type), "(null) | (null) | (null)"},
		{c("t").Cast(date32Type), "1995-03-31 | 1969-12-31 | (null)"},
		{c("q").Cast(float64Type), "1.5 | 1e+20 | (null)"}, {c("p").Cast(utf8Type), "10.25 | -0.05 | (null)"},
		{Lit(nil), "(null) | (null) | (null)"}, {Lit("x"), "x | x | x"},
		{TypedLit("1.50", dec(3, 2)), "1.5 | 1.5 | 1.5"},
	} {
		got, err := evalText(b, tc.e)
		if err != nil || got != tc.want {
			t.Errorf("%v: got %s, %v; want %s", tc.e, got, err, tc.want)
		}
	}
}

// Errors of evaluation name the expression with its columns, and the value.
func TestEvalErrors(t *testing.T) {
	b := sample(t)
	defer b.Release()
	c := Col
	for _, tc := range []struct {
		e    Expr
		want string
	}{
		{c("i").Mul(math.MaxInt64),
			"expr: i * 9223372036854775807: overflow of int64: 7 * 9223372036854775807; cast an"},
		{c("u").Sub(4), "u - 4: overflow of uint64: 3 - 4"}, {c("s").Cast(int64Type),
			`cast(s as int64): "Hello" cannot be converted to int64`},
		{c("f").Cast(arrow.PrimitiveTypes.Uint8).Add(c("i").Cast(arrow.PrimitiveTypes.Uint8)),
			"-7 cannot be converted to uint8"},
		{c("q").Mul(c("q")), "overflow of decimal(38, 4): 99999999999999999999.99 * 99999999999999999999.99"},
		{c("p").Cast(dec(3, 2)), "10.25 cannot be converted to decimal(3, 2)"},
		{c("d").AddDays(math.MaxInt64), "overflow of date32: 1995-03-31"},
		{c("d").AddMonths(1 << 50), "overflow"}, {c("s").Cast(date32Type), `"Hello" cannot be converted to date32`},
		{Lit(math.MinInt64).Neg().Add(c("i")), "overflow"}, {c("i").Mul(math.MinInt64).IntDiv(-1), "overflow"},
		{Lit("x").Cast(int64Type), `"x" cannot be converted to int64`},
	} {
		if got, err := evalText(b, tc.e); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v: got %s, %v; want %q", tc.e, got, err, tc.want)
		}
	}
	// Rows that another condition excludes, and branches that are not taken, do not fail.
	big := Lit(math.MaxInt64)
	for _, e := range []Expr{c("i").Lt(0).And(c("i").Add(big).Gt(0)), c("i").Gt(0).Or(c("i").Add(big).Gt(0)),
		If(c("i").Lt(0), c("i").Add(big), 0), c("i").NullIf(7).Add(big), Lit(1).Coalesce(c("s").Cast(int64Type))} {
		if _, err := evalText(b, e); err != nil {
			t.Errorf("%v: %v", e, err)
		}
	}
}

// Malformed data is an error, not a crash.
func TestMalformed(t *testing.T) {
	wide := array.NewDecimal128Builder(heap, &arrow.Decimal128Type{Precision: 38})
	if err := wide.AppendValueFromString("99999999999999999999999999"); err != nil {
		t.Fatal(err)
	}
	d := wide.NewArray().Data()
	small := array.NewData(dec(10, 0), 1, d.Buffers(), nil, 0, 0) // more digits than its type
	for _, tc := range []struct {
		a    arrow.Array
		e    Expr
		want string
	}{
		{array.MakeFromData(small), Col("x").Add(1),
			"x: value 99999999999999999999999999 has more digits than its type"},
	} {
		t1 := tc.a.DataType()
		b := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "x", Type: t1}}, nil), []arrow.Array{tc.a}, 1)
		if got, err := evalText(b, tc.e); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v: got %s, %v; want %q", tc.e, got, err, tc.want)
		}
	}
}

func TestFold(t *testing.T) {
	a := Col("a")
	for _, tc := range []struct {
		e    Expr
		want string
	}{
		{a.Add(Lit(1).Add(2)), "a + 3"}, {a.Eq(Lit("x").Upper()), `a == "X"`}, {Lit(true).And(a, Lit(1).Lt(2)), "a"},
		{a.And(Lit(1).Gt(2)), "false"}, {a.Or(Lit(1).Lt(2)), "true"},
		{Lit(nil).Add(1).Coalesce(a), "coalesce(null, a)"},
		{a.Lt(Lit("1998-12-01").AddDays(-90)), `a < "1998-09-02"`},
		{a.Mul(TypedLit("0.5", dec(2, 1)).Add(1)), "a * 1.5"},
		{Lit("x").Cast(int64Type).Add(a), `cast("x" as int64) + a`}, {Lit(1).Add(2).As("n"), "3 as n"},
	} {
		got := Fold(tc.e)
		if got.String() != tc.want {
			t.Errorf("%v: got %v, want %s", tc.e, got, tc.want)
		}
	}
	day := Fold(Lit("1998-12-01").AddMonths(1))
	if b, err := Bind(day, noColumns); err != nil || b.Type().ID() != arrow.DATE32 {
		t.Errorf("%v: got %v, %v, want a date32", day, b.Type(), err)
	}
	b, err := Bind(Lit(2).Mul(21), noColumns)
	if v, ok := b.Constant(); err != nil || !ok || v != int64(42) {
		t.Errorf("constant: got %v, %v, %v", v, ok, err)
	}
}

// One Bound serves several goroutines.
func TestConcurrent(t *testing.T) {
	batch := randomBatch(3*chunkRows, 0.2, 1)
	defer batch.Release()
	b, err := Bind(If(Col("i8").Gt(0), Col("s").Upper(), Col("sl").Concat(Col("i8"))), batch.Schema())
	if err != nil {
		t.Fatal(err)
	}
	want, err := b.Eval(batch)
	if err != nil {
		t.Fatal(err)
	}
	errs := make(chan error)
	for range 4 {
		go func() {
			for range 20 {
				got, err := b.Eval(batch)
				if err == nil && !array.Equal(got, want) {
					err = fmt.Errorf("another result")
				}
				if err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range 4 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}
