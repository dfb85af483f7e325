package frame

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"go.millstream.dev/client"
	"go.millstream.dev/clique"
	"go.millstream.dev/cluster"
	"go.millstream.dev/internal/testkit/leak"
)

var shares = arrow.NewSchema([]arrow.Field{{Name: "share", Type: arrow.PrimitiveTypes.Float64}}, nil)

// testShare divides each ID by the sum of all, which no rank has alone. With a negative parameter the rank that has the
// last partition fails.
var testShare = NewNative("test.share", func(ctx context.Context, r *clique.Rank, parts Parts[arrow.RecordBatch],
	p int) ([]arrow.RecordBatch, int, error) {
	sum := []float64{0}
	for i, b := range parts.Batches {
		if p < 0 && parts.Index[i] == parts.Total-1 {
			return nil, 0, schemaErrorf(parts.Index[i], "last partition rejected")
		}
		for _, v := range b.Column(0).(*array.Int64).Int64Values() {
			sum[0] += float64(v)
		}
	}
	if err := r.Do(ctx, clique.AllReduce(clique.Of(sum), clique.Of(sum), clique.Sum)); err != nil {
		return nil, 0, err
	}
	var out []arrow.RecordBatch
	for _, b := range parts.Batches {
		col := array.NewFloat64Builder(heap)
		for _, v := range b.Column(0).(*array.Int64).Int64Values() {
			col.Append(float64(v) / sum[0] * float64(p))
		}
		a := col.NewArray()
		out = append(out, array.NewRecordBatch(shares, []arrow.Array{a}, int64(a.Len())))
		a.Release()
	}
	return out, len(parts.Batches), nil
})

func TestNative(t *testing.T) {
	for _, mode := range []cluster.Mode{cluster.Goroutines, cluster.Processes} {
		t.Run(mode.String(), func(t *testing.T) {
			ctx, c := connect(t, mode)
			f := peopleFrame(t, ctx, c)
			out, ranks, err := testShare.Run(ctx, f, 10, NativeOptions{Schema: shares})
			if err != nil {
				t.Fatal(err)
			}
			parts := 0
			for _, n := range ranks {
				parts += n
			}
			if parts != 4 || len(ranks) != 2 {
				t.Errorf("%v partitions on the ranks", ranks)
			}
			rows := must[[]int64](t)(out.Rows(ctx))
			if len(rows) != 4 || rows[0] != 40 || rows[1] != 0 || rows[3] != 55 {
				t.Errorf("rows %v", rows)
			}
			batches := must[[]arrow.RecordBatch](t)(out.Collect(ctx))
			if got := batches[3].Column(0).(*array.Float64).Value(54); got != 99.0/4950*10 {
				t.Errorf("last share: got %v", got)
			}
			// One rank fails, and the error is that of the rank.
			if _, _, err := testShare.Run(ctx, f, -1, NativeOptions{Schema: shares}); !errors.Is(err, ErrSchema) ||
				!strings.Contains(err.Error(), "rejected") {
				t.Errorf("failed rank: got %v", err)
			}
			// A clique of the caller, on one worker: partitions are moved there.
			q, err := clique.Form(ctx, c, clique.Options{Workers: []string{"0"}})
			if err != nil {
				t.Fatal(err)
			}
			defer q.Dissolve(ctx)
			if _, ranks, err = testShare.Run(ctx, f, 1, NativeOptions{Clique: q}); err != nil || len(ranks) != 1 ||
				ranks[0] != 4 {
				t.Errorf("on one worker: %v, %v", ranks, err)
			}
		})
	}
}

// split is a result that contains record batches, of a user function.
type split struct {
	Halves []arrow.RecordBatch
	ByName map[string]arrow.RecordBatch
	Rows   int64
}

var (
	testSplit = client.Func("test.split", func(_ context.Context, b arrow.RecordBatch) (split, error) {
		half := b.NumRows() / 2
		lo, hi := b.NewSlice(0, half), b.NewSlice(half, b.NumRows())
		return split{Halves: []arrow.RecordBatch{lo, hi}, ByName: map[string]arrow.RecordBatch{"whole": b},
			Rows: b.NumRows()}, nil
	})
	testUnsplit = client.Func("test.unsplit", func(_ context.Context, s split) (arrow.RecordBatch, error) {
		if got := s.ByName["whole"].NumRows(); got != s.Rows {
			return nil, schemaErrorf(-1, "%d rows, want %d", got, s.Rows)
		}
		return concat(s.Halves[0].Schema(), s.Halves)
	})
)

// A result that contains record batches is moved to another worker, and to the client.
func TestNestedBatchesTravel(t *testing.T) {
	for _, mode := range []cluster.Mode{cluster.Goroutines, cluster.Processes} {
		t.Run(mode.String(), func(t *testing.T) {
			leak.Check(t)
			ctx, c := connect(t, mode)
			want := batchOf(0, 50)
			defer want.Release()
			f := must[*Frame](t)(FromBatches(ctx, c, []arrow.RecordBatch{want}))
			defer f.Release()
			s := testSplit.Submit(ctx, c, f.Partitions()[0], client.WithWorkers("0"))
			got := must[arrow.RecordBatch](t)(testUnsplit.Submit(ctx, c, s, client.WithWorkers("1")).Result(ctx))
			if !array.RecordEqual(got, want) {
				t.Errorf("on the other worker: got %v, want %v", got, want)
			}
			here := must[split](t)(s.Result(ctx))
			if len(here.Halves) != 2 || here.Halves[1].NumRows() != 25 ||
				!array.RecordEqual(here.ByName["whole"], want) {
				t.Errorf("at the client: got %v, want two halves of %v", here, want)
			}
		})
	}
}
