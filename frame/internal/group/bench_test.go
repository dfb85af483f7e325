package group

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
)

// benchSchema is that of the group-by benchmark of h2o.ai: text and integers of 100 values, and of a hundredth of the
// rows, and three numbers.
var benchSchema = arrow.NewSchema([]arrow.Field{{Name: "id1", Type: text}, {Name: "id2", Type: text},
	{Name: "id3", Type: text}, {Name: "id4", Type: i64}, {Name: "id5", Type: i64}, {Name: "id6", Type: i64},
	{Name: "v1", Type: i64}, {Name: "v2", Type: i64}, {Name: "v3", Type: f64}}, nil)

// benchBatches returns n rows in batches of size rows.
func benchBatches(n, size int) []arrow.RecordBatch {
	rng := rand.New(rand.NewPCG(108, 1))
	many := max(n/100, 1)
	var out []arrow.RecordBatch
	for from := 0; from < n; from += size {
		b := array.NewRecordBuilder(heap, benchSchema)
		for range min(size, n-from) {
			for c := range 2 {
				b.Field(c).(*array.StringBuilder).Append(fmt.Sprintf("id%03d", 1+rng.IntN(100)))
			}
			b.Field(2).(*array.StringBuilder).Append(fmt.Sprintf("id%010d", 1+rng.IntN(many)))
			for c, k := range []int{100, 100, many, 5, 15} {
				b.Field(3 + c).(*array.Int64Builder).Append(int64(1 + rng.IntN(k)))
			}
			b.Field(8).(*array.Float64Builder).Append(math.Round(rng.Float64()*100*1e6) / 1e6)
		}
		out = append(out, b.NewRecordBatch())
		b.Release()
	}
	return out
}

// benchQueries are the queries of the benchmark that are group-bys; the eighth needs a window, and the ninth is its
// sums.
var benchQueries = []struct {
	name  string
	keys  []int
	specs []Spec
}{
	{"q1", []int{0}, []Spec{{Func: Sum, Column: 6}}},
	{"q2", []int{0, 1}, []Spec{{Func: Sum, Column: 6}}},
	{"q3", []int{2}, []Spec{{Func: Sum, Column: 6}, {Func: Mean, Column: 8}}},
	{"q4", []int{3}, []Spec{{Func: Mean, Column: 6}, {Func: Mean, Column: 7}, {Func: Mean, Column: 8}}},
	{"q5", []int{5}, []Spec{{Func: Sum, Column: 6}, {Func: Sum, Column: 7}, {Func: Sum, Column: 8}}},
	{"q6", []int{3, 4}, []Spec{{Func: Median, Column: 8}, {Func: Std, Column: 8}}},
	{"q7", []int{2}, []Spec{{Func: Max, Column: 6}, {Func: Min, Column: 7}}},
	{"q9", []int{1, 3}, []Spec{{Func: Sum, Column: 6}, {Func: Sum, Column: 7}, {Func: Sum, Column: 8},
		{Func: Var, Column: 6}, {Func: Var, Column: 7}, {Func: CountAll}}},
	{"q10", []int{0, 1, 2, 3, 4, 5}, []Spec{{Func: Sum, Column: 8}, {Func: CountAll}}},
	{"distinct", []int{0, 3}, nil},
	{"nunique", []int{0}, []Spec{{Func: NUnique, Column: 5}}},
	{"total", nil, []Spec{{Func: Sum, Column: 6}, {Func: Sum, Column: 8}, {Func: CountAll}}},
}

// BenchmarkQueries runs the queries on one goroutine. GROUP_BENCH_ROWS sets the number of rows, one million by
// default; GROUP_BENCH_FILE names an Arrow file to which they are written, for other programs.
func BenchmarkQueries(b *testing.B) {
	n := 1_000_000
	if s := os.Getenv("GROUP_BENCH_ROWS"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			b.Fatal(err)
		}
	}
	batches := benchBatches(n, 1<<17)
	if name := os.Getenv("GROUP_BENCH_FILE"); name != "" {
		writeFile(b, name, batches)
	}
	for _, q := range benchQueries {
		b.Run(q.name, func(b *testing.B) {
			groups := 0
			for b.Loop() {
				out := run(b, benchSchema, q.keys, q.specs, Complete, batches...)
				groups = int(out.NumRows())
				out.Release()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/row")
			b.ReportMetric(float64(groups), "groups")
		})
	}
}

func writeFile(b *testing.B, name string, batches []arrow.RecordBatch) {
	f, err := os.Create(name)
	if err != nil {
		b.Fatal(err)
	}
	w, err := ipc.NewFileWriter(f, ipc.WithSchema(benchSchema))
	if err != nil {
		b.Fatal(err)
	}
	for _, x := range batches {
		if err := w.Write(x); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
}
