package millstream_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"

	"go.millstream.dev"
)

var (
	add = millstream.Func2("example.add", func(_ context.Context, a, b int) (int, error) { return a + b, nil })

	count = millstream.Func2("example.count", func(_ context.Context, text, word string) (int, error) {
		return strings.Count(text, word), nil
	})

	attempts atomic.Int32 // of flaky, in a cluster of goroutines
	flaky    = millstream.Func("example.flaky", func(_ context.Context, name string) (string, error) {
		if attempts.Add(1) < 3 {
			return "", errors.New("not yet")
		}
		return "hello " + name, nil
	})
)

// withClient runs f with a client of a small cluster.
func withClient(f func(ctx context.Context, c *millstream.Client) error) {
	ctx := context.Background()
	cluster, err := millstream.Local(ctx, millstream.LocalConfig{Mode: millstream.Goroutines, Workers: 2, Threads: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	c, err := cluster.Client(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close(ctx)
	if err := f(ctx, c); err != nil {
		fmt.Println(err)
	}
}

// A task that fails is run again on its worker or another.
func ExampleWithRetries() {
	withClient(func(ctx context.Context, c *millstream.Client) error {
		fmt.Println(flaky.Submit(ctx, c, millstream.Val("Ada"), millstream.WithRetries(5)).Result(ctx))
		return nil
	})
	// Output: hello Ada <nil>
}

// Results are used as soon as they are there.
func ExampleAsCompleted() {
	withClient(func(ctx context.Context, c *millstream.Client) error {
		total := 0
		for f, err := range millstream.AsCompleted(ctx, square.Map(ctx, c, []int{1, 2, 3})) {
			if err != nil {
				return err
			}
			n, err := f.Result(ctx)
			if err != nil {
				return err
			}
			total += n
		}
		fmt.Println(total)
		return nil
	})
	// Output: 14
}

// A large value goes to the workers once, and many tasks use it.
func ExampleScatter() {
	withClient(func(ctx context.Context, c *millstream.Client) error {
		text := strings.Repeat("to be or not to be ", 1000)
		texts, err := millstream.Scatter(ctx, c, []string{text}, millstream.ScatterOptions{Broadcast: true})
		if err != nil {
			return err
		}
		for _, word := range []string{"to", "not"} {
			n, err := count.Submit(ctx, c, texts[0], millstream.Val(word)).Result(ctx)
			if err != nil {
				return err
			}
			fmt.Println(word, n)
		}
		return nil
	})
	// Output:
	// to 2000
	// not 1000
}

// Results are added in pairs on the workers; only the sum comes to the client.
func ExampleTreeReduce() {
	withClient(func(ctx context.Context, c *millstream.Client) error {
		squares := square.Map(ctx, c, []int{1, 2, 3, 4, 5})
		fmt.Println(millstream.TreeReduce(ctx, c, add, squares).Result(ctx))
		return nil
	})
	// Output: 55 <nil>
}

func ExampleProgressBar() {
	withClient(func(ctx context.Context, c *millstream.Client) error {
		squares := square.Map(ctx, c, []int{1, 2, 3, 4})
		return millstream.ProgressBar(ctx, os.Stderr, millstream.Futures(squares)...)
	})
	// Output:
}

// A client of a cluster with certificates: the folder of `scheduler --tls-dir certs`.
func ExampleConnectWith() {
	ctx := context.Background()
	c, err := millstream.ConnectWith(ctx, millstream.ConnectOptions{Address: "tls://10.0.0.1:8786", TLSDir: "certs"})
	if err != nil {
		fmt.Println(err) // cluster: certificates: …
		return
	}
	defer c.Close(ctx)
}
