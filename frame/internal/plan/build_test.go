package plan

import (
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/frame/internal/expr"
)

// Errors name the columns.
func TestBuildErrors(t *testing.T) {
	in, other := source("t", 10, "a", "b", "s"), source("u", 10, "a", "b_right", "s", "b")
	last := func(_ Node, err error) error { return err }
	a := col("a")
	for _, c := range []struct {
		want string
		err  error
	}{
		{"no column \"x\"", last(NewFilter(in, col("x").Gt(1)))},
		{"a is int64, not bool", last(NewFilter(in, a))},
		{"no columns", last(NewSelect(in, nil))},
		{"more than one column named \"a\"", last(NewSelect(in, cols("a", "b", "a")))},
		{"two columns named \"c\"", last(NewWith(in, []expr.Expr{a.As("c"), a.As("c")}))},
		{"no column \"y\"; columns are a, b, s", last(NewDrop(in, []string{"y"}))},
		{"no column would be left", last(NewDrop(in, []string{"a", "b", "s"}))},
		{"no column \"z\"; columns are a, b, s", last(NewRename(in, "z", "q"))},
		{"more than one column named \"b\"", last(NewRename(in, "a", "b"))},
		{"negative number of rows: -1 from row 0", last(NewLimit(in, 0, -1))},
		{"fraction 2; use one between 0 and 1", last(NewSample(in, 2, 0))},
		{"no column \"q\"; columns are", last(NewDistinct(in, []string{"q"}))},
		{"query 1 has 4 columns (a, b_right, s, b), the first 3", last(NewUnion([]Node{in, other}))},
		{"column 1 of query 1 is \"c\", that of the first is \"b\"",
			last(NewUnion([]Node{in, source("v", 1, "a", "c", "s")}))},
		{"no keys", last(NewSort(in, nil, -1))},
		{"no keys and no aggregates", last(NewAggregate(in, nil, nil))},
		{"two keys named \"a\"", last(NewAggregate(in, cols("a", "a"), nil))},
		{"2 keys on the left and 1 on the right",
			last(NewJoin(in, other, JoinSpec{LeftOn: cols("a", "b"), RightOn: cols("a")}))},
		{"a cross join has no keys", last(NewJoin(in, other, JoinSpec{Kind: Cross, On: []string{"a"}}))},
		{"no keys; set On", last(NewJoin(in, other, JoinSpec{}))},
		{"right side: no column \"c\"", last(NewJoin(source("l", 1, "c"), other, JoinSpec{On: []string{"c"}}))},
		{"key a is int64 on the left and utf8 on the right (s_2)",
			last(NewJoin(in, other, JoinSpec{LeftOn: cols("a"), RightOn: cols("s"), Suffix: "_2"}))},
		{"column \"b\" is on both sides, and so is \"b_right\"",
			last(NewJoin(in, other, JoinSpec{On: []string{"a"}, Suffix: "_right"}))},
		{"only an anti join with one key",
			last(NewJoin(in, other, JoinSpec{On: []string{"a"}, Suffix: "_2", NullAware: true}))},
		{"no functions", last(NewWindow(in, nil, nil, nil))},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("got %v, want %s", c.err, c.want)
		}
	}
}

func names2(s *arrow.Schema) string {
	var out []string
	for _, f := range s.Fields() {
		out = append(out, f.Name+" "+f.Type.String())
	}
	return strings.Join(out, ", ")
}

// The columns of joins: keys of On once, others with the suffix.
func TestJoinColumns(t *testing.T) {
	l, r := source("l", 10, "k", "a", "s"), source("r", 10, "k", "a", "d")
	for _, c := range []struct {
		spec JoinSpec
		want string
	}{
		{JoinSpec{On: []string{"k"}}, "k int64, a int64, s utf8, a_x int64, d int64"},
		{JoinSpec{LeftOn: cols("k"), RightOn: cols("k")}, "k int64, a int64, s utf8, k_x int64, a_x int64, d int64"},
		{JoinSpec{Kind: Left, Swap: true, On: []string{"k"}}, "k int64, a int64, s utf8, a_x int64, d int64"},
		{JoinSpec{Kind: Semi, On: []string{"k"}}, "k int64, a int64, s utf8"},
		{JoinSpec{Kind: Anti, LeftOn: cols("a"), RightOn: cols("d")}, "k int64, a int64, s utf8"},
		{JoinSpec{Kind: Cross}, "k int64, a int64, s utf8, k_x int64, a_x int64, d int64"},
	} {
		c.spec.Suffix = "_x"
		n := ok(t)(NewJoin(l, r, c.spec))
		if got := names2(n.Schema()); got != c.want {
			t.Errorf("%+v: got %s, want %s", c.spec, got, c.want)
		}
	}
}

// Keys of different types are converted.
func TestJoinTypes(t *testing.T) {
	l := ok(t)(NewWith(source("l", 10, "a"), []expr.Expr{col("a").Cast(arrow.PrimitiveTypes.Int32).As("a")}))
	n := ok(t)(NewJoin(l, source("r", 10, "b"), JoinSpec{LeftOn: cols("a"), RightOn: cols("b")}))
	if got := shape(n); !strings.Contains(got, "cast(a as int64)") {
		t.Errorf("got\n%s", got)
	}
	if got, want := names2(n.Schema()), "a int32, b int64"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, c := range []struct{ a, b, want arrow.DataType }{
		{arrow.PrimitiveTypes.Uint8, arrow.PrimitiveTypes.Uint32, arrow.PrimitiveTypes.Uint64},
		{arrow.PrimitiveTypes.Uint64, int64s, &arrow.Decimal128Type{Precision: 20}},
		{int64s, arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64},
		{texts, arrow.BinaryTypes.LargeString, arrow.BinaryTypes.LargeString},
		{texts, int64s, nil},
	} {
		got, found := commonType(c.a, c.b)
		if found != (c.want != nil) || found && !arrow.TypeEqual(got, c.want) {
			t.Errorf("%v and %v: got %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

// Computed sort keys and arguments are no columns of the result.
func TestHiddenColumns(t *testing.T) {
	in := source("t", 10, "a", "_1")
	n := ok(t)(NewSort(in, []OrderExpr{{Expr: col("a").Add(1)}, {Expr: col("a").Add(1)}}, -1))
	want := "Project a, _1\n└─ Sort by _2, _2\n   └─ Project a, _1, a + 1 as _2\n      └─ t\n"
	if got := shape(n); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	g := ok(t)(NewAggregate(in, []expr.Expr{col("a").Mul(2).As("_1")}, []AggExpr{aggOf("sum", "_1")}))
	want = "Aggregate sum(_2) as sum(_1) by _1\n└─ Project a * 2 as _1, _1 as _2\n   └─ t\n"
	if got := shape(g); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestGuess(t *testing.T) {
	in := source("t", 1000, "a", "b")
	for _, c := range []struct {
		n          Node
		rows, size int64
	}{
		{in, 1000, 16000},
		{ok(t)(NewFilter(in, col("a").Eq(1))), 100, 1600},
		{ok(t)(NewSelect(in, cols("a"))), 1000, 8000},
		{ok(t)(NewLimit(in, 10, 20)), 20, 320},
		{ok(t)(NewSort(in, []OrderExpr{{Expr: col("a")}}, 5)), 5, 80},
		{ok(t)(NewUnion([]Node{in, in})), 2000, 32000},
		{ok(t)(NewSample(in, 0.5, 1)), 500, 8000},
		{ok(t)(NewAggregate(in, nil, []AggExpr{aggOf("sum", "a")})), 1, 8},
		{ok(t)(NewJoin(in, source("u", 10, "c"), JoinSpec{Kind: Cross})), 10000, 240000},
		{source("v", -1, "a"), -1, -1},
		{ok(t)(NewFilter(source("v", -1, "a"), col("a").Eq(1))), -1, -1},
	} {
		rows, size := Guess(c.n, func(t Table) (int64, int64, bool) { return t.Size() })
		if rows != c.rows || size != c.size {
			t.Errorf("%s: got %d rows and %d bytes, want %d and %d", c.n.Label(), rows, size, c.rows, c.size)
		}
	}
}

func TestExplain(t *testing.T) {
	n := ok(t)(NewFilter(source("table", 1000, "a", "b"), col("a").Eq(1)))
	want := "Filter a == 1  (about 100 rows, 1.6 KiB)\n└─ table  (about 1000 rows, 15.6 KiB)\n"
	if got := Explain(n, nil); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got, want := Tree(n, func(Node) []string { return []string{"x", "y"} }),
		"Filter a == 1\n│   (x)\n│   (y)\n└─ table\n       (x)\n       (y)\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	for n, want := range map[int64]string{5: "5 B", 2048: "2.0 KiB", 3 << 20: "3.0 MiB", 5 << 30: "5.0 GiB"} {
		if got := Size(n); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
