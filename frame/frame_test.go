package frame

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"go.millstream.dev/client"
	"go.millstream.dev/cluster"
)

// Functions of the tests.
var (
	testHead = NewMap("test.head", func(_ context.Context, b arrow.RecordBatch) (arrow.RecordBatch, error) {
		return b.NewSlice(0, min(2, b.NumRows())), nil
	})
	testScale = NewMapWith("test.scale", func(_ context.Context, b arrow.RecordBatch, by float64) (arrow.RecordBatch,
		error) {
		out := array.NewFloat64Builder(heap)
		defer out.Release()
		scores := b.Column(2).(*array.Float64)
		for i := range scores.Len() {
			out.Append(scores.Value(i) * by)
		}
		a := out.NewArray()
		defer a.Release()
		return array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "scaled", Type: arrow.PrimitiveTypes.Float64}},
			nil), []arrow.Array{a}, b.NumRows()), nil
	})
	testOdd = NewMap("test.odd", func(_ context.Context, b arrow.RecordBatch) (arrow.RecordBatch, error) {
		if b.NumRows() == 5 { // the third partition
			return Project(b, "id")
		}
		return Project(b, "name")
	})
	testNothing = NewMap("test.nothing", func(context.Context, arrow.RecordBatch) (arrow.RecordBatch,
		error) {
		return nil, nil
	})
	testPanics = NewMap("test.panics", func(_ context.Context, b arrow.RecordBatch) (arrow.RecordBatch, error) {
		_ = b.Column(99)
		return b, nil
	})
	testSum = NewPart("test.sum", func(_ context.Context, b arrow.RecordBatch) (int64, error) {
		var n int64
		for _, v := range b.Column(0).(*array.Int64).Int64Values() {
			n += v
		}
		return n, nil
	})
	testAdd = client.Func2("test.add", func(_ context.Context, x, y int64) (int64, error) { return x + y, nil })
)

// Every operation on a cluster, with workers as goroutines and as processes.
func TestOperations(t *testing.T) {
	for _, mode := range []cluster.Mode{cluster.Goroutines, cluster.Processes} {
		t.Run(mode.String(), func(t *testing.T) {
			ctx, c := connect(t, mode)
			f := peopleFrame(t, ctx, c)
			whole := batchOf(0, 100)
			same(t, ctx, "there and back", f, whole)
			if n := must[int64](t)(f.NumRows(ctx)); n != 100 {
				t.Errorf("%d rows", n)
			}
			adults := must[*Frame](t)(f.Filter(ctx, Col("id").Ge(30).And(Col("ok").Eq(true))))
			same(t, ctx, "filter", adults, must[arrow.RecordBatch](t)(Select(whole,
				Col("id").Ge(30).And(Col("ok").Eq(true)))))
			two := must[*Frame](t)(f.Project(ctx, "score", "id"))
			same(t, ctx, "project", two, must[arrow.RecordBatch](t)(Project(whole, "score", "id")))
			for _, n := range []int{1, 3, 7, 130} {
				r := must[*Frame](t)(f.Repartition(ctx, n))
				same(t, ctx, "repartition", r, whole)
				rows := must[[]int64](t)(r.Rows(ctx))
				for _, k := range rows {
					if len(rows) != n || k < int64(100/n) || k > int64(100/n+1) {
						t.Errorf("%d partitions: got %v rows", n, rows)
						break
					}
				}
			}
			heads := must[*Frame](t)(f.Map(ctx, testHead, nil))
			if rows := must[[]int64](t)(heads.Rows(ctx)); rows[0] != 2 || rows[1] != 0 || rows[2] != 2 {
				t.Errorf("heads: got %v rows", rows)
			}
			scaled := must[*Frame](t)(f.Map(ctx, testScale(client.Val(3.0)), nil))
			if scaled.Schema().Field(0).Name != "scaled" {
				t.Errorf("schema %v", scaled.Schema())
			}
			if err := scaled.Persist(ctx); err != nil {
				t.Error(err)
			}
			if sum := must[int64](t)(Reduce(ctx, f, testSum, testAdd).Get(ctx)); sum != 99*100/2 {
				t.Errorf("sum: got %d", sum)
			}
			twice := must[*Frame](t)(Concat(f, f))
			f.Release()
			f.Release()
			if n := must[int64](t)(twice.NumRows(ctx)); n != 200 {
				t.Errorf("after the release of the parts: got %d rows", n)
			}
			table := must[arrow.Table](t)(twice.Table(ctx))
			again := must[*Frame](t)(FromTable(ctx, c, table, 3))
			if again.NumPartitions() != 3 {
				t.Errorf("%d partitions", again.NumPartitions())
			}
			if n := must[int64](t)(again.NumRows(ctx)); n != 200 {
				t.Errorf("%d rows of a table", n)
			}
			if _, err := f.Collect(ctx); !errors.Is(err, ErrClosed) {
				t.Errorf("released frame: got %v", err)
			}
		})
	}
}

// Errors have a kind and name the partition.
func TestErrors(t *testing.T) {
	ctx, c := connect(t, cluster.Goroutines)
	f := peopleFrame(t, ctx, c)
	other := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Int8}}, nil)
	persist := func(f *Frame, err error) error {
		if err != nil {
			return err
		}
		return f.Persist(ctx)
	}
	for _, tc := range []struct {
		name string
		err  error
		kind error
		text []string
	}{
		{"map to another schema", persist(f.Map(ctx, testHead, other)), ErrSchema,
			[]string{"partition 0", "4 columns (id, name, score, ok)", "want 1 (x)"}},
		{"one partition differs", persist(f.Map(ctx, testOdd, nil)), ErrSchema,
			[]string{"partition 2", `column 0 is "id", want "name"`}},
		{"nothing", persist(f.Map(ctx, testNothing, people)), ErrSchema, []string{"partition 0", "nil"}},
		{"panic", persist(f.Map(ctx, testPanics, people)), nil, []string{"test.panics", "index out of range"}},
		{"no such column", persist(f.Project(ctx, "id", "age")), ErrSchema,
			[]string{`no column "age"`, "id, name, score, ok"}},
		{"no column", persist(f.Project(ctx)), nil, []string{"Project without columns"}},
		{"filter by no such column", persist(f.Filter(ctx, Col("age").Gt(3))), ErrSchema, []string{`no column "age"`}},
		{"filter of another type", persist(f.Filter(ctx, Col("name").Gt(3))), ErrSchema,
			[]string{"name > 3", "utf8", "int64"}},
		{"no partitions", persist(f.Repartition(ctx, 0)), nil, []string{"at least one"}},
		{"batches of two schemas", persist(FromBatches(ctx, c, []arrow.RecordBatch{batchOf(0, 1), emptyBatch(other)})),
			ErrSchema, []string{"partition 1"}},
		{"no batch", persist(FromBatches(ctx, c, nil)), nil, []string{"without a batch"}},
		{"another schema", persist(New(ctx, c, other, f.Partitions())), ErrSchema, []string{"partition 0"}},
	} {
		if tc.err == nil {
			t.Errorf("%s: got no error", tc.name)
			continue
		}
		if tc.kind != nil && !errors.Is(tc.err, tc.kind) {
			t.Errorf("%s: got %v, want %v", tc.name, tc.err, tc.kind)
		}
		for _, text := range tc.text {
			if !strings.Contains(tc.err.Error(), text) {
				t.Errorf("%s: got %v, want %q", tc.name, tc.err, text)
			}
		}
	}
}
