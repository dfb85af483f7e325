package cluster

import (
	"context"
	"fmt"
	"time"
)

// killTime is how long a worker that is to be replaced may take to end by itself, Dask's.
const killTime = 5 * time.Second

// Kill ends the worker's process; another one takes its place. It returns when the old one
// is gone: Ready then waits for the new one. (Dask: Nanny.kill)
func (n *Nanny) Kill(ctx context.Context) error {
	down := make(chan struct{})
	select {
	case n.redo <- down:
	case <-n.done:
		return n.ended()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case <-down:
		return nil
	case <-n.done:
		return n.ended()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Restart is Kill, and waits for the new process to be registered.
func (n *Nanny) Restart(ctx context.Context) error {
	if err := n.Kill(ctx); err != nil {
		return err
	}
	return n.Ready(ctx)
}

func (n *Nanny) ended() error {
	if err := n.Err(); err != nil {
		return err
	}
	return fmt.Errorf("cluster: %s has ended", n.title())
}

// replaced tells those who asked for another process that the old one is gone, and others
// that a new one is about to be.
func (n *Nanny) replaced(waiting []chan struct{}) {
	n.update(func(i *WorkerInfo) { i.State, i.PID, i.Address, i.Lanes = Restarting, 0, "", nil })
	for _, w := range waiting {
		close(w)
	}
}
