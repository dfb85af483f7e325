package client_test

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"go.millstream.dev/client"
)

var (
	half  = client.Func("half", func(_ context.Context, x float64) (float64, error) { return x / 2, nil })
	clamp = client.Func3("clamp", func(_ context.Context, x, low, high int) (int, error) {
		return min(max(x, low), high), nil
	})
	rescale = client.Func4("rescale", func(_ context.Context, x, low, high, factor int) (int, error) {
		return (min(max(x, low), high) - low) * factor, nil
	})
	largest = client.Func("largest", func(_ context.Context, xs []int) (int, error) { return slices.Max(xs), nil })
	keys    = client.Func("keys", func(_ context.Context, m map[string]int) (string, error) {
		var names []string
		for name, n := range m {
			names = append(names, fmt.Sprintf("%s=%d", name, n))
		}
		slices.Sort(names)
		return strings.Join(names, " "), nil
	})
	fortyTwo = client.Func0("forty-two", func(context.Context) (int, error) { return 42, nil })
)

func ExampleFunc() {
	ctx, c, stop := demo()
	defer stop()
	// var half = client.Func("half", func(_ context.Context, x float64) (float64, error) { return x / 2, nil })
	fmt.Println(half.Name())
	fmt.Println(half.Submit(ctx, c, client.Val(5.0)).Result(ctx))
	// Output:
	// half
	// 2.5 <nil>
}

func ExampleFunc0() {
	ctx, c, stop := demo()
	defer stop()
	// var fortyTwo = client.Func0("forty-two", func(context.Context) (int, error) { return 42, nil })
	fmt.Println(fortyTwo.Submit(ctx, c).Result(ctx))
	// Output: 42 <nil>
}

func ExampleFunc3() {
	ctx, c, stop := demo()
	defer stop()
	// var clamp = client.Func3("clamp", func(_ context.Context, x, low, high int) (int, error) { … })
	low := square.Submit(ctx, c, client.Val(2))
	fmt.Println(clamp.Submit(ctx, c, client.Val(1), low, client.Val(10)).Result(ctx))
	// Output: 4 <nil>
}

func ExampleFunc4() {
	ctx, c, stop := demo()
	defer stop()
	// var rescale = client.Func4("rescale", func(_ context.Context, x, low, high, factor int) (int, error) { … })
	high := square.Submit(ctx, c, client.Val(3))
	fmt.Println(rescale.Submit(ctx, c, client.Val(20), client.Val(4), high, client.Val(100)).Result(ctx))
	// Output: 500 <nil>
}

// Elements of a list may be values and futures.
func ExampleList() {
	ctx, c, stop := demo()
	defer stop()
	nine := square.Submit(ctx, c, client.Val(3))
	fmt.Println(largest.Submit(ctx, c, client.List(client.Val(4), nine, client.Val(7))).Result(ctx))
	// Output: 9 <nil>
}

func ExampleDict() {
	ctx, c, stop := demo()
	defer stop()
	args := map[string]client.Arg[int]{"a": client.Val(1), "b": square.Submit(ctx, c, client.Val(5))}
	fmt.Println(keys.Submit(ctx, c, client.Dict(args)).Result(ctx))
	// Output: a=1 b=25 <nil>
}

func ExampleFn1_MapArgs() {
	ctx, c, stop := demo()
	defer stop()
	first := square.Submit(ctx, c, client.Val(2))
	futures := square.MapArgs(ctx, c, []client.Arg[int]{first, client.Val(3)})
	fmt.Println(client.Gather(ctx, futures))
	// Output: [16 9] <nil>
}

// A second step that uses the results of a first one, which stay on the workers.
func ExampleArgs() {
	ctx, c, stop := demo()
	defer stop()
	squares := square.Map(ctx, c, []int{1, 2, 3})
	fmt.Println(client.Gather(ctx, square.MapArgs(ctx, c, client.Args(squares))))
	// Output: [1 16 81] <nil>
}

func ExampleFn2_Map() {
	ctx, c, stop := demo()
	defer stop()
	fmt.Println(client.Gather(ctx, plus.Map(ctx, c, []int{1, 2, 3}, []int{10, 20, 30})))
	// Output: [11 22 33] <nil>
}

func ExampleFn2_MapArgs() {
	ctx, c, stop := demo()
	defer stop()
	base := square.Submit(ctx, c, client.Val(10))
	futures := plus.MapArgs(ctx, c, []client.Arg[int]{base, base}, []client.Arg[int]{client.Val(1), client.Val(2)})
	fmt.Println(client.Gather(ctx, futures))
	// Output: [101 102] <nil>
}

// The number of calls is the length of the shortest slice.
func ExampleFn3_Map() {
	ctx, c, stop := demo()
	defer stop()
	futures := clamp.Map(ctx, c, []int{-1, 5, 99, 7}, []int{0, 0, 0}, []int{10, 10, 10})
	fmt.Println(client.Gather(ctx, futures))
	// Output: [0 5 10] <nil>
}

func ExampleFn3_MapArgs() {
	ctx, c, stop := demo()
	defer stop()
	squares := square.Map(ctx, c, []int{1, 2})
	low, high := client.Val(2), client.Val(3)
	futures := clamp.MapArgs(ctx, c, client.Args(squares), []client.Arg[int]{low, low}, []client.Arg[int]{high, high})
	fmt.Println(client.Gather(ctx, futures))
	// Output: [2 3] <nil>
}

func ExampleFn4_Map() {
	ctx, c, stop := demo()
	defer stop()
	futures := rescale.Map(ctx, c, []int{5, 50}, []int{0, 0}, []int{10, 10}, []int{1, 2})
	fmt.Println(client.Gather(ctx, futures))
	// Output: [5 20] <nil>
}

func ExampleFn4_MapArgs() {
	ctx, c, stop := demo()
	defer stop()
	squares := square.Map(ctx, c, []int{1, 2})
	zero, ten := client.Val(0), client.Val(10)
	futures := rescale.MapArgs(ctx, c, client.Args(squares), []client.Arg[int]{zero, zero},
		[]client.Arg[int]{ten, ten}, client.Args(squares))
	fmt.Println(client.Gather(ctx, futures))
	// Output: [1 16] <nil>
}

// One call of each arity in a graph. Results of inner nodes are not kept.
func ExampleGraph_Submit() {
	ctx, c, stop := demo()
	defer stop()
	g := client.NewGraph()
	a := fortyTwo.Node(g, "a")
	b := square.Node(g, "b", client.Val(3))
	sum := plus.Node(g, "sum", a, b)
	inner := clamp.Node(g, "inner", sum, client.Val(0), client.Val(50))
	outer := rescale.Node(g, "outer", inner, client.Val(0), client.Val(100), client.Val(2))
	fmt.Println(g.Len(), "nodes")

	futures, err := g.Submit(ctx, c, inner.Key(), outer.Key())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(client.As[int](futures[0]).Result(ctx))
	fmt.Println(client.As[int](futures[1]).Result(ctx))
	// Output:
	// 5 nodes
	// 50 <nil>
	// 100 <nil>
}

// A node in a field of an argument.
func ExampleNode_Ref() {
	ctx, c, stop := demo()
	defer stop()
	g := client.NewGraph()
	base := square.Node(g, "base", client.Val(6))
	result := doJob.Node(g, "job", client.Val(job{Name: "sum", Base: base.Ref()}))
	futures, err := client.Compute(ctx, c, g, result)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(futures[0].Result(ctx))
	// Output: 36 <nil>
}

// Each worker runs the function once, outside of the task system.
func ExampleFn1_Run() {
	ctx, c, stop := demo()
	defer stop()
	results, err := square.Run(ctx, c, 3)
	for _, n := range results {
		fmt.Println(n)
	}
	fmt.Println(err)
	// Output:
	// 9
	// 9
	// <nil>
}

// Run on one worker, by its address.
func ExampleFn2_Run() {
	ctx, c, stop := demo()
	defer stop()
	workers, err := c.Workers(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	for address, w := range workers {
		if w.Name != "worker-0" {
			continue
		}
		sums, err := plus.Run(ctx, c, 1, 2, address)
		fmt.Println(len(sums), sums[address], err)
	}
	// Output: 1 3 <nil>
}

func ExampleFn3_Run() {
	ctx, c, stop := demo()
	defer stop()
	results, err := clamp.Run(ctx, c, 7, 0, 5)
	for _, n := range results {
		fmt.Println(n)
	}
	fmt.Println(err)
	// Output:
	// 5
	// 5
	// <nil>
}

func ExampleFn4_Run() {
	ctx, c, stop := demo()
	defer stop()
	results, err := rescale.Run(ctx, c, 7, 2, 5, 10)
	for _, n := range results {
		fmt.Println(n)
	}
	fmt.Println(err)
	// Output:
	// 30
	// 30
	// <nil>
}
