package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// nannyWaiting are operations that may take long and continue when their callers disconnect.
var nannyWaiting = []string{"kill", "restart", "instantiate", "terminate", "close_gracefully"}

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
	rpc.Handle(r, "plugin_add", func(_ context.Context, _ *rpc.Request, in pluginArgs) (any, error) {
		return rpc.ErrorMessage(&rpc.Exception{Type: "NotImplementedError", Message: s.rejectPlugin(in.Name)}, "error")
	})
	rpc.Handle(r, "plugin_remove", func(_ context.Context, _ *rpc.Request, _ pluginArgs) (msgpack.Map, error) {
		return msgpack.MapOf("status", "OK"), nil
	})
	r.Handle("run", func(context.Context, *rpc.Request) (any, error) {
		return rpc.ErrorMessage(&rpc.Exception{Type: "NotImplementedError",
			Message: fmt.Sprintf("the nanny at %s is written in Go and cannot run Python functions; omit nanny=True",
				s.address)}, "error")
	})
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

type pluginArgs struct {
	Plugin msgpack.Raw `rpc:"plugin,optional"`
	Name   string      `rpc:"name,optional"`
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
