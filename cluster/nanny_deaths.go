package cluster

import (
	"context"
	"strings"
	"time"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler"
	"go.millstream.dev/secure"
)

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
