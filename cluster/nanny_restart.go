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

// killTime is how long a worker that is replaced may take to end before it is killed, as in Dask.
const killTime = 5 * time.Second

// Kill shuts the worker process down; a new one replaces it. It returns when the old process has ended; Ready then
// waits for the new one. (Dask: Nanny.kill)
func (n *Nanny) Kill(ctx context.Context) error {
	down := make(chan struct{})
	select {
	case n.redo <- down:
	case <-n.done:
		return n.endedError()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case <-down:
		return nil
	case <-n.done:
		return n.endedError()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Restart is Kill, and waits until the new process is registered.
func (n *Nanny) Restart(ctx context.Context) error {
	if err := n.Kill(ctx); err != nil {
		return err
	}
	return n.Ready(ctx)
}

func (n *Nanny) endedError() error {
	if err := n.Err(); err != nil {
		return err
	}
	return fmt.Errorf("cluster: %s has ended", n.title())
}

// notifyReplaced notifies the callers that have requested a new process that the old one has ended, and the readers of
// the state.
func (n *Nanny) notifyReplaced(waiting []chan struct{}) {
	n.update(func(i *WorkerInfo) { i.State, i.PID, i.Address, i.DataAddresses = Restarting, 0, "", nil })
	for _, w := range waiting {
		close(w)
	}
}

// reportTime is the timeout of a report to the scheduler. The next process is started afterwards.
const reportTime = time.Second

// reportDeath sends the cause to the scheduler, which includes it in the errors of the tasks of the worker. It is
// called before the next process is started, which replaces the old one at the scheduler.
func (n *Nanny) reportDeath(token string, cause error) {
	ctx, cancel := context.WithTimeout(context.Background(), reportTime)
	defer cancel()
	if err := n.cfg.sendDeath(ctx, token, strings.ToValidUTF8(cause.Error(), "?")); err != nil {
		n.cfg.Logger.Debug("end of the worker process not reported", "scheduler", n.spec.Scheduler, "error", err)
	}
}

// reportOver returns a function that reports ended processes over a connection to the scheduler.
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
