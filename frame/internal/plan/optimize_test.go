package plan

import (
	"testing"

	"go.millstream.dev/frame/internal/expr"
)

func TestPushFilterThroughProject(t *testing.T) {
	n := ok(t)(NewWith(source("t", 10, "a", "b"), []expr.Expr{col("a").Add(1).As("c")}))
	n = ok(t)(NewFilter(n, col("c").Gt(3).And(col("b").Lt(5))))
	wantShape(t, "project", n,
		"Project a, b, a + 1 as c",
		"└─ Filter (a + 1 > 3 and b < 5)",
		"   └─ t")
}

func TestPushFilterThroughAggregate(t *testing.T) {
	n := ok(t)(NewAggregate(source("t", 10, "a", "b", "c"), cols("a"), []AggExpr{aggOf("sum", "b")}))
	n = ok(t)(NewFilter(n, col("a").Eq(1).And(col("sum(b)").Gt(2))))
	wantShape(t, "aggregate", n,
		"Filter sum(b) > 2",
		"└─ Aggregate sum(b) by a",
		"   └─ Filter a == 1",
		"      └─ Project a, b",
		"         └─ t")
	// The aggregate of no rows has a row.
	n = ok(t)(NewAggregate(source("t", 10, "a"), nil, []AggExpr{aggOf("sum", "a")}))
	n = ok(t)(NewFilter(n, expr.Lit(false)))
	wantShape(t, "aggregate without keys", n, "Filter false", "└─ Aggregate sum(a)", "   └─ t")
}

func TestPushFilterThroughJoin(t *testing.T) {
	l, r := source("l", 10, "a", "b"), source("r", 10, "a", "d")
	cond := col("b").Eq(1).And(col("d").Eq(2)).And(col("b").Lt(col("d")))
	for _, c := range []struct {
		kind JoinKind
		want []string
	}{
		{Inner, []string{
			"Inner join on a = a_r where b < d",
			"├─ Filter b == 1", "│  └─ l",
			"└─ Project a as a_r, d", "   └─ Filter d == 2", "      └─ r"}},
		{Left, []string{
			"Filter (d == 2 and b < d)",
			"└─ Left join on a = a_r",
			"   ├─ Filter b == 1", "   │  └─ l",
			"   └─ Project a as a_r, d", "      └─ r"}},
	} {
		n := ok(t)(NewFilter(ok(t)(NewJoin(l, r, JoinSpec{Kind: c.kind, On: []string{"a"}, Suffix: "_r"})), cond))
		wantShape(t, c.kind.String(), n, c.want...)
	}
	full := ok(t)(NewJoin(l, r, JoinSpec{Kind: Full, On: []string{"a"}, Suffix: "_r"}))
	wantShape(t, "full", ok(t)(NewFilter(full, col("b").Eq(1))),
		"Project coalesce(a, a_r) as a, b, d",
		"└─ Filter b == 1",
		"   └─ Full join on a = a_r",
		"      ├─ l",
		"      └─ Project a as a_r, d", "         └─ r")
}

// An equality of both sides above a cross join is a key.
func TestCrossJoinBecomesInner(t *testing.T) {
	l, r := source("l", 10, "a", "b"), source("r", 10, "c", "d")
	n := ok(t)(NewJoin(l, r, JoinSpec{Kind: Cross}))
	n = ok(t)(NewFilter(n, col("c").Eq(col("a")).And(col("b").Lt(col("d")))))
	wantShape(t, "cross", n, "Inner join on a = c where b < d", "├─ l", "└─ r")
	cond := col("a").Add(1).Eq(col("d"))
	n = ok(t)(NewJoin(l, r, JoinSpec{Kind: Cross, Where: &cond}))
	n = ok(t)(NewSelect(n, cols("b", "c")))
	wantShape(t, "expression", n, "Inner join on _1 = d", "├─ Project b, a + 1 as _1", "│  └─ l", "└─ r")
}

// Conditions of a join on one side restrict that side, unless its rows are returned without a match.
func TestConditionsOfJoin(t *testing.T) {
	l, r := source("l", 10, "a", "b"), source("r", 10, "c", "d")
	cond := col("b").Eq(1).And(col("d").Eq(2))
	for kind, want := range map[JoinKind][]string{
		Left: {"Left join on a = c where b == 1", "├─ l", "└─ Filter d == 2", "   └─ r"},
		Semi: {"Semi join on a = c", "├─ Filter b == 1", "│  └─ l", "└─ Project c", "   └─ Filter d == 2",
			"      └─ r"},
		Anti: {"Anti join on a = c where b == 1", "├─ l", "└─ Project c", "   └─ Filter d == 2", "      └─ r"},
		Full: {"Full join on a = c where (b == 1 and d == 2)", "├─ l", "└─ r"},
	} {
		n := ok(t)(NewJoin(l, r, JoinSpec{Kind: kind, LeftOn: cols("a"), RightOn: cols("c"), Where: &cond}))
		wantShape(t, kind.String(), n, want...)
	}
}

func TestPushFilterThroughUnionAndSort(t *testing.T) {
	a, b := source("a", 10, "x", "y"), source("b", 10, "x", "y")
	n := ok(t)(NewUnion([]Node{a, b}))
	n = ok(t)(NewSort(n, []OrderExpr{{Expr: col("y")}}, -1))
	n = ok(t)(NewSelect(ok(t)(NewFilter(n, col("x").Gt(1))), cols("x")))
	wantShape(t, "union and sort", n,
		"Project x",
		"└─ Sort by y",
		"   └─ Union",
		"      ├─ Filter x > 1", "      │  └─ a",
		"      └─ Filter x > 1", "         └─ b")
	top := ok(t)(NewFilter(ok(t)(NewSort(a, []OrderExpr{{Expr: col("y")}}, 3)), col("x").Gt(1)))
	wantShape(t, "top", top, "Filter x > 1", "└─ Top 3 by y", "   └─ a")
	limit := ok(t)(NewFilter(ok(t)(NewLimit(a, 0, 3)), col("x").Gt(1)))
	wantShape(t, "limit", limit, "Filter x > 1", "└─ Limit 3", "   └─ a")
	sample := ok(t)(NewFilter(ok(t)(NewSample(a, 0.5, 1)), col("x").Gt(1)))
	wantShape(t, "sample", sample, "Filter x > 1", "└─ Sample 0.5, seed 1", "   └─ a")
}

func TestTopRows(t *testing.T) {
	a := source("a", 10, "x", "y", "z")
	sorted := ok(t)(NewSort(a, []OrderExpr{{Expr: col("y"), Descending: true}}, -1))
	n := ok(t)(NewLimit(ok(t)(NewSelect(sorted, cols("x"))), 0, 4))
	wantShape(t, "limit", n, "Project x", "└─ Top 4 by y desc", "   └─ Project x, y", "      └─ a")
	n = ok(t)(NewLimit(sorted, 2, 4))
	wantShape(t, "offset", n, "Limit 4 from row 2", "└─ Top 6 by y desc", "   └─ a")
	n = ok(t)(NewLimit(sorted, 2, NoLimit))
	wantShape(t, "offset only", n, "Offset 2", "└─ Sort by y desc", "   └─ a")
}

func TestScanGetsColumnsAndConditions(t *testing.T) {
	n := ok(t)(NewFilter(fileScan(t, "a", "b", "c"), col("a").Gt(7)))
	n = ok(t)(NewAggregate(n, nil, []AggExpr{aggOf("sum", "b")}))
	wantShape(t, "scan", n,
		"Aggregate sum(b)",
		"└─ Project b",
		"   └─ Filter a > 7",
		"      └─ Scan ipc /data, 3 partitions, columns a, b of 3, parts where a > 7")
	n = ok(t)(NewAggregate(fileScan(t, "s", "b"), nil, []AggExpr{{Func: "count"}}))
	wantShape(t, "count", n, "Aggregate count(*)", "└─ Scan ipc /data, 3 partitions, columns b of 2")
}

// Columns that are computed and not used are not computed.
func TestPruneComputed(t *testing.T) {
	n := ok(t)(NewWith(source("t", 10, "a", "b", "c"), []expr.Expr{col("a").Mul(2).As("d"), col("b").Add(1).As("e")}))
	n = ok(t)(NewSelect(n, cols("d", "c")))
	wantShape(t, "computed", n, "Project a * 2 as d, c", "└─ t")
	g := ok(t)(NewAggregate(source("t", 10, "a", "b", "c"), cols("a"), []AggExpr{aggOf("sum", "b"), aggOf("max", "c")}))
	wantShape(t, "aggregates", ok(t)(NewSelect(g, cols("max(c)"))),
		"Project max(c)", "└─ Aggregate max(c) by a", "   └─ Project a, c", "      └─ t")
	j := ok(t)(NewJoin(source("l", 10, "a", "b"), source("r", 10, "a", "d"), JoinSpec{On: []string{"a"}, Suffix: "_r"}))
	wantShape(t, "join", ok(t)(NewAggregate(j, nil, []AggExpr{aggOf("sum", "d")})),
		"Aggregate sum(d)", "└─ Inner join on a = a_r", "   ├─ Project a", "   │  └─ l",
		"   └─ Project a as a_r, d", "      └─ r")
}

// Optimizing twice changes nothing more.
func TestOptimizeTwice(t *testing.T) {
	l, r := source("l", 10, "a", "b"), source("r", 10, "a", "d")
	j := ok(t)(NewJoin(l, r, JoinSpec{Kind: Left, On: []string{"a"}, Suffix: "_r"}))
	n := ok(t)(NewFilter(j, col("b").Eq(1).And(col("d").IsNull())))
	n = ok(t)(NewAggregate(n, cols("a"), []AggExpr{aggOf("sum", "b")}))
	n = ok(t)(NewLimit(ok(t)(NewSort(n, []OrderExpr{{Expr: col("a")}}, -1)), 0, 2))
	once := Optimize(n)
	if twice := Optimize(once); shape(twice) != shape(once) {
		t.Errorf("got\n%swant\n%s", shape(twice), shape(once))
	}
}
