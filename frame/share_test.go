package frame

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
	"go.millstream.dev/cluster"
	"go.millstream.dev/internal/testkit/leak"
)

// Tasks that run at once use one partition, which is a slice: the race detector reports it if its nulls are counted
// only then.
func TestSharedPartitions(t *testing.T) {
	leak.Check(t)
	ctx, c := connect(t, cluster.Goroutines)
	f := must[*Frame](t)(FromBatches(ctx, c, []arrow.RecordBatch{batchOf(0, 3000), batchOf(0, 3000)}))
	defer f.Release()
	for range 5 {
		sliced := must[*Frame](t)(f.Repartition(ctx, 3))
		var parts []*client.Future[arrow.RecordBatch]
		for i := range 12 {
			kept := must[*Frame](t)(sliced.Filter(ctx, Col("name").NotNull().And(Col("id").Ge(i))))
			defer kept.Release()
			parts = append(parts, kept.parts...)
		}
		batches := must[[]arrow.RecordBatch](t)(client.Gather(ctx, parts))
		var rows int64
		for _, b := range batches {
			rows += b.NumRows()
		}
		releaseAll(batches)
		sliced.Release()
		// Of the ids from i, two of three have a name.
		want := int64(0)
		for i := range 12 {
			for id := i; id < 3000; id++ {
				if id%3 != 2 {
					want += 2
				}
			}
		}
		if rows != want {
			t.Errorf("got %d rows, want %d", rows, want)
		}
	}
}
