// Command app is the program of the upgrade test: scheduler and worker by cli.Serve, and a client that checks its
// results. It is compiled with the packages of two revisions, so it uses only what both have.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"go.millstream.dev"
	"go.millstream.dev/cli"
	"go.millstream.dev/client"
)

var (
	square = millstream.Func("upgrade.square", func(_ context.Context, x int) (int, error) { return x * x, nil })
	fill   = millstream.Func("upgrade.fill", func(_ context.Context, x int) ([]byte, error) {
		return bytes.Repeat([]byte{byte(x)}, 1<<20), nil
	})
	sum = millstream.Func("upgrade.sum", func(_ context.Context, data []byte) (int, error) {
		total := 0
		for _, b := range data {
			total += int(b)
		}
		return total, nil
	})
	add  = millstream.Func2("upgrade.add", func(_ context.Context, a, b int) (int, error) { return a + b, nil })
	fail = millstream.Func("upgrade.fail", func(_ context.Context, x int) (int, error) {
		return 0, fmt.Errorf("no result for %d", x)
	})
)

const usage = "usage: app work ADDRESS WORKER WORKER | app keep ADDRESS | app kept ADDRESS"

func main() {
	millstream.Main()
	cli.Serve()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "app:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) < 2 {
		return errors.New(usage)
	}
	c, err := millstream.Connect(ctx, args[1])
	if err != nil {
		return err
	}
	defer c.Close()
	switch {
	case args[0] == "work" && len(args) == 4:
		return work(ctx, c, args[2], args[3])
	case args[0] == "keep":
		return client.NewVariable[int](c, "upgrade").Set(ctx, 42)
	case args[0] == "kept":
		got, err := client.NewVariable[int](c, "upgrade").Get(ctx)
		if err == nil && got != 42 {
			err = fmt.Errorf("variable: got %d, want 42", got)
		}
		return err
	}
	return errors.New(usage)
}

// work runs tasks on two workers: many small ones, results that move from each to the other, scattered data, a failure.
func work(ctx context.Context, c *millstream.Client, first, second string) error {
	if err := c.WaitForWorkers(ctx, 2); err != nil {
		return err
	}
	numbers := make([]int, 200)
	for i := range numbers {
		numbers[i] = i
	}
	total, err := millstream.TreeReduce(ctx, c, add, square.Map(ctx, c, numbers)).Result(ctx)
	if err != nil || total != 2646700 {
		return fmt.Errorf("sum of squares: got %d, want 2646700: %v", total, err)
	}
	for i, pair := range [][2]string{{first, second}, {second, first}, {first, first}, {second, second}} {
		data := fill.Submit(ctx, c, millstream.Val(i+1), client.WithWorkers(pair[0]))
		got, err := sum.Submit(ctx, c, data, client.WithWorkers(pair[1])).Result(ctx)
		if want := (i + 1) << 20; err != nil || got != want {
			return fmt.Errorf("from %s to %s: got %d, want %d: %v", pair[0], pair[1], got, want, err)
		}
		raw, err := data.Result(ctx)
		if err != nil || !bytes.Equal(raw, bytes.Repeat([]byte{byte(i + 1)}, 1<<20)) {
			return fmt.Errorf("result of %s: got %d bytes: %v", pair[0], len(raw), err)
		}
	}
	futures, err := millstream.Scatter(ctx, c, []int{3, 4}, millstream.ScatterOptions{})
	if err != nil {
		return err
	}
	if got, err := add.Submit(ctx, c, futures[0], futures[1]).Result(ctx); err != nil || got != 7 {
		return fmt.Errorf("scattered: got %d, want 7: %v", got, err)
	}
	for _, worker := range []string{first, second} {
		var failed *millstream.TaskError
		_, err := fail.Submit(ctx, c, millstream.Val(5), client.WithWorkers(worker), client.WithImpure()).Result(ctx)
		if !errors.As(err, &failed) || failed.Text != "no result for 5" {
			return fmt.Errorf("failure on %s: got error %v, want a TaskError with its text", worker, err)
		}
	}
	return nil
}
