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

// points calls f with a frame of one column.
func points(xs []float64, f func(ctx context.Context, points *frame.Frame)) {
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

	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{{Name: "x",
		Type: arrow.PrimitiveTypes.Float64}}, nil))
	defer b.Release()
	b.Field(0).(*array.Float64Builder).AppendValues(xs, nil)
	points, err := frame.FromBatches(ctx, c, []arrow.RecordBatch{b.NewRecordBatch()})
	if err != nil {
		log.Fatal(err)
	}
	defer points.Release()
	f(ctx, points)
}

// show prints the labels of the first partition.
func show(ctx context.Context, labels *frame.Frame, err error) {
	if err != nil {
		log.Fatal(err)
	}
	defer labels.Release()
	batches, err := labels.Collect(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer batches[0].Release()
	fmt.Println(batches[0].Column(0))
}

func ExampleFit() {
	points([]float64{1, 2, 3, 101, 102, 103}, func(ctx context.Context, f *frame.Frame) {
		m, err := kmeans.Fit(ctx, f, kmeans.Options{Init: [][]float64{{0}, {10}}})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(m.Centers, m.Inertia)
	})
	// Output: [[2] [102]] 4
}

func ExampleFitPredict() {
	points([]float64{1, 101, 2, 102}, func(ctx context.Context, f *frame.Frame) {
		m, labels, err := kmeans.FitPredict(ctx, f, kmeans.Options{Init: [][]float64{{0}, {10}}})
		show(ctx, labels, err)
		fmt.Println(m.Centers)
	})
	// Output:
	// [0 1 0 1]
	// [[1.5] [101.5]]
}

// Other rows than those of the fit.
func ExampleModel_Predict() {
	m := kmeans.Model{Columns: []string{"x"}, Centers: [][]float64{{2}, {102}}}
	points([]float64{50, 60, -1}, func(ctx context.Context, f *frame.Frame) {
		labels, err := m.Predict(ctx, f)
		show(ctx, labels, err)
	})
	// Output: [0 1 0]
}
