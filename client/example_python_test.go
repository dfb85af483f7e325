package client_test

import (
	"context"
	"errors"
	"fmt"

	"go.millstream.dev/client"
	"go.millstream.dev/wire"
)

// Python functions run on the workers of a Dask cluster (tests/dask runs all of this).
func ExamplePython() {
	ctx := context.Background()
	c, err := client.Connect(ctx, "tcp://127.0.0.1:8786", client.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	norm := client.Python[float64]("numpy.linalg:norm")
	v, err := norm.Kw("ord", 1).Submit(ctx, c, []float64{3, -4}).Result(ctx)
	fmt.Println(v, err) // 7 <nil>
}

func ExamplePythonSource() {
	var ctx context.Context
	var c *client.Client // of a Dask cluster

	half := client.PythonSource[float64]("lambda x: x / 2")
	futures := half.Map(ctx, c, []int{1, 2, 3})
	all, err := client.Gather(ctx, futures)
	fmt.Println(all, err) // [0.5 1 1.5] <nil>
}

// Futures may be anywhere in the arguments.
func ExamplePyFn_Submit() {
	var ctx context.Context
	var c *client.Client // of a Dask cluster

	read := client.Python[*client.Opaque]("pandas:read_parquet")
	join := client.Python[*client.Opaque]("pandas:concat").With(client.WithRetries(2))
	parts := read.Map(ctx, c, []string{"a.parquet", "b.parquet"})
	rows, err := client.Python[int]("builtins:len").Submit(ctx, c, join.Submit(ctx, c, parts)).Result(ctx)

	var exc *wire.Exception
	if errors.As(err, &exc) && exc.Type == "FileNotFoundError" {
		fmt.Println("there is no such file:", exc.Text)
		return
	}
	fmt.Println(rows, err)
}

// A Python actor stays on its worker and is changed by method calls.
func ExamplePyFn_Start() {
	var ctx context.Context
	var c *client.Client // of a Dask cluster

	counter := client.Python[any]("collections:Counter").Start(ctx, c, "aab")
	defer counter.Release()
	n, err := client.PythonMethod[int]("total").Call(ctx, counter)
	fmt.Println(n, err) // 3 <nil>
}

// Outside of the task system a function runs once on each worker.
func ExamplePyFn_Run() {
	var ctx context.Context
	var c *client.Client // of a Dask cluster

	pids, err := client.Python[int]("os:getpid").Run(ctx, c)
	fmt.Println(len(pids), err)
}

// Attributes and methods with keyword arguments of a Python actor.
func ExampleAttribute() {
	var ctx context.Context
	var c *client.Client // of a Dask cluster

	day := client.Python[any]("datetime:date").Start(ctx, c, 2026, 1, 31)
	defer day.Release()
	year, err := client.Attribute[int](ctx, day, "year")
	fmt.Println(year, err) // 2026 <nil>
	other, err := client.PythonMethod[*client.Opaque]("replace").Kw("year", 2027).Call(ctx, day)
	fmt.Println(other != nil, err) // true <nil>
}

// Calls of Python functions as nodes of a graph.
func ExamplePyFn_Node() {
	var ctx context.Context
	var c *client.Client // of a Dask cluster

	g := client.NewGraph()
	root := client.Python[float64]("math:sqrt").Node(g, "root", 16)
	rounded := client.Python[int]("builtins:round").Node(g, "rounded", root)
	futures, err := client.Compute(ctx, c, g, rounded)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(futures[0].Result(ctx)) // 4 <nil>
}

// The scheduler of a Dask cluster runs Python functions too.
func ExamplePyFn_RunOnScheduler() {
	var ctx context.Context
	var c *client.Client // of a Dask cluster

	pid, err := client.Python[int]("os:getpid").RunOnScheduler(ctx, c)
	fmt.Println(pid > 0, err) // true <nil>
}
