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

func ExampleQuery_Head() {
	withFrame(func(ctx context.Context, people *frame.Frame) {
		p, err := people.Query().Sort(frame.Desc(frame.Col("age"))).Head(ctx, 2)
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
	// │ Ann  │    41 │
	// │ Dora │    18 │
	// └──────┴───────┘
	// 2 rows
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

func ExampleQuery_Join() {
	withFrame(func(ctx context.Context, people *frame.Frame) {
		young := people.Query().Filter(frame.Col("age").Lt(18))
		q := people.Query().Join(young, frame.JoinOptions{Kind: frame.AntiJoin, On: []string{"name"}})
		print(ctx, q.Sort(frame.Asc(frame.Col("name"))))
		older := frame.Col("age").Gt(frame.Col("age_right"))
		print(ctx, people.Query().Join(young, frame.JoinOptions{Kind: frame.CrossJoin, Where: &older}).
			Sort(frame.Asc(frame.Col("name")), frame.Asc(frame.Col("age_right"))).
			Select(frame.Col("name"), frame.Col("name_right").As("younger")))
	})
	// Output:
	// ┌──────┬───────┐
	// │ name │   age │
	// │ utf8 │ int64 │
	// ├──────┼───────┤
	// │ Ann  │    41 │
	// │ Dora │    18 │
	// └──────┴───────┘
	// 2 rows
	// ┌──────┬─────────┐
	// │ name │ younger │
	// │ utf8 │ utf8    │
	// ├──────┼─────────┤
	// │ Ann  │ Bob     │
	// │ Ann  │ Carl    │
	// │ Carl │ Bob     │
	// │ Dora │ Bob     │
	// │ Dora │ Carl    │
	// └──────┴─────────┘
	// 5 rows
}

func ExampleQuery_Top() {
	withFrame(func(ctx context.Context, people *frame.Frame) {
		q := people.Query()
		print(ctx, q.Union(q.Filter(frame.Col("age").Gt(40))).Top(3, frame.Desc(frame.Col("age")).NullsFirst()))
		rest, err := people.Query().Offset(1).Limit(2).Collect(ctx)
		if err != nil {
			log.Fatal(err)
		}
		defer rest.Release()
		fmt.Println(rest.NumRows(), "rows")
	})
	// Output:
	// ┌──────┬───────┐
	// │ name │   age │
	// │ utf8 │ int64 │
	// ├──────┼───────┤
	// │ Ann  │    41 │
	// │ Ann  │    41 │
	// │ Dora │    18 │
	// └──────┴───────┘
	// 3 rows
	// 2 rows
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

func ExampleQuery_Shuffle() {
	withFrame(func(ctx context.Context, people *frame.Frame) {
		f, err := people.Query().Shuffle(2, "name").Compute(ctx)
		if err != nil {
			log.Fatal(err)
		}
		defer f.Release()
		rows, err := f.NumRows(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(rows, "rows in", f.NumPartitions(), "partitions")
	})
	// Output: 4 rows in 2 partitions
}

func ExampleQuery_Explain() {
	withFrame(func(ctx context.Context, people *frame.Frame) {
		q := people.Query().Sort(frame.Asc(frame.Col("name"))).Filter(frame.Col("age").Ge(18)).Limit(1)
		fmt.Println(q.Explain())
		run, err := q.ExplainRun(ctx)
		fmt.Println(len(run) > 0, err)
		_, err = q.Filter(frame.Col("size").Gt(1)).Schema()
		fmt.Println(err)
	})
	// Output:
	// Top 1 by name
	// └─ Filter age >= 18
	//    └─ Frame of 2 partitions
	//  <nil>
	// true <nil>
	// frame: Filter: no column "size"; columns are name, age
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

func ExampleQuery_GroupBy() {
	withFrame(func(ctx context.Context, people *frame.Frame) {
		age := frame.Col("age")
		adult := age.Ge(18).As("adult")
		print(ctx, people.Query().GroupBy(adult).Agg(frame.Count().As("n"), frame.Sum(age).As("sum"),
			frame.Min(age).As("min"), frame.Max(age).As("max"), frame.Mean(age).As("mean")).
			Sort(frame.Asc(frame.Col("adult"))))
		print(ctx, people.Query().GroupBy(adult).Agg(frame.CountOf(age).As("n"), frame.Median(age).As("median"),
			frame.Quantile(age, 0.25).As("q25"), frame.ApproxQuantile(age, 0.75).As("q75"),
			frame.NUnique(age).As("unique")).
			Sort(frame.Asc(frame.Col("adult"))))
	})
	// Output:
	// ┌───────┬───────┬───────┬───────┬───────┬─────────┐
	// │ adult │     n │   sum │   min │   max │    mean │
	// │ bool  │ int64 │ int64 │ int64 │ int64 │ float64 │
	// ├───────┼───────┼───────┼───────┼───────┼─────────┤
	// │ false │     2 │    29 │    12 │    17 │    14.5 │
	// │ true  │     2 │    59 │    18 │    41 │    29.5 │
	// └───────┴───────┴───────┴───────┴───────┴─────────┘
	// 2 rows
	// ┌───────┬───────┬─────────┬─────────┬─────────┬────────┐
	// │ adult │     n │  median │     q25 │     q75 │ unique │
	// │ bool  │ int64 │ float64 │ float64 │ float64 │  int64 │
	// ├───────┼───────┼─────────┼─────────┼─────────┼────────┤
	// │ false │     2 │    14.5 │   13.25 │   15.75 │      2 │
	// │ true  │     2 │    29.5 │   23.75 │   35.25 │      2 │
	// └───────┴───────┴─────────┴─────────┴─────────┴────────┘
	// 2 rows
}

func ExampleQuery_Agg() {
	withFrame(func(ctx context.Context, people *frame.Frame) {
		name, age := frame.Col("name"), frame.Col("age")
		print(ctx, people.Query().Agg(frame.First(name).As("first"), frame.Last(name).As("last"),
			frame.CollectList(age).As("ages"), frame.Var(age).As("var"), frame.Std(age).As("std")))
		fmt.Println(people.Query().Filter(age.Ge(18)).NumRows(ctx))
	})
	// Output:
	// ┌───────┬──────┬─────────────────────────────┬────────────────────┬────────────────────┐
	// │ first │ last │ ages                        │                var │                std │
	// │ utf8  │ utf8 │ list<item: int64, nullable> │            float64 │            float64 │
	// ├───────┼──────┼─────────────────────────────┼────────────────────┼────────────────────┤
	// │ Ann   │ Dora │ [41,12,17,18]               │ 167.33333333333334 │ 12.935738607954837 │
	// └───────┴──────┴─────────────────────────────┴────────────────────┴────────────────────┘
	// 1 row
	// 2 <nil>
}

func ExampleQuery_Distinct() {
	withFrame(func(ctx context.Context, people *frame.Frame) {
		adult := people.Query().Select(frame.Col("age").Ge(18).As("adult")).Distinct()
		print(ctx, adult.Sort(frame.Asc(frame.Col("adult"))))
		print(ctx, people.Query().Describe().Select(frame.Col("column"), frame.Col("count"), frame.Col("min")))
	})
	// Output:
	// ┌───────┐
	// │ adult │
	// │ bool  │
	// ├───────┤
	// │ false │
	// │ true  │
	// └───────┘
	// 2 rows
	// ┌────────┬───────┬──────┐
	// │ column │ count │ min  │
	// │ utf8   │ int64 │ utf8 │
	// ├────────┼───────┼──────┤
	// │ name   │     4 │ Ann  │
	// │ age    │     4 │ 12   │
	// └────────┴───────┴──────┘
	// 2 rows
}

func ExampleQuery_Window() {
	withFrame(func(ctx context.Context, people *frame.Frame) {
		byAge := frame.WindowOptions{OrderBy: []frame.SortKey{frame.Asc(frame.Col("age"))}}
		q := people.Query().Window(byAge, frame.RowNumber().As("number"), frame.Lag(frame.Col("name"), 1).As("younger"),
			frame.Lead(frame.Col("age"), 1).As("next"))
		print(ctx, q.Sort(frame.Asc(frame.Col("age"))))
		adult := frame.WindowOptions{PartitionBy: []frame.Expr{frame.Col("age").Ge(18)}, OrderBy: byAge.OrderBy}
		q = people.Query().Window(adult, frame.Rank().As("rank"), frame.DenseRank().As("dense"),
			frame.Over(frame.Sum(frame.Col("age"))).Rows(1, 0).As("sum"))
		print(ctx, q.Sort(frame.Asc(frame.Col("name"))))
	})
	// Output:
	// ┌──────┬───────┬────────┬─────────┬───────┐
	// │ name │   age │ number │ younger │  next │
	// │ utf8 │ int64 │  int64 │ utf8    │ int64 │
	// ├──────┼───────┼────────┼─────────┼───────┤
	// │ Bob  │    12 │      1 │ null    │    17 │
	// │ Carl │    17 │      2 │ Bob     │    18 │
	// │ Dora │    18 │      3 │ Carl    │    41 │
	// │ Ann  │    41 │      4 │ Dora    │  null │
	// └──────┴───────┴────────┴─────────┴───────┘
	// 4 rows
	// ┌──────┬───────┬───────┬───────┬───────┐
	// │ name │   age │  rank │ dense │   sum │
	// │ utf8 │ int64 │ int64 │ int64 │ int64 │
	// ├──────┼───────┼───────┼───────┼───────┤
	// │ Ann  │    41 │     2 │     2 │    59 │
	// │ Bob  │    12 │     1 │     1 │    12 │
	// │ Carl │    17 │     2 │     2 │    29 │
	// │ Dora │    18 │     1 │     1 │    18 │
	// └──────┴───────┴───────┴───────┴───────┘
	// 4 rows
}
