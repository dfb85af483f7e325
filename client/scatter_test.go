package client_test

import (
	"slices"
	"testing"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/worker"
)

// Data that is scattered directly goes to workers that run, not to those that are short of memory.
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
