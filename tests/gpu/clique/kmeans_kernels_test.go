package clique

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/device/kernels/gpulloyd"
	"go.millstream.dev/internal/device/kernels/lloyd"
	"go.millstream.dev/mem"
)

// kmeansConfig is memory and a stream for the kernels, which end with the test.
func kmeansConfig(t testing.TB) gpulloyd.Config {
	t.Helper()
	memory, err := mem.NewPool(cuda.NewDeviceResource(device), mem.PoolConfig{})
	must(t, err)
	pinned, err := mem.NewPool(cuda.NewPinnedResource(device), mem.PoolConfig{SlabBytes: 8 << 20})
	must(t, err)
	s, err := cuda.NewStream(device, cuda.StreamConfig{})
	must(t, err)
	t.Cleanup(func() {
		if err := s.Wait(context.Background()); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		for _, p := range []*mem.Pool{memory, pinned} {
			if n := p.Stats().Outstanding; n != 0 {
				t.Errorf("%d buffers of the %v pool are still out", n, p.Kind())
			}
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return gpulloyd.Config{Device: device, Memory: memory, Pinned: pinned, Stream: s}
}

// kmeansRows are columns in host memory and the same on the device.
func kmeansRows[T lloyd.Float](t testing.TB, ctx context.Context, cfg gpulloyd.Config, k int,
	parts ...[][]T) *gpulloyd.Rows {
	t.Helper()
	narrow := unsafe.Sizeof(T(0)) == 4
	kind := "f64"
	if narrow {
		kind = "f32"
	}
	r, err := gpulloyd.New(ctx, cfg, len(parts[0]), k, narrow)
	must(t, err)
	t.Cleanup(r.Close)
	for _, columns := range parts {
		var on []gpulloyd.Column
		for _, c := range columns {
			b := kmeansUpload(t, ctx, cfg.Memory, c)
			defer b.Release()
			on = append(on, gpulloyd.Column{Buffer: b, Type: kind})
		}
		must(t, r.Add(ctx, len(columns[0]), on))
	}
	return r
}

func kmeansUpload[N any](t testing.TB, ctx context.Context, from mem.Resource, v []N) *mem.Buffer {
	t.Helper()
	n := len(v) * int(unsafe.Sizeof(*new(N)))
	b, err := from.Alloc(ctx, n)
	must(t, err)
	if n > 0 {
		must(t, cuda.CopyFromHost(ctx, b, unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), n)))
	}
	return b
}

func kmeansLabels(t testing.TB, ctx context.Context, r *gpulloyd.Rows, part int) []int32 {
	t.Helper()
	b := r.Labels(part)
	defer b.Release()
	out := make([]int32, r.Rows(part))
	if len(out) > 0 {
		must(t, cuda.CopyToHost(ctx, unsafe.Slice((*byte)(unsafe.Pointer(&out[0])), 4*len(out)), b))
	}
	return out
}

func kmeansData[T lloyd.Float](r *rand.Rand, n, d int) [][]T {
	out := make([][]T, d)
	for j := range out {
		out[j] = make([]T, n)
		for i := range out[j] {
			out[j][i] = T(100 + r.NormFloat64())
		}
	}
	return out
}

func wide[T lloyd.Float](v []T) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = float64(x)
	}
	return out
}

func close9(a, b float64) bool { return math.Abs(a-b) <= 1e-9*(1+math.Abs(a)+math.Abs(b)) }

// testKMeansPass compares all kernels with package lloyd. Labels are the same, bit by bit.
func testKMeansPass[T lloyd.Float](t *testing.T, cfg gpulloyd.Config) {
	ctx := testContext(t)
	r := rand.New(rand.NewPCG(1, 2))
	for _, d := range []int{1, 3, 4, 5, 8, 13, 16, 17, 32, 33, 70} {
		for _, k := range []int{1, 2, 9, 31, 130, 300} {
			for _, n := range []int{1, 255, 513, 3000} {
				name := fmt.Sprintf("%T, %d rows, %d columns, %d centers", T(0), n, d, k)
				parts := [][][]T{kmeansData[T](r, n, d), kmeansData[T](r, 0, d), kmeansData[T](r, n/2+1, d)}
				func() {
					rows := kmeansRows(t, ctx, cfg, k, parts...)
					defer rows.Close()
					shift := make([]T, d)
					for j := range shift {
						shift[j] = 100
					}
					labels := [][]int32{make([]int32, n), nil, make([]int32, n/2+1)}
					for _, l := range labels {
						for i := range l {
							l[i] = -1
						}
					}
					sums, counts := make([]float64, k*d), make([]int64, k)
					var centers []T
					for pass := range 2 {
						centers = make([]T, k*d)
						for i := range centers {
							centers[i] = T(100 + r.NormFloat64())
						}
						if k > 2 { // two in one place: the first counts
							copy(centers[2*d:3*d], centers[:d])
						}
						changed := 0
						for i, l := range labels {
							changed += lloyd.Pass(parts[i], centers, shift, l, sums, counts)
						}
						all, err := rows.Pass(ctx, wide(shift), wide(centers))
						must(t, err)
						if got := all[k*(d+1)]; got != float64(changed) {
							t.Errorf("%s, pass %d: %v labels changed, want %d", name, pass, got, changed)
						}
						for i, want := range sums {
							if !close9(all[i], want) {
								t.Fatalf("%s, pass %d: sum %d is %v, want %v", name, pass, i, all[i], want)
							}
						}
						for i, want := range counts {
							if all[k*d+i] != float64(want) {
								t.Fatalf("%s, pass %d: count %d is %v, want %d", name, pass, i, all[k*d+i], want)
							}
						}
						for i, l := range labels {
							for row, got := range kmeansLabels(t, ctx, rows, i) {
								if got != l[row] {
									t.Fatalf("%s, pass %d: row %d of part %d has label %d, want %d", name, pass, row, i,
										got, l[row])
								}
							}
						}
					}
					kmeansOthers(t, ctx, name, rows, parts, labels, centers, shift)
				}()
			}
		}
	}
}

// kmeansOthers compares what is done besides passes.
func kmeansOthers[T lloyd.Float](t *testing.T, ctx context.Context, name string, rows *gpulloyd.Rows, parts [][][]T,
	labels [][]int32, centers, shift []T) {
	t.Helper()
	d := len(shift)
	var want float64
	for i, p := range parts {
		want += lloyd.Inertia(p, centers, labels[i])
	}
	got, err := rows.Inertia(ctx, wide(centers))
	must(t, err)
	if !close9(got, want) {
		t.Errorf("%s: inertia %v, want %v", name, got, want)
	}
	moments, wantMoments := make([]float64, 2*d), make([]float64, 2*d)
	must(t, rows.Moments(ctx, wide(shift), moments))
	for _, p := range parts {
		for j, c := range p {
			for _, v := range c {
				e := float64(v - shift[j])
				wantMoments[j] += e
				wantMoments[d+j] += e * e
			}
		}
	}
	for i := range moments {
		if !close9(moments[i], wantMoments[i]) {
			t.Errorf("%s: moment %d is %v, want %v", name, i, moments[i], wantMoments[i])
		}
	}
	near, err := rows.NewDistances(ctx)
	must(t, err)
	defer near.Release()
	least, err := rows.NewDistances(ctx)
	must(t, err)
	defer least.Release()
	must(t, near.ToPoint(ctx, wide(centers[:d]), nil))
	must(t, least.ToPoint(ctx, wide(shift), near))
	last := len(parts) - 1
	a, b := make([]float64, len(parts[last][0])), make([]float64, len(parts[last][0]))
	lloyd.Distances(parts[last], centers[:d], a)
	lloyd.Distances(parts[last], shift, b)
	var sum float64
	for i := range a {
		b[i] = min(a[i], b[i])
		sum += b[i]
	}
	if got, err := least.Sum(ctx, last); err != nil || !close9(got, sum) {
		t.Errorf("%s: distances add up to %v, want %v (%v)", name, got, sum, err)
	}
	host, err := least.Host(ctx, last)
	must(t, err)
	for i := range b {
		if !close9(host[i], b[i]) {
			t.Errorf("%s: distance of row %d is %v, want %v", name, i, host[i], b[i])
			break
		}
	}
	for _, part := range []float64{0, 0.3, 0.99, 2} {
		row, run := len(b)-1, 0.0
		for i, e := range b {
			if run += e; run >= part*sum {
				row = i
				break
			}
		}
		if got, err := least.Find(ctx, last, part*sum); err != nil || got != row {
			t.Errorf("%s: %v of the distances are reached at row %d, want %d (%v)", name, part, got, row, err)
		}
	}
	out := make([]float64, d)
	label, err := rows.Row(ctx, last, len(b)-1, out)
	must(t, err)
	if label != labels[last][len(b)-1] || out[d-1] != float64(parts[last][d-1][len(b)-1]) {
		t.Errorf("%s: the last row is %v with label %d", name, out, label)
	}
	if i, j, err := rows.Finite(ctx); err != nil || i >= 0 || j >= 0 {
		t.Errorf("%s: part %d, column %d is not finite? (%v)", name, i, j, err)
	}
}

func TestGPUKMeansKernels(t *testing.T) {
	requireGPU(t)
	t.Run("float64", func(t *testing.T) { testKMeansPass[float64](t, kmeansConfig(t)) })
	t.Run("float32", func(t *testing.T) { testKMeansPass[float32](t, kmeansConfig(t)) })
}

// Rows that are no numbers get the label that the CPU gives them, and are found.
func TestGPUKMeansNotFinite(t *testing.T) {
	requireGPU(t)
	ctx, cfg := testContext(t), kmeansConfig(t)
	columns := kmeansData[float32](rand.New(rand.NewPCG(3, 4)), 1000, 6)
	columns[4][77], columns[5][3] = float32(math.NaN()), float32(math.Inf(-1))
	rows := kmeansRows(t, ctx, cfg, 3, kmeansData[float32](rand.New(rand.NewPCG(3, 4)), 10, 6), columns)
	centers := make([]float32, 3*6)
	for i := range centers {
		centers[i] = float32(99 + i%3)
	}
	shift := make([]float32, 6)
	labels := make([]int32, 1000)
	lloyd.Pass(columns, centers, shift, labels, nil, nil)
	all, err := rows.Pass(ctx, wide(shift), wide(centers))
	must(t, err)
	for i, l := range kmeansLabels(t, ctx, rows, 1) {
		if l != labels[i] {
			t.Errorf("row %d has label %d, want %d", i, l, labels[i])
		}
	}
	var sum float64
	for _, v := range all[:3*6] {
		sum += v
	}
	if !math.IsNaN(sum) && !math.IsInf(sum, 0) {
		t.Errorf("the sums add up to %v, and there is a NaN among the rows", sum)
	}
	if i, j, err := rows.Finite(ctx); err != nil || i != 1 || j != 4 {
		t.Errorf("part %d, column %d is not finite, want part 1, column 4 (%v)", i, j, err)
	}
}

// Integers are worked on as float64.
func TestGPUKMeansIntegers(t *testing.T) {
	requireGPU(t)
	ctx, cfg := testContext(t), kmeansConfig(t)
	const n = 700
	want := make([]float64, n)
	i8, i16, i32, i64 := make([]int8, n), make([]int16, n), make([]int32, n), make([]int64, n)
	u8, u16, u32, u64, f32 := make([]uint8, n), make([]uint16, n), make([]uint32, n), make([]uint64, n),
		make([]float32, n)
	for i := range n {
		v := i % 128
		want[i] = float64(v)
		i8[i], i16[i], i32[i], i64[i] = int8(v), int16(v), int32(v), int64(v)
		u8[i], u16[i], u32[i], u64[i], f32[i] = uint8(v), uint16(v), uint32(v), uint64(v), float32(v)
	}
	columns := []gpulloyd.Column{
		{Buffer: kmeansUpload(t, ctx, cfg.Memory, i8), Type: "i8"},
		{Buffer: kmeansUpload(t, ctx, cfg.Memory, i16), Type: "i16"},
		{Buffer: kmeansUpload(t, ctx, cfg.Memory, i32), Type: "i32"},
		{Buffer: kmeansUpload(t, ctx, cfg.Memory, i64), Type: "i64"},
		{Buffer: kmeansUpload(t, ctx, cfg.Memory, u8), Type: "u8"},
		{Buffer: kmeansUpload(t, ctx, cfg.Memory, u16), Type: "u16"},
		{Buffer: kmeansUpload(t, ctx, cfg.Memory, u32), Type: "u32"},
		{Buffer: kmeansUpload(t, ctx, cfg.Memory, u64), Type: "u64"},
		{Buffer: kmeansUpload(t, ctx, cfg.Memory, f32), Type: "f32"},
		{Buffer: kmeansUpload(t, ctx, cfg.Memory, want), Type: "f64"},
	}
	rows, err := gpulloyd.New(ctx, cfg, len(columns), 1, false)
	must(t, err)
	defer rows.Close()
	must(t, rows.Add(ctx, n, columns))
	for _, c := range columns {
		c.Buffer.Release()
	}
	var sum float64
	for _, v := range want {
		sum += v
	}
	all, err := rows.Pass(ctx, make([]float64, len(columns)), make([]float64, len(columns)))
	must(t, err)
	for j := range columns {
		if all[j] != sum {
			t.Errorf("column %s adds up to %v, want %v", columns[j].Type, all[j], sum)
		}
	}
}
