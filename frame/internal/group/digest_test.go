package group

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// TestApproxQuantile compares the rank of results with the wanted one, for distributions and ways to merge.
func TestApproxQuantile(t *testing.T) {
	const n = 200000
	var rng *rand.Rand
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: f64}}, nil)
	for name, next := range map[string]func(i int) float64{
		"uniform":     func(int) float64 { return rng.Float64() },
		"normal":      func(int) float64 { return rng.NormFloat64() },
		"exponential": func(int) float64 { return rng.ExpFloat64() },
		"ascending":   func(i int) float64 { return float64(i) },
		"few":         func(int) float64 { return float64(rng.IntN(3)) },
		"heavy":       func(int) float64 { return math.Exp(8 * rng.NormFloat64()) },
	} {
		rng = rand.New(rand.NewPCG(5, 6)) // maps are not in order
		v := make([]float64, n)
		for i := range v {
			v[i] = next(i)
		}
		b := array.NewFloat64Builder(heap)
		b.AppendValues(v, nil)
		batch := array.NewRecordBatch(schema, []arrow.Array{b.NewArray()}, n)
		var specs []Spec
		quantiles := []float64{0, 0.001, 0.01, 0.1, 0.25, 0.5, 0.9, 0.99, 0.999, 1}
		for _, q := range quantiles {
			specs = append(specs, Spec{Func: ApproxQuantile, Q: q})
		}
		var states []arrow.RecordBatch
		for from := int64(0); from < n; from += n / 50 {
			states = append(states, run(t, schema, nil, specs, Partial, batch.NewSlice(from, from+n/50)))
		}
		for way, out := range map[string]arrow.RecordBatch{
			"complete": run(t, schema, nil, specs, Complete, batch),
			"final":    run(t, schema, nil, specs, Final, states...),
		} {
			slices.Sort(v)
			for i, q := range quantiles {
				got := out.Column(i).(*array.Float64).Value(0)
				lo, _ := slices.BinarySearch(v, got)
				hi, _ := slices.BinarySearch(v, math.Nextafter(got, math.Inf(1)))
				want := q * (n - 1)
				off := max(float64(lo)-want, want-float64(hi), 0) / n
				if limit := 4*q*(1-q)/digestSize + 1e-5; off > limit {
					t.Errorf("%s, %s: quantile %v: rank is off by %.5f, want at most %.5f", name, way, q, off, limit)
				}
			}
		}
		if size := states[0].Column(0).(*array.List).ListValues().Len(); size > 5*digestSize {
			t.Errorf("%s: digest has %d centroids", name, size)
		}
	}
}

// TestApproxQuantileFlush has values that are moved to digests several times, and infinities.
func TestApproxQuantileFlush(t *testing.T) {
	h := newDigests()
	h.limit = 1000
	rng := rand.New(rand.NewPCG(1, 1))
	b := array.NewFloat64Builder(heap)
	for i := range 20 * block {
		switch {
		case i%100 == 0:
			b.Append(math.Inf(1))
		case i%100 == 1:
			b.Append(math.Inf(-1))
		default:
			b.Append(rng.Float64())
		}
	}
	a := b.NewArray()
	if err := h.bind([]arrow.Array{a}, 0); err != nil {
		t.Fatal(err)
	}
	ids := make([]uint32, block)
	for i := range ids {
		ids[i] = uint32(i % 3)
	}
	for from := 0; from < a.Len(); from += block {
		if err := h.add(from, ids, 4); err != nil {
			t.Fatal(err)
		}
	}
	out := h.quantile(4, 0.5).(*array.Float64)
	for g := range 3 {
		if m := out.Value(g); math.Abs(m-0.5) > 0.03 {
			t.Errorf("median of group %d: got %v, want about 0.5", g, m)
		}
	}
	if out.IsValid(3) {
		t.Error("group without values has a median")
	}
	top := h.quantile(4, 1).(*array.Float64).Value(0)
	if !math.IsInf(top, 1) {
		t.Errorf("maximum: got %v, want +Inf", top)
	}
}

// TestPivot compares with sorted values, also ones with few distinct values or in order.
func TestPivot(t *testing.T) {
	var rng *rand.Rand
	for _, n := range []int{1, 2, 23, 25, 100, 199, 200, 3000} {
		for name, next := range map[string]func(i int) uint64{
			"random":     func(int) uint64 { return rng.Uint64() },
			"few":        func(int) uint64 { return rng.Uint64N(3) },
			"same":       func(int) uint64 { return 7 },
			"ascending":  func(i int) uint64 { return uint64(i) },
			"descending": func(i int) uint64 { return uint64(n - i) },
			"organ":      func(i int) uint64 { return uint64(min(i, n-i)) },
		} {
			rng = rand.New(rand.NewPCG(9, 9)) // maps are not in order
			v := make([]uint64, n)
			for i := range v {
				v[i] = next(i)
			}
			want := slices.Sorted(slices.Values(v))
			for _, at := range []int{0, n / 3, n / 2, n - 1} {
				pivot(v, at)
				if v[at] != want[at] {
					t.Fatalf("%s, %d values: number %d: got %d, want %d", name, n, at, v[at], want[at])
				}
				for i, x := range v {
					if i < at && x > v[at] || i > at && x < v[at] {
						t.Fatalf("%s, %d values: %d is on the wrong side of number %d", name, n, x, at)
					}
				}
			}
			slices.Sort(v)
			if !slices.Equal(v, want) {
				t.Fatalf("%s: values were lost", name)
			}
		}
	}
}

func TestSortKey(t *testing.T) {
	in := []float64{math.Inf(-1), -1e300, -1, -1e-300, 0, 1e-300, 1, 1e300, math.Inf(1), math.NaN()}
	for i, f := range in {
		if got := fromKey(sortKey(f)); got != f && f == f {
			t.Errorf("%v: got back %v", f, got)
		}
		if i > 0 && sortKey(in[i-1]) >= sortKey(f) {
			t.Errorf("%v is not before %v", in[i-1], f)
		}
	}
	if sortKey(math.Copysign(0, -1)) != sortKey(0) {
		t.Error("zeros differ")
	}
}
