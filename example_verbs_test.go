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
	defer c.Close()
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

// Results are used as soon as they are available.
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

// A large value is sent to the workers once, and many tasks use it.
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

// Results are added in pairs on the workers; only the sum is sent to the client.
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

// A scheduler of another program, by its address: "" means DASK_SCHEDULER_ADDRESS.
func ExampleConnect() {
	ctx := context.Background()
	cluster, err := millstream.Local(ctx, millstream.LocalConfig{Mode: millstream.Goroutines, Workers: 1, Threads: 1,
		Protocol: "tcp"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	c, err := millstream.Connect(ctx, cluster.Address())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	fmt.Println(square.Submit(ctx, c, millstream.Val(5)).Result(ctx))
	// Output: 25 <nil>
}

// A client of a cluster with certificates: those that the cluster writes, or the folder of `scheduler --tls-dir`.
func ExampleConnectWith() {
	ctx := context.Background()
	cluster, err := millstream.Local(ctx, millstream.LocalConfig{Mode: millstream.Goroutines, Workers: 1, Threads: 1,
		Protocol: "tls"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	if _, err := cluster.WriteCredentials(dir); err != nil {
		fmt.Println(err)
		return
	}
	c, err := millstream.ConnectWith(ctx, millstream.ConnectOptions{Address: cluster.Address(), TLSDir: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	fmt.Println(square.Submit(ctx, c, millstream.Val(6)).Result(ctx))
	// Output: 36 <nil>
}

var (
	origin  = millstream.Func0("example.origin", func(context.Context) (int, error) { return 1970, nil })
	between = millstream.Func3("example.between", func(_ context.Context, x, low, high int) (bool, error) {
		return low <= x && x <= high, nil
	})
	linear = millstream.Func4("example.linear", func(_ context.Context, a, x, b, y int) (int, error) {
		return a*x + b*y, nil
	})
	// longest returns the key of the largest value.
	longest = millstream.Func("example.longest", func(_ context.Context, m map[string]int) (string, error) {
		best := ""
		for name, n := range m {
			if best == "" || n > m[best] {
				best = name
			}
		}
		return best, nil
	})
)

// Main is the first call in main or in TestMain: worker processes execute this program.
func ExampleMain() {
	millstream.Main()

	ctx := context.Background()
	cluster, err := millstream.Local(ctx, millstream.LocalConfig{Workers: 1, Threads: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	fmt.Println(len(cluster.Workers()), "worker")
	// Output: 1 worker
}

// Functions of no parameter up to four.
func ExampleFunc() {
	withClient(func(ctx context.Context, c *millstream.Client) error {
		year := origin.Submit(ctx, c)
		fmt.Println(between.Submit(ctx, c, year, millstream.Val(1900), millstream.Val(2000)).Result(ctx))
		fmt.Println(linear.Submit(ctx, c, millstream.Val(2), year, millstream.Val(1), millstream.Val(60)).Result(ctx))
		return nil
	})
	// Output:
	// true <nil>
	// 4000 <nil>
}

// Lists and maps of values and futures.
func ExampleDict() {
	withClient(func(ctx context.Context, c *millstream.Client) error {
		three := sum.Submit(ctx, c, millstream.List(millstream.Val(1), millstream.Val(2)))
		fmt.Println(longest.Submit(ctx, c, millstream.Dict(map[string]millstream.Arg[int]{
			"a": three, "b": millstream.Val(2)})).Result(ctx))
		return nil
	})
	// Output: a <nil>
}

// Python functions run on Dask workers and on Millstream workers with Python.
func ExamplePython() {
	ctx := context.Background()
	c, err := millstream.Connect(ctx, "tcp://10.0.0.1:8786")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	roots := millstream.Python[float64]("math:sqrt").Map(ctx, c, []int{1, 4, 9})
	total := millstream.PythonSource[float64]("lambda xs: sum(xs)").Submit(ctx, c, roots)
	fmt.Println(total.Result(ctx)) // 6 <nil>
}
