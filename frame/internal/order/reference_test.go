package order

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"sort"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"pgregory.net/rapid"

	"go.millstream.dev/frame/internal/vec"
)

var sortTypes = []arrow.DataType{
	arrow.FixedWidthTypes.Boolean, arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Int32,
	arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Uint64, arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64,
	arrow.FixedWidthTypes.Date32, arrow.FixedWidthTypes.Timestamp_us, &arrow.Decimal128Type{Precision: 12, Scale: 2},
	&arrow.Decimal128Type{Precision: 38, Scale: 2}, arrow.BinaryTypes.String, arrow.BinaryTypes.Binary,
	arrow.BinaryTypes.LargeString, &arrow.FixedSizeBinaryType{ByteWidth: 9},
}

// appendValue appends a value of the type for a number: few values for small numbers, limits and special ones among
// them.
func appendValue(b array.Builder, v int, wide bool) {
	n := int64(v) - 5
	if wide {
		n = []int64{math.MinInt64, math.MaxInt64, -1, 0, 1, n << 40, n << 20}[v%7]
	}
	switch b := b.(type) {
	case *array.BooleanBuilder:
		b.Append(v%2 == 0)
	case *array.Int8Builder:
		b.Append(int8(n))
	case *array.Uint16Builder:
		b.Append(uint16(n))
	case *array.Int32Builder:
		b.Append(int32(n))
	case *array.Int64Builder:
		b.Append(n)
	case *array.Uint64Builder:
		b.Append(uint64(n))
	case *array.Float32Builder:
		b.Append([]float32{0, float32(math.Copysign(0, -1)), 1, float32(math.NaN()), -2.5, float32(v),
			float32(math.Inf(1))}[v%7])
	case *array.Float64Builder:
		b.Append([]float64{0, math.Copysign(0, -1), 1, math.NaN(), math.Float64frombits(0xfff8000000000001), -2.5,
			float64(-v), math.Inf(-1), math.Inf(1)}[v%9])
	case *array.Date32Builder:
		b.Append(arrow.Date32(n))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(n))
	case *array.Decimal128Builder:
		d := decimal128.FromI64(n)
		if wide && b.Type().(*arrow.Decimal128Type).Precision > 18 {
			d = d.Mul(decimal128.FromI64(1 << 40))
		}
		b.Append(d)
	case *array.FixedSizeBinaryBuilder:
		b.Append([]byte(fmt.Sprintf("common%03d", v)))
	case *array.BinaryBuilder:
		b.Append([]byte(text(v, wide)))
	case array.StringLikeBuilder:
		b.Append(text(v, wide))
	default:
		panic(fmt.Sprintf("no values of type %v", b.Type()))
	}
}

// text returns texts of many lengths, zeros among their bytes; wide ones have a prefix in common.
func text(v int, wide bool) string {
	s := strings.Repeat("a\x00b", v%5)[:v*3%(v%5*3+1)] + strings.Repeat("\x00", v%3) + string(rune('a'+v%4))
	if v%11 == 0 {
		s = s[:0]
	}
	if wide {
		return "a prefix of thirty-one bytes..." + s
	}
	return s
}

// table is batches of rows and their concatenation.
type table struct {
	schema  *arrow.Schema
	batches []arrow.RecordBatch
	whole   arrow.RecordBatch
}

// drawTable draws batches with columns of some types and a last column of the numbers of rows.
func drawTable(t *rapid.T, types []arrow.DataType, most int) table {
	fields := make([]arrow.Field, len(types)+1)
	for i, dt := range types {
		fields[i] = arrow.Field{Name: fmt.Sprintf("c%d", i), Type: dt, Nullable: true}
	}
	fields[len(types)] = arrow.Field{Name: "row", Type: arrow.PrimitiveTypes.Int64}
	schema := arrow.NewSchema(fields, nil)
	distinct := rapid.SampledFrom([]int{1, 4, 40}).Draw(t, "distinct")
	nulls := rapid.SampledFrom([]int{0, 0, 4}).Draw(t, "nulls")
	wide := rapid.Bool().Draw(t, "wide")
	var batches []arrow.RecordBatch
	row := int64(0)
	for range rapid.IntRange(0, 4).Draw(t, "batches") {
		b := array.NewRecordBuilder(memory.NewGoAllocator(), schema)
		n := rapid.IntRange(0, most).Draw(t, "rows")
		for range n {
			for c := range types {
				if nulls > 0 && rapid.IntRange(0, nulls).Draw(t, "null") == 0 {
					b.Field(c).AppendNull()
				} else {
					appendValue(b.Field(c), rapid.IntRange(0, distinct-1).Draw(t, "value"), wide)
				}
			}
			b.Field(len(types)).(*array.Int64Builder).Append(row)
			row++
		}
		batch := b.NewRecordBatch()
		if rapid.Bool().Draw(t, "sliced") && n > 0 {
			lo := rapid.IntRange(0, n).Draw(t, "from")
			batch = batch.NewSlice(int64(lo), int64(rapid.IntRange(lo, n).Draw(t, "to")))
		}
		batches = append(batches, batch)
	}
	whole, err := vec.Concat(schema, batches)
	if err != nil {
		t.Fatal(err)
	}
	return table{schema, batches, whole}
}

func drawKeys(t *rapid.T, columns int) []SortKey {
	keys := make([]SortKey, columns)
	for i := range keys {
		keys[i] = SortKey{i, rapid.Bool().Draw(t, "desc"), rapid.Bool().Draw(t, "nulls first")}
	}
	return keys
}

func drawTypes(t *rapid.T, least int) []arrow.DataType {
	return rapid.SliceOfN(rapid.SampledFrom(sortTypes), least, 3).Draw(t, "types")
}

// compareValues compares values that are not null.
func compareValues(a arrow.Array, i, j int) int {
	switch a := a.(type) {
	case *array.Boolean:
		return strings.Compare(a.ValueStr(i), a.ValueStr(j))
	case *array.Float32:
		return compareFloats(float64(a.Value(i)), float64(a.Value(j)))
	case *array.Float64:
		return compareFloats(a.Value(i), a.Value(j))
	case *array.Int8:
		return cmp.Compare(a.Value(i), a.Value(j))
	case *array.Uint16:
		return cmp.Compare(a.Value(i), a.Value(j))
	case *array.Int32:
		return cmp.Compare(a.Value(i), a.Value(j))
	case *array.Int64:
		return cmp.Compare(a.Value(i), a.Value(j))
	case *array.Uint64:
		return cmp.Compare(a.Value(i), a.Value(j))
	case *array.Date32:
		return cmp.Compare(a.Value(i), a.Value(j))
	case *array.Timestamp:
		return cmp.Compare(a.Value(i), a.Value(j))
	case *array.Decimal128:
		return a.Value(i).Cmp(a.Value(j))
	case *array.FixedSizeBinary:
		return bytes.Compare(a.Value(i), a.Value(j))
	case *array.Binary:
		return bytes.Compare(a.Value(i), a.Value(j))
	case array.StringLike:
		return strings.Compare(a.Value(i), a.Value(j))
	}
	panic(fmt.Sprintf("no order of %T", a))
}

// compareFloats has NaN above all.
func compareFloats(a, b float64) int {
	if math.IsNaN(a) || math.IsNaN(b) {
		return -cmp.Compare(btoi(!math.IsNaN(a)), btoi(!math.IsNaN(b)))
	}
	return cmp.Compare(a, b)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func compareRowsOf(b arrow.RecordBatch, keys []SortKey, i, j int) int {
	for _, k := range keys {
		a := b.Column(k.Col)
		c := 0
		switch x, y := a.IsNull(i), a.IsNull(j); {
		case x && y:
			continue
		case x || y:
			if c = -1; x != k.NullsFirst {
				c = 1
			}
		default:
			if c = compareValues(a, i, j); k.Desc {
				c = -c
			}
		}
		if c != 0 {
			return c
		}
	}
	return 0
}

// sortedRows returns the numbers of rows in order.
func sortedRows(b arrow.RecordBatch, keys []SortKey) []int {
	rows := make([]int, b.NumRows())
	for i := range rows {
		rows[i] = i
	}
	sort.SliceStable(rows, func(i, j int) bool { return compareRowsOf(b, keys, rows[i], rows[j]) < 0 })
	return rows
}

// lines returns rows of a batch as text.
func lines(b arrow.RecordBatch, rows []int) []string {
	out := make([]string, len(rows))
	for i, r := range rows {
		var s []string
		for _, c := range b.Columns() {
			if c.IsNull(r) {
				s = append(s, "null")
			} else {
				s = append(s, fmt.Sprintf("%q", c.ValueStr(r)))
			}
		}
		out[i] = strings.Join(s, ",")
	}
	return out
}

func allRows(n int64) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// tester is what tests and property tests have in common.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

func compareLines(t tester, got, want []string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			from := max(i-2, 0)
			t.Fatalf("%d rows, want %d; from row %d: got %q, want %q", len(got), len(want), from,
				got[min(from, len(got)):min(i+3, len(got))], want[min(from, len(want)):min(i+3, len(want))])
		}
	}
}
