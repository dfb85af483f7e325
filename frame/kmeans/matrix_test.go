package kmeans

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/client"
	"go.millstream.dev/clique"
	"go.millstream.dev/cluster"
	"go.millstream.dev/frame"
	"go.millstream.dev/internal/testkit/leak"
)

// matrixRows is a multiple of small numbers of partitions only.
const matrixRows = 120

var matrixSchema = arrow.NewSchema([]arrow.Field{
	{Name: "id", Type: arrow.PrimitiveTypes.Int64},
	{Name: "x", Type: arrow.PrimitiveTypes.Float64},
	{Name: "y", Type: arrow.PrimitiveTypes.Float64},
}, nil)

// matrixTable returns three groups of points that are far apart: row i is in group i%3.
func matrixTable() arrow.Table {
	b := array.NewRecordBuilder(memory.DefaultAllocator, matrixSchema)
	defer b.Release()
	for i := range matrixRows {
		b.Field(0).(*array.Int64Builder).Append(int64(i))
		b.Field(1).(*array.Float64Builder).Append(float64(100*(i%3)) + float64(i%7)/10)
		b.Field(2).(*array.Float64Builder).Append(float64(-50*(i%3)) + float64(i%5)/10)
	}
	r := b.NewRecordBatch()
	defer r.Release()
	return array.NewTableFromRecords(matrixSchema, []arrow.RecordBatch{r})
}

// matrixProject is the smallest algorithm that returns a frame: two columns of each partition.
var matrixProject = frame.NewNative("test.matrix.project",
	func(_ context.Context, _ *clique.Rank, parts frame.Parts[arrow.RecordBatch], names []string) ([]arrow.RecordBatch,
		int, error) {
		out := make([]arrow.RecordBatch, len(parts.Batches))
		for i, b := range parts.Batches {
			var columns []arrow.Array
			for _, n := range names {
				columns = append(columns, b.Column(b.Schema().FieldIndices(n)[0]))
			}
			out[i] = array.NewRecordBatch(matrixProjected, columns, b.NumRows())
		}
		return out, len(out), nil
	})

var matrixProjected = arrow.NewSchema([]arrow.Field{matrixSchema.Field(2), matrixSchema.Field(0)}, nil)

// matrixCase is one cluster, and its frames.
type matrixCase struct {
	mode             cluster.Mode
	workers, threads int
	partitions       []int
}

func (m matrixCase) String() string {
	return fmt.Sprintf("%v, %d workers, %d threads", m.mode, m.workers, m.threads)
}

// matrixCases returns a few clusters, or all of up to 4 workers with up to 4 threads when MILLSTREAM_FRAMES is "full".
func matrixCases() []matrixCase {
	if os.Getenv("MILLSTREAM_FRAMES") != "full" {
		return []matrixCase{
			{cluster.Goroutines, 1, 1, []int{1, 40}},
			{cluster.Goroutines, 2, 1, []int{1, 2, 3, 6, 19, 40}},
			{cluster.Goroutines, 4, 1, []int{6, 19}},
			{cluster.Goroutines, 2, 4, []int{6, 19}},
			{cluster.Goroutines, 3, 2, []int{40}},
			{cluster.Processes, 2, 1, []int{6, 19}},
		}
	}
	var all []matrixCase
	var partitions []int
	for n := range 40 {
		partitions = append(partitions, n+1)
	}
	for _, mode := range []cluster.Mode{cluster.Goroutines, cluster.Processes} {
		for w := range 4 {
			for t := range 4 {
				all = append(all, matrixCase{mode, w + 1, t + 1, partitions})
			}
		}
	}
	return all
}

// TestMatrix runs algorithms that return frames on clusters of several sizes with frames of several numbers of
// partitions: with more partitions than workers take at once, results move between workers. With
// MILLSTREAM_FRAMES=full, which make nightly sets, it is the whole product.
func TestMatrix(t *testing.T) {
	for _, m := range matrixCases() {
		t.Run(m.String(), func(t *testing.T) {
			leak.Check(t)
			ctx := t.Context()
			lc, err := cluster.Local(ctx, cluster.Config{Workers: m.workers, Threads: m.threads, Mode: m.mode,
				DataConnections: "none"})
			if err != nil {
				t.Fatal(err)
			}
			defer lc.Close()
			c, err := lc.Client(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			for _, n := range m.partitions {
				if err := matrixRun(ctx, c, n); err != nil {
					t.Errorf("%d partitions: %v", n, err)
				}
			}
		})
	}
}

// matrixRun returns an error if the results for a frame of n partitions are wrong.
func matrixRun(ctx context.Context, c *client.Client, n int) error {
	table := matrixTable()
	defer table.Release()
	whole, err := frame.FromTable(ctx, c, table, 1)
	if err != nil {
		return err
	}
	defer whole.Release()
	f, err := whole.Repartition(ctx, n)
	if err != nil {
		return fmt.Errorf("Repartition: %w", err)
	}
	defer f.Release()
	projected, ranks, err := matrixProject.Run(ctx, f, []string{"y", "id"},
		frame.NativeOptions{Schema: matrixProjected})
	if err != nil {
		return fmt.Errorf("Native.Run: %w", err)
	}
	defer projected.Release()
	sum := 0
	for _, r := range ranks {
		sum += r
	}
	if sum != n || projected.NumPartitions() != n {
		return fmt.Errorf("Native.Run: ranks returned %d partitions, the frame has %d, want %d", sum,
			projected.NumPartitions(), n)
	}
	ids, err := matrixColumn(ctx, projected, 1, func(a arrow.Array) []int64 { return a.(*array.Int64).Int64Values() })
	if err != nil {
		return fmt.Errorf("Native.Run: %w", err)
	}
	for i, id := range ids {
		if int(id) != i {
			return fmt.Errorf("Native.Run: row %d has id %d, want %d", i, id, i)
		}
	}
	model, labels, err := FitPredict(ctx, f, Options{K: 3, Seed: 1, Columns: []string{"x", "y"}})
	if err != nil {
		return fmt.Errorf("FitPredict: %w", err)
	}
	defer labels.Release()
	again, err := model.Predict(ctx, f)
	if err != nil {
		return fmt.Errorf("Predict: %w", err)
	}
	defer again.Release()
	for what, l := range map[string]*frame.Frame{"FitPredict": labels, "Predict": again} {
		got, err := matrixColumn(ctx, l, 0, func(a arrow.Array) []int32 { return a.(*array.Int32).Int32Values() })
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		for i, x := range got {
			if want := got[i%3]; x != want {
				return fmt.Errorf("%s: row %d has label %d, want %d as row %d", what, i, x, want, i%3)
			}
		}
		if groups := slices.Compact(slices.Sorted(slices.Values(got))); len(groups) != 3 {
			return fmt.Errorf("%s: labels %v, want three groups", what, groups)
		}
	}
	return nil
}

// matrixColumn returns the values of a column of the whole frame, of which there must be matrixRows.
func matrixColumn[T any](ctx context.Context, f *frame.Frame, column int, values func(arrow.Array) []T) ([]T, error) {
	batches, err := f.Collect(ctx)
	if err != nil {
		return nil, err
	}
	var out []T
	for _, b := range batches {
		out = append(out, values(b.Column(column))...)
		b.Release()
	}
	if len(out) != matrixRows {
		return nil, fmt.Errorf("%d rows, want %d", len(out), matrixRows)
	}
	return out, nil
}
