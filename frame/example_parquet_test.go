package frame_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"go.millstream.dev/frame"
)

func ExampleFrame_WriteParquet() {
	withFrame(func(ctx context.Context, people *frame.Frame) {
		dir, err := os.MkdirTemp("", "frame-")
		if err != nil {
			log.Fatal(err)
		}
		defer os.RemoveAll(dir)
		if _, err := people.WriteParquet(ctx, dir, frame.ParquetWriteOptions{Compression: "zstd"}); err != nil {
			log.Fatal(err)
		}
		f, err := frame.ReadParquet(ctx, people.Client(), dir, frame.ParquetOptions{})
		show(ctx, f, err)
	})
	// Output:
	// ["Ann" "Bob"] [41 12]
	// ["Carl" "Dora"] [17 18]
}

func ExampleScanParquet() {
	withFrame(func(ctx context.Context, people *frame.Frame) {
		dir, err := os.MkdirTemp("", "frame-")
		if err != nil {
			log.Fatal(err)
		}
		defer os.RemoveAll(dir)
		adults := people.Query().Filter(frame.Col("age").Ge(18))
		if _, err := adults.WriteParquet(ctx, dir, frame.ParquetWriteOptions{}); err != nil {
			log.Fatal(err)
		}
		n, err := frame.ScanParquet(ctx, people.Client(), dir, frame.ParquetOptions{}).
			Filter(frame.Col("age").Gt(40)).NumRows(ctx)
		fmt.Println(n, err)
	})
	// Output: 1 <nil>
}
