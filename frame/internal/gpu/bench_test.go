package gpu

import (
	"context"
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/frame/internal/group"
	"go.millstream.dev/frame/internal/join"
	"go.millstream.dev/frame/internal/order"
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
