package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.millstream.dev/internal/dask/pyproc"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/helpers"
	"go.millstream.dev/scheduler/internal/inspect"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/plugins"
	"go.millstream.dev/wire"
)

// facade returns the calls that the Python helper offers to functions of clients.
// internal/dask/python/millstream/_facade.py makes them look like the scheduler of Dask.
func (s *Scheduler) facade() map[string]pyproc.Handler {
	return map[string]pyproc.Handler{
		"scheduler-info": func(ctx context.Context, _ *pyproc.Message) (any, [][]byte, error) {
			v, err := loop.Ask(ctx, s.loop, func() (any, error) { return s.inspect.FacadeInfo(), nil })
			return v, nil, err
		},
		"scheduler-tasks": func(ctx context.Context, _ *pyproc.Message) (any, [][]byte, error) {
			v, err := loop.Ask(ctx, s.loop, func() (any, error) { return s.inspect.FacadeTasks() })
			return v, nil, err
		},
		"scheduler-task":  s.facadeTask,
		"scheduler-hooks": s.facadeHooks,
		"scheduler-transitions": func(ctx context.Context, _ *pyproc.Message) (any, [][]byte, error) {
			v, err := loop.Ask(ctx, s.loop, func() (any, error) { return s.inspect.FacadeTransitions(), nil })
			return v, nil, err
		},
		"scheduler-call": s.facadeCall,
		"scheduler-computations": func(ctx context.Context, _ *pyproc.Message) (any, [][]byte, error) {
			v, err := loop.Ask(ctx, s.loop, func() (any, error) { return s.computations.Rows(), nil })
			return v, nil, err
		},
		"scheduler-log-event": func(ctx context.Context, m *pyproc.Message) (any, [][]byte, error) {
			var in struct{ Topic, Msg any }
			if err := helpers.Args(m, &in); err != nil {
				return nil, nil, err
			}
			_, err := loop.Ask(ctx, s.loop, func() (any, error) {
				return nil, s.topics.PublishFrom(in.Topic, in.Msg, "")
			})
			return nil, nil, err
		},
		"scheduler-events": func(ctx context.Context, m *pyproc.Message) (any, [][]byte, error) {
			var in struct{ Topic any }
			if err := helpers.Args(m, &in); err != nil {
				return nil, nil, err
			}
			v, err := s.topics.Events(ctx, in.Topic)
			return v, nil, err
		},
		"scheduler-upload-file": func(ctx context.Context, m *pyproc.Message) (any, [][]byte, error) {
			var in helpers.Upload
			if err := helpers.Args(m, &in); err != nil || len(m.Frames) != 1 {
				return nil, nil, errors.Join(err, helpers.ErrNoBody)
			}
			in.Data = m.Frames[0]
			n, err := s.helpers.Upload(ctx, in, s.opener.Children())
			return msgpack.MapOf("status", "OK", "nbytes", n), nil, err
		},
		"scheduler-worker-plugin": func(ctx context.Context, m *pyproc.Message) (any, [][]byte, error) {
			return s.facadePlugin(ctx, m, false)
		},
		"scheduler-nanny-plugin": func(ctx context.Context, m *pyproc.Message) (any, [][]byte, error) {
			return s.facadePlugin(ctx, m, true)
		},
	}
}

// facadeCall performs an op for a method of the facade. The reply has the result, or type and message of an exception.
func (s *Scheduler) facadeCall(ctx context.Context, m *pyproc.Message) (any, [][]byte, error) {
	var in struct {
		Method string
		Args   msgpack.Map
	}
	if err := helpers.Args(m, &in); err != nil {
		return nil, nil, err
	}
	op := inspect.FacadeOps[in.Method]
	if op == "" {
		return nil, nil, fmt.Errorf("no method %q", in.Method)
	}
	v, err := s.ask(ctx, op, in.Args)
	var remote *rpc.RemoteError
	if errors.As(err, &remote) {
		return msgpack.MapOf("type", remote.Type, "message", remote.Message), nil, nil
	}
	return msgpack.MapOf("result", v), nil, err
}

// facadePlugin registers a worker or nanny plugin for a Dask scheduler plugin. The replies of the workers are returned
// as a Dask message.
func (s *Scheduler) facadePlugin(ctx context.Context, m *pyproc.Message, nanny bool) (any, [][]byte, error) {
	var in plugins.Args
	if err := helpers.Args(m, &in); err != nil || len(m.Frames) != 1 {
		return nil, nil, errors.Join(err, helpers.ErrNoBody)
	}
	in.Plugin = m.Frames[0]
	out, err := s.plugins.Add(ctx, in, nanny)
	if err != nil {
		return nil, nil, err
	}
	msg, err := wire.Encode(out, wire.EncodeOptions{})
	if err != nil {
		return nil, nil, err
	}
	frames := make([][]byte, len(msg.Frames))
	for i, f := range msg.Frames {
		frames[i] = slices.Clone(f.Bytes())
	}
	msg.Release()
	return nil, frames, nil
}

// runFunction serves run_function, Client.run_on_scheduler: a function of a client runs in a Python process of the
// scheduler, with a facade in place of the scheduler. The process writes the reply, including an exception of the
// function.
func (s *Scheduler) runFunction(ctx context.Context, _ *rpc.Request, in struct {
	Function []byte `rpc:"function"`
	Args     []byte `rpc:"args,optional"`
	Kwargs   []byte `rpc:"kwargs,optional"`
	Wait     *bool  `rpc:"wait"`
}) (any, error) {
	s.hooks.Flush(ctx) // the function sees what plugins made of everything before it
	m, err := s.helpers.Call(ctx, helpers.Service, "run-function", wire.NewDict("wait", in.Wait == nil || *in.Wait),
		[][]byte{slices.Clone(in.Function), slices.Clone(in.Args), slices.Clone(in.Kwargs)})
	if err != nil {
		return nil, err
	}
	return helpers.Message(m.Frames)
}
