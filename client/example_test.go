package client_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/scheduler"
	"go.millstream.dev/worker"
)

// Functions of the examples, at package level, so that every process of a cluster has them.
var (
	square = client.Func("square", func(_ context.Context, x int) (int, error) { return x * x, nil })
	plus   = client.Func2("plus", func(_ context.Context, x, y int) (int, error) { return x + y, nil })
	words  = client.Func("words", func(_ context.Context, text string) (map[string]int, error) {
		counts := make(map[string]int)
		for _, w := range strings.Fields(text) {
			counts[w]++
		}
		return counts, nil
	})
	merge = client.Func("merge", func(_ context.Context, parts []map[string]int) (map[string]int, error) {
		all := make(map[string]int)
		for _, p := range parts {
			for w, n := range p {
				all[w] += n
			}
		}
		return all, nil
	})
	picky = client.Func("picky", func(_ context.Context, x int) (int, error) {
		if x > 2 {
			return 0, fmt.Errorf("%d is too many", x)
		}
		return x, nil
	})
	pid = client.Func0("pid", func(context.Context) (int, error) { return os.Getpid(), nil })
)

// demo starts a small cluster in this process and a client of it. Programs use package cluster instead.
func demo() (ctx context.Context, c *client.Client, stop func()) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	s, err := scheduler.Start(ctx, scheduler.Config{Listen: []string{"inproc://"}, Logger: quiet,
		ReplicaInterval: -1}) // ExampleClient_Replicate counts replicas
	if err != nil {
		panic(err)
	}
	var workers []*worker.Worker
	for i := range 2 {
		w, err := worker.Start(ctx, worker.Config{Scheduler: s.Address(), Name: fmt.Sprint("worker-", i), Threads: 2,
			Logger: quiet})
		if err != nil {
			panic(err)
		}
		workers = append(workers, w)
	}
	if c, err = client.Connect(ctx, s.Address(), client.Config{Logger: quiet}); err != nil {
		panic(err)
	}
	return ctx, c, func() {
		defer cancel()
		err := c.Close()
		for _, w := range workers {
			err = errors.Join(err, w.Close())
		}
		if err = errors.Join(err, s.Close()); err != nil {
			panic(err)
		}
	}
}

func ExampleFn1_Submit() {
	ctx, c, stop := demo()
	defer stop()
	a := square.Submit(ctx, c, client.Val(5))
	b := plus.Submit(ctx, c, a, client.Val(17)) // the result of a goes from worker to worker
	fmt.Println(b.Result(ctx))
	// Output: 42 <nil>
}

func ExampleFn1_Map() {
	ctx, c, stop := demo()
	defer stop()
	futures := square.Map(ctx, c, []int{1, 2, 3, 4})
	fmt.Println(client.Gather(ctx, futures))
	// Output: [1 4 9 16] <nil>
}

func ExampleListOf() {
	ctx, c, stop := demo()
	defer stop()
	parts := words.Map(ctx, c, []string{"to be or not to be", "that is to say"})
	all := merge.Submit(ctx, c, client.ListOf(parts))
	fmt.Println(all.Result(ctx))
	// Output: map[be:2 is:1 not:1 or:1 say:1 that:1 to:3] <nil>
}

func ExampleAsCompleted() {
	ctx, c, stop := demo()
	defer stop()
	var done []int
	for f, err := range client.AsCompleted(ctx, square.Map(ctx, c, []int{1, 2, 3})) {
		if err != nil {
			fmt.Println(err)
			continue
		}
		v, _ := f.Result(ctx)
		done = append(done, v)
	}
	slices.Sort(done)
	fmt.Println(done)
	// Output: [1 4 9]
}

func ExampleGatherAll() {
	ctx, c, stop := demo()
	defer stop()
	outcomes, err := client.GatherAll(ctx, picky.Map(ctx, c, []int{1, 2, 3}))
	if err != nil {
		fmt.Println(err)
	}
	for _, o := range outcomes {
		var te *client.TaskError
		if errors.As(o.Err, &te) {
			fmt.Println("failed:", te.Text)
		} else {
			fmt.Println(o.Value)
		}
	}
	// Output:
	// 1
	// 2
	// failed: 3 is too many
}

func ExampleScatter() {
	ctx, c, stop := demo()
	defer stop()
	data, err := client.Scatter(ctx, c, []string{"a b a"}, client.ScatterOptions{Broadcast: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(words.Submit(ctx, c, data[0]).Result(ctx))
	// Output: map[a:2 b:1] <nil>
}

func ExampleFn0_Run() {
	ctx, c, stop := demo()
	defer stop()
	pids, err := pid.Run(ctx, c)
	fmt.Println(len(pids), err)
	// Output: 2 <nil>
}

func ExampleCompute() {
	ctx, c, stop := demo()
	defer stop()
	g := client.NewGraph()
	total := plus.Node(g, "total", client.RefTo[int]("left"), client.RefTo[int]("right"))
	square.Node(g, "left", client.Val(3))
	square.Node(g, "right", client.Val(4))
	futures, err := client.Compute(ctx, c, g, total)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(futures[0].Result(ctx))
	// Output: 25 <nil>
}

func ExampleClient_Replicate() {
	ctx, c, stop := demo()
	defer stop()
	f := square.Submit(ctx, c, client.Val(7))
	if err := c.Replicate(ctx, 2, nil, f); err != nil {
		fmt.Println(err)
	}
	who, err := c.WhoHas(ctx, f)
	fmt.Println(len(who[f.Key()]), err)
	// Output: 2 <nil>
}

func ExampleProgress() {
	ctx, c, stop := demo()
	defer stop()
	futures := square.Map(ctx, c, make([]int, 10), client.WithImpure())
	var last client.ProgressEvent
	for e := range client.Progress(ctx, client.Futures(futures)...) {
		last = e
	}
	fmt.Println(last.Finished, "of", last.Total)
	// Output: 10 of 10
}

func ExampleVariable() {
	ctx, c, stop := demo()
	defer stop()
	v := client.NewVariable[float64](c, "learning-rate")
	if err := v.Set(ctx, 0.5); err != nil {
		fmt.Println(err)
	}
	fmt.Println(client.NewVariable[float64](c, "learning-rate").Get(ctx))
	// Output: 0.5 <nil>
}

func ExampleQueue() {
	ctx, c, stop := demo()
	defer stop()
	q, err := client.NewQueue[string](ctx, c, "jobs", 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer q.Close()
	_ = q.Put(ctx, "first")
	_ = q.Put(ctx, "second")
	fmt.Println(q.Get(ctx))
	// Output: first <nil>
}

func ExampleLock() {
	ctx, c, stop := demo()
	defer stop()
	l := client.NewLock(c, "the-file")
	if err := l.Lock(ctx); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(l.Locked(ctx))
	fmt.Println(l.Unlock(ctx))
	// Output:
	// true <nil>
	// <nil>
}

func ExampleFlag() {
	ctx, c, stop := demo()
	defer stop()
	ready := client.NewFlag(c, "ready")
	_ = ready.Set(ctx)
	fmt.Println(ready.Wait(ctx))
	// Output: <nil>
}

func ExamplePublish() {
	ctx, c, stop := demo()
	defer stop()
	if err := client.Publish(ctx, c, "squares", square.Map(ctx, c, []int{1, 2}), false); err != nil {
		fmt.Println(err)
	}
	futures, err := client.Published[int](ctx, c, "squares") // from any client
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(client.Gather(ctx, futures))
	// Output: [1 4] <nil>
}

type account struct{ balance int }

var (
	accounts = client.NewActorType("account", func(_ context.Context, balance int) (*account, error) {
		return &account{balance}, nil
	})
	deposit = client.NewMethod(accounts, "deposit", func(_ context.Context, a *account, n int) (int, error) {
		a.balance += n
		return a.balance, nil
	})
)

func ExampleMethod_Call() {
	ctx, c, stop := demo()
	defer stop()
	a := accounts.Start(ctx, c, client.Val(100))
	_, _ = deposit.Call(ctx, a, 10)
	fmt.Println(deposit.Call(ctx, a, 5))
	// Output: 115 <nil>
}

func ExampleWithWorkers() {
	ctx, c, stop := demo()
	defer stop()
	f := square.Submit(ctx, c, client.Val(3), client.WithWorkers("worker-1"), client.WithRetries(2),
		client.WithPriority(10))
	fmt.Println(f.Result(ctx))
	// Output: 9 <nil>
}

func ExampleClient_Logs() {
	ctx, c, stop := demo()
	defer stop()
	logs, err := c.Logs(ctx, client.LogsOptions{N: 100})
	fmt.Println(len(logs), err)
	// Output: 2 <nil>
}

func ExampleFuture_Cancel() {
	ctx, c, stop := demo()
	defer stop()
	f := nap.Submit(ctx, c, client.Val(time.Hour))
	_ = f.Cancel()
	_, err := f.Result(ctx)
	fmt.Println(errors.Is(err, client.ErrCanceled))
	// Output: true
}

func ExampleFuture_Ref() {
	ctx, c, stop := demo()
	defer stop()
	base := square.Submit(ctx, c, client.Val(6))
	f := doJob.Submit(ctx, c, client.Val(job{Name: "sum", Base: base.Ref(), Extra: []client.Ref[int]{task.RefOf(6)}}))
	fmt.Println(f.Result(ctx))
	// Output: 42 <nil>
}
