// Command app is a user's program in several builds: the linker sets factor, the tag more adds a function.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"go.millstream.dev"
	"go.millstream.dev/cli"
)

// factor is what scale multiplies with: "-X main.factor=xx" is 2.
var factor = "x"

var scale = millstream.Func("app.scale", func(_ context.Context, x int) (int, error) { return x * len(factor), nil })

// main is "app ADDRESS X" for a client; "app worker ADDRESS" is that of cli.Serve.
func main() {
	millstream.Main()
	cli.Serve()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := run(ctx, os.Args[1]); err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, address string) error {
	c, err := millstream.Connect(ctx, address)
	if err != nil {
		return err
	}
	defer c.Close()
	f := scale.Submit(ctx, c, millstream.Val(100))
	done := make(chan struct{})
	go func() {
		defer close(done)
		said := ""
		for !f.IsDone() && ctx.Err() == nil {
			if text := f.String(); len(c.Shortages()) > 0 && text != said {
				fmt.Println("waiting", text)
				said = text
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	got, err := f.Result(ctx)
	<-done
	if err != nil {
		return err
	}
	fmt.Println("result", got)
	return nil
}
