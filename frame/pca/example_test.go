package pca_test

import (
	"context"
	"fmt"
	"log"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/cluster"
	"go.millstream.dev/frame"
	"go.millstream.dev/frame/pca"
)

// table calls f with a frame of the columns x and y, in two partitions.
func table(x, y []float64, f func(ctx context.Context, table *frame.Frame)) {
	ctx := context.Background()
	lc, err := cluster.Local(ctx, cluster.Config{Workers: 2, Mode: cluster.Goroutines})
	if err != nil {
		log.Fatal(err)
	}
	defer lc.Close()
	c, err := lc.Client(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	t := arrow.PrimitiveTypes.Float64
	b := array.NewRecordBuilder(memory.DefaultAllocator,
		arrow.NewSchema([]arrow.Field{{Name: "x", Type: t}, {Name: "y", Type: t}}, nil))
	defer b.Release()
	var batches []arrow.RecordBatch
	for _, at := range [][2]int{{0, 1}, {1, len(x)}} {
		b.Field(0).(*array.Float64Builder).AppendValues(x[at[0]:at[1]], nil)
		b.Field(1).(*array.Float64Builder).AppendValues(y[at[0]:at[1]], nil)
		batches = append(batches, b.NewRecordBatch())
	}
	table, err := frame.FromBatches(ctx, c, batches)
	if err != nil {
		log.Fatal(err)
	}
	defer table.Release()
	f(ctx, table)
}

// show prints the first column of a frame.
func show(ctx context.Context, f *frame.Frame, err error) {
	if err != nil {
		log.Fatal(err)
	}
	defer f.Release()
	batches, err := f.Collect(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, b := range batches {
		for _, v := range b.Column(0).(*array.Float64).Float64Values() {
			fmt.Printf("%.3f\n", v)
		}
		b.Release()
	}
}

func ExampleFit() {
	table([]float64{1, 2, 3, 4}, []float64{3, 6, 9, 12}, func(ctx context.Context, f *frame.Frame) {
		m, err := pca.Fit(ctx, f, pca.Options{Components: 1})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("direction %.4f, variance %.4f, ratio %.2f\n", m.Components[0], m.ExplainedVariance[0],
			m.ExplainedVarianceRatio[0])
	})
	// Output: direction [0.3162 0.9487], variance 16.6667, ratio 1.00
}

func ExampleModel_Transform() {
	table([]float64{1, 2, 3}, []float64{0, 0, 0}, func(ctx context.Context, f *frame.Frame) {
		m, err := pca.Fit(ctx, f, pca.Options{Components: 1})
		if err != nil {
			log.Fatal(err)
		}
		x, err := m.Transform(ctx, f)
		show(ctx, x, err)
	})
	// Output:
	// -1.000
	// 0.000
	// 1.000
}
