package clique_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.millstream.dev/clique"
	"go.millstream.dev/cluster"
)

// fails sums up until the rank that is to fail does so, by an error or a panic.
var fails = clique.Func("test.fails", func(ctx context.Context, r *clique.Rank, how string) (int, error) {
	x := []int64{1}
	for i := range 100 {
		if i == 10 && r.Rank() == 1 {
			switch how {
			case "error":
				return 0, errors.New("out of luck")
			case "panic":
				panic("out of luck")
			case "deadline":
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, time.Nanosecond)
				defer cancel()
			}
		}
		if err := r.Do(ctx, clique.AllReduce(clique.Of(x), clique.Of(x), clique.Avg)); err != nil {
			return i, err
		}
	}
	return 100, nil
})

// A function that fails on one rank ends it on all others, with an error that names the rank
// and says why. The clique is formed again and works.
func TestFunctionFails(t *testing.T) {
	_, c := local(t, cluster.Config{Workers: 3, Mode: cluster.Goroutines})
	q := form(t, c, clique.Options{})
	for _, tc := range []struct{ how, want string }{
		{"error", "out of luck"},
		{"panic", "the function panicked"},
		{"deadline", "deadline exceeded"},
	} {
		_, err := fails.RunAll(testContext(t), q, tc.how)
		var failed *clique.RunError
		if !errors.As(err, &failed) || len(failed.Ranks) != 3 || len(failed.Dead) != 0 {
			t.Fatalf("%s: %v", tc.how, err)
		}
		culprit := fmt.Sprintf("rank 1 (%s)", q.Members()[1].Worker)
		for _, r := range []int{0, 2} {
			if text := failed.Ranks[r].Error(); !strings.Contains(text, culprit) || !strings.Contains(text, tc.want) {
				t.Errorf("%s: rank %d: %s; want %q and %q", tc.how, r, text, culprit, tc.want)
			}
		}
		// It has ended for good.
		if _, err := total.Run(testContext(t), q, make([][]float64, 3)); err == nil ||
			!strings.Contains(err.Error(), culprit) {
			t.Errorf("%s: a round afterwards: %v", tc.how, err)
		}
		again, err := q.Reform(testContext(t), clique.ReformOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if again.ID() == q.ID() || again.Size() != 3 {
			t.Errorf("%v in place of %v", again, q)
		}
		q = again
		check(t, q)
	}
	if err := q.Dissolve(testContext(t)); err != nil {
		t.Error(err)
	}
}

// bad has the ranks call different things; the clique survives that.
var bad = clique.Func("test.bad", func(ctx context.Context, r *clique.Rank, how string) ([]string, error) {
	odd := r.Rank() == r.Size()-1
	var err error
	switch how {
	case "size":
		x := make([]float64, 4)
		if odd {
			x = x[:3]
		}
		err = r.Do(ctx, clique.AllReduce(clique.Of(x), clique.Of(x), clique.Sum))
	case "type":
		if odd {
			err = r.Do(ctx, clique.AllReduce(clique.Of(make([]float32, 4)), clique.Of(make([]float32, 4)), clique.Sum))
		} else {
			err = r.Do(ctx, clique.AllReduce(clique.Of(make([]int32, 4)), clique.Of(make([]int32, 4)), clique.Sum))
		}
	case "root":
		err = r.Do(ctx, clique.Broadcast(clique.Of(make([]int64, 4)), r.Size()))
	case "other":
		if odd {
			err = r.Do(ctx, clique.Barrier())
		} else {
			err = r.Do(ctx, clique.Broadcast(clique.Of(make([]int64, 4)), 0))
		}
	}
	var mismatch *clique.MismatchError
	if !errors.As(err, &mismatch) {
		return nil, fmt.Errorf("%s is %w, want a MismatchError", how, err)
	}
	return []string{err.Error()}, r.Do(ctx, clique.Barrier())
})

// Wrong arguments are the same error on each rank.
func TestMismatch(t *testing.T) {
	_, c := local(t, cluster.Config{Workers: 3, Mode: cluster.Goroutines})
	q := form(t, c, clique.Options{})
	for _, how := range []string{"size", "type", "root", "other"} {
		out, err := bad.RunAll(testContext(t), q, how)
		if err != nil {
			t.Fatalf("%s: %v", how, err)
		}
		for i, o := range out {
			if o[0] != out[0][0] || o[0] == "" {
				t.Errorf("%s: rank %d has %q, rank 0 %q", how, i, o, out[0])
			}
		}
	}
	check(t, q)
}

// endless runs reductions without end, and reports when it has started.
var endless = clique.Func("test.endless", func(ctx context.Context, r *clique.Rank, size int) (int, error) {
	x := make([]float64, size)
	for i := 0; ; i++ {
		if err := r.Do(ctx, clique.AllReduce(clique.Of(x), clique.Of(x), clique.Sum)); err != nil {
			return i, err
		}
	}
})

// A process that is killed in the middle of a collective is named by all others, and a
// replacement takes its place.
func TestRankDies(t *testing.T) {
	for _, tc := range []struct {
		backend clique.Backend
		size    int
	}{{clique.Auto, 1 << 16}, {clique.Comm, 8}} {
		t.Run(string("backend "+tc.backend), func(t *testing.T) {
			k, c := local(t, cluster.Config{Workers: 3})
			q := form(t, c, clique.Options{Backend: tc.backend})
			victim := q.Members()[1]
			done := make(chan error, 1)
			go func() {
				_, err := endless.RunAll(testContext(t), q, tc.size)
				done <- err
			}()
			// One round has ended: the connections are in use.
			check(t, q)
			for _, w := range k.Workers() {
				if w.Address == victim.Worker {
					if err := syscall.Kill(w.PID, syscall.SIGKILL); err != nil {
						t.Fatal(err)
					}
				}
			}
			err := <-done
			var failed *clique.RunError
			if !errors.As(err, &failed) || len(failed.Ranks) != 3 {
				t.Fatal(err)
			}
			for _, r := range []int{0, 2} {
				if text := failed.Ranks[r].Error(); !strings.Contains(text, fmt.Sprintf("rank 1 (%s)", victim.Worker)) {
					t.Errorf("rank %d does not name rank 1: %s", r, text)
				}
			}
			if len(failed.Dead) != 1 || failed.Dead[0] != 1 ||
				!strings.Contains(failed.Ranks[1].Error(), "the worker has left the cluster") {
				t.Errorf("dead ranks %v, want 1: %v", failed.Dead, failed.Ranks[1])
			}
			// The survivors alone, then with the one that the nanny has restarted.
			two, err := q.Reform(testContext(t), clique.ReformOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if two.Size() != 2 {
				t.Errorf("%d survivors", two.Size())
			}
			check(t, two)
			three, err := two.Reform(testContext(t), clique.ReformOptions{Size: 3})
			if err != nil {
				t.Fatal(err)
			}
			check(t, three)
			if err := three.Dissolve(testContext(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

// A hundred cliques that are formed, used, failed or not, and dissolved leave nothing behind:
// TestMain looks for goroutines and descriptors.
func TestHundredRounds(t *testing.T) {
	_, c := local(t, cluster.Config{Workers: 2, Mode: cluster.Goroutines})
	ctx := testContext(t)
	q := form(t, c, clique.Options{})
	for i := range 100 {
		var err error
		if i%10 == 0 {
			if _, err := fails.RunAll(ctx, q, "error"); err == nil {
				t.Fatal("it did not fail")
			}
		} else {
			check(t, q)
		}
		if q, err = q.Reform(ctx, clique.ReformOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.Dissolve(ctx); err != nil {
		t.Error(err)
	}
	if err := q.Dissolve(ctx); err != nil {
		t.Errorf("dissolved twice: %v", err)
	}
}
