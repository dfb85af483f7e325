package clique_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/clique"
	"go.millstream.dev/cluster"
)

// waits waits until its context ends; rank 0 tells its result at once.
var waits = clique.Func("test.waits", func(ctx context.Context, r *clique.Rank, _ int) (int, error) {
	if r.Rank() == 0 {
		return 1, nil
	}
	<-ctx.Done()
	return 0, context.Cause(ctx)
})

// TestWaitEnds: waiting for a round ends with its context, and says how many ranks finished; the next round works.
func TestWaitEnds(t *testing.T) {
	_, c := local(t, cluster.Config{Workers: 2, Mode: cluster.Goroutines})
	q := form(t, c, clique.Options{})
	ctx, cancel := context.WithCancelCause(testContext(t))
	defer cancel(nil)
	f, err := waits.Submit(ctx, q, []client.Arg[int]{client.Val(0), client.Val(0)})
	if err != nil {
		t.Fatal(err)
	}
	defer client.ReleaseAll(f)
	if n, err := f[0].Result(ctx); n != 1 || err != nil {
		t.Fatalf("rank 0: %d, %v", n, err)
	}
	why := errors.New("no patience")
	ended := make(chan error, 1)
	go func() { ended <- q.Wait(ctx, waits.Name(), client.Futures(f)) }()
	cancel(why)
	if err := <-ended; !errors.Is(err, why) || !strings.Contains(err.Error(), "test.waits") ||
		!strings.Contains(err.Error(), "of 2 ranks finished") {
		t.Errorf("%v, want the reason and how many ranks finished", err)
	}
	_ = c.Cancel(f[1])
	if err := q.Wait(testContext(t), "nothing", nil); err != nil {
		t.Errorf("waiting for nothing: %v", err)
	}
}

// TestInputsAreCounted: one input for each rank, neither more nor fewer.
func TestInputsAreCounted(t *testing.T) {
	_, c := local(t, cluster.Config{Workers: 2, Mode: cluster.Goroutines})
	q := form(t, c, clique.Options{})
	for n := range 5 {
		_, err := total.Run(testContext(t), q, slices.Repeat([][]float64{{1}}, n))
		want := fmt.Sprintf("clique %s: test.total: %d inputs for 2 ranks; pass one for each rank", q.ID(), n)
		if n == 2 && err != nil || n != 2 && (err == nil || err.Error() != want) {
			t.Errorf("%d inputs: %v, want %q", n, err, want)
		}
	}
}

// parts gathers what each rank has for each other, of lengths that differ, and sends a message that is too long.
var parts = clique.Func("test.parts", func(ctx context.Context, r *clique.Rank, n int) ([]int64, error) {
	me, size := r.Rank(), r.Size()
	var send []int64
	out, in := make([]int, size), make([]int, size)
	total := 0
	for q := range size {
		out[q], in[q] = n+me+2*q, n+q+2*me
		total += in[q]
		for range out[q] {
			send = append(send, int64(10*me+q))
		}
	}
	recv := make([]int64, total)
	if err := r.Do(ctx, clique.AllToAll(clique.Of(send), clique.Of(recv)).WithCounts(out, in)); err != nil {
		return nil, err
	}
	at := 0
	for q := range size {
		for i := range in[q] {
			if recv[at+i] != int64(10*q+me) {
				return nil, fmt.Errorf("element %d of rank %d's part is %d", i, q, recv[at+i])
			}
		}
		at += in[q]
	}
	return []int64{int64(total)}, nil
})

// TestAllToAllByCounts: each rank gets its part of every other one's, for several lengths, twice on one clique.
func TestAllToAllByCounts(t *testing.T) {
	_, c := local(t, cluster.Config{Workers: 3, Mode: cluster.Goroutines})
	q := form(t, c, clique.Options{})
	for range 2 {
		for _, n := range []int{0, 1, 3000} {
			out, err := parts.RunAll(testContext(t), q, n)
			if err != nil {
				t.Fatalf("%d: %v", n, err)
			}
			for me, o := range out {
				if want := int64(3*n + 3 + 6*me); o[0] != want {
					t.Errorf("%d: rank %d has %d elements, want %d", n, me, o[0], want)
				}
			}
		}
	}
}

// TestFormEnds: forming takes no longer than it may; a negative timeout and idle time are the defaults.
func TestFormEnds(t *testing.T) {
	_, c := local(t, cluster.Config{Workers: 2, Mode: cluster.Goroutines})
	q, err := clique.Form(testContext(t), c, clique.Options{Timeout: -1, Idle: -1})
	if err != nil {
		t.Fatal(err)
	}
	check(t, q)
	ended, cancel := context.WithCancel(testContext(t))
	cancel()
	if _, err := clique.Form(ended, c, clique.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("forming after the end of its context: %v", err)
	}
	if _, err := clique.Form(testContext(t), c, clique.Options{Timeout: time.Nanosecond}); !errors.Is(err,
		context.DeadlineExceeded) {
		t.Errorf("forming in no time: %v", err)
	}
	if _, err := q.Reform(ended, clique.ReformOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("re-forming after the end of its context: %v", err)
	}
	if _, err := q.Reform(testContext(t), clique.ReformOptions{Size: 1}); err == nil ||
		!strings.Contains(err.Error(), "2 workers are left, more than Size 1") {
		t.Errorf("a smaller clique: %v", err)
	}
	if _, err := q.Reform(testContext(t), clique.ReformOptions{Add: []string{"nobody"}}); !errors.Is(err,
		clique.ErrNoWorker) {
		t.Errorf("with a worker that is not there: %v", err)
	}
	again, err := q.Reform(testContext(t), clique.ReformOptions{Add: q.Workers()[:1], Timeout: patience})
	if err != nil || again.Size() != 2 {
		t.Fatalf("%v, %v; want the same two workers", again, err)
	}
	check(t, again)
	if err := again.Dissolve(testContext(t)); err != nil {
		t.Error(err)
	}
	if err := q.Dissolve(testContext(t)); err != nil { // Reform has done so
		t.Errorf("dissolving what was re-formed: %v", err)
	}
}
