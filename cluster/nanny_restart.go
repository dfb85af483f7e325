package cluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler"
	"go.millstream.dev/secure"
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
	n.update(func(i *WorkerInfo) { i.State, i.PID, i.Address, i.DataAddresses = Restarting, 0, "", nil })
	for _, w := range waiting {
		close(w)
	}
}

// reportTime bounds a report to the scheduler: the next process waits for it.
const reportTime = time.Second

// reportDeath has the scheduler name the cause in the errors of the tasks that ran there. It comes before
// the next process is started, which would take the place of the dead one.
func (n *Nanny) reportDeath(token string, cause error) {
	ctx, cancel := context.WithTimeout(context.Background(), reportTime)
	defer cancel()
	if err := n.cfg.died(ctx, token, strings.ToValidUTF8(cause.Error(), "?")); err != nil {
		n.cfg.Logger.Debug("death not reported", "scheduler", n.spec.Scheduler, "error", err)
	}
}

// reportOver returns a function that reports deaths over a connection to the scheduler.
func (n *Nanny) reportOver() (func(ctx context.Context, token, cause string) error, error) {
	cfg, err := n.spec.config(n.cfg.Logger)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, token, cause string) error {
		c, err := cfg.Network.Dial(ctx, n.spec.Scheduler, cfg.Dial.To(secure.Scheduler))
		if err != nil {
			return err
		}
		defer c.Abort()
		if c.Info().Millstream == nil {
			return nil // Dask's scheduler has no such request
		}
		return rpc.Call(ctx, c, scheduler.DeathOp, msgpack.MapOf("token", token, "cause", cause), nil)
	}, nil
}
