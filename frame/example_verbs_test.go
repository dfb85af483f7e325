package frame_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/client"
	"go.millstream.dev/clique"
	"go.millstream.dev/cluster"
	"go.millstream.dev/frame"
	"go.millstream.dev/mem"
)

var ageSchema = arrow.NewSchema([]arrow.Field{
	{Name: "name", Type: arrow.BinaryTypes.String}, {Name: "age", Type: arrow.PrimitiveTypes.Int64},
}, nil)

// ages returns a record batch of names and ages.
func ages(rows ...any) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.NewGoAllocator(), ageSchema)
	defer b.Release()
	for i := 0; i < len(rows); i += 2 {
		b.Field(0).(*array.StringBuilder).Append(rows[i].(string))
		b.Field(1).(*array.Int64Builder).Append(int64(rows[i+1].(int)))
	}
	return b.NewRecordBatch()
}

// withFrame calls f with a frame of two partitions on a cluster of two workers.
func withFrame(f func(ctx context.Context, people *frame.Frame)) {
	ctx := context.Background()
	lc, err := cluster.Local(ctx, cluster.Config{Workers: 2, Threads: 1, Mode: cluster.Goroutines})
	if err != nil {
		log.Fatal(err)
	}
	defer lc.Close()
	c, err := lc.Client(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	people, err := frame.FromBatches(ctx, c, []arrow.RecordBatch{ages("Ann", 41, "Bob", 12),
		ages("Carl", 17, "Dora", 18)})
	if err != nil {
		log.Fatal(err)
	}
	defer people.Release()
	f(ctx, people)
}

// show prints the rows of a frame, a line for each partition.
func show(ctx context.Context, f *frame.Frame, err error) {
	if err != nil {
		log.Fatal(err)
	}
	batches, err := f.Collect(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, b := range batches {
		for i, c := range b.Columns() {
			if i > 0 {
				fmt.Print(" ")
			}
			fmt.Print(c)
		}
		fmt.Println()
		b.Release()
	}
}

func ExampleFromBatches() {
	withFrame(func(ctx context.Context, people *frame.Frame) {
		fmt.Println(people)
		fmt.Println(people.Rows(ctx))
	})
	// Output:
	// Frame of 2 partitions, 2 columns: name utf8, age int64
	// [2 2] <nil>
}

func ExampleFromTable() {
	withFrame(func(ctx context.Context, people *frame.Frame) {
		t, err := people.Table(ctx)
		if err != nil {
			log.Fatal(err)
		}
		defer t.Release()
		f, err := frame.FromTable(ctx, people.Client(), t, 1)
		show(ctx, f, err)
	})
	// Output: ["Ann" "Bob" "Carl" "Dora"] [41 12 17 18]
}

func ExampleFrame_Filter() {
	withFrame(func(ctx context.Context, people *frame.Frame) {
		young := frame.Col("age").Between(13, 19).Or(frame.Col("name").In("Bob", "Eve"))
		fmt.Println(young)
		f, err := people.Filter(ctx, young)
		show(ctx, f, err)
	})
	// Output:
	// ((age >= 13 and age <= 19) or name in ("Bob", "Eve"))
	// ["Bob"] [12]
	// ["Carl" "Dora"] [17 18]
}

func ExampleExpr_Not() {
	withFrame(func(ctx context.Context, people *frame.Frame) {
		f, err := people.Filter(ctx, frame.Col("name").NotNull().And(frame.Col("age").Lt(18).Not()))
		show(ctx, f, err)
	})
	// Output:
	// ["Ann"] [41]
	// ["Dora"] [18]
}

func ExampleFrame_Project() {
	withFrame(func(ctx context.Context, people *frame.Frame) {
		f, err := people.Project(ctx, "age")
		show(ctx, f, err)
	})
	// Output:
	// [41 12]
	// [17 18]
}

// oldest keeps the first row of a partition, as an example.
var oldest = frame.NewMap("example.oldest", func(_ context.Context, b arrow.RecordBatch) (arrow.RecordBatch, error) {
	return b.NewSlice(0, 1), nil
})

func ExampleNewMap() {
	withFrame(func(ctx context.Context, people *frame.Frame) {
		f, err := people.Map(ctx, oldest, people.Schema())
		show(ctx, f, err)
	})
	// Output:
	// ["Ann"] [41]
	// ["Carl"] [17]
}

// atLeast keeps the rows with a minimum age.
var atLeast = frame.NewMapWith("example.at_least",
	func(_ context.Context, b arrow.RecordBatch, age int) (arrow.RecordBatch, error) {
		return frame.Select(b, frame.Col("age").Ge(age))
	})

func ExampleNewMapWith() {
	withFrame(func(ctx context.Context, people *frame.Frame) {
		f, err := people.Map(ctx, atLeast(client.Val(18)), nil)
		show(ctx, f, err)
	})
	// Output:
	// ["Ann"] [41]
	// ["Dora"] [18]
}

// total returns the sum of the ages of a partition.
var total = frame.NewPart("example.total", func(_ context.Context, b arrow.RecordBatch) (int64, error) {
	var n int64
	for _, v := range b.Column(1).(*array.Int64).Int64Values() {
		n += v
	}
	return n, nil
})

func ExampleReduce() {
	withFrame(func(ctx context.Context, people *frame.Frame) {
		fmt.Println(frame.Reduce(ctx, people, total, exampleAdd).Get(ctx))
	})
	// Output: 88 <nil>
}

func ExampleFrame_Repartition() {
	withFrame(func(ctx context.Context, people *frame.Frame) {
		f, err := people.Repartition(ctx, 3)
		show(ctx, f, err)
	})
	// Output:
	// ["Ann"] [41]
	// ["Bob"] [12]
	// ["Carl" "Dora"] [17 18]
}

func ExampleConcat() {
	withFrame(func(ctx context.Context, people *frame.Frame) {
		f, err := frame.Concat(people, people)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(f.NumPartitions())
		fmt.Println(f.NumRows(ctx))
	})
	// Output:
	// 4
	// 8 <nil>
}

// share returns the number of all rows on every rank.
var share = frame.NewNative("example.share",
	func(ctx context.Context, r *clique.Rank, p frame.Parts[arrow.RecordBatch], _ int) ([]arrow.RecordBatch, int64,
		error) {
		rows := []int64{0}
		for _, b := range p.Batches {
			rows[0] += b.NumRows()
		}
		err := r.Do(ctx, clique.AllReduce(clique.Of(rows), clique.Of(rows), clique.Sum))
		return nil, rows[0], err
	})

func ExampleNewNative() {
	withFrame(func(ctx context.Context, people *frame.Frame) {
		_, rows, err := share.Run(ctx, people, 0, frame.NativeOptions{})
		fmt.Println(rows[0], err)
	})
	// Output: 4 <nil>
}

func ExampleFrame_WriteIPC() {
	withFrame(func(ctx context.Context, people *frame.Frame) {
		dir, err := os.MkdirTemp("", "frame-")
		if err != nil {
			log.Fatal(err)
		}
		defer os.RemoveAll(dir)
		paths, err := people.WriteIPC(ctx, dir, frame.WriteOptions{})
		fmt.Println(len(paths), err)
		f, err := frame.ReadIPC(ctx, people.Client(), dir)
		show(ctx, f, err)
	})
	// Output:
	// 2 <nil>
	// ["Ann" "Bob"] [41 12]
	// ["Carl" "Dora"] [17 18]
}

func ExampleFrame_WriteCSV() {
	withFrame(func(ctx context.Context, people *frame.Frame) {
		dir, err := os.MkdirTemp("", "frame-")
		if err != nil {
			log.Fatal(err)
		}
		defer os.RemoveAll(dir)
		if _, err := people.WriteCSV(ctx, dir, frame.WriteOptions{Overwrite: true}); err != nil {
			log.Fatal(err)
		}
		f, err := frame.ReadCSV(ctx, people.Client(), dir, frame.CSVOptions{Schema: ageSchema})
		show(ctx, f, err)
	})
	// Output:
	// ["Ann" "Bob"] [41 12]
	// ["Carl" "Dora"] [17 18]
}

func ExampleOpen() {
	withFrame(func(ctx context.Context, people *frame.Frame) {
		if err := people.Publish(ctx, "people", false); err != nil {
			log.Fatal(err)
		}
		f, err := frame.Open(ctx, people.Client(), "people", frame.Host)
		show(ctx, f, err)
	})
	// Output:
	// ["Ann" "Bob"] [41 12]
	// ["Carl" "Dora"] [17 18]
}

func ExampleNew() {
	withFrame(func(ctx context.Context, people *frame.Frame) {
		batches, err := client.Scatter(ctx, people.Client(), []arrow.RecordBatch{ages("Eve", 30)},
			client.ScatterOptions{})
		if err != nil {
			log.Fatal(err)
		}
		f, err := frame.New(ctx, people.Client(), ageSchema, batches)
		show(ctx, f, err)
	})
	// Output: ["Eve"] [30]
}

func ExampleOf() {
	withFrame(func(ctx context.Context, people *frame.Frame) {
		batches, err := client.Scatter(ctx, people.Client(), []arrow.RecordBatch{ages("Eve", 30)},
			client.ScatterOptions{})
		if err != nil {
			log.Fatal(err)
		}
		f, err := frame.Of(ctx, people.Client(), batches) // the schema is that of the first
		show(ctx, f, err)
	})
	// Output: ["Eve"] [30]
}

// rowsOnDevice is a function on frames on GPUs.
var rowsOnDevice = frame.NewPart("example.device.rows", func(_ context.Context, b *frame.DeviceBatch) (int64, error) {
	return int64(b.NumRows()), nil
})

// It needs workers with GPUs.
func ExampleFrame_ToDevice() {
	withFrame(func(ctx context.Context, people *frame.Frame) {
		there, err := people.ToDevice(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(there.Location() == frame.Device)
		fmt.Println(frame.Reduce(ctx, there, rowsOnDevice, exampleAdd).Get(ctx))
		back, err := there.ToHost(ctx)
		show(ctx, back, err)
	})
}

// A Python program has called client.publish_dataset(people=df.persist()).
func ExampleFromDask() {
	withFrame(func(ctx context.Context, people *frame.Frame) {
		f, err := frame.FromDask(ctx, people.Client(), "people", frame.Host)
		show(ctx, f, err)
	})
}

func ExampleExpr() {
	age, name := frame.Col("age"), frame.Col("name")
	for _, e := range []frame.Expr{age.Eq(18), age.Ne(18), age.Lt(18), age.Le(18), age.Gt(18), age.Ge(18),
		name.In("Ann", "Bob"), age.Between(13, 19), name.IsNull(), name.NotNull()} {
		fmt.Println(e)
	}
	// Output:
	// age == 18
	// age != 18
	// age < 18
	// age <= 18
	// age > 18
	// age >= 18
	// name in ("Ann", "Bob")
	// (age >= 13 and age <= 19)
	// name is null
	// name is not null
}

func ExampleLit() {
	fmt.Println(frame.Lit(100).Sub(frame.Col("age")).Gt(50))
	// Output: 100 - age > 50
}

func ExampleIf() {
	fmt.Println(frame.If(frame.Col("age").Ge(18), "adult", "child").As("group"))
	// Output: if(age >= 18, "adult", "child") as group
}

// Select and Project do in user functions what Filter and Project do with frames.
func ExampleProject() {
	b := ages("Ann", 41, "Bob", 12)
	defer b.Release()
	adults, err := frame.Select(b, frame.Col("age").Ge(18))
	if err != nil {
		log.Fatal(err)
	}
	defer adults.Release()
	names, err := frame.Project(adults, "name")
	if err != nil {
		log.Fatal(err)
	}
	defer names.Release()
	fmt.Println(names.NumCols(), names.Column(0))
	// Output: 1 ["Ann"]
}

// Persist waits for the partitions, which stay on the workers.
func ExampleFrame_Persist() {
	withFrame(func(ctx context.Context, people *frame.Frame) {
		fmt.Println(people.Persist(ctx), people.Partitions()[1].Status())
	})
	// Output: <nil> finished
}

// The result of a reduction as an argument of a task.
func ExampleResult_Future() {
	withFrame(func(ctx context.Context, people *frame.Frame) {
		sum := frame.Reduce(ctx, people, total, exampleAdd)
		defer sum.Release()
		fmt.Println(exampleAdd.Submit(ctx, people.Client(), sum.Future(), client.Val(int64(12))).Result(ctx))
	})
	// Output: 100 <nil>
}

// Columns are buffers of a GPU; those of this example are in host memory.
func ExampleNewDeviceBatch() {
	ctx := context.Background()
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Int64},
		{Name: "y", Type: arrow.PrimitiveTypes.Float64}}, nil)
	b, err := frame.NewDeviceBatch(schema, 3, []frame.DeviceColumn{{Values: mem.FromSlice([]int64{1, 2, 3})},
		{Values: mem.FromSlice([]float64{0.5, 1.5, 2.5})}})
	if err != nil {
		log.Fatal(err)
	}
	y, err := b.Named("y")
	if err != nil {
		log.Fatal(err)
	}
	nulls, err := y.Nulls(ctx, b.NumRows())
	fmt.Println(b.Column(1).Values == y.Values, nulls, err)

	projected, err := b.Project("y")
	if err != nil {
		log.Fatal(err)
	}
	columns, release, err := projected.Native() // for an algorithm of a shared library
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(columns), columns[0].Len())
	release()

	host, err := projected.CopyToHost(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer host.Release()
	fmt.Println(host.Column(0))
	// Output:
	// true 0 <nil>
	// 1 3
	// [0.5 1.5 2.5]
}
