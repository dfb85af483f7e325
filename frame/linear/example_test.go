package linear_test

import (
	"context"
	"fmt"
	"log"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/cluster"
	"go.millstream.dev/frame"
	"go.millstream.dev/frame/linear"
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
	table([]float64{1, 2, 3, 4}, []float64{5, 7, 9, 11}, func(ctx context.Context, f *frame.Frame) {
		m, err := linear.Fit(ctx, f, linear.Options{Target: "y"})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("y = %.2f x + %.2f\n", m.Coefficients[0], m.Intercept)
	})
	// Output: y = 2.00 x + 3.00
}

// Other rows than those of the fit.
func ExampleModel_Predict() {
	m := linear.Model{Columns: []string{"x"}, Coefficients: []float64{2}, Intercept: 3}
	table([]float64{10, 20}, []float64{0, 0}, func(ctx context.Context, f *frame.Frame) {
		p, err := m.Predict(ctx, f)
		show(ctx, p, err)
	})
	// Output:
	// 23.000
	// 43.000
}
