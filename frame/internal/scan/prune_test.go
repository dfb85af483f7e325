package scan

import (
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"go.millstream.dev/frame/internal/parquet"
)

// TestExcludes: a condition excludes a part of a file only if no value between the bounds fulfills it.
func TestExcludes(t *testing.T) {
	i64, f64, f32, text := arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Float64, arrow.PrimitiveTypes.Float32,
		arrow.BinaryTypes.String
	date := arrow.FixedWidthTypes.Date32
	dec := &arrow.Decimal128Type{Precision: 15, Scale: 2}
	day := func(n int) time.Time { return time.Unix(int64(n)*86400, 0).UTC() }
	num := decimal128.FromI64
	for _, c := range []struct {
		t        arrow.DataType
		min, max any
		op       Op
		v        any
		want     bool
	}{
		{i64, int64(10), int64(20), Eq, int64(9), true}, {i64, int64(10), int64(20), Eq, int64(10), false},
		{i64, int64(10), int64(20), Eq, int64(21), true}, {i64, int64(10), int64(20), Lt, int64(10), true},
		{i64, int64(10), int64(20), Lt, int64(11), false}, {i64, int64(10), int64(20), Le, int64(10), false},
		{i64, int64(10), int64(20), Le, int64(9), true}, {i64, int64(10), int64(20), Gt, int64(20), true},
		{i64, int64(10), int64(20), Gt, int64(19), false}, {i64, int64(10), int64(20), Ge, int64(20), false},
		{i64, int64(10), int64(20), Ge, int64(21), true}, {i64, int64(10), int64(20), Ne, int64(10), false},
		{i64, int64(10), int64(10), Ne, int64(10), true}, {i64, int64(10), int64(20), Eq, "x", false},
		{i64, nil, nil, Eq, int64(1), false}, {i64, int64(10), nil, Gt, int64(99), false},
		{i64, int64(10), int64(20), Gt, 20.0, false}, // equal after rounding
		{i64, int64(10), int64(20), Gt, 20.5, true}, {i64, int64(10), int64(20), Eq, math.NaN(), false},
		{i64, int64(10), int64(20), Eq, uint64(math.MaxUint64), true},
		{arrow.PrimitiveTypes.Uint64, uint64(1 << 63), uint64(math.MaxUint64), Lt, int64(5), true},
		{i64, int64(10), int64(20), In, []any{int64(1), int64(30)}, true},
		{i64, int64(10), int64(20), In, []any{int64(1), int64(15)}, false}, {i64, int64(1), int64(2), In, "x", false},
		{f64, 1.0, 2.0, Lt, 1.0, true}, {f64, 1.0, 2.0, Eq, 3.0, true}, {f64, 1.0, 2.0, Eq, int64(3), true},
		{f64, 1.0, 2.0, Gt, 5.0, false}, {f64, 1.0, 2.0, Ge, 5.0, false}, {f64, 1.0, 1.0, Ne, 1.0, false}, // NaN
		{f64, math.Copysign(0, -1), 0.0, Eq, 0.0, false},
		{f32, float64(float32(0.1)), float64(float32(0.1)), Eq, 0.1, false},
		{f32, float64(float32(0.1)), float64(float32(0.1)), Eq, 0.2, true},
		{text, "b", "d", Eq, "a", true}, {text, "b", "d", Eq, "c", false}, {text, "b", "d", Ge, "da", true},
		{text, "b", "d", Lt, "b", true}, {arrow.BinaryTypes.Binary, "b", "d", Eq, []byte("z"), true},
		{date, int64(10), int64(20), Lt, day(10), true}, {date, int64(10), int64(20), Ge, day(21), true},
		{date, int64(10), int64(20), Eq, day(15), false}, {date, int64(10), int64(20), Gt, day(20).Add(1), true},
		{&arrow.TimestampType{Unit: arrow.Millisecond}, int64(1000), int64(2000), Gt, time.Unix(2, 0), true},
		{&arrow.TimestampType{Unit: arrow.Millisecond}, int64(1000), int64(2000), Ge, time.Unix(2, 0), false},
		{&arrow.TimestampType{Unit: arrow.Millisecond}, int64(1000), int64(2000), Ge, int64(7), false},
		{dec, num(500), num(700), Lt, Decimal{Lo: 5}, true}, {dec, num(500), num(700), Le, Decimal{Lo: 5}, false},
		{dec, num(500), num(700), Ge, Decimal{Lo: 7001, Scale: 3}, true}, {dec, num(500), num(700), Eq, int64(8), true},
		{dec, num(500), num(700), Gt, 7.0, false}, {dec, num(500), num(700), Gt, 7.01, true},
		{dec, num(-500), num(-300), Gt, Decimal{Hi: -1, Lo: uint64(math.MaxUint64)}, true},
		{arrow.FixedWidthTypes.Boolean, false, false, Eq, true, true},
		{arrow.FixedWidthTypes.Boolean, false, true, Eq, true, false},
	} {
		s := parquet.Stats{Min: c.min, Max: c.max, Nulls: 3, Rows: 10}
		if got := (Cond{Column: "x", Op: c.op, Value: c.v}).excludes(c.t, s); got != c.want {
			t.Errorf("%v to %v %s %v: got %v, want %v", c.min, c.max, c.op, c.v, got, c.want)
		}
	}
	for _, c := range []struct {
		nulls int64
		op    Op
		want  bool
	}{
		{0, IsNull, true}, {1, IsNull, false}, {-1, IsNull, false}, {10, NotNull, true}, {9, NotNull, false},
		{-1, NotNull, false}, {10, Eq, true}, {10, Ne, true},
	} {
		s := parquet.Stats{Nulls: c.nulls, Rows: 10}
		if got := (Cond{Column: "x", Op: c.op, Value: int64(1)}).excludes(i64, s); got != c.want {
			t.Errorf("%d nulls of 10, %s: got %v, want %v", c.nulls, c.op, got, c.want)
		}
	}
}

// TestPruned: row groups without rows of interest are not read, and no others are left out.
func TestPruned(t *testing.T) {
	b := array.NewRecordBuilder(heap, arrow.NewSchema([]arrow.Field{
		{Name: "n", Type: arrow.PrimitiveTypes.Int64}, {Name: "s", Type: arrow.BinaryTypes.String,
			Nullable: true}}, nil))
	for i := range 1000 {
		b.Field(0).(*array.Int64Builder).Append(int64(i))
		b.Field(1).(*array.StringBuilder).Append(string(rune('a' + i/100)))
	}
	path := filepath.Join(t.TempDir(), "x.parquet")
	if _, err := WriteParquet(b.NewRecordBatch(), path, parquet.WriteOptions{GroupRows: 100}); err != nil {
		t.Fatal(err)
	}
	src, err := Open(t.Context(), path, Options{SplitBytes: -1})
	if err != nil || len(src.Splits) != 1 || src.Rows != 1000 || src.Splits[0].Rows != 1000 {
		t.Fatalf("got %+v, %v", src, err)
	}
	for _, c := range []struct {
		conds []Cond
		want  int64
	}{
		{nil, 1000}, {[]Cond{{"n", Lt, int64(100)}}, 100}, {[]Cond{{"n", Le, int64(100)}}, 200},
		{[]Cond{{"n", Ge, int64(150)}, {"n", Lt, int64(250)}}, 200}, {[]Cond{{"s", Eq, "c"}}, 100},
		{[]Cond{{"s", Eq, "c"}, {"n", Gt, int64(500)}}, 0}, {[]Cond{{"s", IsNull, nil}}, 0},
		{[]Cond{{"none", Eq, "c"}}, 1000}, {[]Cond{{"s", In, []any{"a", "j"}}}, 200},
	} {
		got, err := wholeOf(src.Splits[0], ReadOptions{Prune: c.conds, Columns: []string{"n"}})
		if err != nil || got.NumRows() != c.want {
			t.Errorf("%v: got %v rows, %v, want %d", c.conds, got, err, c.want)
		}
	}
}
