package frame

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"go.millstream.dev/client"
	"go.millstream.dev/cluster"
)

// connectMany starts a cluster with a number of workers and a client of it.
func connectMany(t testing.TB, workers int) (context.Context, *client.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	lc, err := cluster.Local(ctx, cluster.Config{Workers: workers, Threads: 1, Mode: cluster.Goroutines,
		DataConnections: "none"})
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

// cutsOf returns positions to cut rows at: evenly, with empty partitions at both ends and in the middle, and all in
// one.
func cutsOf(rows, parts int, rng *rand.Rand) []int {
	cuts := []int{0}
	for i := 1; i < parts; i++ {
		cuts = append(cuts, max(cuts[i-1], rng.IntN(rows+1)))
	}
	return append(cuts, rows)
}

// person is a row of people in plain Go.
type person struct {
	id    int64
	name  string
	named bool
	score float64
	known bool
	ok    bool
}

func personAt(i int) person {
	p := person{id: int64(i), named: i%3 != 2, known: i%4 != 3, ok: i%2 == 0}
	if p.named {
		p.name = "n" + "xxxx"[:i%5]
	}
	if p.known {
		p.score = float64(i) / 2
	}
	return p
}

// conditions are expressions with their value for a row, in the three-valued logic of SQL: -1 is unknown.
var conditions = []struct {
	e     Expr
	truth func(p person) int
}{
	{Col("id").Ge(30), func(p person) int { return btoi(p.id >= 30) }},
	{Col("id").Lt(30), func(p person) int { return btoi(p.id < 30) }},
	{Col("id").Eq(7), func(p person) int { return btoi(p.id == 7) }},
	{Col("id").Ne(7), func(p person) int { return btoi(p.id != 7) }},
	{Col("id").Between(10, 20), func(p person) int { return btoi(p.id >= 10 && p.id <= 20) }},
	{Col("id").In(1, 5, 99), func(p person) int { return btoi(p.id == 1 || p.id == 5 || p.id == 99) }},
	{Col("score").Gt(10.5), func(p person) int { return known(p.known, p.score > 10.5) }},
	{Col("score").Le(10.5), func(p person) int { return known(p.known, p.score <= 10.5) }},
	{Col("score").Gt(10.5).Not(), func(p person) int { return known(p.known, !(p.score > 10.5)) }},
	{Col("name").Eq("nx"), func(p person) int { return known(p.named, p.name == "nx") }},
	{Col("name").Gt("nx"), func(p person) int { return known(p.named, p.name > "nx") }},
	{Col("name").IsNull(), func(p person) int { return btoi(!p.named) }},
	{Col("name").NotNull(), func(p person) int { return btoi(p.named) }},
	{Col("ok").Eq(true), func(p person) int { return btoi(p.ok) }},
	{Col("ok").Lt(true), func(p person) int { return btoi(!p.ok) }},
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func known(k, b bool) int {
	if !k {
		return -1
	}
	return btoi(b)
}

// TestConditions compares Select with plain Go: each condition, and every two of them with And, Or and Not.
func TestConditions(t *testing.T) {
	const n = 60
	b := batchOf(0, n)
	check := func(e Expr, truth func(p person) int) {
		t.Helper()
		out, err := Select(b, e)
		if err != nil {
			t.Fatalf("%v: %v", e, err)
		}
		defer out.Release()
		var want []int64
		for i := range n {
			if truth(personAt(i)) == 1 {
				want = append(want, int64(i))
			}
		}
		if got := out.Column(0).(*array.Int64).Int64Values(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%v: rows %v, want %v", e, got, want)
		}
	}
	not := func(x int) int {
		if x < 0 {
			return x
		}
		return 1 - x
	}
	for _, x := range conditions {
		check(x.e, x.truth)
		check(x.e.Not(), func(p person) int { return not(x.truth(p)) })
		for _, y := range conditions {
			check(x.e.And(y.e), func(p person) int {
				a, b := x.truth(p), y.truth(p)
				if a == 0 || b == 0 {
					return 0
				}
				return min(a, b)
			})
			check(x.e.Or(y.e).Not(), func(p person) int {
				a, b := x.truth(p), y.truth(p)
				if a == 1 || b == 1 {
					return 0
				}
				return not(min(a, b)) // unknown if one is
			})
		}
	}
}

// TestPartitions: for any partitions and workers, operations have the results of one batch, twice.
func TestPartitions(t *testing.T) {
	const rows = 50
	whole := batchOf(0, rows)
	rng := rand.New(rand.NewPCG(5, 6))
	for _, workers := range []int{1, 3} {
		ctx, c := connectMany(t, workers)
		for parts := 1; parts <= 5; parts++ {
			cuts := cutsOf(rows, parts, rng)
			var batches []arrow.RecordBatch
			for i := range parts {
				batches = append(batches, whole.NewSlice(int64(cuts[i]), int64(cuts[i+1])))
			}
			f := must[*Frame](t)(FromBatches(ctx, c, batches))
			name := fmt.Sprintf("%d workers, cuts %v", workers, cuts)
			for run := range 2 {
				same(t, ctx, name, f, whole)
				x := conditions[(parts*7+run)%len(conditions)]
				filtered := must[*Frame](t)(f.Filter(ctx, x.e))
				same(t, ctx, name+" "+x.e.String(), filtered, must[arrow.RecordBatch](t)(Select(whole, x.e)))
				if filtered.NumPartitions() != parts {
					t.Errorf("%s: Filter: got %d partitions", name, filtered.NumPartitions())
				}
				for _, n := range []int{1, 2, 7, rows + 3} {
					again := must[*Frame](t)(f.Repartition(ctx, n))
					same(t, ctx, fmt.Sprintf("%s into %d", name, n), again, whole)
					for i, r := range must[[]int64](t)(again.Rows(ctx)) {
						if r != int64(rows*(i+1)/n-rows*i/n) {
							t.Errorf("%s into %d: partition %d has %d rows", name, n, i, r)
						}
					}
					again.Release()
				}
				heads := must[*Frame](t)(f.Map(ctx, testHead, people))
				var want int64
				for i := range parts {
					want += int64(min(2, cuts[i+1]-cuts[i]))
				}
				if n := must[int64](t)(heads.NumRows(ctx)); n != want {
					t.Errorf("%s: Map: got %d rows, want %d", name, n, want)
				}
				if n := must[int64](t)(Reduce(ctx, f, testSum, testAdd).Get(ctx)); n != rows*(rows-1)/2 {
					t.Errorf("%s: sum: got %d", name, n)
				}
				twice := must[*Frame](t)(Concat(f, f))
				two := must[*Frame](t)(twice.Repartition(ctx, 1))
				same(t, ctx, name+" twice", two, must[arrow.RecordBatch](t)(concat(people,
					[]arrow.RecordBatch{whole, whole})))
				out, did, err := testShare.Run(ctx, f, 1, NativeOptions{Schema: shares})
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				total := 0
				for _, n := range did {
					total += n
				}
				if total != parts || out.NumPartitions() != parts || must[int64](t)(out.NumRows(ctx)) != rows {
					t.Errorf("%s: algorithm: got %d partitions and %v", name, total, out)
				}
				for _, g := range []*Frame{filtered, heads, twice, two, out} {
					g.Release()
				}
			}
			f.Release()
		}
	}
}

var (
	testFirst = NewPart("test.first", func(_ context.Context, b arrow.RecordBatch) (string, error) {
		return b.Column(0).ValueStr(0), nil
	})
	testPair = client.Func2("test.pair", func(_ context.Context, a, b string) (string, error) {
		return "(" + a + " " + b + ")", nil
	})
)

// Results are combined in the order of the partitions, neighbors first, for any number of them.
func TestReduceOrder(t *testing.T) {
	ctx, c := connect(t, cluster.Goroutines)
	for n, want := range []string{1: "0", 2: "(0 1)", 3: "((0 1) 2)", 4: "((0 1) (2 3))", 5: "(((0 1) (2 3)) 4)",
		7: "(((0 1) (2 3)) ((4 5) 6))"} {
		if want == "" {
			continue
		}
		var batches []arrow.RecordBatch
		for i := range n {
			batches = append(batches, batchOf(i, i+1))
		}
		f := must[*Frame](t)(FromBatches(ctx, c, batches))
		r := Reduce(ctx, f, testFirst, testPair)
		if got := must[string](t)(r.Get(ctx)); got != want || r.Future() == nil {
			t.Errorf("%d partitions: got %s, want %s", n, got, want)
		}
		r.Release()
		r.Release()
		f.Release()
	}
}

// TestCutEvenly: the cuts cover all rows once, in order, in partitions that differ by at most one row.
func TestCutEvenly(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for range 500 {
		rows := make([]int64, 1+rng.IntN(6))
		var total int64
		for i := range rows {
			rows[i] = int64(rng.IntN(20) * rng.IntN(2))
			total += rows[i]
		}
		n := 1 + rng.IntN(9)
		at := int64(0)
		for i, c := range cutEvenly(rows, n) {
			before := int64(0)
			for _, r := range rows[:c.First] {
				before += r
			}
			if before+c.From != at || c.To < c.From || c.From < 0 || c.From > rows[c.First] {
				t.Fatalf("%v into %d: cut %d is %+v, want it to begin at row %d", rows, n, i, c, at)
			}
			at += c.To - c.From
			if size := c.To - c.From; size != total/int64(n) && size != total/int64(n)+1 {
				t.Fatalf("%v into %d: cut %d has %d rows", rows, n, i, size)
			}
		}
		if at != total {
			t.Fatalf("%v into %d: the cuts have %d rows of %d", rows, n, at, total)
		}
	}
}

// A cut begins with the first partition that it needs, and an empty one needs no rows.
func TestCutsBegin(t *testing.T) {
	for _, c := range []struct {
		rows []int64
		n    int
		want string
	}{
		{[]int64{2, 2}, 2, "[{0 0 2} {1 0 2}]"}, {[]int64{2, 2}, 1, "[{0 0 4}]"}, {[]int64{4}, 2, "[{0 0 2} {0 2 4}]"},
		{[]int64{0, 2, 0, 2}, 2, "[{1 0 2} {3 0 2}]"}, {[]int64{1, 1, 1}, 2, "[{0 0 1} {1 0 2}]"},
		{[]int64{0}, 2, "[{0 0 0} {0 0 0}]"}, {[]int64{0, 0}, 1, "[{1 0 0}]"}, {[]int64{3, 0}, 1, "[{0 0 3}]"},
		{[]int64{1}, 3, "[{0 0 0} {0 0 0} {0 0 1}]"},
	} {
		if got := fmt.Sprint(cutEvenly(c.rows, c.n)); got != c.want {
			t.Errorf("%v into %d: got %s, want %s", c.rows, c.n, got, c.want)
		}
	}
}

// TestJoin: rows from and to, of any batches, are those of all batches joined; other ranges are an error.
func TestJoin(t *testing.T) {
	whole := batchOf(0, 30)
	for _, cuts := range [][]int64{{0, 30}, {0, 10, 30}, {0, 0, 12, 12, 30, 30}} {
		var batches []arrow.RecordBatch
		for i := range len(cuts) - 1 {
			batches = append(batches, whole.NewSlice(cuts[i], cuts[i+1]))
		}
		for from := int64(0); from <= 30; from += 5 {
			for to := from; to <= 30; to += 3 {
				got, err := join(batches, from, to)
				if err != nil {
					t.Fatalf("%v: %d to %d: %v", cuts, from, to, err)
				}
				if want := whole.NewSlice(from, to); !array.RecordEqual(got, want) {
					t.Errorf("%v: %d to %d: %v, want %v", cuts, from, to, got, want)
				}
				got.Release()
			}
		}
		for _, wrong := range [][2]int64{{-1, 3}, {5, 4}, {0, 31}, {31, 40}} {
			if _, err := join(batches, wrong[0], wrong[1]); err == nil {
				t.Errorf("%v: rows %v: got no error", cuts, wrong)
			}
		}
	}
	if _, err := join(nil, 0, 0); err == nil {
		t.Error("join without batches: got no error")
	}
}
