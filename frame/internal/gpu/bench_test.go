package gpu

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
	"go.millstream.dev/frame/internal/group"
	"go.millstream.dev/frame/internal/join"
	"go.millstream.dev/frame/internal/order"
	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
)

func fields(list ...any) *arrow.Schema {
	var out []arrow.Field
	for i := 0; i < len(list); i += 2 {
		out = append(out, arrow.Field{Name: list[i].(string), Type: list[i+1].(arrow.DataType)})
	}
	return arrow.NewSchema(out, nil)
}

var keyed = fields("key", arrow.PrimitiveTypes.Int64, "payload", arrow.PrimitiveTypes.Int64)

func random(b testing.TB, ctx context.Context, e *Engine, s *arrow.Schema, rows int, columns ...Random) *Table {
	b.Helper()
	t, err := e.Random(ctx, s, 0, rows, columns)
	must(b, err)
	must(b, e.Wait(ctx))
	return t
}

// timed runs a verb, and reports the bytes of its input a second.
func timed(b *testing.B, ctx context.Context, e *Engine, bytes int, verb func() error) {
	must(b, verb())
	must(b, e.Wait(ctx))
	for b.Loop() {
		must(b, verb())
		must(b, e.Wait(ctx))
	}
	b.ReportMetric(float64(bytes)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GB/s")
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)*1e3, "ms")
}

func released(err error, tables ...*Table) error {
	for _, t := range tables {
		if t != nil {
			t.Release()
		}
	}
	return err
}

// BenchmarkGPURows: verbs of one table of 500 M rows, a key and a payload of 64 bits.
func BenchmarkGPURows(b *testing.B) {
	e, ctx := engine(b)
	const rows = 500_000_000
	t := random(b, ctx, e, keyed, rows, Random{Seed: 1}, Random{Counted: true})
	defer t.Release()
	for _, n := range []int{2, 4, 16, 64, 256} {
		b.Run(fmt.Sprintf("partition%d", n), func(b *testing.B) {
			timed(b, ctx, e, t.Bytes(), func() error {
				parts, err := e.Partition(ctx, t, []int{0}, n)
				return released(err, parts...)
			})
		})
	}
	b.Run("sum", func(b *testing.B) {
		timed(b, ctx, e, t.Bytes(), func() error { _, err := e.Sum(ctx, t); return err })
	})
	b.Run("filter", func(b *testing.B) {
		timed(b, ctx, e, t.Bytes(), func() error {
			out, err := e.Filter(ctx, t, Condition{Column: 0, Op: Gt})
			return released(err, out)
		})
	})
	b.Run("argsort", func(b *testing.B) {
		timed(b, ctx, e, t.Bytes()/2, func() error {
			l := rowList{n: rows}
			err := e.sortBy(ctx, t.Columns[0], &l, "sort_words", false)
			if err == nil {
				l.numbers.Release()
			}
			return err
		})
	})
	b.Run("sort", func(b *testing.B) {
		timed(b, ctx, e, t.Bytes(), func() error {
			out, err := e.Sort(ctx, t, []order.SortKey{{Col: 0}})
			return released(err, out)
		})
	})
}

// BenchmarkGPUJoin: inner join of two tables of 500 M rows, of which three of ten match.
func BenchmarkGPUJoin(b *testing.B) {
	e, ctx := engine(b)
	const rows = 500_000_000
	right := random(b, ctx, e, keyed, rows, Random{Counted: true, Spread: true}, Random{Counted: true})
	defer right.Release()
	left := random(b, ctx, e, keyed, rows, Random{Seed: 2, Range: rows * 10 / 3, Spread: true}, Random{Counted: true})
	defer left.Release()
	o := JoinOptions{Kind: join.Inner, LeftKeys: []int{0}, RightKeys: []int{0}, Left: []int{0, 1}, Right: []int{1}}
	b.Run("build", func(b *testing.B) {
		timed(b, ctx, e, right.Bytes(), func() error {
			x, err := e.build(ctx, right, o.RightKeys, false)
			if err == nil {
				x.release()
			}
			return err
		})
	})
	b.Run("all", func(b *testing.B) {
		matched := 0
		timed(b, ctx, e, left.Bytes()+right.Bytes(), func() error {
			out, err := e.Join(ctx, left, right, o)
			if err == nil {
				matched = out.Rows
			}
			return released(err, out)
		})
		b.ReportMetric(float64(matched)/rows, "matched")
	})
}

// BenchmarkGPUGroup: the questions 1 to 5 of h2o.ai's group-by, with dictionary codes for the texts.
func BenchmarkGPUGroup(b *testing.B) {
	e, ctx := engine(b)
	const rows, k = 1_000_000_000, 100
	small, wide := arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Float64
	t := random(b, ctx, e, fields("id1", small, "id2", small, "id3", small, "id4", small, "id5", small, "id6", small,
		"v1", small, "v2", small, "v3", wide), rows,
		Random{Seed: 1, Low: 1, Range: k}, Random{Seed: 2, Low: 1, Range: k}, Random{Seed: 3, Low: 1, Range: rows / k},
		Random{Seed: 4, Low: 1, Range: k}, Random{Seed: 5, Low: 1, Range: k}, Random{Seed: 6, Low: 1, Range: rows / k},
		Random{Seed: 7, Low: 1, Range: 5}, Random{Seed: 8, Low: 1, Range: 15}, Random{Seed: 9, Range: 100})
	defer t.Release()
	sum := func(c int) group.Spec { return group.Spec{Func: group.Sum, Column: c, Name: fmt.Sprint("s", c)} }
	mean := func(c int) group.Spec { return group.Spec{Func: group.Mean, Column: c, Name: fmt.Sprint("m", c)} }
	for i, q := range []struct {
		keys  []int
		aggs  []group.Spec
		bytes int
	}{
		{[]int{0}, []group.Spec{sum(6)}, 8}, {[]int{0, 1}, []group.Spec{sum(6)}, 12},
		{[]int{2}, []group.Spec{sum(6), mean(8)}, 16}, {[]int{3}, []group.Spec{mean(6), mean(7), mean(8)}, 20},
		{[]int{5}, []group.Spec{sum(6), sum(7), sum(8)}, 20},
	} {
		b.Run(fmt.Sprintf("q%d", i+1), func(b *testing.B) {
			groups := 0
			timed(b, ctx, e, q.bytes*rows, func() error {
				out, err := e.Group(ctx, t, q.keys, q.aggs)
				if err == nil {
					groups = out.Rows
				}
				return released(err, out)
			})
			b.ReportMetric(float64(groups), "groups")
		})
	}
}

// BenchmarkGPUExchange: four workers partition tables of 6.4 GB each by their keys, and fetch their partitions. A round
// ends when all partitions are on the device of their worker. The sums of the rows before and after a round are equal.
func BenchmarkGPUExchange(b *testing.B) {
	const rows = 400_000_000
	ctx, c, names := workersOn(b, 4, "30GiB")
	tables := made(b, ctx, c, names, rows, []Random{{Seed: 1}, {Counted: true}})
	defer client.ReleaseAll(tables)
	sum := func(lists [][]*client.Future[wire.Dict]) (all outcome) {
		for i, list := range lists {
			o, err := sumTables.Submit(ctx, c, client.List(client.Args(list)...), client.WithWorkers(names[i]),
				client.WithImpure()).Result(ctx)
			must(b, err)
			all.Rows, all.Sum = all.Rows+o.Rows, all.Sum+o.Sum
		}
		return all
	}
	var before [][]*client.Future[wire.Dict]
	for i := range tables {
		before = append(before, tables[i:i+1])
	}
	want := sum(before)
	one := func(phases bool) {
		begin := time.Now()
		parts, release := exchanged(ctx, c, names, tables)
		defer release()
		if phases {
			for _, list := range parts {
				for _, f := range list {
					must(b, f.Wait(ctx))
				}
			}
			b.Logf("partitioned in %.1f ms", time.Since(begin).Seconds()*1e3)
		}
		var counts []*client.Future[int64]
		for p, list := range parts {
			counts = append(counts, countTables.Submit(ctx, c, client.List(client.Args(list)...),
				client.WithWorkers(names[p]), client.WithImpure()))
		}
		defer client.ReleaseAll(counts)
		list, err := client.Gather(ctx, counts)
		must(b, err)
		total := int64(0)
		for _, n := range list {
			total += n
		}
		if total != int64(rows*len(names)) {
			b.Fatalf("%d rows, want %d", total, rows*len(names))
		}
		b.Logf("exchanged in %.1f ms", time.Since(begin).Seconds()*1e3)
		if phases {
			if got := sum(parts); got != want {
				b.Fatalf("exchanged %+v, want %+v", got, want)
			}
		}
	}
	one(true)
	one(true)
	for b.Loop() {
		one(false)
	}
	elapsed := b.Elapsed()
	one(true) // what the rounds have done is still right
	b.ReportMetric(float64(16*rows*len(names))*float64(b.N)/elapsed.Seconds()/1e9, "GB/s")
}

// BenchmarkGPUMerge: two workers join two tables of 500 M rows.
func BenchmarkGPUMerge(b *testing.B) {
	ctx, c, names := workersOn(b, 2, "62GiB")
	for b.Loop() {
		b.Logf("%+v", merged(b, ctx, c, names, 250_000_000))
	}
}

// BenchmarkMergeHost: 16 goroutines of the host join the tables of BenchmarkGPUMerge.
func BenchmarkMergeHost(b *testing.B) {
	const rows = 500_000_000
	for b.Loop() {
		b.Logf("%+v", hostMerge(b, rows, 16))
	}
}

// BenchmarkGPUJoinLarge: a join of three times the limit of device memory, by pinned host memory.
func BenchmarkGPUJoinLarge(b *testing.B) {
	const limit, parts = 2 << 30, 8
	const rows = 3 * limit / 16 / 2
	var stats *mem.Statistics
	e, ctx := engineOf(b, func(m mem.Resource) mem.Resource {
		var err error
		stats, err = mem.NewStatistics(m)
		must(b, err)
		l, err := mem.NewLimit(stats, limit)
		must(b, err)
		return l
	})
	l, r := mergeSides(rows)
	source := func(columns []Random) Source {
		i := 0
		return func(ctx context.Context) (*Table, error) {
			if i == parts {
				return nil, nil
			}
			i++
			return e.Random(ctx, keyed, rows*(i-1)/parts, rows*i/parts-rows*(i-1)/parts, columns)
		}
	}
	timed(b, ctx, e, 2*16*rows, func() error {
		var o outcome
		err := e.JoinLarge(ctx, source(l), source(r), parts, JoinOptions{LeftKeys: []int{0}, RightKeys: []int{0},
			Left: []int{0, 1}, Right: []int{1}}, func(t *Table) error {
			defer t.Release()
			n, err := e.Sum(ctx, t)
			o.Rows, o.Sum = o.Rows+int64(t.Rows), o.Sum+n
			return err
		})
		b.Logf("%+v of 2 × %d rows, peak %d bytes, limit %d", o, rows, stats.Counters().PeakBytes, limit)
		return err
	})
}
