package frame

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"go.millstream.dev/frame/internal/expr"
)

// kinds returns a batch with a column of every type that can be compared, and some that cannot.
func kinds(t *testing.T) arrow.RecordBatch {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "i8", Type: arrow.PrimitiveTypes.Int8}, {Name: "u64", Type: arrow.PrimitiveTypes.Uint64}, {Name: "i64",
			Type: arrow.PrimitiveTypes.Int64},
		{Name: "f32", Type: arrow.PrimitiveTypes.Float32}, {Name: "f64", Type: arrow.PrimitiveTypes.Float64,
			Nullable: true}, {Name: "b", Type: arrow.FixedWidthTypes.Boolean},
		{Name: "s", Type: arrow.BinaryTypes.String}, {Name: "ls", Type: arrow.BinaryTypes.LargeString}, {Name: "bin",
			Type: arrow.BinaryTypes.Binary},
		{Name: "ts", Type: arrow.FixedWidthTypes.Timestamp_ms}, {Name: "d", Type: arrow.FixedWidthTypes.Date32},
		{Name: "list", Type: arrow.ListOf(arrow.PrimitiveTypes.Int16)},
	}, nil)
	b, _, err := array.RecordFromJSON(heap, schema, strings.NewReader(`[
 {"i8":-5,"u64":1,"i64":9007199254740993,"f32":0.5,"f64":null,"b":true,"s":"a","ls":"x","bin":"YQ==","ts":"2020-01-01T00:00:00Z","d":"2020-01-01","list":[1]},
 {"i8":0,"u64":18446744073709551615,"i64":9007199254740992,"f32":1.5,"f64":2,"b":false,"s":"b","ls":"y","bin":"Yg==","ts":"2021-01-01T00:00:00Z","d":"2021-01-01","list":null},
 {"i8":5,"u64":7,"i64":-1,"f32":-2,"f64":3,"b":true,"s":"c","ls":"z","bin":"Yw==","ts":"2022-01-01T00:00:00Z","d":"2022-01-01","list":[2,3]},
 {"i8":127,"u64":0,"i64":0,"f32":0,"f64":-1,"b":false,"s":"","ls":"","bin":"","ts":"1969-12-31T00:00:00Z","d":"1969-12-31","list":[]}]`))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestExpressions(t *testing.T) {
	b := kinds(t)
	year := func(n int) time.Time { return time.Date(n, 1, 1, 0, 0, 0, 0, time.UTC) }
	for _, tc := range []struct {
		e    Expr
		rows string
	}{
		{Col("i8").Gt(0), "2 3"}, {Col("i8").Ge(0), "1 2 3"}, {Col("i8").Lt(int8(0)), "0"}, {Col("i8").Le(0),
			"0 1"}, {Col("i8").Eq(5), "2"}, {Col("i8").Ne(5), "0 1 3"},
		// Constants outside of the type, and between its values.
		{Col("i8").Lt(1000), "0 1 2 3"}, {Col("i8").Gt(-1000), "0 1 2 3"}, {Col("i8").Eq(261), ""}, {Col("i8").Gt(4.5),
			"2 3"}, {Col("i8").Gt(math.Inf(1)), ""}, {Col("i8").Ne(math.NaN()), "0 1 2 3"},
		{Col("u64").Gt(-1), "0 1 2 3"}, {Col("u64").Eq(uint64(math.MaxUint64)), "1"}, {Col("u64").Lt(2), "0 3"},
		{Col("i64").Gt(float64(1 << 53)), "0"}, {Col("i64").Eq(float64(1 << 53)),
			"1"}, {Col("i64").Eq(uint64(math.MaxUint64)), ""},
		{Col("f32").Ge(0.5), "0 1"}, {Col("f64").Gt(-5), "1 2 3"}, {Col("f64").Ne(2), "2 3"}, {Col("f64").Eq(2),
			"1"}, {Col("f64").Lt(math.NaN()), ""},
		{Col("f64").IsNull(), "0"}, {Col("f64").NotNull(), "1 2 3"}, {Col("f64").Gt(2).Not(), "1 3"},
		{Col("b").Eq(true), "0 2"}, {Col("b").Lt(true), "1 3"},
		{Col("s").Ge("b"), "1 2"}, {Col("ls").Eq("z"), "2"}, {Col("bin").Gt([]byte("a")),
			"1 2"}, {Col("s").In("a", "c", "q"), "0 2"}, {Col("s").In(), ""},
		{Col("ts").Gt(year(2020)), "1 2"}, {Col("d").Le(year(2020)), "0 3"}, {Col("i8").Between(-5, 5), "0 1 2"},
		// A null is neither true nor false: or keeps rows that are true anyway, and drops those that are false anyway.
		{Col("f64").Gt(0).Or(Col("i8").Lt(0)), "0 1 2"}, {Col("f64").Gt(0).And(Col("i8").Lt(0)).Not(),
			"1 2 3"}, {Col("list").NotNull().And(Col("b").Eq(true)), "0 2"},
	} {
		got, err := Select(b, tc.e)
		if err != nil {
			t.Errorf("%v: %v", tc.e, err)
			continue
		}
		var want []string
		for _, r := range strings.Fields(tc.rows) {
			var n int
			fmt.Sscan(r, &n)
			want = append(want, fmt.Sprint(b.Column(0).ValueStr(n), b.Column(6).ValueStr(n), b.Column(11).ValueStr(n)))
		}
		var have []string
		for n := range int(got.NumRows()) {
			have = append(have, fmt.Sprint(got.Column(0).ValueStr(n), got.Column(6).ValueStr(n),
				got.Column(11).ValueStr(n)))
		}
		if strings.Join(have, "|") != strings.Join(want, "|") {
			t.Errorf("%v: got rows %v, want %v", tc.e, have, want)
		}
		if err := array.ValidateRecordFull(got); err != nil {
			t.Errorf("%v: %v", tc.e, err)
		}
	}
	for _, tc := range []struct {
		e    Expr
		text string
	}{
		{Col("s").Eq(1), `s == 1: cannot compare utf8 with int64`}, {Col("list").Eq(1), "list"},
		{Col("i8").Eq("x"), `i8 == "x"`}, {Col("i8").Eq(struct{}{}), "struct"},
		{Col("none").IsNull(), `no column "none"`}, {Expr{Op: "sounds like"},
			`unknown operation "sounds like"`}, {Expr{Op: expr.OpNot}, "0 operands"}, {Col("i8"), "not bool"},
	} {
		if _, err := Select(b, tc.e); err == nil || !strings.Contains(err.Error(), tc.text) {
			t.Errorf("%v: %v", tc.e, err)
		}
	}
	deep := Col("i8").Eq(1)
	for range 500 {
		deep = deep.Not()
	}
	if _, err := Select(b, deep); err == nil || !strings.Contains(err.Error(), "nested") {
		t.Errorf("deep expression: got %v", err)
	}
	if got := Col("a").Gt(1).And(Col("b").Eq("x").Not(),
		Col("c").IsNull()).String(); got != `(a > 1 and not b == "x" and c is null)` {
		t.Errorf("text %s", got)
	}
}

// Rows are taken correctly from columns of every width and from slices, scattered or consecutive.
func TestTake(t *testing.T) {
	b := batchOf(0, 300)
	part := b.NewSlice(37, 290)
	defer part.Release()
	for name, e := range map[string]Expr{"apart": Col("ok").Eq(false), "together": Col("id").Between(50, 200),
		"few": Col("id").In(99, 250), "none": Col("id").Lt(0)} {
		got, err := Select(part, e)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		ids := got.Column(0).(*array.Int64)
		for i := range int(got.NumRows()) {
			want := batchOf(int(ids.Value(i)), int(ids.Value(i))+1)
			one := got.NewSlice(int64(i), int64(i)+1)
			if !array.RecordEqual(one, want) {
				t.Fatalf("%s, row %d: got %v, want %v", name, i, one, want)
			}
			one.Release()
		}
		got.Release()
	}
}
