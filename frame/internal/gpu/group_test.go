package gpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/frame/internal/group"
)

func TestGPUGroup(t *testing.T) {
	e, ctx := engine(t)
	r := rand.New(rand.NewPCG(5, 1))
	check := func(what string, b arrow.RecordBatch, keys []int, aggs []group.Spec) {
		t.Helper()
		g, err := group.New(b.Schema(), keys, aggs, group.Complete)
		must(t, err)
		must(t, g.Add(b))
		want, err := g.Finish()
		must(t, err)
		got, err := e.Group(ctx, upload(t, ctx, e, b), keys, aggs)
		must(t, err)
		if !got.Schema.Equal(want.Schema()) {
			t.Fatalf("%s: schema %v, want %v", what, got.Schema, want.Schema())
		}
		compare(t, what, download(t, ctx, e, got), lines(want), true)
	}
	for i, typ := range types {
		for j, rows := range sizes[:len(sizes)-i%3] { // the largest for some
			for _, distinct := range []int{1, 60, 100_000} {
				nulls := float64((i+j)%2) * 0.2
				b := randomBatch(r, rows, column{typ, distinct, nulls}, column{arrow.PrimitiveTypes.Int64, 30, nulls},
					column{arrow.PrimitiveTypes.Int32, 1000, 0.1}, column{typ, 50, 0.1})
				aggs := []group.Spec{{Func: group.CountAll, Name: "n"}, {Func: group.Count, Column: 2, Name: "m"},
					{Func: group.Sum, Column: 2, Name: "s"}, {Func: group.Mean, Column: 2, Name: "a"},
					{Func: group.Min, Column: 3, Name: "lo"}, {Func: group.Max, Column: 3, Name: "hi"},
					{Func: group.Sum, Column: 1, Name: "wide"}, {Func: group.Mean, Column: 1, Name: "mean"}}
				for _, keys := range [][]int{{0}, {0, 1}, {0, 2, 3}, {}} {
					check(fmt.Sprintf("%v, %d rows, %d values, keys %v", typ, rows, distinct, keys), b, keys, aggs)
				}
			}
		}
	}
	b := randomBatch(r, 1_000_000, column{arrow.PrimitiveTypes.Int64, 300_000, 0},
		column{arrow.PrimitiveTypes.Int32, 99, 0})
	check("a million rows", b, []int{0}, []group.Spec{{Func: group.Sum, Column: 1, Name: "s"}})
	check("a million rows, few groups", b, []int{1}, []group.Spec{{Func: group.Sum, Column: 0, Name: "s"}})
	// Sums of floats that are exact in every order, without special values.
	f := array.NewFloat64Builder(memory.DefaultAllocator)
	k := array.NewInt32Builder(memory.DefaultAllocator)
	for range 50_000 {
		f.Append(float64(r.IntN(1<<20)) / 1024)
		k.Append(r.Int32N(5000))
	}
	b = array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "k", Type: arrow.PrimitiveTypes.Int32},
		{Name: "f", Type: arrow.PrimitiveTypes.Float64}}, nil), []arrow.Array{k.NewArray(), f.NewArray()}, 50_000)
	check("floats", b, []int{0}, []group.Spec{{Func: group.Sum, Column: 1, Name: "s"}, {Func: group.Mean, Column: 1,
		Name: "m"}})
}

// A sum beyond 64 bits is an error that names it; one that only passes through is none.
func TestGPUGroupOverflow(t *testing.T) {
	e, ctx := engine(t)
	for _, c := range []struct {
		values []int64
		fails  bool
	}{{[]int64{math.MaxInt64, 1, -1}, false}, {[]int64{math.MaxInt64, 1}, true}, {[]int64{math.MinInt64, -1}, true},
		{[]int64{math.MinInt64, math.MaxInt64}, false}} {
		ab := array.NewInt64Builder(memory.DefaultAllocator)
		ab.AppendValues(c.values, nil)
		b := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "v", Type: arrow.PrimitiveTypes.Int64}}, nil),
			[]arrow.Array{ab.NewArray()}, int64(len(c.values)))
		out, err := e.Group(ctx, upload(t, ctx, e, b), nil, []group.Spec{{Func: group.Sum, Column: 0, Name: "total"}})
		if c.fails != (err != nil) || err != nil && !strings.Contains(err.Error(), `"total"`) {
			t.Errorf("%v: %v", c.values, err)
		}
		if err == nil {
			var want int64
			for _, v := range c.values {
				want += v
			}
			compare(t, "sum", download(t, ctx, e, out), []string{fmt.Sprintf("%d ", want)}, false)
		}
	}
	if _, err := e.Group(ctx, upload(t, ctx, e, randomBatch(rand.New(rand.NewPCG(1, 1)), 3)), nil,
		[]group.Spec{{Func: group.Median, Column: 0, Name: "m"}}); err == nil {
		t.Error("median: want an error")
	}
}
