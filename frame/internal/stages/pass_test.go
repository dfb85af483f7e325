package stages

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/frame/internal/expr"
	"go.millstream.dev/frame/internal/group"
	"go.millstream.dev/frame/internal/plan"
)

// keyed returns rows of which each key occurs as often as all others, in a scattered order.
func keyed(rows, keys int) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.NewGoAllocator(), pairs)
	defer b.Release()
	for i := range rows {
		b.Field(0).(*array.Int64Builder).Append(int64(uint64(i) * 2654435761 % uint64(keys)))
		b.Field(1).(*array.Int64Builder).Append(1)
	}
	return b.NewRecordBatch()
}

// TestPassThrough checks which partial aggregates pass rows through, and that no row is lost.
func TestPassThrough(t *testing.T) {
	const rows = 12 * morsel
	for _, c := range []struct{ keys, least, most int }{
		{10, 10, 10}, {rows / 8, rows / 8, rows / 8}, {rows * 10, rows, rows}, {rows * 3 / 4, rows / 2, rows},
	} {
		b := keyed(rows, c.keys)
		op := Op{Group: &Group{Keys: []string{"a"}, Aggs: []plan.Agg{{Func: plan.Sum, Col: "b", Name: "n"}},
			Mode: group.Partial, Rows: encoded(t, pairs)}}
		out, err := execute(t, Input{First: []arrow.RecordBatch{b}}, Buckets{}, op)
		b.Release()
		if err != nil {
			t.Fatal(err)
		}
		if n := int(out.Stats.Rows); n < c.least || n > c.most {
			t.Errorf("%d keys: got %d states, want %d to %d", c.keys, n, c.least, c.most)
		}
		final := Task{Schema: encoded(t, out.Buckets[0][0].Schema()), Ops: []Op{{Group: &Group{Keys: op.Group.Keys,
			Aggs: op.Group.Aggs, Mode: group.Final, Rows: op.Group.Rows}}}}
		whole, err := final.Execute(t.Context(), Input{Lists: out.Buckets})
		if err != nil {
			t.Fatal(err)
		}
		var sum int64
		for _, n := range column(t, whole.Buckets[0], "n") {
			sum += n
		}
		if sum != rows {
			t.Errorf("%d keys: got %d rows in all groups, want %d", c.keys, sum, rows)
		}
	}
}

// TestRenames checks which operators take whole batches.
func TestRenames(t *testing.T) {
	cond := expr.Col("a").Gt(1)
	for _, c := range []struct {
		op   Op
		want bool
	}{
		{Op{Project: []plan.Named{{Name: "x", Expr: expr.Col("a")}, {Name: "b", Expr: expr.Col("b").As("c")}}}, true},
		{Op{Project: []plan.Named{{Name: "x", Expr: expr.Col("a").Add(1)}}}, false}, {Op{Filter: &cond}, false},
	} {
		if got := c.op.renames(); got != c.want {
			t.Errorf("%s: got %v, want %v", c.op.name(), got, c.want)
		}
	}
	b := numbers(0, 3*morsel)
	defer b.Release()
	for op, want := range map[*Op]int{
		{Project: []plan.Named{{Name: "x", Expr: expr.Col("a")}}}:        1,
		{Project: []plan.Named{{Name: "x", Expr: expr.Col("a").Add(1)}}}: 3,
	} {
		out, err := execute(t, Input{First: []arrow.RecordBatch{b}}, Buckets{}, *op)
		if err != nil || len(out.Buckets[0]) != want || out.Stats.Rows != 3*morsel {
			t.Errorf("got %d batches of %d rows, %v; want %d", len(out.Buckets[0]), out.Stats.Rows, err, want)
		}
	}
}
