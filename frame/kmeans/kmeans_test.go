package kmeans

import (
	"context"
	"errors"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/client"
	"go.millstream.dev/cluster"
	"go.millstream.dev/frame"
	"go.millstream.dev/internal/proc/childproc"
)

func TestMain(m *testing.M) {
	cluster.Main()
	childproc.NoRaceSleep()
	os.Exit(m.Run())
}

func connect(t testing.TB, mode cluster.Mode) (context.Context, *client.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	lc, err := cluster.Local(ctx, cluster.Config{Workers: 2, Threads: 2, Mode: mode, DataConnections: "none"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lc.Close() })
	c, err := lc.Client(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return ctx, c
}

func labelsOf(t *testing.T, ctx context.Context, f *frame.Frame) []int32 {
	t.Helper()
	batches, err := f.Collect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var out []int32
	for _, b := range batches {
		out = append(out, b.Column(0).(*array.Int32).Int32Values()...)
	}
	return out
}

// Results on a cluster are those of scikit-learn, too.
func TestCluster(t *testing.T) {
	for _, mode := range []cluster.Mode{cluster.Goroutines, cluster.Processes} {
		t.Run(mode.String(), func(t *testing.T) {
			ctx, c := connect(t, mode)
			for _, g := range goldens(t) {
				if mode == cluster.Processes && g.Name != "given centers, float32" && g.Name != "k-means++, seed 42" {
					continue // the other cases are the same
				}
				f, err := frame.FromBatches(ctx, c, g.batches(3))
				if err != nil {
					t.Fatal(err)
				}
				m, labels, err := FitPredict(ctx, f, g.options())
				if err != nil {
					t.Fatalf("%s: %v", g.Name, err)
				}
				g.check(t, mode.String(), m.Centers, labelsOf(t, ctx, labels), m.Inertia, m.Iterations)
				if m.Rows != int64(len(g.Labels)) || len(m.Columns) != len(g.X) {
					t.Errorf("%s: %d rows, columns %v", g.Name, m.Rows, m.Columns)
				}
				again, err := m.Predict(ctx, f)
				if err != nil {
					t.Fatal(err)
				}
				if g.Name != "one iteration" && m.Converged { // otherwise the centers have moved since
					for i, l := range labelsOf(t, ctx, again) {
						if l != g.Labels[i] {
							t.Errorf("%s: predicted label %d of row %d, want %d", g.Name, l, i, g.Labels[i])
							break
						}
					}
				}
				f.Release()
			}
		})
	}
}

// floatsFrame returns a frame with one column of numbers, one of text and one of integers.
func floatsFrame(t *testing.T, ctx context.Context, c *client.Client, values ...[]float64) *frame.Frame {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
		{Name: "s", Type: arrow.BinaryTypes.String}, {Name: "n", Type: arrow.PrimitiveTypes.Uint16}}, nil)
	var batches []arrow.RecordBatch
	for _, v := range values {
		b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		for _, x := range v {
			if x == -1 {
				b.Field(0).AppendNull()
			} else {
				b.Field(0).(*array.Float64Builder).Append(x)
			}
			b.Field(1).(*array.StringBuilder).Append("text")
			b.Field(2).(*array.Uint16Builder).Append(uint16(x))
		}
		batches = append(batches, b.NewRecordBatch())
	}
	f, err := frame.FromBatches(ctx, c, batches)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestErrors(t *testing.T) {
	ctx, c := connect(t, cluster.Goroutines)
	x := []string{"x"}
	plain := floatsFrame(t, ctx, c, []float64{1, 2, 30}, []float64{31, 32})
	for _, tc := range []struct {
		name string
		f    *frame.Frame
		opts Options
		kind error
		text []string
	}{
		{"text", plain, Options{K: 2}, frame.ErrSchema, []string{`column "s"`, "utf8", "Options.Columns"}},
		{"no such column", plain, Options{K: 2, Columns: []string{"y"}}, frame.ErrSchema, []string{`"y"`}},
		{"a null", floatsFrame(t, ctx, c, []float64{1, 2}, []float64{-1, 4}), Options{K: 2, Columns: x},
			frame.ErrSchema, []string{"partition 1", `column "x" has 1 nulls`, "NotNull"}},
		{"a NaN", floatsFrame(t, ctx, c, []float64{1, 2}, []float64{3, math.NaN()}),
			Options{Init: [][]float64{{1}, {3}}, Columns: x}, frame.ErrSchema, []string{"partition 1", `column "x"`,
				"not finite"}},
		{"a NaN among k-means++", floatsFrame(t, ctx, c, []float64{1, math.Inf(1)}, []float64{3, 4}),
			Options{K: 2, Columns: x}, frame.ErrSchema, []string{"partition 0", "not finite"}},
		{"too few rows", plain, Options{K: 6, Columns: x}, nil, []string{"5 rows", "6 groups"}},
		{"no group", plain, Options{K: -1, Columns: x}, nil, []string{"-1 groups"}},
		{"no iteration", plain, Options{MaxIter: -1, Columns: x}, nil, []string{"-1 iterations"}},
		{"another number of centers", plain, Options{K: 3, Init: [][]float64{{1}}, Columns: x}, nil,
			[]string{"1 initial centers for 3 groups"}},
		{"centers of another space", plain, Options{Init: [][]float64{{1, 2}}, Columns: x}, nil,
			[]string{"center 0 has 2 coordinates"}},
	} {
		_, err := Fit(ctx, tc.f, tc.opts)
		if err == nil || tc.kind != nil && !errors.Is(err, tc.kind) {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		for _, text := range tc.text {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s: got %v, want %q", tc.name, err, text)
			}
		}
	}
	// After all these errors a fit succeeds, with integers among the columns.
	m, err := Fit(ctx, plain, Options{K: 2, Columns: []string{"x", "n"}})
	if err != nil || m.Rows != 5 || math.Abs(m.Inertia-2*(0.5+2)) > 1e-9 || !m.Converged {
		t.Errorf("model %+v, %v", m, err)
	}
	if _, err := (&Model{Columns: x}).Predict(ctx, plain); err == nil || !strings.Contains(err.Error(), "no centers") {
		t.Errorf("model without centers: got %v", err)
	}
	if _, err := (&Model{Columns: x, Centers: [][]float64{{1, 2}}}).Predict(ctx, plain); err == nil ||
		!strings.Contains(err.Error(), "2 coordinates") {
		t.Errorf("invalid model: got %v", err)
	}
}
