package cluster

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"

	"go.millstream.dev/worker"
)

// goroutine is a worker in this process. Its goroutine start ends when the worker has.
type goroutine struct {
	name    string
	cancel  context.CancelFunc
	started chan struct{} // closed when the worker is there, or has failed to be
	done    chan struct{}

	mu     sync.Mutex
	w      *worker.Worker
	starts int
	err    error
}

// startGoroutine begins to start a worker; Ready waits for it.
func startGoroutine(spec WorkerSpec, log *slog.Logger) (*goroutine, error) {
	cfg, err := spec.config(log.With("worker", spec.Name))
	if err != nil {
		return nil, err
	}
	// What the process uses is not one worker's doing. What it keeps is.
	cfg.Memory.Spill, cfg.Memory.Pause, cfg.Memory.Terminate = -1, -1, -1
	ctx, cancel := context.WithCancel(context.Background())
	g := &goroutine{name: spec.Name, cancel: cancel, started: make(chan struct{}), done: make(chan struct{})}
	go g.run(ctx, cfg)
	return g, nil
}

func (g *goroutine) run(ctx context.Context, cfg worker.Config) {
	defer close(g.done)
	for first := true; ; first = false {
		w, err := worker.Start(ctx, cfg)
		g.mu.Lock()
		g.w, g.err = w, err
		g.starts++
		g.mu.Unlock()
		if first {
			close(g.started)
		}
		if err != nil {
			return
		}
		select {
		case <-w.Done():
		case <-ctx.Done():
		}
		_ = w.Close()
		err = outcome(w.Err(), false)
		if ctx.Err() == nil && errors.Is(err, ErrRestart) {
			continue // the scheduler has asked for a fresh one
		}
		if errors.Is(err, ErrRestart) {
			err = nil
		}
		g.mu.Lock()
		g.err = err
		g.mu.Unlock()
		return
	}
}

// Info describes the worker.
func (g *goroutine) Info() WorkerInfo {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := WorkerInfo{Name: g.name, State: Starting, PID: os.Getpid(), Starts: g.starts}
	ended := false
	select {
	case <-g.done:
		ended = true
	default:
	}
	switch {
	case g.err != nil:
		i.State = Failed
	case ended:
		i.State = Closed
	case g.w != nil:
		i.State, i.Address, i.DataAddresses, i.HTTP = Running, g.w.Address(), g.w.DataAddresses(), g.w.Dashboard()
	}
	return i
}

// Ready waits until the worker is registered.
func (g *goroutine) Ready(ctx context.Context) error {
	select {
	case <-g.started:
		return g.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Shutdown ends the worker and waits for it.
func (g *goroutine) Shutdown(ctx context.Context) error {
	g.cancel()
	select {
	case <-g.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Done is closed when the worker has ended.
func (g *goroutine) Done() <-chan struct{} { return g.done }

// Err is why it failed.
func (g *goroutine) Err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}
