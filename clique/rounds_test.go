package clique_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/clique"
	"go.millstream.dev/cluster"
	"go.millstream.dev/mem"
)

// many does one of each collective, and tells what came out as text.
var many = clique.Func("test.many", func(ctx context.Context, r *clique.Rank, _ int) (string, error) {
	n, me := r.Size(), r.Rank()
	var out []string
	note := func(what string, err error, v any) error {
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		out = append(out, fmt.Sprint(v))
		return nil
	}
	mine := []int32{int32(me), int32(me * me)}
	all := make([]int32, 2*n)
	err := errors.Join(
		note("all-gather", r.Do(ctx, clique.AllGather(clique.Of(mine), clique.Of(all))), all),
		note("reduce", r.Do(ctx, clique.Reduce(clique.Of(mine), clique.Of(mine), clique.Max, 0)), n),
		note("broadcast", r.Do(ctx, clique.Broadcast(clique.Of(mine), 0)), mine),
		note("barrier", r.Do(ctx, clique.Barrier()), "together"),
	)
	part := make([]int32, 2)
	err = errors.Join(err, note("scatter", r.Do(ctx, clique.Scatter(clique.Of(all), clique.Of(part), n-1)), part))
	next, before := (me+1)%n, (me+n-1)%n
	got := 0
	e := r.Do(ctx, clique.SendRecv(next, 1<<63|7, clique.Of(mine[:1]), before, 1<<63|7, clique.Of(part)).WithLen(&got))
	err = errors.Join(err, note("send and receive", e, got))
	// The same on buffers, and as requests.
	buf := mem.FromSlice([]float32{float32(me), 1})
	defer buf.Release()
	v := clique.Buffer[float32](buf)
	err = errors.Join(err, note("all-reduce", r.Do(ctx, clique.AllReduce(v, v, clique.Sum)), buf.Bytes()))
	e = r.Start(ctx, clique.Broadcast(clique.Buffer[float32](buf), 0)).Wait(ctx)
	err = errors.Join(err, note("broadcast of a buffer", e, buf.Bytes()))
	sums := []uint64{uint64(me)}
	total := r.Start(ctx, clique.AllReduce(clique.Of(sums), clique.Of(sums), clique.Sum))
	err = errors.Join(err, note("start", total.Wait(ctx), "waited"))
	err = errors.Join(err, note("sum", nil, sums))
	return strings.Join(out[1:5], " "), err
})

func TestCollectives(t *testing.T) {
	_, c := local(t, cluster.Config{Workers: 3, Mode: cluster.Goroutines})
	q := form(t, c, clique.Options{Deterministic: true})
	out, err := many.RunAll(testContext(t), q, 0)
	if err != nil {
		t.Fatal(err)
	}
	if want := "3 [2 4] together [0 0]"; out[0] != want {
		t.Errorf("rank 0 says %q, want %q", out[0], want)
	}
}

// Rounds that run at once, in whatever order the scheduler starts them on workers of one
// thread, and several cliques on the same workers, do not disturb each other.
func TestRoundsAtOnce(t *testing.T) {
	_, c := local(t, cluster.Config{Workers: 3, Mode: cluster.Goroutines})
	a, b := form(t, c, clique.Options{}), form(t, c, clique.Options{Name: "other"})
	var all sync.WaitGroup
	for i := range 12 {
		q := []*clique.Clique{a, b}[i%2]
		all.Go(func() {
			in := [][]float64{{float64(i)}, {1}, {1}}
			out, err := total.Run(testContext(t), q, in)
			if err != nil || out[0][0] != float64(i+2) || out[2][0] != float64(i+2) {
				t.Errorf("round %d: %v, %v", i, out, err)
			}
		})
	}
	all.Wait()
}

// Results stay on the workers and are the inputs of the next round.
func TestChain(t *testing.T) {
	_, c := local(t, cluster.Config{Workers: 2, Mode: cluster.Goroutines})
	q := form(t, c, clique.Options{})
	ctx := testContext(t)
	first, err := total.Submit(ctx, q, []client.Arg[[]float64]{client.Val([]float64{1}), client.Val([]float64{2})})
	if err != nil {
		t.Fatal(err)
	}
	second, err := total.Submit(ctx, q, []client.Arg[[]float64]{first[0], first[1]})
	if err != nil {
		t.Fatal(err)
	}
	out, err := client.Gather(ctx, second)
	if err != nil || out[0][0] != 6 || out[1][0] != 6 {
		t.Errorf("%v, %v", out, err)
	}
	if _, err := total.Run(ctx, q, [][]float64{{1}}); err == nil ||
		!strings.Contains(err.Error(), "1 inputs for 2 ranks") {
		t.Errorf("too few inputs: %v", err)
	}
}

// split makes halves, in the opposite order of ranks.
var split = clique.Func("test.split", func(ctx context.Context, r *clique.Rank, in float64) ([]float64, error) {
	s, err := r.Split(ctx, r.Rank()%2, -r.Rank())
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if s.Worker(s.Rank()) != r.Worker(r.Rank()) {
		return nil, fmt.Errorf("rank %d of the sub-clique is %s, not %s", s.Rank(), s.Worker(s.Rank()),
			r.Worker(r.Rank()))
	}
	out := []float64{in}
	if err := s.Do(ctx, clique.AllReduce(clique.Of(out), clique.Of(out), clique.Sum)); err != nil {
		return nil, err
	}
	none, err := r.Split(ctx, -1, 0)
	if none != nil || err != nil {
		return nil, fmt.Errorf("no color gives %v, %w", none, err)
	}
	return append(out, float64(s.Rank()), float64(s.Size())), nil
})

func TestSplit(t *testing.T) {
	_, c := local(t, cluster.Config{Workers: 3, Mode: cluster.Goroutines})
	q := form(t, c, clique.Options{})
	out, err := split.Run(testContext(t), q, []float64{1, 2, 4})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(out), "[[5 1 2] [2 0 1] [5 0 2]]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	sub, err := q.Sub(testContext(t), 2, 0)
	if err != nil {
		t.Fatal(err)
	}
	check(t, sub)
	check(t, q)
	if err := sub.Dissolve(testContext(t)); err != nil {
		t.Error(err)
	}
	for _, ranks := range [][]int{{3}, {-1}, {}} {
		if _, err := q.Sub(testContext(t), ranks...); err == nil {
			t.Errorf("Sub(%v) has no error", ranks)
		}
	}
}

// join uses a ticket that a client made up or kept.
var join = client.Func("test.join", func(ctx context.Context, t clique.Ticket) (int, error) {
	r, err := clique.Join(ctx, t)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	return r.Size(), nil
})

func TestTickets(t *testing.T) {
	_, c := local(t, cluster.Config{Workers: 1, Mode: cluster.Goroutines})
	ctx := testContext(t)
	q := form(t, c, clique.Options{})
	ticket := q.Ticket()
	run := func(t clique.Ticket) (int, error) {
		return join.Submit(ctx, c, client.Val(t), client.WithImpure()).Result(ctx)
	}
	if n, err := run(ticket); n != 1 || err != nil {
		t.Errorf("a ticket of a clique of one: %d, %v", n, err)
	}
	for _, tc := range []struct {
		ticket clique.Ticket
		want   string
	}{
		{ticket, "ticket already used"},
		{"", "invalid ticket"},
		{"x", "invalid ticket"},
		{"x.-1", "invalid ticket"},
		{"x.100000000", "invalid ticket"},
		{clique.Ticket(strings.Repeat("x", 65) + ".1"), "invalid ticket"},
		{"elsewhere.1", "the worker has no part in this clique"},
	} {
		if _, err := run(tc.ticket); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("ticket %q: %v, want %q", tc.ticket, err, tc.want)
		}
	}
	if err := q.Dissolve(ctx); err != nil {
		t.Error(err)
	}
	if _, err := run(q.Ticket()); err == nil || !strings.Contains(err.Error(),
		"the worker has no part in this clique") {
		t.Errorf("a ticket of a clique that was dissolved: %v", err)
	}
	if _, err := clique.Join(ctx, ticket); err == nil ||
		!strings.Contains(err.Error(), "pass the context of the task's function") {
		t.Errorf("a ticket outside of a task: %v", err)
	}
}

// A clique that is not used is dissolved after Options.Idle.
func TestIdle(t *testing.T) {
	_, c := local(t, cluster.Config{Workers: 1, Mode: cluster.Goroutines})
	ctx := testContext(t)
	q := form(t, c, clique.Options{Idle: time.Millisecond})
	for {
		_, err := join.Submit(ctx, c, client.Val(q.Ticket()), client.WithImpure()).Result(ctx)
		if err != nil {
			if !strings.Contains(err.Error(), "the worker has no part in this clique") {
				t.Error(err)
			}
			return
		}
	}
}
