package frame_test

import (
	"context"
	"log"

	"go.millstream.dev/frame"
)

func ExampleSQL() {
	withFrame(func(ctx context.Context, people *frame.Frame) {
		q, err := frame.SQL(ctx, people.Client(), `
			select age >= 18 as adult, count(*) as people, max(age) as oldest
			from people
			group by adult
			order by oldest`, map[string]*frame.Query{"people": people.Query()})
		if err != nil {
			log.Fatal(err)
		}
		print(ctx, q)
	})
	// Output:
	// ┌───────┬────────┬────────┐
	// │ adult │ people │ oldest │
	// │ bool  │  int64 │  int64 │
	// ├───────┼────────┼────────┤
	// │ false │      2 │     17 │
	// │ true  │      2 │     41 │
	// └───────┴────────┴────────┘
	// 2 rows
}
