package frame

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"go.millstream.dev/client"
	"go.millstream.dev/cluster"
	"go.millstream.dev/internal/proc/childproc"
)

func TestMain(m *testing.M) {
	cluster.Main()
	childproc.NoRaceSleep()
	os.Exit(m.Run())
}

// connect starts a cluster of two workers and a client of it.
func connect(t testing.TB, mode cluster.Mode) (context.Context, *client.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	t.Cleanup(cancel)
	lc, err := cluster.Local(ctx, cluster.Config{Workers: 2, Threads: 2, Mode: mode, DataConnections: "none"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lc.Close(); err != nil {
			t.Error(err)
		}
	})
	c, err := lc.Client(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return ctx, c
}

var people = arrow.NewSchema([]arrow.Field{
	{Name: "id", Type: arrow.PrimitiveTypes.Int64},
	{Name: "name", Type: arrow.BinaryTypes.String, Nullable: true},
	{Name: "score", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
	{Name: "ok", Type: arrow.FixedWidthTypes.Boolean},
}, nil)

// batchOf returns the rows from and to: every third has no name, every fourth no score.
func batchOf(from, to int) arrow.RecordBatch {
	b := array.NewRecordBuilder(heap, people)
	defer b.Release()
	for i := from; i < to; i++ {
		b.Field(0).(*array.Int64Builder).Append(int64(i))
		if i%3 == 2 {
			b.Field(1).AppendNull()
		} else {
			b.Field(1).(*array.StringBuilder).Append("n" + strings.Repeat("x", i%5))
		}
		if i%4 == 3 {
			b.Field(2).AppendNull()
		} else {
			b.Field(2).(*array.Float64Builder).Append(float64(i) / 2)
		}
		b.Field(3).(*array.BooleanBuilder).Append(i%2 == 0)
	}
	return b.NewRecordBatch()
}

// peopleFrame returns rows 0 to 100 in four partitions, one of them empty.
func peopleFrame(t testing.TB, ctx context.Context, c *client.Client) *Frame {
	t.Helper()
	f, err := FromBatches(ctx, c, []arrow.RecordBatch{batchOf(0, 40), batchOf(40, 40), batchOf(40, 45),
		batchOf(45, 100)})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// same fails the test unless the rows of a frame are those of a batch.
func same(t *testing.T, ctx context.Context, what string, f *Frame, want arrow.RecordBatch) {
	t.Helper()
	batches, err := f.Collect(ctx)
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	got, err := concat(f.Schema(), batches)
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	if !array.RecordEqual(got, want) {
		t.Errorf("%s: got %v\nwant %v", what, got, want)
	}
}

func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
