package gpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"go.millstream.dev/frame/internal/order"
)

// A table comes back as it was, also a slice that begins within a byte of bits.
func TestGPURoundTrip(t *testing.T) {
	e, ctx := engine(t)
	r := rand.New(rand.NewPCG(1, 1))
	var all []column
	for i, typ := range types {
		all = append(all, column{typ, 100, float64(i%2) * 0.3})
	}
	for _, rows := range sizes {
		b := randomBatch(r, rows+5, all...)
		for _, first := range []int{0, 3} {
			s := b.NewSlice(int64(first), int64(first+rows))
			got := download(t, ctx, e, upload(t, ctx, e, s))
			compare(t, fmt.Sprintf("%d rows from %d", rows, first), got, lines(s), false)
		}
	}
}

// Partitions have all rows, and those with equal keys together.
func TestGPUPartition(t *testing.T) {
	e, ctx := engine(t)
	r := rand.New(rand.NewPCG(2, 1))
	for i, rows := range sizes {
		for _, n := range []int{1, 2, 4, 31, 512} {
			a, z := types[i%len(types)], types[(i*5+3)%len(types)]
			b := randomBatch(r, rows, column{a, 50, 0.2}, column{z, 1000, 0},
				column{arrow.PrimitiveTypes.Float64, 9, 0.5})
			keys := []int{0, 1}[:1+i%2]
			parts, err := e.Partition(ctx, upload(t, ctx, e, b), keys, n)
			must(t, err)
			var got []string
			at := map[string]int{}
			for p, d := range parts {
				for _, line := range download(t, ctx, e, d) {
					key := strings.Join(strings.Fields(line)[:len(keys)], " ")
					if q, ok := at[key]; ok && q != p {
						t.Fatalf("%d rows: key %q is in partitions %d and %d", rows, key, q, p)
					}
					at[key] = p
					got = append(got, line)
				}
			}
			if n == 4 && rows > 1000 && len(keys) == 2 && len(at) > 100 {
				used := map[int]bool{}
				for _, p := range at {
					used[p] = true
				}
				if len(used) != n {
					t.Errorf("%d keys are in %d of %d partitions", len(at), len(used), n)
				}
			}
			compare(t, fmt.Sprintf("%d rows in %d partitions", rows, n), got, lines(b), true)
		}
	}
	d := upload(t, ctx, e, randomBatch(r, 3))
	for _, n := range []int{0, 513} {
		if _, err := e.Partition(ctx, d, []int{0}, n); err == nil {
			t.Errorf("%d partitions: want an error", n)
		}
	}
	if _, err := e.Partition(ctx, d, []int{1}, 2); err == nil || !strings.Contains(err.Error(), "no column 1") {
		t.Errorf("a missing column: %v", err)
	}
}

// Filters keep the order of rows; nulls are never true.
func TestGPUFilter(t *testing.T) {
	e, ctx := engine(t)
	r := rand.New(rand.NewPCG(3, 1))
	for _, rows := range sizes {
		b := randomBatch(r, rows, column{arrow.PrimitiveTypes.Int32, 20, 0.2},
			column{arrow.PrimitiveTypes.Float64, 20, 0.2})
		d := upload(t, ctx, e, b)
		a, f := b.Column(0).(*array.Int32), b.Column(1).(*array.Float64)
		for op, yes := range map[Compare]func(c int) bool{
			Eq: func(c int) bool { return c == 0 }, Ne: func(c int) bool { return c != 0 },
			Lt: func(c int) bool { return c < 0 }, Le: func(c int) bool { return c <= 0 },
			Gt: func(c int) bool { return c > 0 }, Ge: func(c int) bool { return c >= 0 }} {
			got, err := e.Filter(ctx, d, Condition{Column: 0, Op: op, Int: 7}, Condition{Column: 1, Op: Lt,
				Float: math.Inf(1)})
			must(t, err)
			var want []string
			all := lines(b)
			for i := range rows {
				if a.IsValid(i) && f.IsValid(i) && yes(int(a.Value(i))-7) && f.Value(i) < math.Inf(1) {
					want = append(want, all[i])
				}
			}
			compare(t, fmt.Sprintf("%d rows, operator %d", rows, op), download(t, ctx, e, got), want, false)
		}
	}
}

func TestGPUSort(t *testing.T) {
	e, ctx := engine(t)
	r := rand.New(rand.NewPCG(4, 1))
	for i, typ := range types {
		for _, rows := range append(sizes, 3071, 3072, 3073) {
			b := randomBatch(r, rows, column{typ, 300, 0.1}, column{arrow.PrimitiveTypes.Int16, 3, 0.1})
			keys := [][]order.SortKey{{{Col: 0, Desc: i%2 == 0}}, {{Col: 1, NullsFirst: true},
				{Col: 0, Desc: i%2 == 1, NullsFirst: i%3 == 0}}, nil}[rows%3]
			want, err := order.Sort(b.Schema(), []arrow.RecordBatch{b}, keys)
			must(t, err)
			got, err := e.Sort(ctx, upload(t, ctx, e, b), keys)
			must(t, err)
			compare(t, fmt.Sprintf("%v, %d rows by %v", typ, rows, keys), download(t, ctx, e, got), lines(want), false)
		}
	}
	b := randomBatch(r, 1_000_000, column{arrow.PrimitiveTypes.Int64, 1 << 40, 0.01})
	keys := []order.SortKey{{Col: 0}}
	want, err := order.Sort(b.Schema(), []arrow.RecordBatch{b}, keys)
	must(t, err)
	got, err := e.Sort(ctx, upload(t, ctx, e, b), keys)
	must(t, err)
	compare(t, "a million rows", download(t, ctx, e, got), lines(want), false)
}

// Random columns do not depend on how they are divided, and a sum of rows not on their order.
func TestGPURandom(t *testing.T) {
	e, ctx := engine(t)
	s := arrow.NewSchema([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int32}, {Name: "b",
		Type: arrow.PrimitiveTypes.Int64}, {Name: "c", Type: arrow.PrimitiveTypes.Float64}}, nil)
	columns := []Random{{Seed: 1, Low: 1, Range: 100}, {Counted: true, Spread: true}, {Seed: 2, Range: 100}}
	whole, err := e.Random(ctx, s, 0, 10_000, columns)
	must(t, err)
	sum, err := e.Sum(ctx, whole)
	must(t, err)
	b, err := e.Download(ctx, whole)
	must(t, err)
	whole.Release()
	seen := map[int32]bool{}
	for _, v := range b.Column(0).(*array.Int32).Int32Values() {
		seen[v] = true
		if v < 1 || v > 100 {
			t.Fatalf("value %d, want 1 to 100", v)
		}
	}
	if len(seen) != 100 {
		t.Errorf("%d values of 100", len(seen))
	}
	unique := slices.Clone(b.Column(1).(*array.Int64).Int64Values())
	slices.Sort(unique)
	if n := len(slices.Compact(unique)); n != 10_000 {
		t.Errorf("%d different numbers of 10000 rows", n)
	}
	var total uint64
	var got []string
	for _, first := range []int{3333, 0, 6666} {
		part, err := e.Random(ctx, s, first, map[int]int{0: 3333, 3333: 3333, 6666: 3334}[first], columns)
		must(t, err)
		n, err := e.Sum(ctx, part)
		must(t, err)
		total += n
		got = append(got, download(t, ctx, e, part)...)
	}
	if total != sum {
		t.Errorf("sum of the parts %x, of all %x", total, sum)
	}
	compare(t, "parts", got, lines(b), true)
}
