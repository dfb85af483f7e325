package client_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"go.millstream.dev/client"
	"go.millstream.dev/scheduler"
)

var mix = client.Func2("mix", func(_ context.Context, seed int, xs []int) (int, error) { return mixed(seed, xs), nil })

func mixed(seed int, xs []int) int {
	h := uint32(seed)*2654435761 + 1
	for _, x := range xs {
		h = (h ^ uint32(x)) * 16777619
	}
	return int(h)
}

// TestRandomDAG computes a graph with random dependencies and compares it with a sequential computation.
func TestRandomDAG(t *testing.T) {
	r := newRigWith(t, "tcp://127.0.0.1:0", 2, scheduler.Config{})
	rnd := rand.New(rand.NewPCG(1, 2))
	const n = 2000
	want := make([]int, n)
	g := client.NewGraph()
	var last []client.Node[int]
	for i := range n {
		var args []client.Arg[int]
		var local []int
		if i >= 10 {
			for range 2 + rnd.IntN(3) {
				j := rnd.IntN(i)
				args = append(args, client.RefTo[int](fmt.Sprint("n", j)))
				local = append(local, want[j])
			}
		}
		want[i] = mixed(i, local)
		node := mix.Node(g, fmt.Sprint("n", i), client.Val(i), client.List(args...))
		if i >= n-100 {
			last = append(last, node)
		}
	}
	futures := must[[]*client.Future[int]](t)(client.Compute(r.ctx, r.c, g, last...))
	got := must[[]int](t)(client.Gather(r.ctx, futures))
	for i, v := range got {
		if v != want[n-100+i] {
			t.Fatalf("node %d is %d, want %d", n-100+i, v, want[n-100+i])
		}
	}
}

// TestManyGoroutines submits, gathers, cancels and releases the same few tasks from many goroutines: in any order, each
// gets its result or the error of a cancellation.
func TestManyGoroutines(t *testing.T) {
	r := newRigWith(t, "inproc://", 2, scheduler.Config{})
	var wg sync.WaitGroup
	for w := range 8 {
		rnd := rand.New(rand.NewPCG(7, uint64(w)))
		wg.Go(func() {
			for range 60 {
				x := rnd.IntN(10)
				f := inc.Submit(r.ctx, r.c, client.Val(x))
				g := add.Submit(r.ctx, r.c, f, client.Val(rnd.IntN(3)+1000))
				switch rnd.IntN(4) {
				case 0:
					f.Release()
				case 1:
					_ = g.Cancel()
				}
				v, err := g.Result(r.ctx)
				if err != nil && !errors.Is(err, client.ErrCanceled) && !errors.Is(err, client.ErrReleased) {
					t.Errorf("x=%d: %v", x, err)
				}
				if err == nil && (v < x+1001 || v > x+1003) {
					t.Errorf("x=%d: %d", x, v)
				}
				g.Release()
			}
		})
	}
	wg.Wait()
	if v := must[int](t)(inc.Submit(r.ctx, r.c, client.Val(-1)).Result(r.ctx)); v != 0 {
		t.Errorf("afterwards: got %d, want 0", v)
	}
}
