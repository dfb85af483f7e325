package clique_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"sync"

	"go.millstream.dev/client"
	"go.millstream.dev/clique"
	"go.millstream.dev/cluster"
	"go.millstream.dev/mem"
)

// steps are the functions of examples by name. The workers of examples are goroutines of this process, and find them
// here.
var steps sync.Map

var step = clique.Func("example.step", func(ctx context.Context, r *clique.Rank, name string) (string, error) {
	f, _ := steps.Load(name)
	v, err := f.(func(context.Context, *clique.Rank) (any, error))(ctx, r)
	return fmt.Sprint(v), err
})

// threeWorkers calls f with a client of a cluster of three workers.
func threeWorkers(f func(ctx context.Context, c *client.Client)) {
	ctx := context.Background()
	k, err := cluster.Local(ctx, cluster.Config{Workers: 3, Threads: 1, Mode: cluster.Goroutines})
	if err != nil {
		log.Fatal(err)
	}
	defer k.Close()
	c, err := k.Client(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	f(ctx, c)
}

// threeRanks runs f on three ranks and prints what each returns.
func threeRanks(name string, f func(ctx context.Context, r *clique.Rank) (any, error)) {
	steps.Store(name, f)
	threeWorkers(func(ctx context.Context, c *client.Client) {
		q, err := clique.Form(ctx, c, clique.Options{Name: name})
		if err != nil {
			log.Fatal(err)
		}
		defer q.Dissolve(ctx)
		out, err := step.RunAll(ctx, q, name)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(strings.Join(out, ", "))
	})
}

func ExampleAllReduce() {
	threeRanks("all-reduce", func(ctx context.Context, r *clique.Rank) (any, error) {
		x := []int{r.Rank(), 10}
		err := r.Do(ctx, clique.AllReduce(clique.Of(x), clique.Of(x), clique.Sum))
		return x, err
	})
	// Output: [3 30], [3 30], [3 30]
}

func ExampleReduce() {
	threeRanks("reduce", func(ctx context.Context, r *clique.Rank) (any, error) {
		largest := make([]int, 1)
		err := r.Do(ctx, clique.Reduce(clique.Of([]int{r.Rank()}), clique.Of(largest), clique.Max, 1))
		return largest, err
	})
	// Output: [0], [2], [0]
}

func ExamplePreMulSum() {
	threeRanks("pre-mul-sum", func(ctx context.Context, r *clique.Rank) (any, error) {
		x := []float64{1}
		weight := float64(r.Rank())
		err := r.Do(ctx, clique.AllReduce(clique.Of(x), clique.Of(x), clique.PreMulSum(weight)))
		return x, err
	})
	// Output: [3], [3], [3]
}

func ExampleBroadcast() {
	threeRanks("broadcast", func(ctx context.Context, r *clique.Rank) (any, error) {
		x := []int{r.Rank()}
		err := r.Do(ctx, clique.Broadcast(clique.Of(x), 2))
		return x, err
	})
	// Output: [2], [2], [2]
}

func ExampleAllGather() {
	threeRanks("all-gather", func(ctx context.Context, r *clique.Rank) (any, error) {
		all := make([]int, r.Size())
		err := r.Do(ctx, clique.AllGather(clique.Of([]int{r.Rank()}), clique.Of(all)))
		return all, err
	})
	// Output: [0 1 2], [0 1 2], [0 1 2]
}

func ExampleCall_WithCounts() {
	threeRanks("counts", func(ctx context.Context, r *clique.Rank) (any, error) {
		mine := make([]int, r.Rank()) // as many elements as the rank's number
		for i := range mine {
			mine[i] = r.Rank()
		}
		all := make([]int, 3)
		err := r.Do(ctx, clique.AllGather(clique.Of(mine), clique.Of(all)).WithCounts([]int{0, 1, 2}, nil))
		return all, err
	})
	// Output: [1 2 2], [1 2 2], [1 2 2]
}

func ExampleGather() {
	threeRanks("gather", func(ctx context.Context, r *clique.Rank) (any, error) {
		var all []int // of root only
		if r.Rank() == 0 {
			all = make([]int, r.Size())
		}
		err := r.Do(ctx, clique.Gather(clique.Of([]int{r.Rank() * r.Rank()}), clique.Of(all), 0))
		return all, err
	})
	// Output: [0 1 4], [], []
}

func ExampleScatter() {
	threeRanks("scatter", func(ctx context.Context, r *clique.Rank) (any, error) {
		var all []int // of root only
		if r.Rank() == 0 {
			all = []int{7, 8, 9}
		}
		part := make([]int, 1)
		err := r.Do(ctx, clique.Scatter(clique.Of(all), clique.Of(part), 0))
		return part, err
	})
	// Output: [7], [8], [9]
}

func ExampleReduceScatter() {
	threeRanks("reduce-scatter", func(ctx context.Context, r *clique.Rank) (any, error) {
		part := make([]int, 1)
		err := r.Do(ctx, clique.ReduceScatter(clique.Of([]int{1, 2, 3}), clique.Of(part), clique.Sum))
		return part, err
	})
	// Output: [3], [6], [9]
}

func ExampleAllToAll() {
	threeRanks("all-to-all", func(ctx context.Context, r *clique.Rank) (any, error) {
		send, recv := make([]int, 3), make([]int, 3)
		for to := range send {
			send[to] = 10*r.Rank() + to
		}
		err := r.Do(ctx, clique.AllToAll(clique.Of(send), clique.Of(recv)))
		return recv, err
	})
	// Output: [0 10 20], [1 11 21], [2 12 22]
}

func ExampleBarrier() {
	threeRanks("barrier", func(ctx context.Context, r *clique.Rank) (any, error) {
		return "all are here", r.Do(ctx, clique.Barrier())
	})
	// Output: all are here, all are here, all are here
}

func ExampleSend() {
	threeRanks("send", func(ctx context.Context, r *clique.Rank) (any, error) {
		const tag = 7
		switch r.Rank() {
		case 0:
			return "sent", r.Do(ctx, clique.Send(2, tag, clique.Of([]float32{1.5})))
		case 2:
			x := make([]float32, 1)
			err := r.Do(ctx, clique.Recv(0, tag, clique.Of(x)))
			return x, err
		}
		return "no part in it", nil
	})
	// Output: sent, no part in it, [1.5]
}

func ExampleCall_Invalid() {
	threeRanks("invalid", func(ctx context.Context, r *clique.Rank) (any, error) {
		x := []int{1}
		call := clique.AllReduce(clique.Of(x), clique.Of(x), clique.Sum)
		if r.Rank() == 1 {
			call = call.Invalid("no luck")
		}
		var mismatch *clique.MismatchError
		if err := r.Do(ctx, call); !errors.As(err, &mismatch) {
			return nil, err
		}
		return strings.TrimPrefix(mismatch.Reason, "invalid call of AllReduce "), nil
	})
	// Output: on rank 1: no luck, on rank 1: no luck, on rank 1: no luck
}

func ExampleCall_WithLen() {
	threeRanks("length", func(ctx context.Context, r *clique.Rank) (any, error) {
		if r.Rank() != 0 {
			return "sent", r.Do(ctx, clique.Send(0, 1, clique.Of(make([]int8, r.Rank()))))
		}
		var n [3]int
		for from := 1; from < 3; from++ {
			if err := r.Do(ctx, clique.Recv(from, 1, clique.Of(make([]int8, 100))).WithLen(&n[from])); err != nil {
				return nil, err
			}
		}
		return n, nil
	})
	// Output: [0 1 2], sent, sent
}

func ExampleCall_WithEvent() {
	threeRanks("event", func(ctx context.Context, r *clique.Rank) (any, error) {
		b := mem.FromSlice([]int64{1}) // or device memory
		defer b.Release()
		var busy mem.Event
		v := clique.Buffer[int64](b)
		err := r.Do(ctx, clique.Reduce(v, v, clique.Sum, 0).WithEvent(&busy))
		// With device memory: stream.WaitEvent(busy) before other work on the stream overwrites b.
		return busy == nil, err
	})
	// Output: true, true, true
}

func ExampleSendRecv() {
	threeRanks("send-recv", func(ctx context.Context, r *clique.Rank) (any, error) {
		next, before := (r.Rank()+1)%3, (r.Rank()+2)%3
		x := make([]int, 1)
		err := r.Do(ctx, clique.SendRecv(next, 1, clique.Of([]int{r.Rank()}), before, 1, clique.Of(x)))
		return x, err
	})
	// Output: [2], [0], [1]
}

func ExampleBuffer() {
	threeRanks("buffer", func(ctx context.Context, r *clique.Rank) (any, error) {
		b := mem.FromSlice([]float64{1, float64(r.Rank())}) // or device memory
		defer b.Release()
		v := clique.Buffer[float64](b)
		if err := r.Do(ctx, clique.AllReduce(v, v, clique.Sum)); err != nil {
			return nil, err
		}
		return b.Len(), b.WaitReady(ctx)
	})
	// Output: 16, 16, 16
}

func ExampleRank_Start() {
	threeRanks("start", func(ctx context.Context, r *clique.Rank) (any, error) {
		x, y := []int{1}, []int{2}
		first := r.Start(ctx, clique.AllReduce(clique.Of(x), clique.Of(x), clique.Sum))
		second := r.Start(ctx, clique.AllReduce(clique.Of(y), clique.Of(y), clique.Prod))
		if err := second.Wait(ctx); err != nil {
			return nil, err
		}
		return []int{x[0], y[0]}, first.Wait(ctx)
	})
	// Output: [3 8], [3 8], [3 8]
}

func ExampleRank_Split() {
	threeRanks("split", func(ctx context.Context, r *clique.Rank) (any, error) {
		part, err := r.Split(ctx, r.Rank()%2, 0) // 0 and 2, 1
		if err != nil {
			return nil, err
		}
		defer part.Close()
		return fmt.Sprintf("%d of %d", part.Rank(), part.Size()), nil
	})
	// Output: 0 of 2, 0 of 1, 1 of 2
}

// rankOf is a task of its own that takes part in a clique.
var rankOf = client.Func("example.rank", func(ctx context.Context, t clique.Ticket) (int, error) {
	n := 0
	err := clique.Do(ctx, t, func(r *clique.Rank) error {
		n = r.Rank()
		return r.Do(ctx, clique.Barrier())
	})
	return n, err
})

func ExampleDo() {
	threeWorkers(func(ctx context.Context, c *client.Client) {
		q, err := clique.Form(ctx, c, clique.Options{})
		if err != nil {
			log.Fatal(err)
		}
		defer q.Dissolve(ctx)
		t := q.Ticket()
		var tasks []*client.Future[int]
		for _, m := range q.Members() {
			tasks = append(tasks, rankOf.Submit(ctx, c, client.Val(t), client.WithWorkers(m.Worker),
				client.WithImpure()))
		}
		fmt.Println(client.Gather(ctx, tasks))
	})
	// Output: [0 1 2] <nil>
}

// joined is rankOf with Join, for tasks that leave the clique before they end.
var joined = client.Func("example.join", func(ctx context.Context, t clique.Ticket) (int, error) {
	r, err := clique.Join(ctx, t)
	if err != nil {
		return 0, err
	}
	if err := r.Do(ctx, clique.Barrier()); err != nil {
		r.Abort(err)
	}
	return r.Size(), r.Close()
})

func ExampleJoin() {
	threeWorkers(func(ctx context.Context, c *client.Client) {
		q, err := clique.Form(ctx, c, clique.Options{})
		if err != nil {
			log.Fatal(err)
		}
		defer q.Dissolve(ctx)
		t := q.Ticket()
		var tasks []*client.Future[int]
		for _, m := range q.Members() {
			tasks = append(tasks, joined.Submit(ctx, c, client.Val(t), client.WithWorkers(m.Worker),
				client.WithImpure()))
		}
		fmt.Println(client.Gather(ctx, tasks))
	})
	// Output: [3 3 3] <nil>
}

func ExampleForm() {
	threeWorkers(func(ctx context.Context, c *client.Client) {
		q, err := clique.Form(ctx, c, clique.Options{Name: "pairs", Deterministic: true})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(q.Size(), strings.HasPrefix(q.ID(), "pairs-"), q.Dissolve(ctx))
	})
	// Output: 3 true <nil>
}

func ExampleClique_Sub() {
	threeWorkers(func(ctx context.Context, c *client.Client) {
		q, err := clique.Form(ctx, c, clique.Options{})
		if err != nil {
			log.Fatal(err)
		}
		defer q.Dissolve(ctx)
		two, err := q.Sub(ctx, 0, 2)
		if err != nil {
			log.Fatal(err)
		}
		defer two.Dissolve(ctx)
		fmt.Println(two.Size(), two.Members()[1].Worker == q.Members()[2].Worker)
	})
	// Output: 2 true
}

func ExampleClique_Reform() {
	threeWorkers(func(ctx context.Context, c *client.Client) {
		q, err := clique.Form(ctx, c, clique.Options{})
		if err != nil {
			log.Fatal(err)
		}
		again, err := q.Reform(ctx, clique.ReformOptions{}) // of the workers that are left
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(again.Size(), again.Dissolve(ctx))
	})
	// Output: 3 <nil>
}

func ExampleFn_Submit() {
	threeWorkers(func(ctx context.Context, c *client.Client) {
		q, err := clique.Form(ctx, c, clique.Options{})
		if err != nil {
			log.Fatal(err)
		}
		defer q.Dissolve(ctx)
		parts := []client.Arg[[]float64]{client.Val([]float64{2}), client.Val([]float64{3}), client.Val([]float64{6})}
		futures, err := norm.Submit(ctx, q, parts)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(client.Gather(ctx, futures))
	})
	// Output: [7 7 7] <nil>
}

// Wait returns one error for the ranks of a round, and does not wait for those whose workers are gone.
func ExampleClique_Wait() {
	threeWorkers(func(ctx context.Context, c *client.Client) {
		q, err := clique.Form(ctx, c, clique.Options{})
		if err != nil {
			log.Fatal(err)
		}
		defer q.Dissolve(ctx)
		parts := []client.Arg[[]float64]{client.Val([]float64{2}), client.Val([]float64{3}), client.Val([]float64{6})}
		futures, err := norm.Submit(ctx, q, parts)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(q.Wait(ctx, norm.Name(), client.Futures(futures)))
	})
	// Output: <nil>
}

func ExampleClique_Workers() {
	threeWorkers(func(ctx context.Context, c *client.Client) {
		q, err := clique.Form(ctx, c, clique.Options{Backend: clique.Comm})
		if err != nil {
			log.Fatal(err)
		}
		defer q.Dissolve(ctx)
		fmt.Println(len(q.Workers()), q.Workers()[2] == q.Members()[2].Worker)
		backend, why := q.Devices() // what carries the memory of GPUs
		fmt.Println(backend, why != "")
	})
	// Output:
	// 3 true
	// comm true
}

func ExampleRank_Worker() {
	threeRanks("worker", func(ctx context.Context, r *clique.Rank) (any, error) {
		return r.Worker(0) != r.Worker(1) && r.Worker(3) == "", nil
	})
	// Output: true, true, true
}

// Flush returns when all that the rank has begun is done, on its GPU too.
func ExampleRank_Flush() {
	threeRanks("flush", func(ctx context.Context, r *clique.Rank) (any, error) {
		x := []int{1}
		request := r.Start(ctx, clique.AllReduce(clique.Of(x), clique.Of(x), clique.Sum))
		if err := r.Flush(ctx); err != nil {
			return nil, err
		}
		return x, request.Wait(ctx)
	})
	// Output: [3], [3], [3]
}

// The communicator and the stream of a rank, on workers with GPUs.
func ExampleRank_NCCL() {
	threeRanks("nccl", func(ctx context.Context, r *clique.Rank) (any, error) {
		comm, stream, err := r.NCCL(ctx)
		if err != nil {
			return nil, err
		}
		return comm.Size(), stream.Wait(ctx)
	})
}

func ExampleKindOf() {
	k := clique.KindOf[float32]()
	fmt.Println(k, k.Size())
	// Output: float32 4
}
