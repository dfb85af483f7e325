package frame_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"go.millstream.dev/frame"
)

// print prints the first rows of a query.
func print(ctx context.Context, q *frame.Query) {
	p, err := q.Head(ctx, 10)
	if err != nil {
		log.Fatal(err)
	}
	defer p.Release()
	fmt.Print(p)
}

func ExampleFrame_Query() {
	withFrame(func(ctx context.Context, people *frame.Frame) {
		adults := people.Query().Filter(frame.Col("age").Ge(18)).Select(frame.Col("name"))
		f, err := adults.Compute(ctx)
		show(ctx, f, err)
	})
	// Output:
	// ["Ann"]
	// ["Dora"]
}

func ExampleQuery_With() {
	withFrame(func(ctx context.Context, people *frame.Frame) {
		print(ctx, people.Query().With(frame.Col("age").Ge(18).As("adult")).Drop("age").Rename("name", "who"))
	})
	// Output:
	// ┌──────┬───────┐
	// │ who  │ adult │
	// │ utf8 │ bool  │
	// ├──────┼───────┤
	// │ Ann  │ true  │
	// │ Bob  │ false │
	// │ Carl │ false │
	// │ Dora │ true  │
	// └──────┴───────┘
	// 4 rows
}

func ExampleQuery_Sample() {
	withFrame(func(ctx context.Context, people *frame.Frame) {
		t, err := people.Query().Sample(1, 42).Collect(ctx)
		if err != nil {
			log.Fatal(err)
		}
		defer t.Release()
		fmt.Println(t.NumRows(), "rows")
	})
	// Output: 4 rows
}

func ExampleQuery_Explain() {
	withFrame(func(ctx context.Context, people *frame.Frame) {
		q := people.Query().With(frame.Col("age").Ge(18).As("adult")).Filter(frame.Col("adult")).Limit(1)
		fmt.Println(q.Explain())
		run, err := q.ExplainRun(ctx)
		fmt.Println(len(run) > 0, err)
		_, err = q.Filter(frame.Col("size").Gt(1)).Schema()
		fmt.Println(err)
	})
	// Output:
	// Project name, age, age >= 18 as adult
	// └─ Limit 1
	//    └─ Filter age >= 18
	//       └─ Frame of 2 partitions
	//  <nil>
	// true <nil>
	// frame: Filter: no column "size"; columns are name, age, adult
}

func ExampleQuery_WriteIPC() {
	withFrame(func(ctx context.Context, people *frame.Frame) {
		dir, err := os.MkdirTemp("", "frame-")
		if err != nil {
			log.Fatal(err)
		}
		defer os.RemoveAll(dir)
		adults := people.Query().Filter(frame.Col("age").Ge(18))
		if _, err := adults.WriteIPC(ctx, filepath.Join(dir, "ipc"), frame.WriteOptions{}); err != nil {
			log.Fatal(err)
		}
		if _, err := adults.WriteCSV(ctx, filepath.Join(dir, "csv"), frame.WriteOptions{}); err != nil {
			log.Fatal(err)
		}
		c := people.Client()
		print(ctx, frame.ScanIPC(ctx, c, filepath.Join(dir, "ipc")).Select(frame.Col("name")))
		print(ctx, frame.ScanCSV(ctx, c, filepath.Join(dir, "csv"), frame.CSVOptions{}).Filter(frame.Col("age").Lt(20)))
	})
	// Output:
	// ┌──────┐
	// │ name │
	// │ utf8 │
	// ├──────┤
	// │ Ann  │
	// │ Dora │
	// └──────┘
	// 2 rows
	// ┌──────┬───────┐
	// │ name │   age │
	// │ utf8 │ int64 │
	// ├──────┼───────┤
	// │ Dora │    18 │
	// └──────┴───────┘
	// 1 row
}

func ExampleQuery_Head() {
	withFrame(func(ctx context.Context, people *frame.Frame) {
		q := people.Query()
		p, err := q.Union(q.Offset(3)).Offset(1).Limit(4).Head(ctx, 10)
		if err != nil {
			log.Fatal(err)
		}
		defer p.Release()
		fmt.Print(p)
	})
	// Output:
	// ┌──────┬───────┐
	// │ name │   age │
	// │ utf8 │ int64 │
	// ├──────┼───────┤
	// │ Bob  │    12 │
	// │ Carl │    17 │
	// │ Dora │    18 │
	// │ Dora │    18 │
	// └──────┴───────┘
	// 4 rows
}
