package group

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"pgregory.net/rapid"

	"go.millstream.dev/frame/internal/vec"
)

// keyTypes are types of keys; most aggregates are defined for them, too.
var keyTypes = []arrow.DataType{
	arrow.FixedWidthTypes.Boolean, arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int32,
	arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Uint8, arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Uint32,
	arrow.PrimitiveTypes.Uint64, arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64, arrow.BinaryTypes.String,
	arrow.BinaryTypes.LargeString, arrow.BinaryTypes.Binary, arrow.BinaryTypes.StringView, arrow.FixedWidthTypes.Date32,
	arrow.FixedWidthTypes.Timestamp_us, &arrow.Decimal128Type{Precision: 30, Scale: 2},
	&arrow.FixedSizeBinaryType{ByteWidth: 20}, arrow.Null,
	&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String},
}

// appendValue appends a value that is a function of v.
func appendValue(b array.Builder, v int) {
	text := fmt.Sprint("k", v)
	if v%3 == 0 {
		text = strings.Repeat("long", v%7) + text
	}
	switch b := b.(type) {
	case *array.BooleanBuilder:
		b.Append(v&1 == 1)
	case *array.Int8Builder:
		b.Append(int8(v))
	case *array.Int16Builder:
		b.Append(int16(v*100 - 20))
	case *array.Int32Builder:
		b.Append(int32(v*1e5 - 20))
	case *array.Int64Builder:
		switch v {
		case 0:
			b.Append(math.MinInt32)
		default:
			b.Append(int64(v)*1e10 - 20)
		}
	case *array.Uint8Builder:
		b.Append(uint8(v))
	case *array.Uint16Builder:
		b.Append(uint16(v * 1000))
	case *array.Uint32Builder:
		b.Append(uint32(v * 1e7))
	case *array.Uint64Builder:
		b.Append(uint64(v) * 1e15)
	case *array.Float32Builder:
		b.Append([]float32{0, float32(math.Copysign(0, -1)), 1.5, -7, 2.25}[v%5])
	case *array.Float64Builder:
		b.Append(float64(v)/4 - 3)
	case *array.StringBuilder:
		b.Append(text)
	case *array.LargeStringBuilder:
		b.Append(text)
	case *array.BinaryBuilder:
		b.Append([]byte(text))
	case *array.StringViewBuilder:
		b.Append(text)
	case *array.Date32Builder:
		b.Append(arrow.Date32(v))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(v * 1e12))
	case *array.FixedSizeBinaryBuilder:
		b.Append([]byte(fmt.Sprintf("%020d", v)))
	case *array.Decimal128Builder:
		b.Append(decimal128.FromI64(int64(v)*1e15 - 7))
	case *array.NullBuilder:
		b.AppendNull()
	case *array.BinaryDictionaryBuilder:
		if err := b.AppendString(text); err != nil {
			panic(err)
		}
	default:
		panic(fmt.Sprintf("no values for %T", b))
	}
}

// randomBatch returns rows with a column of each type, as a slice of a longer batch.
func randomBatch(types []arrow.DataType, n, distinct int, nulls float64, seed uint64) arrow.RecordBatch {
	rng := rand.New(rand.NewPCG(seed, 11))
	fields := make([]arrow.Field, len(types))
	for i, t := range types {
		fields[i] = arrow.Field{Name: fmt.Sprintf("c%d", i), Type: t, Nullable: true}
	}
	b := array.NewRecordBuilder(heap, arrow.NewSchema(fields, nil))
	defer b.Release()
	lead := rng.IntN(20)
	for range lead + n + 1 {
		for _, f := range b.Fields() {
			if rng.Float64() < nulls {
				f.AppendNull()
			} else {
				appendValue(f, rng.IntN(distinct))
			}
		}
	}
	whole := b.NewRecordBatch()
	defer whole.Release()
	return whole.NewSlice(int64(lead), int64(lead+n))
}

// specsOf returns all aggregates that are defined for the columns.
func specsOf(s *arrow.Schema) []Spec {
	out := []Spec{{Func: CountAll, Name: "rows"}}
	for i, f := range s.Fields() {
		for fn := Count; fn <= CollectList; fn++ {
			spec := Spec{Func: fn, Column: i, Name: fmt.Sprintf("%v(%s)", fn, f.Name), Q: 0.3}
			if fn == ApproxQuantile {
				continue // tested on its own
			}
			if _, err := newHolders(s, []Spec{spec}, Complete, false); err == nil {
				out = append(out, spec)
			}
		}
	}
	return out
}

// parts divides a batch into slices.
func parts(t *rapid.T, b arrow.RecordBatch) []arrow.RecordBatch {
	var out []arrow.RecordBatch
	for from := int64(0); from < b.NumRows(); {
		to := min(b.NumRows(), from+rapid.Int64Range(0, b.NumRows()).Draw(t, "rows"))
		out = append(out, b.NewSlice(from, to))
		from = to
	}
	return out
}

// run groups batches.
func run(t tester, in *arrow.Schema, keys []int, specs []Spec, mode Mode,
	batches ...arrow.RecordBatch) arrow.RecordBatch {
	t.Helper()
	g, err := New(in, keys, specs, mode)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range batches {
		if err := g.Add(b); err != nil {
			t.Fatal(err)
		}
	}
	if g.Bytes() < 0 {
		t.Fatalf("Bytes: got %d", g.Bytes())
	}
	out, err := g.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if !out.Schema().Equal(g.Schema()) {
		t.Fatalf("schema of the result: got %v, want %v", out.Schema(), g.Schema())
	}
	for i, c := range out.Columns() {
		if !arrow.TypeEqual(c.DataType(), g.Schema().Field(i).Type) || c.Len() != int(out.NumRows()) {
			t.Fatalf("column %d: got %d of %v, want %d of %v", i, c.Len(), c.DataType(), out.NumRows(),
				g.Schema().Field(i).Type)
		}
	}
	return out
}

// TestModes compares results of all modes with the reference, for random keys, nulls, batches and splits.
func TestModes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var types []arrow.DataType
		var keys []int
		for i := range rapid.IntRange(0, 4).Draw(t, "keys") {
			types = append(types, rapid.SampledFrom(keyTypes).Draw(t, "key"))
			keys = append(keys, i)
		}
		for range rapid.IntRange(0, 2).Draw(t, "values") {
			types = append(types, rapid.SampledFrom(keyTypes).Draw(t, "value"))
		}
		nulls := rapid.SampledFrom([]float64{0, 0.2, 1}).Draw(t, "nulls")
		b := randomBatch(types, rapid.IntRange(0, 150).Draw(t, "rows"), rapid.SampledFrom([]int{2, 30, 120}).
			Draw(t, "distinct"), nulls, rapid.Uint64().Draw(t, "seed"))
		specs := specsOf(b.Schema())
		if rapid.IntRange(0, 4).Draw(t, "aggregates") == 0 {
			specs = nil
		}
		want := reference(b, keys, specs)
		equalLines(t, "complete", lines(run(t, b.Schema(), keys, specs, Complete, parts(t, b)...)), want)

		var states []arrow.RecordBatch
		for i, p := range parts(t, b) {
			g, err := New(b.Schema(), keys, specs, Partial)
			if err != nil {
				t.Fatal(err)
			}
			if err := g.SetPosition(i, 5); err != nil {
				t.Fatal(err)
			}
			for _, q := range parts(t, p) {
				if len(keys) > 0 && rapid.Bool().Draw(t, "states") {
					s, err := g.States(q)
					if err != nil {
						t.Fatal(err)
					}
					states = append(states, s)
				} else if err := g.Add(q); err != nil {
					t.Fatal(err)
				}
			}
			s, err := g.Finish()
			if err != nil {
				t.Fatal(err)
			}
			states = append(states, s)
		}
		// Lists are in the order of the states, which is not that of the rows.
		got := lines(run(t, b.Schema(), keys, specs, Final, states...))
		equalLines(t, "final", sortLists(got), sortLists(want))
		if len(states) > 1 {
			cut := rapid.IntRange(0, len(states)).Draw(t, "cut")
			one := run(t, b.Schema(), keys, specs, Merge, states[:cut]...)
			two := run(t, b.Schema(), keys, specs, Merge, states[cut:]...)
			got = lines(run(t, b.Schema(), keys, specs, Final, two, one))
			equalLines(t, "merged", sortLists(got), sortLists(want))
		}
	})
}

// sortLists returns lines with the elements of lists in order.
func sortLists(in []string) []string {
	out := make([]string, len(in))
	for i, line := range in {
		fields := strings.Split(line, "|")
		for j, f := range fields {
			if strings.HasPrefix(f, "[") {
				words := strings.Fields(strings.Trim(f, "[]"))
				fields[j] = fmt.Sprint(sorted(words))
			}
		}
		out[i] = strings.Join(fields, "|")
	}
	return sorted(out)
}

// TestPartitioned divides states by the hash of the keys, and requires that the results of the buckets are the result.
func TestPartitioned(t *testing.T) {
	types := []arrow.DataType{arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Float64}
	b := randomBatch(types, 3000, 50, 0.1, 1)
	specs := specsOf(b.Schema())
	states := run(t, b.Schema(), []int{0, 1}, specs, Partial, b)
	buckets, err := vec.Partition(states, []int{0, 1}, 5)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range buckets {
		got = append(got, lines(run(t, b.Schema(), []int{0, 1}, specs, Final, p))...)
	}
	equalLines(t, "buckets", sorted(got), reference(b, []int{0, 1}, specs))
}
