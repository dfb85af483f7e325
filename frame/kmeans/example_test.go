package kmeans_test

import (
	"context"
	"fmt"
	"log"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/cluster"
	"go.millstream.dev/frame"
	"go.millstream.dev/frame/kmeans"
)

func ExampleFit() {
	ctx := context.Background()
	lc, err := cluster.Local(ctx, cluster.Options{Workers: 2, Mode: cluster.Goroutines})
	if err != nil {
		log.Fatal(err)
	}
	defer lc.Close()
	c, err := lc.Client(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close(ctx)

	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{{Name: "x",
		Type: arrow.PrimitiveTypes.Float64}}, nil))
	defer b.Release()
	b.Field(0).(*array.Float64Builder).AppendValues([]float64{1, 2, 3, 101, 102, 103}, nil)
	f, err := frame.FromBatches(ctx, c, []arrow.RecordBatch{b.NewRecordBatch()})
	if err != nil {
		log.Fatal(err)
	}
	m, err := kmeans.Fit(ctx, f, kmeans.Options{Init: [][]float64{{0}, {10}}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(m.Centres, m.Inertia)
	// Output: [[2] [102]] 4
}
