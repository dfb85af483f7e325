package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/scheduler"
	"go.millstream.dev/worker"
)

// A client and its scheduler. Package cluster connects by configuration, including certificates.
func ExampleConnect() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, err := scheduler.Start(ctx, scheduler.Config{Listen: []string{"tcp://127.0.0.1:0"}, Logger: quiet})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	c, err := client.Connect(ctx, s.Address(), client.Config{Name: "report", Logger: quiet})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Address() == s.Address(), c.ID()[:7])
	fmt.Println(c.Shutdown(ctx)) // sends what was submitted first; Close does so for at most ten seconds
	<-c.Done()
	fmt.Println(errors.Is(c.Err(), net.ErrClosed))
	// Output:
	// true report-
	// <nil>
	// true
}

func ExampleClient_ShutdownCluster() {
	ctx := context.Background()
	s, err := scheduler.Start(ctx, scheduler.Config{Listen: []string{"inproc://"}, Logger: quiet})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	c, err := client.Connect(ctx, s.Address(), client.Config{Logger: quiet})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	fmt.Println(c.ShutdownCluster(ctx))
	<-s.Done() // the scheduler ends, for all its clients
	fmt.Println("the scheduler has ended")
	// Output:
	// <nil>
	// the scheduler has ended
}

func ExampleClient_WaitForWorkers() {
	ctx, c, stop := demo()
	defer stop()
	fmt.Println(c.WaitForWorkers(ctx, 2))
	workers, err := c.Workers(ctx)
	var names []string
	for _, w := range workers {
		names = append(names, fmt.Sprint(w.Name, ": ", w.Threads, " threads"))
	}
	slices.Sort(names)
	fmt.Println(names, err)
	// Output:
	// <nil>
	// [worker-0: 2 threads worker-1: 2 threads] <nil>
}

// Tasks that require a resource run on workers that have enough of it.
func ExampleWithResources() {
	ctx, c, stop := demo()
	defer stop()
	w, err := worker.Start(ctx, worker.Config{Scheduler: c.Address(), Name: "large", Resources: map[string]float64{
		"LICENSE": 1}, Logger: quiet})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer w.Close()
	f := square.Submit(ctx, c, client.Val(3), client.WithResources(map[string]float64{"LICENSE": 1}))
	fmt.Println(f.Result(ctx))
	who, err := c.WhoHas(ctx, f)
	fmt.Println(who[f.Key()][0] == w.Address(), err)
	// Output:
	// 9 <nil>
	// true <nil>
}

// Why tasks do not run. The scheduler reports it after a few seconds.
func ExampleClient_Shortages() {
	_, c, stop := demo()
	defer stop()
	for _, s := range c.Shortages() {
		fmt.Println(s.Tasks, "tasks:", s.Text)
	}
	fmt.Println(len(c.Shortages()), "shortages")
	// Output: 0 shortages
}

func ExampleClient_HasWhat() {
	ctx, c, stop := demo()
	defer stop()
	f := square.Submit(ctx, c, client.Val(3), client.WithKey("nine"))
	if err := f.Wait(ctx); err != nil {
		fmt.Println(err)
	}
	has, err := c.HasWhat(ctx)
	for _, keys := range has {
		for _, k := range keys {
			fmt.Println(k)
		}
	}
	fmt.Println(len(has), "workers", err)
	// Output:
	// nine
	// 2 workers <nil>
}

func ExampleClient_Rebalance() {
	ctx, c, stop := demo()
	defer stop()
	futures := square.Map(ctx, c, []int{1, 2, 3, 4}, client.WithWorkers("worker-0"))
	fmt.Println(c.Rebalance(ctx, nil, client.Futures(futures)...))
	fmt.Println(client.Gather(ctx, futures))
	// Output:
	// <nil>
	// [1 4 9 16] <nil>
}

// The cluster removes all tasks, and nannies restart their workers. This cluster has no worker yet.
func ExampleClient_Restart() {
	ctx := context.Background()
	s, err := scheduler.Start(ctx, scheduler.Config{Listen: []string{"inproc://"}, Logger: quiet})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	c, err := client.Connect(ctx, s.Address(), client.Config{Logger: quiet})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	f := square.Submit(ctx, c, client.Val(3))
	fmt.Println(c.Restart(ctx, 10*time.Second))
	fmt.Println(errors.Is(f.Wait(ctx), client.ErrCanceled))
	// Output:
	// <nil>
	// true
}

func ExampleClient_Subscribe() {
	ctx, c, stop := demo()
	defer stop()
	events := make(chan client.Event, 1)
	unsubscribe := c.Subscribe("training", func(e client.Event) { events <- e })
	defer unsubscribe()
	// A subscription is ordered with submissions: the scheduler has received it before this task.
	if err := square.Submit(ctx, c, client.Val(1)).Wait(ctx); err != nil {
		fmt.Println(err)
	}
	if err := c.LogEvent(ctx, "training", "epoch 1"); err != nil {
		fmt.Println(err)
		return
	}
	e := <-events
	fmt.Println(e.Topic, e.Value)
	// Output: training epoch 1
}

func ExampleClient_Events() {
	ctx, c, stop := demo()
	defer stop()
	for _, text := range []string{"epoch 1", "epoch 2"} {
		if err := c.LogEvent(ctx, "training", text); err != nil {
			fmt.Println(err)
		}
	}
	events, err := c.Events(ctx, "training")
	for _, e := range events {
		fmt.Println(e.Value)
	}
	fmt.Println(err)
	// Output:
	// epoch 1
	// epoch 2
	// <nil>
}

func ExampleMetadata() {
	ctx, c, stop := demo()
	defer stop()
	if err := c.SetMetadata(ctx, 0.1, "training", "rate"); err != nil {
		fmt.Println(err)
	}
	fmt.Println(client.Metadata[float64](ctx, c, "training", "rate"))
	fmt.Println(client.Metadata[map[string]float64](ctx, c, "training"))
	// Output:
	// 0.1 <nil>
	// map[rate:0.1] <nil>
}

func ExampleClient_Versions() {
	ctx, c, stop := demo()
	defer stop()
	v, err := c.Versions(ctx)
	fmt.Println(v.Scheduler["millstream"] != "", len(v.Workers), err)
	// Output: true 2 <nil>
}

func ExampleClient_Datasets() {
	ctx, c, stop := demo()
	defer stop()
	if err := client.Publish(ctx, c, "squares", square.Map(ctx, c, []int{1, 2}), false); err != nil {
		fmt.Println(err)
	}
	fmt.Println(c.Datasets(ctx))
	fmt.Println(c.Unpublish(ctx, "squares"))
	fmt.Println(c.Datasets(ctx))
	// Output:
	// [squares] <nil>
	// <nil>
	// [] <nil>
}

// sumSquares submits tasks from within a task, and waits for them without holding its thread.
var sumSquares = client.Func("sum-squares", func(ctx context.Context, n int) (int, error) {
	var xs []int
	err := client.Inside(ctx, func(c *client.Client) (err error) {
		xs, err = client.Gather(ctx, square.Map(ctx, c, []int{1, 2, n}))
		return err
	})
	return total(xs), err
})

func ExampleInside() {
	ctx, c, stop := demo()
	defer stop()
	fmt.Println(sumSquares.Submit(ctx, c, client.Val(3)).Result(ctx))
	// Output: 14 <nil>
}

// plusSquare does what Inside does, step by step.
var plusSquare = client.Func("plus-square", func(ctx context.Context, n int) (int, error) {
	c, err := client.FromContext(ctx)
	if err != nil {
		return 0, err
	}
	f := square.Submit(ctx, c, client.Val(n))
	if err := client.Secede(ctx); err != nil { // another task may use the thread
		return 0, err
	}
	v, err := f.Result(ctx)
	if err := client.Rejoin(ctx); err != nil {
		return 0, err
	}
	return n + v, err
})

func ExampleFromContext() {
	ctx, c, stop := demo()
	defer stop()
	fmt.Println(plusSquare.Submit(ctx, c, client.Val(6)).Result(ctx))
	// Output: 42 <nil>
}
