package frame

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
	"go.millstream.dev/cluster"
	"go.millstream.dev/frame/internal/stages"
	"go.millstream.dev/internal/testkit/leak"
)

// queryCase is a query and the same computation in plain Go. l and r are two tables of salesSchema.
type queryCase struct {
	name    string
	query   func(l, r *Query) *Query
	want    func(l, r rows) rows
	ordered bool // of the result
}

func number(v any) float64 {
	switch v := v.(type) {
	case int64:
		return float64(v)
	case float64:
		return v
	}
	return math.NaN()
}

func sumOf(values []any) any {
	if len(values) == 0 {
		return nil
	}
	if _, ok := values[0].(int64); ok {
		var n int64
		for _, v := range values {
			n += v.(int64)
		}
		return n
	}
	var x float64
	for _, v := range values {
		x += number(v)
	}
	return x
}

func meanOf(values []any) any {
	if len(values) == 0 {
		return nil
	}
	return number(sumOf(values)) / float64(len(values))
}

func varOf(values []any) any {
	if len(values) < 2 {
		return nil
	}
	m := meanOf(values).(float64)
	var s float64
	for _, v := range values {
		s += (number(v) - m) * (number(v) - m)
	}
	return s / float64(len(values)-1)
}

func extreme(values []any, sign int) any {
	var best any
	for _, v := range values {
		if best == nil || compareValues(v, best)*sign > 0 {
			best = v
		}
	}
	return best
}

func medianOf(values []any) any {
	if len(values) == 0 {
		return nil
	}
	s := slices.Clone(values)
	slices.SortFunc(s, compareValues)
	return (number(s[(len(s)-1)/2]) + number(s[len(s)/2])) / 2
}

func uniqueOf(values []any) any {
	seen := map[string]bool{}
	for _, v := range values {
		seen[show(v)] = true
	}
	return int64(len(seen))
}

// joined returns the pairs of a join with columns of both sides, and rows without a match as the kind wants them.
func joined(l, r rows, on [][2]string, keepLeft, keepRight bool, cond func(a, b []any) bool) rows {
	pairs, left, right := l.join(r, on, cond)
	var out rows
	out.names = append(out.names, l.names...)
	for _, n := range r.names {
		out.names = append(out.names, n+"_right")
	}
	add := func(a, b []any) {
		if a == nil {
			a = make([]any, len(l.names))
		}
		if b == nil {
			b = make([]any, len(r.names))
		}
		out.vals = append(out.vals, append(slices.Clone(a), b...))
	}
	for _, p := range pairs {
		add(l.vals[p[0]], r.vals[p[1]])
	}
	if keepLeft {
		for _, i := range left {
			add(l.vals[i], nil)
		}
	}
	if keepRight {
		for _, j := range right {
			add(nil, r.vals[j])
		}
	}
	return out
}

var rowCases = []queryCase{
	{name: "filter and select", query: func(l, _ *Query) *Query {
		return l.Filter(Col("k").Gt(2).And(Col("x").Lt(100))).Select(Col("i"), Col("k").Add(1).As("k1"), Col("s"))
	}, want: func(l, _ rows) rows {
		return l.filter(func(get func(string) any) bool {
			return get("k") != nil && get("k").(int64) > 2 && get("x") != nil && get("x").(float64) < 100
		}).project([]string{"i", "k1", "s"}, func(get func(string) any) []any {
			return []any{get("i"), get("k").(int64) + 1, get("s")}
		})
	}, ordered: true},
	{name: "filter none", query: func(l, _ *Query) *Query { return l.Filter(Col("i").Lt(0)) },
		want: func(l, _ rows) rows { return rows{names: l.names} }, ordered: true},
	{name: "with, drop and rename", query: func(l, _ *Query) *Query {
		return l.With(Col("i").Mul(2).As("double"), Col("x").IsNull().As("b")).Drop("s", "k").Rename("i", "id")
	}, want: func(l, _ rows) rows {
		return l.project([]string{"id", "x", "b", "double"}, func(get func(string) any) []any {
			return []any{get("i"), get("x"), get("x") == nil, get("i").(int64) * 2}
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
	{name: "shuffle", query: func(l, _ *Query) *Query { return l.Shuffle(3, "k").Filter(Col("i").Ge(0)) },
		want: func(l, _ rows) rows {
			return l.filter(func(get func(string) any) bool { return get("i") != nil && get("i").(int64) >= 0 })
		}},
	{name: "shuffle by two columns", query: func(l, _ *Query) *Query { return l.Shuffle(0, "k", "b").Select(Col("i")) },
		want: func(l, _ rows) rows { return l.pick("i") }},
	{name: "sample none", query: func(l, _ *Query) *Query { return l.Sample(0, 3) },
		want: func(l, _ rows) rows { return rows{names: l.names} }, ordered: true},
}

var groupCases = []queryCase{
	{name: "aggregates of all rows", query: func(l, _ *Query) *Query {
		return l.Agg(Count().As("n"), CountOf(Col("x")).As("c"), Sum(Col("x")).As("sx"), Sum(Col("i")).As("si"),
			Min(Col("s")).As("lo"), Max(Col("x")).As("hi"), Mean(Col("x")).As("m"))
	}, want: func(l, _ rows) rows {
		return l.group(nil, []string{"n", "c", "sx", "si", "lo", "hi", "m"}, func(g rows) []any {
			return []any{int64(len(g.vals)), int64(len(g.values("x"))), sumOf(g.values("x")), sumOf(g.values("i")),
				extreme(g.values("s"), -1), extreme(g.values("x"), 1), meanOf(g.values("x"))}
		})
	}},
	{name: "group by", query: func(l, _ *Query) *Query {
		return l.GroupBy(Col("k")).Agg(Count().As("n"), Sum(Col("x").Mul(2)).As("sx"), Min(Col("x")).As("lo"),
			Max(Col("s")).As("hi"), Mean(Col("i")).As("m"), Var(Col("x")).As("v"))
	}, want: func(l, _ rows) rows {
		return l.group([]string{"k"}, []string{"n", "sx", "lo", "hi", "m", "v"}, func(g rows) []any {
			double := sumOf(g.values("x"))
			if double != nil {
				double = double.(float64) * 2
			}
			return []any{int64(len(g.vals)), double, extreme(g.values("x"), -1), extreme(g.values("s"), 1),
				meanOf(g.values("i")), varOf(g.values("x"))}
		})
	}},
	{name: "group by two keys", query: func(l, _ *Query) *Query {
		return l.Filter(Col("i").Ge(3)).GroupBy(Col("s"), Col("b")).Agg(Count().As("n"), Sum(Col("i")).As("t"))
	}, want: func(l, _ rows) rows {
		return l.filter(func(get func(string) any) bool { return get("i").(int64) >= 3 }).
			group([]string{"s", "b"}, []string{"n", "t"}, func(g rows) []any {
				return []any{int64(len(g.vals)), sumOf(g.values("i"))}
			})
	}},
	{name: "group by float and condition on the key", query: func(l, _ *Query) *Query {
		return l.GroupBy(Col("x")).Agg(Count().As("n")).Filter(Col("x").Ge(-10).And(Col("n").Ge(1)))
	}, want: func(l, _ rows) rows {
		return l.filter(func(get func(string) any) bool { return get("x") != nil && get("x").(float64) >= -10 }).
			group([]string{"x"}, []string{"n"}, func(g rows) []any { return []any{int64(len(g.vals))} })
	}},
	{name: "group by expression", query: func(l, _ *Query) *Query {
		return l.GroupBy(Col("i").Mod(5).As("k")).Agg(Sum(Col("k")).As("t"), Median(Col("x")).As("med"),
			NUnique(Col("s")).As("u"))
	}, want: func(l, _ rows) rows {
		keyed := l.project([]string{"g", "k", "x", "s"}, func(get func(string) any) []any {
			return []any{get("i").(int64) % 5, get("k"), get("x"), get("s")}
		})
		out := keyed.group([]string{"g"}, []string{"t", "med", "u"}, func(g rows) []any {
			return []any{sumOf(g.values("k")), medianOf(g.values("x")), uniqueOf(g.values("s"))}
		})
		out.names[0] = "k"
		return out
	}},
	{name: "many groups", query: func(l, _ *Query) *Query {
		return l.GroupBy(Col("i")).Agg(First(Col("s")).As("f"), Last(Col("x")).As("l"))
	}, want: func(l, _ rows) rows {
		out := l.pick("i", "s", "x")
		out.names = []string{"i", "f", "l"}
		return out
	}},
	{name: "distinct", query: func(l, _ *Query) *Query { return l.Select(Col("k"), Col("b")).Distinct() },
		want: func(l, _ rows) rows {
			return l.pick("k", "b").group([]string{"k", "b"}, nil, func(rows) []any { return nil })
		}},
	{name: "distinct keeps the first row", query: func(l, _ *Query) *Query {
		return l.Distinct("k").Select(Col("k"), Col("i"))
	}, want: func(l, _ rows) rows {
		return l.group([]string{"k"}, []string{"i"}, func(g rows) []any { return []any{g.vals[0][g.at("i")]} })
	}},
	{name: "aggregate of aggregate", query: func(l, _ *Query) *Query {
		return l.GroupBy(Col("k"), Col("s")).Agg(Count().As("n")).GroupBy(Col("n")).Agg(Count().As("m"))
	}, want: func(l, _ rows) rows {
		return l.group([]string{"k", "s"}, []string{"n"}, func(g rows) []any { return []any{int64(len(g.vals))} }).
			group([]string{"n"}, []string{"m"}, func(g rows) []any { return []any{int64(len(g.vals))} })
	}},
}

var orderCases = []queryCase{
	{name: "sort", query: func(l, _ *Query) *Query { return l.Sort(Asc(Col("s")), Desc(Col("x"))) },
		want: func(l, _ rows) rows { return l.sorted("s", "-x") }, ordered: true},
	{name: "sort is stable", query: func(l, _ *Query) *Query {
		return l.Sort(Desc(Col("b"))).Select(Col("b"), Col("i"))
	}, want: func(l, _ rows) rows { return l.sorted("-b").pick("b", "i") }, ordered: true},
	{name: "top", query: func(l, _ *Query) *Query { return l.Top(9, Desc(Col("x")), Asc(Col("i"))) },
		want: func(l, _ rows) rows { return l.sorted("-x", "i").first(0, 9) }, ordered: true},
	{name: "sort and limit", query: func(l, _ *Query) *Query {
		return l.Sort(Asc(Col("k")), Asc(Col("i"))).Offset(4).Limit(6).Select(Col("i"), Col("k"))
	}, want: func(l, _ rows) rows { return l.sorted("k", "i").first(4, 6).pick("i", "k") }, ordered: true},
	{name: "sort by expression", query: func(l, _ *Query) *Query {
		return l.Sort(Asc(Col("i").Mod(7)), Desc(Col("i")))
	}, want: func(l, _ rows) rows {
		keyed := rows{names: append(slices.Clone(l.names), "m")}
		for _, v := range l.vals {
			keyed.vals = append(keyed.vals, append(slices.Clone(v), v[0].(int64)%7))
		}
		return keyed.sorted("m", "-i").pick(l.names...)
	}, ordered: true},
}

var joinCases = []queryCase{
	{name: "inner join", query: func(l, r *Query) *Query {
		return l.Join(r, JoinOptions{On: []string{"k"}}).Select(Col("i"), Col("k"), Col("s"), Col("i_right"))
	}, want: func(l, r rows) rows {
		return joined(l, r, [][2]string{{"k", "k"}}, false, false, nil).pick("i", "k", "s", "i_right")
	}},
	{name: "join with itself", query: func(l, _ *Query) *Query {
		return l.Join(l.Filter(Col("i").Lt(9)), JoinOptions{On: []string{"i", "s"}}).
			Agg(Count().As("n"), Sum(Col("i")).As("t"))
	}, want: func(l, _ rows) rows {
		return l.filter(func(get func(string) any) bool { return get("i").(int64) < 9 && get("s") != nil }).
			group(nil, []string{"n", "t"}, func(g rows) []any {
				return []any{int64(len(g.vals)), sumOf(g.values("i"))}
			})
	}},
	{name: "left join", query: func(l, r *Query) *Query {
		return l.Join(r.Filter(Col("i").Mod(3).Eq(0)), JoinOptions{Kind: LeftJoin, LeftOn: []Expr{Col("k"), Col("s")},
			RightOn: []Expr{Col("k"), Col("s")}})
	}, want: func(l, r rows) rows {
		third := r.filter(func(get func(string) any) bool { return get("i").(int64)%3 == 0 })
		return joined(l, third, [][2]string{{"k", "k"}, {"s", "s"}}, true, false, nil)
	}},
	{name: "right join", query: func(l, r *Query) *Query {
		return l.Filter(Col("k").Gt(3)).Join(r, JoinOptions{Kind: RightJoin, On: []string{"k"}}).
			Select(Col("k"), Col("i"), Col("i_right"))
	}, want: func(l, r rows) rows {
		some := l.filter(func(get func(string) any) bool { return get("k") != nil && get("k").(int64) > 3 })
		out := joined(some, r, [][2]string{{"k", "k"}}, false, true, nil).pick("k_right", "i", "i_right")
		out.names[0] = "k"
		return out
	}},
	{name: "full join", query: func(l, r *Query) *Query {
		return l.Filter(Col("k").Lt(5)).Join(r.Filter(Col("k").Gt(2)), JoinOptions{Kind: FullJoin, On: []string{"k"}}).
			Select(Col("k"), Col("i"), Col("i_right"))
	}, want: func(l, r rows) rows {
		a := l.filter(func(get func(string) any) bool { return get("k") != nil && get("k").(int64) < 5 })
		b := r.filter(func(get func(string) any) bool { return get("k") != nil && get("k").(int64) > 2 })
		out := joined(a, b, [][2]string{{"k", "k"}}, true, true, nil)
		return out.project([]string{"k", "i", "i_right"}, func(get func(string) any) []any {
			k := get("k")
			if k == nil {
				k = get("k_right")
			}
			return []any{k, get("i"), get("i_right")}
		})
	}},
	{name: "semi join", query: func(l, r *Query) *Query {
		return l.Join(r.Filter(Col("k").Gt(4)), JoinOptions{Kind: SemiJoin, On: []string{"k"}})
	}, want: func(l, r rows) rows {
		keys := map[string]bool{}
		for _, v := range r.values("k") {
			if v.(int64) > 4 {
				keys[show(v)] = true
			}
		}
		return l.filter(func(get func(string) any) bool { return get("k") != nil && keys[show(get("k"))] })
	}},
	{name: "anti join", query: func(l, r *Query) *Query {
		return l.Join(r.Filter(Col("k").Gt(4)), JoinOptions{Kind: AntiJoin, On: []string{"k"}})
	}, want: func(l, r rows) rows {
		keys := map[string]bool{}
		for _, v := range r.values("k") {
			if v.(int64) > 4 {
				keys[show(v)] = true
			}
		}
		return l.filter(func(get func(string) any) bool { return get("k") == nil || !keys[show(get("k"))] })
	}},
	{name: "cross join with condition", query: func(l, r *Query) *Query {
		cond := Col("i").Add(3).Lt(Col("i_right")).And(Col("i_right").Lt(12))
		return l.Filter(Col("i").Lt(20)).Join(r, JoinOptions{Kind: CrossJoin, Where: &cond}).
			Select(Col("i"), Col("i_right"))
	}, want: func(l, r rows) rows {
		a := l.filter(func(get func(string) any) bool { return get("i").(int64) < 20 })
		return joined(a, r, nil, false, false, func(x, y []any) bool {
			return x[0].(int64)+3 < y[0].(int64) && y[0].(int64) < 12
		}).pick("i", "i_right")
	}},
	{name: "left join with condition", query: func(l, r *Query) *Query {
		cond := Col("x").Lt(Col("x_right"))
		return l.Join(r, JoinOptions{Kind: LeftJoin, On: []string{"k"}, Where: &cond}).Select(Col("i"), Col("i_right"))
	}, want: func(l, r rows) rows {
		return joined(l, r, [][2]string{{"k", "k"}}, true, false, func(x, y []any) bool {
			return x[3] != nil && y[3] != nil && x[3].(float64) < y[3].(float64)
		}).pick("i", "i_right")
	}},
	{name: "limit of a join", query: func(l, r *Query) *Query {
		return l.Join(r, JoinOptions{Kind: SemiJoin, On: []string{"k"}}).Limit(1 << 20)
	}, want: func(l, r rows) rows {
		keys := map[string]bool{}
		for _, v := range r.values("k") {
			keys[show(v)] = true
		}
		return l.filter(func(get func(string) any) bool { return get("k") != nil && keys[show(get("k"))] })
	}},
	{name: "join, group and sort", query: func(l, r *Query) *Query {
		return l.Join(r, JoinOptions{On: []string{"s"}}).Filter(Col("i").Gt(2).And(Col("i_right").Gt(3))).
			GroupBy(Col("s")).Agg(Count().As("n"), Sum(Col("x_right")).As("t")).
			Sort(Desc(Col("n")), Asc(Col("s"))).Limit(5)
	}, want: func(l, r rows) rows {
		return joined(l, r, [][2]string{{"s", "s"}}, false, false, nil).
			filter(func(get func(string) any) bool { return get("i").(int64) > 2 && get("i_right").(int64) > 3 }).
			group([]string{"s"}, []string{"n", "t"}, func(g rows) []any {
				return []any{int64(len(g.vals)), sumOf(g.values("x_right"))}
			}).sorted("-n", "s").first(0, 5)
	}, ordered: true},
}

var windowCases = []queryCase{
	{name: "window by key", query: func(l, _ *Query) *Query {
		return l.Window(WindowOptions{PartitionBy: []Expr{Col("k")}, OrderBy: []SortKey{Asc(Col("i"))}},
			RowNumber().As("n"), Lag(Col("i"), 1).As("before"), Over(Sum(Col("x"))).Rows(1, 0).As("two"),
			Over(Count()).As("upto")).Select(Col("i"), Col("n"), Col("before"), Col("two"), Col("upto"))
	}, want: func(l, _ rows) rows {
		out := rows{names: []string{"i", "n", "before", "two", "upto"}}
		seen := map[string][][]any{}
		for _, v := range l.vals { // ascending by i
			k := show(v[1])
			var before any
			last := []any{}
			if g := seen[k]; len(g) > 0 {
				before = g[len(g)-1][0]
				if x := g[len(g)-1][3]; x != nil {
					last = append(last, x)
				}
			}
			if v[3] != nil {
				last = append(last, v[3])
			}
			seen[k] = append(seen[k], v)
			n := int64(len(seen[k]))
			out.vals = append(out.vals, []any{v[0], n, before, sumOf(last), n})
		}
		return out
	}},
	{name: "window of all rows", query: func(l, _ *Query) *Query {
		return l.Window(WindowOptions{OrderBy: []SortKey{Desc(Col("i"))}}, Rank().As("r"),
			Lead(Col("i"), 2).As("after"), Over(Max(Col("i"))).Rows(-1, -1).As("most")).
			Select(Col("i"), Col("r"), Col("after"), Col("most"))
	}, want: func(l, _ rows) rows {
		return l.project([]string{"i", "r", "after", "most"}, func(get func(string) any) []any {
			i, n := get("i").(int64), int64(len(l.vals))
			var after any
			if i >= 2 {
				after = i - 2
			}
			return []any{i, n - i, after, n - 1}
		})
	}},
	{name: "describe", query: func(l, _ *Query) *Query {
		return l.Select(Col("i"), Col("s"), Col("x")).Describe().
			Select(Col("column"), Col("type"), Col("count"), Col("nulls"), Col("mean"), Col("std"), Col("min"))
	}, want: func(l, _ rows) rows {
		out := rows{names: []string{"column", "type", "count", "nulls", "mean", "std", "min"}}
		for _, c := range [][2]string{{"i", "int64"}, {"s", "utf8"}, {"x", "float64"}} {
			v := l.values(c[0])
			row := []any{c[0], c[1], int64(len(v)), int64(len(l.vals) - len(v)), nil, nil, nil}
			if least := extreme(v, -1); least != nil {
				row[6] = fmt.Sprint(least)
			}
			if c[0] != "s" {
				row[4] = meanOf(v)
				if x := varOf(v); x != nil {
					row[5] = math.Sqrt(x.(float64))
				}
			}
			out.vals = append(out.vals, row)
		}
		return out
	}, ordered: true},
}

// allCases returns the cases of all operators.
func allCases() []queryCase {
	return slices.Concat(rowCases, groupCases, orderCases, joinCases, windowCases)
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

// queryConfigs are the ways to run a plan: with the defaults small tables are never exchanged.
var queryConfigs = []struct {
	name string
	cfg  stages.Config
}{
	{"defaults", stages.Config{}},
	{"exchanges", stages.Config{BroadcastBytes: -1, MergeBytes: -1, Partitions: 5}},
	{"one bucket", stages.Config{BroadcastBytes: -1, MergeBytes: -1, Partitions: 1}},
}

// TestQueryProduct compares all operators with plain Go for all numbers of workers, threads and partitions, with more
// partitions than rows and without rows, twice.
func TestQueryProduct(t *testing.T) {
	type table struct{ parts, rows int }
	shapes := []struct {
		workers, threads int
		tables           []table
	}{
		{1, 1, []table{{1, 0}, {1, 60}, {3, 60}}},
		{3, 2, []table{{2, 0}, {7, 150}, {40, 5}}},
	}
	if os.Getenv("MILLSTREAM_FRAMES") == "full" {
		var all []table
		for _, parts := range []int{1, 2, 3, 7, 40} {
			for _, rows := range []int{0, 5, 150} {
				all = append(all, table{parts, rows})
			}
		}
		shapes = append(shapes, shapes...)
		for i, s := range [][2]int{{1, 1}, {1, 4}, {2, 1}, {3, 2}} {
			shapes[i].workers, shapes[i].threads, shapes[i].tables = s[0], s[1], all
		}
	}
	for _, s := range shapes {
		t.Run(fmt.Sprintf("%d×%d", s.workers, s.threads), func(t *testing.T) {
			leak.Check(t)
			ctx, c := connectShape(t, s.workers, s.threads)
			rng := rand.New(rand.NewPCG(uint64(s.workers), uint64(s.threads)))
			for _, x := range s.tables {
				testQueryCases(t, ctx, c, fmt.Sprintf("%d partitions, %d rows", x.parts, x.rows), x.rows, x.parts, rng)
			}
		})
	}
}

// connectShape starts a cluster with numbers of workers and threads, and a client of it.
func connectShape(t *testing.T, workers, threads int) (context.Context, *client.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
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
		for _, cfg := range queryConfigs {
			q := x.query(lf.Query(), rf.Query())
			q.cfg = cfg.cfg
			for range 1 + i%2 { // some twice
				name := fmt.Sprintf("%s: %s: %s", what, cfg.name, x.name)
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
}
