package frame_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
	"go.millstream.dev/cluster"
	"go.millstream.dev/frame"
)

var (
	exampleCount = frame.NewPart("example.count", func(_ context.Context, b arrow.RecordBatch) (int64, error) {
		return b.NumRows(), nil
	})
	exampleAdd = client.Func2("example.add", func(_ context.Context, x, y int64) (int64, error) { return x + y, nil })
)

// CSV files are read, filtered and counted by the workers.
func Example() {
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

	dir, err := os.MkdirTemp("", "frame-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	for i, text := range []string{"name,age\nAnn,41\nBob,12\n", "name,age\nCarl,17\nDora,18\n"} {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.csv", i)), []byte(text), 0o600); err != nil {
			log.Fatal(err)
		}
	}

	f, err := frame.ReadCSV(ctx, c, dir, frame.CSVOptions{})
	if err != nil {
		log.Fatal(err)
	}
	adults, err := f.Filter(ctx, frame.Col("age").Ge(18))
	if err != nil {
		log.Fatal(err)
	}
	n, err := frame.Reduce(ctx, adults, exampleCount, exampleAdd).Get(ctx)
	fmt.Println(n, err)
	names, err := adults.Project(ctx, "name")
	if err != nil {
		log.Fatal(err)
	}
	batches, err := names.Collect(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, b := range batches {
		fmt.Println(b.Column(0))
	}
	// Output:
	// 2 <nil>
	// ["Ann"]
	// ["Dora"]
}
