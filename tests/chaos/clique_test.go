package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.millstream.dev/clique"
	"go.millstream.dev/cluster"
	"go.millstream.dev/internal/testkit/leak"
)

// collectives does a number of collectives that a seed chooses, the same on each rank, and checks each result. It
// returns how many it did and, if the clique ended, when.
var collectives = clique.Func("chaos.collectives",
	func(ctx context.Context, r *clique.Rank, in []uint64) ([]int64, error) {
		seed, n := in[0], int(in[1])
		choice := rand.New(rand.NewPCG(seed, 2))
		for i := range n {
			if err := collective(ctx, r, choice.IntN(7), 1<<choice.IntN(16), mix(seed, uint64(i))); err != nil {
				return nil, fmt.Errorf("collective %d failed at %d ms: %w", i, time.Now().UnixMilli(), err)
			}
		}
		return []int64{int64(n)}, nil
	})

// element is what a rank has at a place; sums of it are exact.
func element(seed uint64, rank, i int) int64 {
	return int64(mix(seed, uint64(rank)<<32|uint64(i))) >> 8
}

// collective does one of them and compares the result with what the elements say.
func collective(ctx context.Context, r *clique.Rank, which, count int, seed uint64) error {
	size, root := r.Size(), int(seed%uint64(r.Size()))
	mine := make([]int64, count)
	for i := range mine {
		mine[i] = element(seed, r.Rank(), i)
	}
	sum := func(i int) (s int64) {
		for k := range size {
			s += element(seed, k, i)
		}
		return s
	}
	differs := func(what string, got, want int64) error {
		if got != want {
			return fmt.Errorf("%s: rank %d has %d, want %d", what, r.Rank(), got, want)
		}
		return nil
	}
	at := int(seed>>8) % count
	switch which {
	case 0:
		err := r.Do(ctx, clique.AllReduce(clique.Of(mine), clique.Of(mine), clique.Sum))
		return errors.Join(err, check(err, func() error { return differs("all-reduce", mine[at], sum(at)) }))
	case 1:
		err := r.Do(ctx, clique.Reduce(clique.Of(mine), clique.Of(mine), clique.Sum, root))
		return errors.Join(err, check(err, func() error {
			if r.Rank() != root {
				return nil
			}
			return differs("reduce", mine[at], sum(at))
		}))
	case 2:
		err := r.Do(ctx, clique.Broadcast(clique.Of(mine), root))
		return errors.Join(err, check(err, func() error {
			return differs("broadcast", mine[at], element(seed, root, at))
		}))
	case 3:
		all := make([]int64, count*size)
		err := r.Do(ctx, clique.AllGather(clique.Of(mine), clique.Of(all)))
		return errors.Join(err, check(err, func() error {
			return differs("all-gather", all[root*count+at], element(seed, root, at))
		}))
	case 4:
		all := make([]int64, count*size)
		copy(all, mine)
		got := make([]int64, count*size)
		err := r.Do(ctx, clique.AllToAll(clique.Of(all), clique.Of(got)))
		return errors.Join(err, check(err, func() error {
			if r.Rank() != 0 {
				return nil
			}
			return differs("all-to-all", got[root*count+at], element(seed, root, at))
		}))
	case 5:
		next, before := (r.Rank()+1)%size, (r.Rank()+size-1)%size
		got := make([]int64, count)
		err := r.Do(ctx, clique.SendRecv(next, seed, clique.Of(mine), before, seed, clique.Of(got)))
		return errors.Join(err, check(err, func() error {
			return differs("send and receive", got[at], element(seed, before, at))
		}))
	}
	return r.Do(ctx, clique.Barrier())
}

// standing is what a rank's process has open: goroutines and descriptors.
var standing = clique.Func("chaos.standing", func(_ context.Context, _ *clique.Rank, _ int) ([]int64, error) {
	fds, err := leak.FDs()
	return []int64{int64(runtime.NumGoroutine()), int64(len(fds))}, err
})

// witness asks the rank that is never killed what it has open.
func witness(ctx context.Context, t *testing.T, q *clique.Clique, worker string) (goroutines, fds int64) {
	t.Helper()
	all, err := standing.RunAll(ctx, q, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range q.Members() {
		if m.Worker == worker {
			return all[i][0], all[i][1]
		}
	}
	t.Fatalf("%s is no rank any more", worker)
	return 0, 0
}

// check looks at a result if there is one.
func check(err error, f func() error) error {
	if err != nil {
		return nil
	}
	return f()
}

// slack is how much more a process may have open than long before: a connection to a worker that is just coming.
const slack = 12

// A rank is killed in the middle of a hundred random collectives, again and again: every survivor gets an error that
// names it, the clique is formed anew, of the survivors or with the process that took the dead one's place, and goes
// on. One rank sees all rounds, a hundred in the long form, and has no more open at their end than at their beginning.
func TestCliqueRanksDie(t *testing.T) {
	ctx := bounded(t)
	k, c := local(t, cluster.Config{Workers: 4, Threads: 1, MemoryLimit: cluster.NoMemoryLimit})
	if err := c.WaitForWorkers(ctx, 4); err != nil {
		t.Fatal(err)
	}
	q, err := clique.Form(ctx, c, clique.Options{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(3, 4))
	var slowest int64
	old := q.Members()[0].Worker
	const settled = 3 // rounds after which what is made once has been made
	var goroutines, fds int64
	for round := range pick(100, 2) {
		// Undisturbed, to know that it works.
		if _, err := collectives.RunAll(ctx, q, []uint64{r.Uint64(), 100}); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		victim := q.Members()[r.IntN(q.Size())]
		for victim.Worker == old {
			victim = q.Members()[r.IntN(q.Size())]
		}
		killed := make(chan int64, 1)
		delay := time.Duration(r.IntN(40)) * time.Millisecond
		go func() {
			time.Sleep(delay)
			for _, w := range k.Workers() {
				if w.Address == victim.Worker {
					_ = syscall.Kill(w.PID, syscall.SIGKILL)
				}
			}
			killed <- time.Now().UnixMilli()
		}()
		// Long enough that the kill is in the middle of it.
		_, err := collectives.RunAll(ctx, q, []uint64{r.Uint64(), 1 << 30})
		at := <-killed
		var failed *clique.RunError
		if !errors.As(err, &failed) || len(failed.Ranks) != q.Size() {
			t.Fatalf("round %d: %v", round, err)
		}
		for rank, err := range failed.Ranks {
			if rank == victim.Rank {
				continue
			}
			text := err.Error()
			if !strings.Contains(text, fmt.Sprintf("rank %d (%s)", victim.Rank, victim.Worker)) {
				t.Errorf("round %d: rank %d does not name rank %d: %s", round, rank, victim.Rank, text)
			}
			var number int
			var when int64
			if _, tail, ok := strings.Cut(text, "collective "); ok {
				if _, err := fmt.Sscanf(tail, "%d failed at %d ms", &number, &when); err == nil {
					slowest = max(slowest, when-at)
				}
			}
		}
		size := q.Size() - 1 // the survivors, or with a replacement
		if round%2 == 1 {
			size = 4
		}
		if q, err = q.Reform(ctx, clique.ReformOptions{Size: size, Timeout: time.Minute}); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if round == settled {
			goroutines, fds = witness(ctx, t, q, old)
		}
	}
	if goroutines > 0 {
		// Rounds are alike in twos: both cliques have four ranks. What is on its way out is waited for.
		g, f := witness(ctx, t, q, old)
		for g > goroutines+slack || f > fds+slack {
			if ctx.Err() != nil {
				t.Fatalf("a rank had %d goroutines and %d descriptors after round %d, and has %d and %d at the end",
					goroutines, fds, settled, g, f)
			}
			time.Sleep(100 * time.Millisecond)
			g, f = witness(ctx, t, q, old)
		}
		t.Logf("the rank that saw all rounds had %d goroutines and %d descriptors after round %d, and has %d and "+
			"%d at the end", goroutines, fds, settled, g, f)
	}
	if err := q.Dissolve(ctx); err != nil {
		t.Error(err)
	}
	t.Logf("the slowest survivor had its error %d ms after the kill", slowest)
}
