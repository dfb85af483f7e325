package join

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// benchmarkJoin joins batches and reports the time for each row of both sides.
func benchmarkJoin(b *testing.B, left, right side, o Options) {
	b.Helper()
	b.ReportAllocs()
	var out int64
	rows := 0
	for b.Loop() {
		out, rows = 0, 0
		table, err := Build(right.schema, right.batches, o.Keys)
		if err != nil {
			b.Fatal(err)
		}
		rows = table.NumRows()
		p, err := table.Probe(left.schema, o)
		if err != nil {
			b.Fatal(err)
		}
		emit := func(r arrow.RecordBatch) error { out += r.NumRows(); r.Release(); return nil }
		for _, batch := range left.batches {
			rows += int(batch.NumRows())
			if err := p.Add(batch, emit); err != nil {
				b.Fatal(err)
			}
		}
		if err := p.Finish(emit); err != nil {
			b.Fatal(err)
		}
		p.Release()
		table.Release()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(rows), "ns/row")
	b.ReportMetric(float64(out), "rows")
}

// BenchmarkMerge is the merge of Dask-CUDA: keys unique on both sides, 30 % of them on both. The keys of a partition
// are those of 1/parts of all.
func BenchmarkMerge(b *testing.B) {
	for _, c := range []struct{ rows, parts int }{{10_000_000, 1}, {1_000_000, 10}, {1_000_000, 1000}} {
		b.Run(fmt.Sprintf("rows=%d/parts=%d", c.rows, c.parts), func(b *testing.B) {
			random := rand.New(rand.NewPCG(1, 2))
			step := int64(c.parts)
			leftOrder, rightOrder := random.Perm(c.rows), random.Perm(c.rows)
			match := c.rows * 3 / 10
			left := intSide(b, c.rows, 1_000_000, func(row int) int64 { return step * int64(leftOrder[row]) })
			right := intSide(b, c.rows, 1_000_000, func(row int) int64 {
				k := rightOrder[row]
				if k >= match {
					k += c.rows
				}
				return step * int64(k)
			})
			benchmarkJoin(b, left, right, Options{Keys: []int{0}, Left: []int{0, 1}, Right: []int{1}})
		})
	}
}

// BenchmarkScattered has keys from all 64 bits, 30 % of which match.
func BenchmarkScattered(b *testing.B) {
	const rows = 4_000_000
	random := rand.New(rand.NewPCG(1, 2))
	leftOrder, rightOrder := random.Perm(rows), random.Perm(rows)
	left := intSide(b, rows, 1_000_000, func(row int) int64 { return scatter(int64(leftOrder[row])) })
	right := intSide(b, rows, 1_000_000, func(row int) int64 { return scatter(int64(rightOrder[row] + rows*7/10)) })
	benchmarkJoin(b, left, right, Options{Keys: []int{0}, Left: []int{0, 1}, Right: []int{1}})
}

// BenchmarkDuplicates has four rows on the right side for each key of the left.
func BenchmarkDuplicates(b *testing.B) {
	const rows = 1_000_000
	random := rand.New(rand.NewPCG(1, 2))
	order := random.Perm(4 * rows)
	left := intSide(b, rows, 250_000, func(row int) int64 { return int64(order[row] / 4) })
	right := intSide(b, 4*rows, 1_000_000, func(row int) int64 { return int64(order[row] / 4) })
	benchmarkJoin(b, left, right, Options{Keys: []int{0}, Left: []int{0, 1}, Right: []int{1}})
}

// textSide is intSide with the keys as text.
func textSide(s side) side {
	schema := schemaOf("k", textType, "v", int64Type)
	out := side{schema: schema}
	for _, b := range s.batches {
		k := array.NewStringBuilder(memory.NewGoAllocator())
		for _, v := range b.Column(0).(*array.Int64).Int64Values() {
			k.Append(fmt.Sprintf("customer-%09d", v))
		}
		out.batches = append(out.batches, array.NewRecordBatch(schema, []arrow.Array{k.NewArray(), b.Column(1)},
			b.NumRows()))
	}
	return out
}

// BenchmarkText has keys of text, unique on the right side, half of which match.
func BenchmarkText(b *testing.B) {
	const rows = 1_000_000
	random := rand.New(rand.NewPCG(1, 2))
	order := random.Perm(rows)
	left := textSide(intSide(b, rows, 250_000, func(row int) int64 { return int64(2 * order[row]) }))
	right := textSide(intSide(b, rows, 250_000, func(row int) int64 { return int64(order[row]) }))
	benchmarkJoin(b, left, right, Options{Keys: []int{0}, Left: []int{0, 1}, Right: []int{1}})
}

// BenchmarkDimension joins with a small table in the order of its key, every row of which matches.
func BenchmarkDimension(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	left := intSide(b, 4_000_000, 1_000_000, func(int) int64 { return random.Int64N(100_000) })
	right := intSide(b, 100_000, 100_000, func(row int) int64 { return int64(row) })
	benchmarkJoin(b, left, right, Options{Kind: Left, Keys: []int{0}, Left: []int{0, 1}, Right: []int{1}})
}
