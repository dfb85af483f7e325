package clique

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/client"
	"go.millstream.dev/frame"
	"go.millstream.dev/frame/linear"
	"go.millstream.dev/frame/pca"
	"go.millstream.dev/internal/device/kernels/gputsqr"
	"go.millstream.dev/internal/device/kernels/tsqr"
)

// alone is a World of one rank.
type alone struct{}

func (alone) Sum(context.Context, []float64) error       { return nil }
func (alone) Min(context.Context, []float64) error       { return nil }
func (alone) Send(context.Context, int, []float64) error { return nil }
func (alone) Recv(context.Context, int, []float64) error { return nil }
func (alone) Broadcast(context.Context, []float64) error { return nil }
func (alone) Rank() (int, int)                           { return 0, 1 }

// tallTable is a table in host memory and the same on the device.
func tallTable[T tsqr.Number](t *testing.T, kind string, d int, middle float64, sizes ...int) (*tsqr.Host,
	*gputsqr.Table) {
	t.Helper()
	ctx := testContext(t)
	cfg := kmeansConfig(t)
	r := rand.New(rand.NewPCG(uint64(d), 3))
	table, err := gputsqr.New(gputsqr.Config{Device: cfg.Device, Memory: cfg.Memory, Stream: cfg.Stream}, d)
	must(t, err)
	t.Cleanup(table.Close)
	var parts []tsqr.Part
	for i, n := range sizes {
		p := tsqr.Part{Index: i, Rows: n}
		var on []gputsqr.Column
		for j := range d {
			v := make([]T, n)
			for k := range v {
				v[k] = T(middle + float64(20+j%7)*r.NormFloat64()/4)
			}
			p.Columns = append(p.Columns, tsqr.Slice[T](v))
			b := kmeansUpload(t, ctx, cfg.Memory, v)
			defer b.Release()
			on = append(on, gputsqr.Column{Buffer: b, Type: kind})
		}
		must(t, table.Add(ctx, i, n, on))
		parts = append(parts, p)
	}
	return tsqr.NewHost(parts, d, 4), table
}

// sameSummary wants two reductions to be the same, up to the signs of the rows of their triangles.
func sameSummary(t *testing.T, what string, host, gpu *tsqr.Summary) {
	t.Helper()
	scale := 0.0
	for i := range host.Mean {
		scale = max(scale, math.Abs(host.R.At(i, i)))
	}
	for j := range host.Mean {
		if math.Abs(host.Mean[j]-gpu.Mean[j]) > 1e-13*(1+math.Abs(host.Mean[j])) {
			t.Errorf("%s: mean %d is %v on the host, %v on the GPU", what, j, host.Mean[j], gpu.Mean[j])
		}
		for i := range j + 1 {
			h, g := host.R.At(i, j), gpu.R.At(i, j)
			if host.R.At(i, i)*gpu.R.At(i, i) < 0 {
				g = -g
			}
			if !(math.Abs(h-g) <= 1e-10*scale) {
				t.Errorf("%s: element %d, %d is %v on the host, %v on the GPU", what, i, j, h, g)
				return
			}
		}
	}
	if host.Rows != gpu.Rows {
		t.Errorf("%s: %d rows on the host, %d on the GPU", what, host.Rows, gpu.Rows)
	}
}

func testTall[T tsqr.Number](t *testing.T, kind string, middle float64) {
	t.Helper()
	columns := []int{1, 3}
	if kind == "f64" {
		columns = []int{1, 2, 7, 32, 40, 41, 100, 192, 193, 300}
	}
	for _, d := range columns {
		h, g := tallTable[T](t, kind, d, middle, 1000, 0, 3, 20_001)
		host, err := tsqr.Summarize(t.Context(), alone{}, h)
		must(t, err)
		gpu, err := tsqr.Summarize(t.Context(), alone{}, g)
		must(t, err)
		sameSummary(t, fmt.Sprintf("%d columns of %s", d, kind), host, gpu)
		again, err := tsqr.Summarize(t.Context(), alone{}, g)
		must(t, err)
		for i, v := range again.R.Packed() {
			if w := gpu.R.Packed()[i]; v != w {
				t.Errorf("%d columns of %s: %v in the first run, %v in the second", d, kind, w, v)
				break
			}
		}
	}
}

// TestGPUTallKernels: the reduction on the GPU is that of the host, for every type and for numbers of columns that use
// shared and device memory, and has the same bits in every run.
func TestGPUTallKernels(t *testing.T) {
	requireGPU(t)
	testTall[float64](t, "f64", 1000)
	testTall[float32](t, "f32", 100)
	testTall[int8](t, "i8", 0)
	testTall[int16](t, "i16", -1000)
	testTall[int32](t, "i32", 1e6)
	testTall[int64](t, "i64", -1e9)
	testTall[uint8](t, "u8", 100)
	testTall[uint16](t, "u16", 1e4)
	testTall[uint32](t, "u32", 1e6)
	testTall[uint64](t, "u64", 1e9)
}

// TestGPUTallSpeed prints the time of a reduction on the GPU and on the host.
func TestGPUTallSpeed(t *testing.T) {
	requireGPU(t)
	for _, x := range []struct{ d, rows int }{{4, 4 << 20}, {16, 2 << 20}, {32, 1 << 20}, {100, 1 << 17}} {
		h, g := tallTable[float64](t, "f64", x.d, 0, x.rows)
		_, err := tsqr.Summarize(t.Context(), alone{}, g)
		must(t, err)
		begin := time.Now()
		gpu, err := tsqr.Summarize(t.Context(), alone{}, g)
		must(t, err)
		onGPU := time.Since(begin)
		begin = time.Now()
		host, err := tsqr.Summarize(t.Context(), alone{}, h)
		must(t, err)
		onHost := time.Since(begin)
		sameSummary(t, fmt.Sprintf("%d columns", x.d), host, gpu)
		t.Logf("%d rows of %d columns: %v on the GPU (%.1f GB/s), %v on the host with 4 threads", x.rows, x.d, onGPU,
			float64(8*x.d*x.rows)/onGPU.Seconds()/1e9, onHost)
	}
}

// tallBatches are batches of the numbers a, b and c, and of y, which is nearly a line of them; columns have the types.
func tallBatches(t *testing.T, sizes []int, types ...arrow.DataType) []arrow.RecordBatch {
	t.Helper()
	r := rand.New(rand.NewPCG(11, 12))
	var fields []arrow.Field
	for i, name := range []string{"a", "b", "c", "y"} {
		fields = append(fields, arrow.Field{Name: name, Type: types[i]})
	}
	schema := arrow.NewSchema(fields, nil)
	var out []arrow.RecordBatch
	for _, n := range sizes {
		b := array.NewRecordBuilder(memory.NewGoAllocator(), schema)
		for range n {
			v := []float64{50 + 10*r.NormFloat64(), 500 + 100*r.NormFloat64(), 30 + 3*r.NormFloat64(), 0}
			v[3] = 2*v[0] - 3*v[1] + v[2] + 7 + r.NormFloat64()
			for j, x := range v {
				switch f := b.Field(j).(type) {
				case *array.Float64Builder:
					f.Append(x)
				case *array.Float32Builder:
					f.Append(float32(x))
				case *array.Int32Builder:
					f.Append(int32(x))
				case *array.Uint16Builder:
					f.Append(uint16(x))
				}
			}
		}
		out = append(out, b.NewRecordBatch())
		b.Release()
	}
	return out
}

// floatsOf returns the first column of a frame in host memory.
func floatsOf(t *testing.T, ctx context.Context, f *frame.Frame) []float64 {
	t.Helper()
	batches, err := f.Collect(ctx)
	must(t, err)
	var out []float64
	for _, b := range batches {
		switch c := b.Column(0).(type) {
		case *array.Float64:
			out = append(out, c.Float64Values()...)
		case *array.Float32:
			out = append(out, wide(c.Float32Values())...)
		}
		b.Release()
	}
	return out
}

// nearly wants two lists of numbers to be equal up to rounding.
func nearly(t *testing.T, what string, host, gpu []float64, within float64) {
	t.Helper()
	if len(host) != len(gpu) || len(host) == 0 {
		t.Errorf("%s: %d numbers on the host, %d on the GPU", what, len(host), len(gpu))
		return
	}
	for i, h := range host {
		if !(math.Abs(h-gpu[i]) <= within*(1+math.Abs(h))) {
			t.Errorf("%s: number %d is %v on the host, %v on the GPU", what, i, h, gpu[i])
			return
		}
	}
}

// TestGPUTallFrames: principal components and linear models of frames on the GPU, of one to three ranks that share it,
// are those of the host.
func TestGPUTallFrames(t *testing.T) {
	requireGPU(t)
	f64, f32 := arrow.DataType(arrow.PrimitiveTypes.Float64), arrow.DataType(arrow.PrimitiveTypes.Float32)
	i32, u16 := arrow.DataType(arrow.PrimitiveTypes.Int32), arrow.DataType(arrow.PrimitiveTypes.Uint16)
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprint(n, " ranks"), func(t *testing.T) {
			ctx, c := gpuCluster(t, n)
			for name, types := range map[string][]arrow.DataType{
				"float64": {f64, f64, f64, f64}, "float32": {f32, f32, f32, f32}, "mixed": {i32, u16, f32, f64},
			} {
				f, err := frame.FromBatches(ctx, c, tallBatches(t, []int{3000, 0, 2, 5001}, types...))
				must(t, err)
				df, err := f.ToDevice(ctx)
				must(t, err)
				within := 1e-9
				if name == "float32" {
					within = 1e-5
				}
				abc := []string{"a", "b", "c"}
				for _, uncentered := range []bool{false, true} {
					o := pca.Options{Columns: abc, Components: 2, Uncentered: uncentered}
					host, err := pca.Fit(ctx, f, o)
					must(t, err)
					gpu, err := pca.Fit(ctx, df, o)
					must(t, err)
					nearly(t, name+" singular values", host.SingularValues, gpu.SingularValues, 1e-10)
					nearly(t, name+" component", host.Components[1], gpu.Components[1], 1e-9)
					hx, err := host.Transform(ctx, f)
					must(t, err)
					gx, err := gpu.Transform(ctx, df)
					must(t, err)
					back, err := gx.ToHost(ctx)
					must(t, err)
					nearly(t, name+" coordinates", floatsOf(t, ctx, hx), floatsOf(t, ctx, back), within)
					for _, x := range []*frame.Frame{hx, gx, back} {
						x.Release()
					}
				}
				o := linear.Options{Target: "y", Ridge: 0.5}
				host, err := linear.Fit(ctx, f, o)
				must(t, err)
				gpu, err := linear.Fit(ctx, df, o)
				must(t, err)
				nearly(t, name+" coefficients", append(host.Coefficients, host.Intercept, host.R2),
					append(gpu.Coefficients, gpu.Intercept, gpu.R2), 1e-9)
				hp, err := host.Predict(ctx, f)
				must(t, err)
				gp, err := gpu.Predict(ctx, df)
				must(t, err)
				back, err := gp.ToHost(ctx)
				must(t, err)
				nearly(t, name+" predictions", floatsOf(t, ctx, hp), floatsOf(t, ctx, back), within)
				for _, x := range []*frame.Frame{hp, gp, back, f, df} {
					x.Release()
				}
			}
			tallErrors(t, ctx, c)
		})
	}
}

// tallErrors are those of the host.
func tallErrors(t *testing.T, ctx context.Context, c *client.Client) {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Float64, Nullable: true}}, nil)
	batch := func(values []float64, valid []bool) arrow.RecordBatch {
		b := array.NewRecordBuilder(memory.NewGoAllocator(), schema)
		defer b.Release()
		b.Field(0).(*array.Float64Builder).AppendValues(values, valid)
		return b.NewRecordBatch()
	}
	for want, batches := range map[string][]arrow.RecordBatch{
		`partition 1: column "x" has 2 nulls`: {batch([]float64{1}, nil),
			batch([]float64{1, 2, 3}, []bool{true, false, false})},
		`partition 1: column "x" has a value that is not finite`: {batch([]float64{1}, nil),
			batch([]float64{1, math.NaN()}, nil)},
		"no rows":               {batch(nil, nil), batch(nil, nil)},
		"1 row has no variance": {batch([]float64{1}, nil), batch(nil, nil)},
		"too large":             {batch([]float64{1e200, -1e200}, nil)},
	} {
		f, err := frame.FromBatches(ctx, c, batches)
		must(t, err)
		df, err := f.ToDevice(ctx)
		must(t, err)
		if _, err := pca.Fit(ctx, df, pca.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		f.Release()
		df.Release()
	}
}
