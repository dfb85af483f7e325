package frame

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
	"go.millstream.dev/cluster"
	"go.millstream.dev/internal/testkit/leak"
)

// queryCase is a query and the same computation in plain Go. l and r are two tables of salesSchema.
type queryCase struct {
	name    string
	query   func(l, r *Query) *Query
	want    func(l, r rows) rows
	ordered bool // of the result
}

var rowCases = []queryCase{
	{name: "filter and select", query: func(l, _ *Query) *Query {
		return l.Filter(Col("k").Gt(2).And(Col("x").Lt(100))).Select(Col("i"), Col("k").As("k1"), Col("s"))
	}, want: func(l, _ rows) rows {
		return l.filter(func(get func(string) any) bool {
			return get("k") != nil && get("k").(int64) > 2 && get("x") != nil && get("x").(float64) < 100
		}).project([]string{"i", "k1", "s"}, func(get func(string) any) []any {
			return []any{get("i"), get("k"), get("s")}
		})
	}, ordered: true},
	{name: "filter none", query: func(l, _ *Query) *Query { return l.Filter(Col("i").Lt(0)) },
		want: func(l, _ rows) rows { return rows{names: l.names} }, ordered: true},
	{name: "with, drop and rename", query: func(l, _ *Query) *Query {
		return l.With(Col("i").Ge(2).As("many"), Col("x").IsNull().As("b")).Drop("s", "k").Rename("i", "id")
	}, want: func(l, _ rows) rows {
		return l.project([]string{"id", "x", "b", "many"}, func(get func(string) any) []any {
			return []any{get("i"), get("x"), get("x") == nil, get("i").(int64) >= 2}
		})
	}, ordered: true},
	{name: "limit", query: func(l, _ *Query) *Query { return l.Filter(Col("k").NotNull()).Limit(7) },
		want: func(l, _ rows) rows {
			return l.filter(func(get func(string) any) bool { return get("k") != nil }).first(0, 7)
		}, ordered: true},
	{name: "limit with offset", query: func(l, _ *Query) *Query { return l.Offset(5).Limit(11).Select(Col("i")) },
		want: func(l, _ rows) rows { return l.first(5, 11).pick("i") }, ordered: true},
	{name: "offset beyond the end", query: func(l, _ *Query) *Query { return l.Offset(1 << 40) },
		want: func(l, _ rows) rows { return rows{names: l.names} }, ordered: true},
	{name: "limit 0", query: func(l, _ *Query) *Query { return l.Limit(0) },
		want: func(l, _ rows) rows { return rows{names: l.names} }, ordered: true},
	{name: "union", query: func(l, r *Query) *Query {
		return l.Filter(Col("b").Eq(true)).Union(r, l).Filter(Col("k").Ge(0)).Select(Col("i"), Col("b"))
	}, want: func(l, r rows) rows {
		out := l.filter(func(get func(string) any) bool { return get("b") == true })
		out.vals = append(append(slices.Clone(out.vals), r.vals...), l.vals...)
		return out.filter(func(get func(string) any) bool { return get("k") != nil && get("k").(int64) >= 0 }).
			pick("i", "b")
	}, ordered: true},
	{name: "sample all", query: func(l, _ *Query) *Query { return l.Sample(1, 3) },
		want: func(l, _ rows) rows { return l }, ordered: true},
	{name: "sample none", query: func(l, _ *Query) *Query { return l.Sample(0, 3) },
		want: func(l, _ rows) rows { return rows{names: l.names} }, ordered: true},
}

// allCases returns the cases of all operators.
func allCases() []queryCase {
	return rowCases
}

// cutRows returns a frame of the rows of a batch in random partitions, some of them empty.
func cutRows(t *testing.T, ctx context.Context, c *client.Client, b arrow.RecordBatch, parts int,
	rng *rand.Rand) *Frame {
	t.Helper()
	cuts := cutsOf(int(b.NumRows()), parts, rng)
	batches := make([]arrow.RecordBatch, parts)
	for i := range parts {
		batches[i] = b.NewSlice(int64(cuts[i]), int64(cuts[i+1]))
	}
	return must[*Frame](t)(FromBatches(ctx, c, batches))
}

// TestQueryProduct compares all operators with plain Go for all numbers of workers, threads and partitions, with more
// partitions than rows and without rows, twice.
func TestQueryProduct(t *testing.T) {
	type shape struct{ workers, threads int }
	shapes := []shape{{1, 1}, {3, 2}}
	counts := []int{1, 3, 40}
	if os.Getenv("MILLSTREAM_FRAMES") == "full" {
		shapes = []shape{{1, 1}, {1, 4}, {2, 1}, {3, 2}}
		counts = []int{1, 2, 3, 7, 40}
	}
	for _, s := range shapes {
		t.Run(fmt.Sprintf("%d×%d", s.workers, s.threads), func(t *testing.T) {
			leak.Check(t)
			ctx, c := connectShape(t, s.workers, s.threads)
			rng := rand.New(rand.NewPCG(uint64(s.workers), uint64(s.threads)))
			for _, n := range counts {
				for _, size := range []int{0, 5, 150} {
					testQueryCases(t, ctx, c, fmt.Sprintf("%d partitions, %d rows", n, size), size, n, rng)
				}
			}
		})
	}
}

// connectShape starts a cluster with numbers of workers and threads, and a client of it.
func connectShape(t *testing.T, workers, threads int) (context.Context, *client.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	lc := must[*cluster.Cluster](t)(cluster.Local(ctx, cluster.Config{Workers: workers, Threads: threads,
		Mode: cluster.Goroutines, DataConnections: "none"}))
	t.Cleanup(func() { _ = lc.Close() })
	c := must[*client.Client](t)(lc.Client(ctx))
	t.Cleanup(func() { _ = c.Close() })
	return ctx, c
}

func testQueryCases(t *testing.T, ctx context.Context, c *client.Client, what string, size, parts int, rng *rand.Rand) {
	left, right := sales(size, 1), sales(size*2/3, 2)
	lf, rf := cutRows(t, ctx, c, left, parts, rng), cutRows(t, ctx, c, right, max(1, parts/2), rng)
	defer lf.Release()
	defer rf.Release()
	l := rowsOfBatches(salesSchema, []arrow.RecordBatch{left})
	r := rowsOfBatches(salesSchema, []arrow.RecordBatch{right})
	for i, x := range allCases() {
		want := x.want(l, r)
		q := x.query(lf.Query(), rf.Query())
		for range 1 + i%2 { // some twice
			name := fmt.Sprintf("%s: %s", what, x.name)
			got, f, err := result(ctx, q)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			sameRows(t, name, got, want, x.ordered)
			if f.NumPartitions() == 0 {
				t.Errorf("%s: got a frame without partitions", name)
			}
			f.Release()
			if t.Failed() {
				t.FailNow()
			}
		}
	}
}
