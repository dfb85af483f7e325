package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/cluster"
	"go.millstream.dev/config"
)

var double = client.Func("example.double", func(_ context.Context, x int) (int, error) { return 2 * x, nil })

// orPanic represents error handling.
func orPanic(err error) {
	if err != nil {
		panic(err)
	}
}

// of returns v if err is nil.
func of[T any](v T, err error) T {
	orPanic(err)
	return v
}

// Workers in child processes need Main in the first line of main or of TestMain.
func ExampleMain() {
	cluster.Main()

	ctx := context.Background()
	c := of(cluster.Local(ctx, cluster.Config{Workers: 1, Threads: 1}))
	defer c.Close()
	for _, w := range c.Workers() {
		fmt.Println(w.Name, w.State, w.PID != os.Getpid())
	}
	// Output: 0 running true
}

// A cluster of goroutines: no processes, no certificates.
func ExampleLocal() {
	ctx := context.Background()
	c := of(cluster.Local(ctx, cluster.Config{Mode: cluster.Goroutines, Workers: 2, Threads: 1}))
	cl := of(c.Client(ctx))
	fmt.Println(client.Gather(ctx, double.Map(ctx, cl, []int{1, 2, 3})))
	orPanic(cl.Close())
	orPanic(c.Close())

	_, err := c.Client(ctx)
	fmt.Println(errors.Is(err, net.ErrClosed))
	// Output:
	// [2 4 6] <nil>
	// true
}

func ExampleCluster_Scale() {
	ctx := context.Background()
	c := of(cluster.Local(ctx, cluster.Config{Mode: cluster.Goroutines, Workers: 1, Threads: 1}))
	defer c.Close()
	orPanic(c.Scale(ctx, 3))
	fmt.Println(len(c.Workers()))
	orPanic(c.Scale(ctx, 1)) // results move to the workers that stay
	fmt.Println(len(c.Workers()))
	// Output:
	// 3
	// 1
}

// The cluster starts without workers and adds them when there are tasks.
func ExampleCluster_Adapt() {
	ctx := context.Background()
	c := of(cluster.Local(ctx, cluster.Config{Mode: cluster.Goroutines, Workers: -1, Threads: 1}))
	defer c.Close()
	a := of(c.Adapt(cluster.AdaptiveConfig{Maximum: 4, Interval: 10 * time.Millisecond}))
	defer a.Close() // the workers stay

	cl := of(c.Client(ctx))
	defer cl.Close()
	fmt.Println(double.Submit(ctx, cl, client.Val(21)).Result(ctx))
	// Output: 42 <nil>
}

// Certificates for other programs.
func ExampleCluster_WriteCredentials() {
	ctx := context.Background()
	c := of(cluster.Local(ctx, cluster.Config{Mode: cluster.Goroutines, Workers: 1, Threads: 1, Protocol: "tls"}))
	defer c.Close()
	dir := of(os.MkdirTemp("", "example"))
	defer os.RemoveAll(dir)
	files := of(c.WriteCredentials(dir))
	fmt.Println(filepath.Base(files.CAFile), filepath.Base(files.Client.Key))

	// In the other program:
	cl := of(cluster.ConnectWith(ctx, cluster.ConnectOptions{Address: c.Address(), TLSDir: dir}))
	defer cl.Close()
	fmt.Println(double.Submit(ctx, cl, client.Val(4)).Result(ctx))
	// Output:
	// ca.pem client-key.pem
	// 8 <nil>
}

func ExampleConnect() {
	ctx := context.Background()
	c := of(cluster.Local(ctx, cluster.Config{Mode: cluster.Goroutines, Workers: 1, Threads: 1, Protocol: "tcp"}))
	defer c.Close()
	cl := of(cluster.Connect(ctx, c.Address())) // "" is DASK_SCHEDULER_ADDRESS
	defer cl.Close()
	fmt.Println(double.Submit(ctx, cl, client.Val(5)).Result(ctx))
	// Output: 10 <nil>
}

// A configuration of the program instead of the files and environment of the user.
func ExampleConnectConfig() {
	ctx := context.Background()
	c := of(cluster.Local(ctx, cluster.Config{Mode: cluster.Goroutines, Workers: 1, Threads: 1, Protocol: "tcp"}))
	defer c.Close()
	settings := of(config.Load(config.Options{Paths: []string{}, Env: []string{
		"DASK_SCHEDULER_ADDRESS=" + c.Address()}}))
	cl := of(cluster.ConnectConfig(ctx, "", settings))
	defer cl.Close()
	fmt.Println(cl.Address() == c.Address())
	// Output: true
}

// Two clients share transports and, with rmm.pool-size, a pool of GPU memory.
func ExampleNewNetwork() {
	ctx := context.Background()
	c := of(cluster.Local(ctx, cluster.Config{Mode: cluster.Goroutines, Workers: 1, Threads: 1, Protocol: "tcp"}))
	defer c.Close()
	n := of(cluster.NewNetwork(cluster.NetworkConfig{Config: of(config.Load(config.Options{Paths: []string{},
		Env: []string{}}))}))
	for range 2 {
		cl := of(cluster.ConnectWith(ctx, cluster.ConnectOptions{Address: c.Address(), Network: n}))
		fmt.Println(double.Submit(ctx, cl, client.Val(6)).Result(ctx))
		orPanic(cl.Close())
	}
	fmt.Println(n.Close())
	// Output:
	// 12 <nil>
	// 12 <nil>
	// <nil>
}

// The file that `scheduler --scheduler-file` writes, for processes with a shared file system.
func ExampleReadSchedulerFile() {
	dir := of(os.MkdirTemp("", "example"))
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "scheduler.json")
	orPanic(os.WriteFile(path, []byte(`{"address": "tcp://10.0.0.1:8786"}`), 0o600))
	file := of(cluster.ReadSchedulerFile(context.Background(), path))
	fmt.Println(file.Address)
	// Output: tcp://10.0.0.1:8786
}

func ExampleLayout() {
	for _, cpus := range []int{2, 12, 64} {
		workers, threads := cluster.Layout(cpus)
		fmt.Println(cpus, "processors:", workers, "workers of", threads, "threads")
	}
	workers, threads := cluster.Layout(cluster.CPUs()) // what Local starts
	fmt.Println(workers*threads <= cluster.CPUs())
	// Output:
	// 2 processors: 2 workers of 1 threads
	// 12 processors: 4 workers of 3 threads
	// 64 processors: 8 workers of 8 threads
	// true
}
