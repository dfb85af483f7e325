package gpu_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/frame"
	"go.millstream.dev/frame/internal/gpu"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sales has a column of every width, with nulls in some.
var sales = arrow.NewSchema([]arrow.Field{
	{Name: "id", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
	{Name: "shop", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
	{Name: "amount", Type: arrow.PrimitiveTypes.Int64},
	{Name: "price", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
	{Name: "paid", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
	{Name: "day", Type: arrow.FixedWidthTypes.Date32},
}, nil)

func salesBatch(from, to int) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.NewGoAllocator(), sales)
	defer b.Release()
	for i := from; i < to; i++ {
		if i%11 == 3 {
			b.Field(0).AppendNull()
			b.Field(4).AppendNull()
		} else {
			b.Field(0).(*array.Int64Builder).Append(int64(i % 5000))
			b.Field(4).(*array.BooleanBuilder).Append(i%2 == 0)
		}
		if i%7 == 2 {
			b.Field(1).AppendNull()
			b.Field(3).AppendNull()
		} else {
			b.Field(1).(*array.Int32Builder).Append(int32(i % 13))
			b.Field(3).(*array.Float64Builder).Append(float64(i%100) / 4)
		}
		b.Field(2).(*array.Int64Builder).Append(int64(i) * 1001)
		b.Field(5).(*array.Date32Builder).Append(arrow.Date32(i % 30))
	}
	return b.NewRecordBatch()
}

// sortedRows returns the rows of a query as texts, sorted.
func sortedRows(t *testing.T, f *frame.Frame) []string {
	t.Helper()
	batches, err := f.Collect(t.Context())
	must(t, err)
	var out []string
	for _, b := range batches {
		for i := range int(b.NumRows()) {
			var s strings.Builder
			for _, c := range b.Columns() {
				s.WriteString(c.ValueStr(i) + " ")
			}
			out = append(out, s.String())
		}
		b.Release()
	}
	slices.Sort(out)
	return out
}

// Queries of frames on devices run there what they can, and have the same rows as those of frames in host memory.
func TestGPUFrameQuery(t *testing.T) {
	ctx, c, _ := gpu.WorkersOn(t, 2, "1GiB")
	var batches, others []arrow.RecordBatch
	for i := range 3 {
		batches = append(batches, salesBatch(i*4000, (i+1)*4000))
	}
	others = append(others, salesBatch(2000, 4500))
	host, err := frame.FromBatches(ctx, c, batches)
	must(t, err)
	defer host.Release()
	small, err := frame.FromBatches(ctx, c, others)
	must(t, err)
	defer small.Release()
	device, err := host.ToDevice(ctx)
	must(t, err)
	defer device.Release()
	smallDevice, err := small.ToDevice(ctx)
	must(t, err)
	defer smallDevice.Release()
	col := frame.Col
	join := func(kind frame.JoinKind, on ...string) func(a, b *frame.Query) *frame.Query {
		return func(a, b *frame.Query) *frame.Query {
			return a.Join(b, frame.JoinOptions{Kind: kind, On: on, Suffix: "_b"})
		}
	}
	for _, q := range []struct {
		name string
		on   int // joins and group-bys on devices
		make func(a, b *frame.Query) *frame.Query
	}{
		{"sums", 1, func(a, _ *frame.Query) *frame.Query {
			return a.GroupBy(col("shop")).Agg(frame.Count().As("n"), frame.Sum(col("amount")).As("s"),
				frame.Mean(col("price")).As("m"), frame.Min(col("day")).As("d"))
		}},
		{"two keys", 1, func(a, _ *frame.Query) *frame.Query {
			return a.GroupBy(col("id"), col("paid")).Agg(frame.Max(col("price")).As("p"),
				frame.CountOf(col("shop")).As("c"))
		}},
		{"all rows", 1, func(a, _ *frame.Query) *frame.Query {
			return a.Agg(frame.Sum(col("amount")).As("s"), frame.Count().As("n"))
		}},
		{"inner", 1, join(frame.InnerJoin, "id")}, {"left", 1, join(frame.LeftJoin, "id", "shop")},
		{"full", 1, join(frame.FullJoin, "id")}, {"semi", 1, join(frame.SemiJoin, "id")},
		{"anti", 1, join(frame.AntiJoin, "id")},
		{"join and group", 2, func(a, b *frame.Query) *frame.Query {
			return join(frame.InnerJoin, "id")(a, b).GroupBy(col("shop")).Agg(frame.Sum(col("amount_b")).As("s"),
				frame.Count().As("n")).Filter(col("n").Gt(3))
		}},
		{"host above", 1, func(a, _ *frame.Query) *frame.Query {
			return a.GroupBy(col("shop")).Agg(frame.Sum(col("amount")).As("s")).Select(col("shop"),
				col("s").Add(1).As("more"))
		}},
		{"host only", 0, func(a, _ *frame.Query) *frame.Query {
			return a.GroupBy(col("shop")).Agg(frame.Median(col("price")).As("m"))
		}},
	} {
		t.Run(q.name, func(t *testing.T) {
			onDevice := q.make(device.Query(), smallDevice.Query())
			text, err := onDevice.Explain()
			must(t, err)
			n := 0
			for line := range strings.Lines(text) {
				if strings.Contains(line, "(on devices") && !strings.Contains(line, "Project") {
					n++
				}
			}
			if n != q.on {
				t.Errorf("%d joins and group-bys on devices, want %d:\n%s", n, q.on, text)
			}
			got, err := onDevice.Compute(ctx)
			must(t, err)
			defer got.Release()
			want, err := q.make(host.Query(), small.Query()).Compute(ctx)
			must(t, err)
			defer want.Release()
			g, w := sortedRows(t, got), sortedRows(t, want)
			if !slices.Equal(g, w) {
				t.Errorf("%d rows, want %d; the first that differ: %s", len(g), len(w), firstDifference(g, w))
			}
		})
	}
}

func firstDifference(a, b []string) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("%q, want %q", a[i], b[i])
		}
	}
	return "none"
}
