package client_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/worker"
)

// Directly scattered data goes to running workers, not to paused ones.
func TestScatterPastPaused(t *testing.T) {
	r := newRig(t, "inproc://", 1)
	paused := r.addWorker(worker.Config{MemoryLimit: 1000, Memory: worker.Memory{Usage: func() int64 { return 900 },
		Interval: time.Millisecond, Spill: -1, Target: -1}})
	for {
		all, err := r.c.Workers(r.ctx)
		if err != nil {
			t.Fatal(err)
		}
		if all[paused.Address()].Status == "paused" {
			break
		}
	}
	futures, err := client.Scatter(r.ctx, r.c, []int{1, 2, 3, 4}, client.ScatterOptions{Direct: true})
	if err != nil {
		t.Fatal(err)
	}
	where, err := r.c.WhoHas(r.ctx, client.Futures(futures)...)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range futures {
		if got, want := where[f.Key()], []string{r.workers[0].Address()}; !slices.Equal(got, want) {
			t.Errorf("%s is at %v, want %v", f.Key(), got, want)
		}
	}
}

// Futures of two clients cannot be gathered together: the error names the future of the other client.
func TestFuturesOfTwoClients(t *testing.T) {
	r := newRig(t, "inproc://", 1)
	mine, other := inc.Submit(r.ctx, r.c, client.Val(1)), inc.Submit(r.ctx, r.connect(), client.Val(2))
	futures := []*client.Future[int]{mine, other}
	_, gathered := client.Gather(r.ctx, futures)
	for what, err := range map[string]error{"Gather": gathered, "Wait": client.Wait(r.ctx, futures)} {
		if err == nil || !strings.Contains(err.Error(), other.Key().String()+" belongs to another client") {
			t.Errorf("%s: got %v, want an error that names %s", what, err, other.Key())
		}
	}
}

// As holds the task like the original future: either may be released.
func TestAsHolds(t *testing.T) {
	r := newRig(t, "inproc://", 1)
	for name, release := range map[string]func(f, as *client.Future[int]) *client.Future[int]{
		"the first":  func(f, as *client.Future[int]) *client.Future[int] { f.Release(); return as },
		"the second": func(f, as *client.Future[int]) *client.Future[int] { as.Release(); return f },
	} {
		f := inc.Submit(r.ctx, r.c, client.Val(len(name)), client.WithImpure())
		left := release(f, client.As[int](f))
		if got, err := left.Result(r.ctx); err != nil || got != len(name)+1 {
			t.Errorf("%s is released: got %d, %v, want %d", name, got, err, len(name)+1)
		}
	}
}
