package clique

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/client"
	"go.millstream.dev/frame"
	"go.millstream.dev/frame/kmeans"
)

// clouds are batches of rows around some middles; float32 if narrow.
func clouds(t *testing.T, parts []int, d, groups int, narrow bool) []arrow.RecordBatch {
	t.Helper()
	r := rand.New(rand.NewPCG(7, uint64(d)))
	middles := make([]float64, groups*d)
	for i := range middles {
		middles[i] = 3 * r.NormFloat64()
	}
	var fields []arrow.Field
	for j := range d {
		f := arrow.Field{Name: "x" + string(rune('a'+j)), Type: arrow.PrimitiveTypes.Float64}
		if narrow {
			f.Type = arrow.PrimitiveTypes.Float32
		}
		fields = append(fields, f)
	}
	schema := arrow.NewSchema(fields, nil)
	var out []arrow.RecordBatch
	for _, n := range parts {
		b := array.NewRecordBuilder(memory.NewGoAllocator(), schema)
		for range n {
			g := r.IntN(groups)
			for j := range d {
				v := middles[g*d+j] + r.NormFloat64()
				if narrow {
					b.Field(j).(*array.Float32Builder).Append(float32(v))
				} else {
					b.Field(j).(*array.Float64Builder).Append(v)
				}
			}
		}
		out = append(out, b.NewRecordBatch())
		b.Release()
	}
	return out
}

func labelsOf(t *testing.T, ctx context.Context, f *frame.Frame) []int32 {
	t.Helper()
	batches, err := f.Collect(ctx)
	must(t, err)
	var out []int32
	for _, b := range batches {
		out = append(out, b.Column(0).(*array.Int32).Int32Values()...)
		b.Release()
	}
	return out
}

// sameFit wants two fits to be the same: labels, iterations, centers and inertia.
func sameFit(t *testing.T, what string, host, gpu *kmeans.Model, hostLabels, gpuLabels []int32) {
	t.Helper()
	t.Logf("%s: inertia %v on the host, %v on the GPU; %d iterations and %d", what, host.Inertia, gpu.Inertia,
		host.Iterations, gpu.Iterations)
	if math.Abs(host.Inertia-gpu.Inertia) > 1e-6*host.Inertia {
		t.Errorf("%s: inertia %v on the host, %v on the GPU", what, host.Inertia, gpu.Inertia)
	}
	if host.Iterations != gpu.Iterations || host.Converged != gpu.Converged || host.Rows != gpu.Rows {
		t.Errorf("%s: %d iterations (converged: %t) of %d rows on the host, %d (%t) of %d on the GPU", what,
			host.Iterations, host.Converged, host.Rows, gpu.Iterations, gpu.Converged, gpu.Rows)
	}
	apart := 0
	for i, l := range hostLabels {
		if l != gpuLabels[i] {
			apart++
		}
	}
	if apart > 0 || len(hostLabels) != len(gpuLabels) {
		t.Errorf("%s: %d of %d labels differ", what, apart, len(hostLabels))
	}
	for c := range host.Centers {
		for j, v := range host.Centers[c] {
			if math.Abs(v-gpu.Centers[c][j]) > 1e-6*(1+math.Abs(v)) {
				t.Errorf("%s: center %d is %v on the host, %v on the GPU", what, c, host.Centers[c], gpu.Centers[c])
				break
			}
		}
	}
}

// A fit on the GPU, of one to three ranks that share it, is that of the host: the same labels.
func TestGPUKMeansFit(t *testing.T) {
	requireGPU(t)
	for _, n := range []int{1, 3} {
		t.Run([]string{"", "one rank", "", "three ranks"}[n], func(t *testing.T) {
			ctx, c := gpuCluster(t, n)
			for _, x := range []struct {
				name   string
				parts  []int
				d, g   int
				narrow bool
				o      kmeans.Options
			}{
				{"k-means++, float64", []int{5000, 0, 3001, 777}, 5, 6, false, kmeans.Options{K: 6, Seed: 42}},
				{"k-means++, float32", []int{4000, 4000}, 9, 5, true, kmeans.Options{K: 7, Seed: 1}},
				{"many columns", []int{1500, 1600, 20}, 26, 4, false, kmeans.Options{K: 4, Seed: 3, MaxIter: 5}},
				{"empty groups", []int{900, 1100}, 3, 3, false,
					kmeans.Options{Init: [][]float64{{0, 0, 0}, {900, 900, 900}, {901, 900, 900}, {0, 0, 0}, {1, 1, 1}},
						Tol: -1}},
			} {
				f, err := frame.FromBatches(ctx, c, clouds(t, x.parts, x.d, x.g, x.narrow))
				must(t, err)
				host, hostLabels, err := kmeans.FitPredict(ctx, f, x.o)
				must(t, err)
				df, err := f.ToDevice(ctx)
				must(t, err)
				gpu, labels, err := kmeans.FitPredict(ctx, df, x.o)
				must(t, err)
				back, err := labels.ToHost(ctx)
				must(t, err)
				sameFit(t, x.name, host, gpu, labelsOf(t, ctx, hostLabels), labelsOf(t, ctx, back))
				predicted, err := gpu.Predict(ctx, df)
				must(t, err)
				again, err := host.Predict(ctx, f)
				must(t, err)
				onHost, err := predicted.ToHost(ctx)
				must(t, err)
				a, b := labelsOf(t, ctx, again), labelsOf(t, ctx, onHost)
				for i := range a {
					if a[i] != b[i] {
						t.Errorf("%s: predicted label of row %d is %d on the host, %d on the GPU", x.name, i, a[i],
							b[i])
						break
					}
				}
				for _, x := range []interface{ Release() }{f, hostLabels, df, labels, back, predicted, again, onHost} {
					x.Release()
				}
			}
			kmeansErrors(t, ctx, c)
		})
	}
}

// kmeansErrors are those of the host, word by word where it matters.
func kmeansErrors(t *testing.T, ctx context.Context, c *client.Client) {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
		{Name: "s", Type: arrow.BinaryTypes.String}}, nil)
	batch := func(values []float64, valid []bool) arrow.RecordBatch {
		b := array.NewRecordBuilder(memory.NewGoAllocator(), schema)
		defer b.Release()
		b.Field(0).(*array.Float64Builder).AppendValues(values, valid)
		for range values {
			b.Field(1).(*array.StringBuilder).Append("s")
		}
		return b.NewRecordBatch()
	}
	for _, x := range []struct {
		name    string
		second  arrow.RecordBatch
		columns []string
		want    string
	}{
		{"text", batch([]float64{1}, nil), nil, "k-means needs numbers"},
		{"nulls", batch([]float64{1, 2, 3}, []bool{true, false, false}), []string{"x"},
			`partition 1: column "x" has 2 nulls`},
		{"NaN", batch([]float64{1, math.NaN(), 3}, nil), []string{"x"},
			`partition 1: column "x" has a value that is not finite`},
		{"few rows", batch(nil, nil), []string{"x"}, "cannot divide 2 rows into 3 groups"},
	} {
		f, err := frame.FromBatches(ctx, c, []arrow.RecordBatch{batch([]float64{1, 2}, nil), x.second})
		must(t, err)
		df, err := f.ToDevice(ctx)
		must(t, err)
		_, err = kmeans.Fit(ctx, df, kmeans.Options{K: 3, Columns: x.columns})
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: got %v, want %q", x.name, err, x.want)
		}
		f.Release()
		df.Release()
	}
}
