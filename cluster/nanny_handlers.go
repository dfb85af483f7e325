package cluster

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/wire"
)

// nannyWaiting are operations that may take long and continue when their callers disconnect.
var nannyWaiting = []string{"kill", "restart", "instantiate", "terminate", "close_gracefully", "plugin_add",
	"plugin_remove", "run"}

// handle sets the handlers, the same as in a Dask nanny.
func (s *nannyServer) handle(r *rpc.Server) {
	rpc.Handle(r, "kill", func(ctx context.Context, _ *rpc.Request, in nannyArgs) (any, error) {
		s.note("worker killed", in.Reason)
		return nil, s.n.Kill(ctx)
	})
	rpc.Handle(r, "restart", s.restart)
	r.Handle("instantiate", func(ctx context.Context, _ *rpc.Request) (any, error) {
		if err := s.n.Ready(ctx); err != nil {
			return nil, err
		}
		return wire.Enum{Module: "distributed.core", Class: "Status", Name: "running"}, nil
	})
	rpc.Handle(r, "terminate", func(_ context.Context, _ *rpc.Request, in nannyArgs) (string, error) {
		s.note("nanny closed", in.Reason)
		// The reply must be sent before the server ends.
		time.AfterFunc(50*time.Millisecond, func() { s.n.stopOnce.Do(func() { s.n.stop <- "close" }) })
		return "OK", nil
	})
	rpc.Handle(r, "close_gracefully", func(_ context.Context, _ *rpc.Request, in nannyArgs) (any, error) {
		s.note("worker will not be replaced", in.Reason)
		s.n.final.Store(true)
		return nil, nil
	})
	rpc.Handle(r, "get_logs", func(_ context.Context, _ *rpc.Request, in nannyLogsArgs) ([]any, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		out := slices.Clone(s.logs)
		if in.N != nil && *in.N >= 0 && *in.N < len(out) {
			out = out[len(out)-*in.N:]
		}
		return out, nil
	})
	r.Handle("plugin_add", s.addPlugin)
	r.Handle("plugin_remove", s.removePlugin)
	r.Handle("run", s.run)
}

// nannyArgs are the arguments of orders. Unused ones are listed because an unknown argument is an error.
type nannyArgs struct {
	Timeout *float64 `rpc:"timeout,optional"`
	Reason  string   `rpc:"reason,optional"`
}

type nannyLogsArgs struct {
	Start      int  `rpc:"start,optional"`
	N          *int `rpc:"n"`
	Timestamps bool `rpc:"timestamps,optional"`
}

// restart replaces the worker process and waits for the new one until the timeout.
func (s *nannyServer) restart(ctx context.Context, _ *rpc.Request, in nannyArgs) (any, error) {
	limit := 30 * time.Second // default of Dask
	if in.Timeout != nil && *in.Timeout > 0 && *in.Timeout < 1e6 {
		limit = time.Duration(*in.Timeout * float64(time.Second))
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	s.note("worker restarted", in.Reason)
	err := s.n.Restart(ctx)
	switch {
	case err == nil:
		return "OK", nil
	case errors.Is(err, context.DeadlineExceeded):
		return "timed out", nil
	}
	return rpc.ErrorMessage(err, "error")
}
