package frame_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"go.millstream.dev/frame"
)

func ExampleScanNDJSON() {
	withFrame(func(ctx context.Context, people *frame.Frame) {
		dir, err := os.MkdirTemp("", "frame-")
		if err != nil {
			log.Fatal(err)
		}
		defer os.RemoveAll(dir)
		text := `{"name": "Ann", "age": 41}
{"name": "Bob", "age": null, "tags": ["new"]}
`
		if err := os.WriteFile(filepath.Join(dir, "people.jsonl"), []byte(text), 0o600); err != nil {
			log.Fatal(err)
		}
		rows, err := frame.ScanNDJSON(ctx, people.Client(), dir, frame.NDJSONOptions{}).Head(ctx, 10)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(rows)
	})
	// Output:
	// ┌──────┬───────┬─────────┐
	// │ name │   age │ tags    │
	// │ utf8 │ int64 │ utf8    │
	// ├──────┼───────┼─────────┤
	// │ Ann  │    41 │ null    │
	// │ Bob  │  null │ ["new"] │
	// └──────┴───────┴─────────┘
	// 2 rows
}

func ExampleFrame_WriteNDJSON() {
	withFrame(func(ctx context.Context, people *frame.Frame) {
		dir, err := os.MkdirTemp("", "frame-")
		if err != nil {
			log.Fatal(err)
		}
		defer os.RemoveAll(dir)
		if _, err := people.WriteNDJSON(ctx, dir, frame.WriteOptions{}); err != nil {
			log.Fatal(err)
		}
		f, err := frame.ReadNDJSON(ctx, people.Client(), dir, frame.NDJSONOptions{})
		show(ctx, f, err)
	})
	// Output:
	// ["Ann" "Bob"] [41 12]
	// ["Carl" "Dora"] [17 18]
}

func ExampleQuery_WriteNDJSON() {
	withFrame(func(ctx context.Context, people *frame.Frame) {
		dir, err := os.MkdirTemp("", "frame-")
		if err != nil {
			log.Fatal(err)
		}
		defer os.RemoveAll(dir)
		paths, err := people.Query().Filter(frame.Col("age").Lt(13)).Limit(1).WriteNDJSON(ctx, dir,
			frame.WriteOptions{})
		if err != nil {
			log.Fatal(err)
		}
		text, err := os.ReadFile(paths[0])
		fmt.Print(string(text), err)
	})
	// Output:
	// {"name":"Bob","age":12}
	// <nil>
}
