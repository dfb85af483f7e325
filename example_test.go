package millstream_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.millstream.dev"
)

var (
	square = millstream.Func("example.square", func(_ context.Context, x int) (int, error) { return x * x, nil })
	sum    = millstream.Func("example.sum", func(_ context.Context, xs []int) (int, error) {
		total := 0
		for _, x := range xs {
			total += x
		}
		return total, nil
	})
	hypot = millstream.Func2("example.hypot", func(_ context.Context, a, b int) (int, error) { return a*a + b*b, nil })
)

func TestMain(m *testing.M) {
	millstream.Main()
	os.Exit(m.Run())
}

// Four tasks, and one that needs their results, on two worker processes.
func Example() {
	ctx := context.Background()
	cluster, err := millstream.Local(ctx, millstream.LocalConfig{Workers: 2, Threads: 1})
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

	squares := square.Map(ctx, c, []int{1, 2, 3, 4})
	total := sum.Submit(ctx, c, millstream.ListOf(squares))
	fmt.Println(total.Result(ctx))
	fmt.Println(millstream.Gather(ctx, squares))
	// Output:
	// 30 <nil>
	// [1 4 9 16] <nil>
}

// Workers in goroutines need no processes; tasks receive results without a copy.
func ExampleLocal_goroutines() {
	ctx := context.Background()
	cluster, err := millstream.Local(ctx, millstream.LocalConfig{Mode: millstream.Goroutines, Threads: 2})
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

	nine := square.Submit(ctx, c, millstream.Val(3))
	fmt.Println(hypot.Submit(ctx, c, nine, millstream.Val(2)).Result(ctx))
	// Output: 85 <nil>
}
