package order

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/frame/internal/vec"
)

// numbersArray returns an array of int64, or of float64 for floats.
func numbersArray[T int64 | float64](values []T) arrow.Array {
	var zero T
	t := arrow.DataType(arrow.PrimitiveTypes.Int64)
	if _, ok := any(zero).(float64); ok {
		t = arrow.PrimitiveTypes.Float64
	}
	return vec.Make(t, len(values), 0, []*memory.Buffer{nil, vec.Buffer(values)})
}

func generate[T any](n int, f func(i int) T) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = f(i)
	}
	return out
}

// benchTable returns batches of columns and a last column with the numbers of rows.
func benchTable(columns ...arrow.Array) (*arrow.Schema, []arrow.RecordBatch) {
	n := columns[0].Len()
	columns = append(columns, numbersArray(generate(n, func(i int) int64 { return int64(i) })))
	fields := make([]arrow.Field, len(columns))
	for i, c := range columns {
		fields[i] = arrow.Field{Name: fmt.Sprint("c", i), Type: c.DataType()}
	}
	schema := arrow.NewSchema(fields, nil)
	whole := array.NewRecordBatch(schema, columns, int64(n))
	var batches []arrow.RecordBatch
	for lo := 0; lo < n; lo += 1_000_000 {
		batches = append(batches, whole.NewSlice(int64(lo), int64(min(lo+1_000_000, n))))
	}
	return schema, batches
}

func report(b *testing.B, rows int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(rows), "ns/row")
}

func BenchmarkSort(b *testing.B) {
	const n = 4_000_000
	random := rand.New(rand.NewPCG(1, 2))
	float := func(int) float64 { return random.Float64() }
	texts := func() arrow.Array {
		s := array.NewStringBuilder(memory.NewGoAllocator())
		for _, v := range random.Perm(1_000_000) {
			s.Append(fmt.Sprintf("customer-%09d", v))
		}
		return s.NewArray()
	}
	perm := random.Perm(n)
	for _, c := range []struct {
		name    string
		columns []arrow.Array
		keys    []SortKey
	}{
		{"dense", []arrow.Array{numbersArray(generate(n, func(i int) int64 { return int64(perm[i]) }))}, []SortKey{{}}},
		{"scattered", []arrow.Array{numbersArray(generate(n, func(int) int64 { return int64(random.Uint64()) }))},
			[]SortKey{{}}},
		{"float64", []arrow.Array{numbersArray(generate(n, float))}, []SortKey{{}}},
		{"two", []arrow.Array{numbersArray(generate(n, func(int) int64 { return random.Int64N(1000) })),
			numbersArray(generate(n, float))}, []SortKey{{}, {Col: 1, Desc: true}}},
		{"text", []arrow.Array{texts()}, []SortKey{{}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			schema, batches := benchTable(c.columns...)
			for b.Loop() {
				if err := SortTo(schema, batches, c.keys, 0, func(b arrow.RecordBatch) error {
					b.Release()
					return nil
				}); err != nil {
					b.Fatal(err)
				}
			}
			report(b, c.columns[0].Len())
		})
	}
}

func BenchmarkTop(b *testing.B) {
	const n = 4_000_000
	random := rand.New(rand.NewPCG(1, 2))
	schema, batches := benchTable(numbersArray(generate(n, func(int) int64 { return int64(random.Uint64()) })))
	for b.Loop() {
		top, err := NewTop(schema, []SortKey{{}}, 100)
		if err != nil {
			b.Fatal(err)
		}
		for _, batch := range batches {
			if err := top.Add(batch); err != nil {
				b.Fatal(err)
			}
		}
		out, err := top.Finish()
		if err != nil {
			b.Fatal(err)
		}
		out.Release()
	}
	report(b, n)
}

func BenchmarkMerge(b *testing.B) {
	const n = 1_000_000
	random := rand.New(rand.NewPCG(1, 2))
	var runs [][]arrow.RecordBatch
	var schema *arrow.Schema
	for range 4 {
		values := generate(n, func(int) int64 { return int64(random.Uint64()) })
		slices.Sort(values)
		var run []arrow.RecordBatch
		schema, run = benchTable(numbersArray(values))
		runs = append(runs, run)
	}
	for b.Loop() {
		if err := Merge(schema, runs, []SortKey{{}}, 0, func(b arrow.RecordBatch) error {
			b.Release()
			return nil
		}); err != nil {
			b.Fatal(err)
		}
	}
	report(b, 4*n)
}

func BenchmarkRangePartition(b *testing.B) {
	const n = 1_000_000
	random := rand.New(rand.NewPCG(1, 2))
	_, batches := benchTable(numbersArray(generate(n, func(int) int64 { return int64(random.Uint64()) })))
	keys := []SortKey{{}}
	sample, err := Sample(batches[0], keys, 10_000, 1)
	if err != nil {
		b.Fatal(err)
	}
	bounds, err := Bounds([]arrow.RecordBatch{sample}, keys, 64)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		parts, err := RangePartition(batches[0], keys, bounds, 64)
		if err != nil {
			b.Fatal(err)
		}
		vec.ReleaseBatches(parts)
	}
	report(b, n)
}

func BenchmarkWindows(b *testing.B) {
	const n = 1_000_000
	random := rand.New(rand.NewPCG(1, 2))
	parts := generate(n, func(int) int64 { return random.Int64N(1000) })
	slices.Sort(parts)
	schema, batches := benchTable(numbersArray(parts), numbersArray(generate(n, func(int) float64 {
		return random.Float64()
	})), numbersArray(generate(n, func(int) int64 { return random.Int64N(1000) })))
	rolling := Frame{Preceding: 9}
	for _, c := range []struct {
		name   string
		window Window
	}{
		{"rank", Window{Function: Rank}},
		{"sum float64", Window{Function: Sum, Col: 1, Frame: rolling}},
		{"sum int64", Window{Function: Sum, Col: 2, Frame: rolling}},
		{"max", Window{Function: Max, Col: 1, Frame: rolling}},
		{"lag", Window{Function: Lag, Col: 1, Offset: 1}},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				out, err := Windows(schema, batches, []int{0}, []SortKey{{Col: 3}}, []Window{c.window})
				if err != nil {
					b.Fatal(err)
				}
				out.Release()
			}
			report(b, n)
		})
	}
}
