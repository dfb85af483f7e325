package cluster

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"

	"go.millstream.dev/worker"
)

// goroutine is a worker in this process. Its goroutine start ends with the worker.
type goroutine struct {
	name    string
	cancel  context.CancelFunc
	started chan struct{} // closed when the worker has started or failed
	done    chan struct{}

	mu     sync.Mutex
	w      *worker.Worker
	starts int
	err    error
}

// startGoroutine starts a worker asynchronously; Ready waits for it.
func startGoroutine(spec WorkerSpec, log *slog.Logger) (*goroutine, error) {
	cfg, err := spec.config(log.With("worker", spec.Name))
	if err != nil {
		return nil, err
	}
	// The memory of the process is not the memory of one worker; the size of its stored data is.
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
			continue // the scheduler has requested a new worker
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

// Info returns the state of the worker.
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

// Shutdown shuts the worker down and waits for it.
func (g *goroutine) Shutdown(ctx context.Context) error {
	g.cancel()
	select {
	case <-g.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Done returns a channel that is closed when the worker has ended.
func (g *goroutine) Done() <-chan struct{} { return g.done }

// Err returns why the worker failed.
func (g *goroutine) Err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}
