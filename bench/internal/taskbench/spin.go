package taskbench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"go.millstream.dev/client"
)

// spinning is a computation that runs until it is stopped by a file: it creates a file when it starts, and ends when it
// finds Marker.stop, or after Seconds.
type spinning struct {
	Marker  string
	Seconds float64
}

var (
	spins atomic.Int64  // number in this process, for names
	spun  atomic.Uint64 // prevents that the compiler removes the computation
)

// run computes, and returns start and end in seconds since 1970.
func (s spinning) run(ctx context.Context) ([]float64, error) {
	begin := time.Now()
	if err := os.WriteFile(fmt.Sprintf("%s.%d-%d.begun", s.Marker, os.Getpid(), spins.Add(1)), nil, 0o600); err != nil {
		return nil, err
	}
	v := uint64(1)
	for time.Since(begin).Seconds() < s.Seconds && ctx.Err() == nil {
		for range 10_000_000 {
			v = v*31 + 7
		}
		if _, err := os.Stat(s.Marker + ".stop"); err == nil {
			break
		}
	}
	spun.Store(v)
	return []float64{unixSeconds(begin), now()}, nil
}

// stop ends all computations of a marker.
func (s spinning) stop() error { return os.WriteFile(s.Marker+".stop", nil, 0o600) }

// spin starts a computation in every slot of the first two workers and waits until they run.
func (l *local) spin(ctx context.Context, c command, s spinning) ([]*client.Future[[]float64], error) {
	if !c.Busy {
		return nil, nil
	}
	var out []*client.Future[[]float64]
	for _, w := range l.workers[:2] {
		for range l.threads {
			out = append(out, spinFunc.Submit(ctx, l.client, client.Val(s), client.WithWorkers(w.Address),
				client.WithImpure()))
		}
	}
	err := until(ctx, c.Spin, "every slot computes", func() (bool, error) {
		begun, err := filepath.Glob(s.Marker + ".*.begun")
		return len(begun) == len(out), err
	})
	if err != nil {
		client.ReleaseAll(out)
		return nil, err
	}
	return out, nil
}

// until waits until done returns true.
func until(ctx context.Context, seconds float64, what string, done func() (bool, error)) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for begin := time.Now(); ; {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		if time.Since(begin).Seconds() > seconds {
			return fmt.Errorf("timed out after %v s: condition not met: %s", seconds, what)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
