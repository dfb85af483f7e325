package stages

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/frame/internal/expr"
	"go.millstream.dev/frame/internal/join"
	"go.millstream.dev/frame/internal/plan"
	"go.millstream.dev/frame/internal/scan"
)

var pairs = arrow.NewSchema([]arrow.Field{
	{Name: "a", Type: arrow.PrimitiveTypes.Int64},
	{Name: "b", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
}, nil)

// numbers returns the rows (i, i mod 10) from and to.
func numbers(from, to int) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.NewGoAllocator(), pairs)
	defer b.Release()
	for i := from; i < to; i++ {
		b.Field(0).(*array.Int64Builder).Append(int64(i))
		b.Field(1).(*array.Int64Builder).Append(int64(i % 10))
	}
	return b.NewRecordBatch()
}

func encoded(t testing.TB, s *arrow.Schema) []byte {
	t.Helper()
	b, err := scan.EncodeSchema(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// execute runs operators on batches of pairs.
func execute(t testing.TB, in Input, b Buckets, ops ...Op) (Out, error) {
	t.Helper()
	task := Task{Run: "r", Partition: 7, Schema: encoded(t, pairs), Ops: ops, Buckets: b}
	return task.Execute(context.Background(), in)
}

// column returns the values of a column of a bucket.
func column(t testing.TB, batches Batches, name string) []int64 {
	t.Helper()
	out := []int64{}
	for _, b := range batches {
		at := b.Schema().FieldIndices(name)
		if len(at) == 0 {
			t.Fatalf("no column %q in %v", name, b.Schema())
		}
		for i := range int(b.NumRows()) {
			out = append(out, b.Column(at[0]).(*array.Int64).Value(i))
		}
	}
	return out
}

func wantValues(t *testing.T, what string, got []int64, want ...int64) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(append([]int64{}, want...)) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func filterOp(e expr.Expr) Op { return Op{Node: 1, Filter: &e} }

func TestChain(t *testing.T) {
	in := Input{First: []arrow.RecordBatch{numbers(0, 10)}, Lists: []Batches{{numbers(10, 20), numbers(20, 20)},
		{numbers(20, 30)}}}
	out, err := execute(t, in, Buckets{}, filterOp(expr.Col("b").Eq(3)),
		Op{Node: 2, Project: []plan.Named{{Name: "c", Expr: expr.Col("a")}}})
	if err != nil {
		t.Fatal(err)
	}
	wantValues(t, "chain", column(t, out.Buckets[0], "c"), 3, 13, 23)
	s := out.Stats
	if s.Rows != 3 || s.Bytes != 24 || len(s.Ops) != 3 || s.Ops[0].Rows != 30 || s.Ops[1].Rows != 3 ||
		s.Ops[2].Rows != 3 || s.Ops[1].Node != 1 || s.Ops[2].Node != 2 {
		t.Errorf("got stats %+v", s)
	}
}

// Large batches pass the operators in slices, and stay in order.
func TestMorsels(t *testing.T) {
	n := 3*morsel + 5
	out, err := execute(t, Input{First: []arrow.RecordBatch{numbers(0, n)}}, Buckets{}, filterOp(expr.Col("b").Ne(0)))
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Buckets[0]) < 3 {
		t.Errorf("got %d batches, want some slices", len(out.Buckets[0]))
	}
	last := int64(-1)
	for _, v := range column(t, out.Buckets[0], "a") {
		if v <= last || v%10 == 0 {
			t.Fatalf("got %d after %d", v, last)
		}
		last = v
	}
	whole, err := out.whole()
	if err != nil || whole.NumRows() != int64(n-(n+9)/10) {
		t.Errorf("got %v rows and error %v, want %d", whole.NumRows(), err, n-(n+9)/10)
	}
}

// A task without rows returns a batch for the schema in every bucket.
func TestNoRows(t *testing.T) {
	for _, in := range []Input{{}, {First: []arrow.RecordBatch{numbers(0, 0)}}, {Lists: []Batches{{}}}} {
		out, err := execute(t, in, Buckets{N: 3, Keys: []string{"b"}}, filterOp(expr.Col("b").Eq(3)),
			Op{Sort: &Sort{Keys: []plan.SortKey{{Col: "a"}}, Limit: -1}}, Op{Sort: &Sort{Limit: 2,
				Keys: []plan.SortKey{{Col: "a"}}}})
		if err != nil {
			t.Fatal(err)
		}
		if len(out.Buckets) != 3 || len(out.Buckets[2]) != 1 || !out.Buckets[2][0].Schema().Equal(pairs) {
			t.Errorf("got %+v", out)
		}
	}
}

// Every row is in one bucket, and rows with equal keys are in the same.
func TestHashBuckets(t *testing.T) {
	place := map[int64]int{}
	total := 0
	for part := range 3 {
		out, err := execute(t, Input{First: []arrow.RecordBatch{numbers(part*100, part*100+100)}},
			Buckets{N: 4, Keys: []string{"b"}})
		if err != nil {
			t.Fatal(err)
		}
		for i, b := range out.Buckets {
			for _, v := range column(t, b, "b") {
				if at, ok := place[v]; ok && at != i {
					t.Fatalf("key %d is in buckets %d and %d", v, at, i)
				}
				place[v] = i
				total++
			}
		}
		if n := out.Stats.Buckets; len(n) != 4 || n[0].Rows+n[1].Rows+n[2].Rows+n[3].Rows != 100 {
			t.Errorf("got stats %+v", n)
		}
	}
	if total != 300 {
		t.Errorf("got %d rows, want 300", total)
	}
}

func TestRangeBuckets(t *testing.T) {
	bounds := numbers(10, 30)
	keys := []plan.SortKey{{Col: "a"}}
	one := array.NewRecordBatch(arrow.NewSchema(pairs.Fields()[:1], nil), []arrow.Array{
		array.NewSlice(bounds.Column(0), 0, 2)}, 2) // 10 and 11
	out, err := execute(t, Input{First: []arrow.RecordBatch{numbers(5, 15)}}, Buckets{N: 3, Order: keys, Bounds: one})
	if err != nil {
		t.Fatal(err)
	}
	wantValues(t, "first", column(t, out.Buckets[0], "a"), 5, 6, 7, 8, 9)
	wantValues(t, "second", column(t, out.Buckets[1], "a"), 10)
	wantValues(t, "third", column(t, out.Buckets[2], "a"), 11, 12, 13, 14)
}

func TestLimit(t *testing.T) {
	in := Input{Lists: []Batches{{numbers(0, 4), numbers(4, 8)}, {numbers(8, 12)}}}
	for _, c := range []struct {
		from, to int64
		want     []int64
	}{{0, 3, []int64{0, 1, 2}}, {3, 6, []int64{3, 4, 5}}, {7, 100, []int64{7, 8, 9, 10, 11}}, {0, 0, nil},
		{50, 60, nil}} {
		out, err := execute(t, in, Buckets{}, Op{Limit: &Limit{c.from, c.to}})
		if err != nil {
			t.Fatal(err)
		}
		wantValues(t, fmt.Sprint(c.from, c.to), column(t, out.Buckets[0], "a"), c.want...)
	}
	// Operators after a limit get their end.
	out, err := execute(t, in, Buckets{}, Op{Limit: &Limit{0, 5}},
		Op{Sort: &Sort{Keys: []plan.SortKey{{Col: "a", Descending: true}}, Limit: -1}}, Op{Limit: &Limit{1, 3}})
	if err != nil {
		t.Fatal(err)
	}
	wantValues(t, "limit, sort, limit", column(t, out.Buckets[0], "a"), 3, 2)
}

func TestSample(t *testing.T) {
	in := Input{First: []arrow.RecordBatch{numbers(0, 10000)}}
	count := func(fraction float64, seed uint64) []int64 {
		out, err := execute(t, in, Buckets{}, Op{Sample: &Sample{fraction, seed}})
		if err != nil {
			t.Fatal(err)
		}
		return column(t, out.Buckets[0], "a")
	}
	half, again, other := count(0.5, 1), count(0.5, 1), count(0.5, 2)
	if len(half) < 4500 || len(half) > 5500 {
		t.Errorf("got %d of 10000 rows, want about half", len(half))
	}
	if fmt.Sprint(half) != fmt.Sprint(again) {
		t.Error("the same seed returned other rows")
	}
	if fmt.Sprint(half) == fmt.Sprint(other) {
		t.Error("another seed returned the same rows")
	}
	if n := len(count(1, 1)); n != 10000 {
		t.Errorf("got %d rows of fraction 1", n)
	}
	if n := len(count(0, 1)); n != 0 {
		t.Errorf("got %d rows of fraction 0", n)
	}
}

func TestJoinInTask(t *testing.T) {
	right := arrow.NewSchema([]arrow.Field{{Name: "c", Type: arrow.PrimitiveTypes.Int64},
		{Name: "d", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil)
	build := array.NewRecordBatch(right, numbers(3, 5).Columns(), 2)
	cond := expr.Col("a").Ne(expr.Col("c"))
	for _, c := range []struct {
		op   Join
		want []int64
	}{
		{Join{Kind: join.Inner}, []int64{3, 4, 13, 14}},
		{Join{Kind: join.Inner, Cond: &cond}, []int64{13, 14}},
		{Join{Kind: join.Anti}, []int64{0, 1, 2, 5, 6, 7, 8, 9, 10, 11, 12, 15}},
		{Join{Kind: join.Inner, Table: "shared"}, []int64{3, 4, 13, 14}},
		{Join{Kind: join.Inner, Table: "shared"}, []int64{3, 4, 13, 14}},
	} {
		c.op.Keys, c.op.BuildKeys, c.op.Build = []string{"b"}, []string{"d"}, encoded(t, right)
		c.op.Left, c.op.From, c.op.To = []string{"a"}, 1, 2
		if c.op.Kind == join.Inner {
			c.op.Right = []string{"c"}
		}
		out, err := execute(t, Input{First: []arrow.RecordBatch{numbers(0, 16)}, Builds: []Batches{nil, {build}}},
			Buckets{}, Op{Join: &c.op})
		if err != nil {
			t.Fatal(err)
		}
		wantValues(t, c.op.Kind.String(), column(t, out.Buckets[0], "a"), c.want...)
	}
	_, err := execute(t, Input{}, Buckets{}, Op{Join: &Join{Build: encoded(t, right), From: 0, To: 1}})
	if err == nil || !strings.Contains(err.Error(), "Join, partition 7: no right side: 0 to 1 of 0") {
		t.Errorf("got %v", err)
	}
}

// Errors name the operator and the partition.
func TestErrors(t *testing.T) {
	in := Input{First: []arrow.RecordBatch{numbers(0, 4)}}
	for want, ops := range map[string][]Op{
		"frame: Filter, partition 7: ": {filterOp(expr.Col("x").Eq(1))},
		"frame: Select, partition 7: ": {filterOp(expr.Col("a").Eq(1)),
			{Project: []plan.Named{{Name: "x", Expr: expr.Col("x")}}}},
		"frame: Sort, partition 7: ":                     {{Sort: &Sort{Keys: []plan.SortKey{{Col: "x"}}, Limit: -1}}},
		"frame: operator, partition 7: unknown operator": {{}},
	} {
		_, err := execute(t, in, Buckets{}, ops...)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if _, err := execute(t, in, Buckets{N: 2, Keys: []string{"x"}}); err == nil {
		t.Error("buckets by a missing column: got no error")
	}
	if _, err := execute(t, Input{First: []arrow.RecordBatch{nil}}, Buckets{}); err == nil ||
		!strings.Contains(err.Error(), "partition 7: partition is nil") {
		t.Errorf("got %v", err)
	}
	task := Task{Schema: encoded(t, pairs), Ops: []Op{filterOp(expr.Col("a").Eq(1))}}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := task.Execute(ctx, Input{First: []arrow.RecordBatch{numbers(0, 4*morsel)}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	for _, o := range []Out{{}, {Buckets: []Batches{{}}}, {Buckets: []Batches{{numbers(0, 1)}, {numbers(0, 1)}}}} {
		if _, err := o.whole(); err == nil {
			t.Errorf("%v: got no error", o)
		}
	}
}

func TestSizeOf(t *testing.T) {
	o := Out{Buckets: []Batches{{numbers(0, 1000)}, {numbers(0, 1000), nil}}}
	if n := o.SizeOf(); n < 32000 || n > 40000 {
		t.Errorf("got %d bytes, want about 32000", n)
	}
}

// Conditions that compare a column with a constant exclude parts of files.
func TestPruneConds(t *testing.T) {
	a := expr.Col("a")
	got := pruneConds([]expr.Expr{a.Gt(3), expr.Lit(3).Gt(a), a.IsNull(), a.In(1, 2), a.Add(1).Gt(2), a.Eq(nil),
		a.Eq(expr.Col("b")), a.In(1, expr.Col("b")), a.Eq(1).Or(a.Eq(2))})
	want := "[{a > 3} {a < 3} {a is null <nil>} {a in [1 2]}]"
	if fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// Buckets have a useful size.
func TestPartitions(t *testing.T) {
	r := &Runner{threads: 8}
	for _, c := range []struct {
		bytes int64
		tasks int
		want  int
	}{{-1, 3, 8}, {-1, 30, 30}, {0, 4, 1}, {100 << 10, 1, 1}, {64 << 20, 4, 8}, {1 << 30, 16, 16}, {1<<30 + 1, 16, 24},
		{4 << 20, 64, 1}} {
		if got := r.partitions(c.bytes, c.tasks); got != c.want {
			t.Errorf("%d bytes of %d tasks: got %d, want %d", c.bytes, c.tasks, got, c.want)
		}
	}
	r.cfg.Partitions = 3
	if got := r.partitions(0, 1); got != 3 {
		t.Errorf("got %d, want 3", got)
	}
}
