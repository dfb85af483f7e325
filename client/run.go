package client

import (
	"context"
	"fmt"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// Run runs the function on all workers, or on those with the given addresses, outside of the task system, and returns
// the results by address.
func (f *Fn0[R]) Run(ctx context.Context, c *Client, workers ...string) (map[string]R, error) {
	return run[R](ctx, c, f.f, workers, f.build)
}

// Run runs the function on all workers, or on those with the given addresses, outside of the task system, and returns
// the results by address. The argument must be a value.
func (f *Fn1[A, R]) Run(ctx context.Context, c *Client, a A, workers ...string) (map[string]R, error) {
	return run[R](ctx, c, f.f, workers, func(b *task.Builder) error { return f.build(b, Val(a)) })
}

// Run runs the function on all workers, or on those with the given addresses, outside of the task system, and returns
// the results by address.
func (f *Fn2[A, B, R]) Run(ctx context.Context, c *Client, x A, y B, workers ...string) (map[string]R, error) {
	return run[R](ctx, c, f.f, workers, func(b *task.Builder) error { return f.build(b, Val(x), Val(y)) })
}

// Run runs the function on all workers, or on those with the given addresses, outside of the task system, and returns
// the results by address.
func (f *Fn3[A, B, C, R]) Run(ctx context.Context, c *Client, x A, y B, z C, workers ...string) (map[string]R, error) {
	return run[R](ctx, c, f.f, workers, func(b *task.Builder) error { return f.build(b, Val(x), Val(y), Val(z)) })
}

// Run runs the function on all workers, or on those with the given addresses, outside of the task system, and returns
// the results by address.
func (f *Fn4[A, B, C, D, R]) Run(ctx context.Context, c *Client, x A, y B, z C, u D, workers ...string) (map[string]R,
	error) {
	return run[R](ctx, c, f.f, workers, func(b *task.Builder) error {
		return f.build(b, Val(x), Val(y), Val(z), Val(u))
	})
}

func run[R any](ctx context.Context, c *Client, f *task.Func, workers []string,
	build func(*task.Builder) error) (map[string]R, error) {
	var b task.Builder
	if err := build(&b); err != nil {
		return nil, err
	}
	if len(b.Deps()) > 0 {
		return nil, fmt.Errorf("client: run %s: arguments cannot be futures", f.Name())
	}
	msg := wire.NewDict("op", "run", "function", b.Append(nil), "args", nil, "kwargs", nil, "wait", true)
	return broadcast[R](ctx, c, f.Name(), msg, workers)
}

// broadcast sends a request to workers through the scheduler and returns their results.
func broadcast[R any](ctx context.Context, c *Client, name string, msg wire.Dict, workers []string) (map[string]R,
	error) {
	args := wire.NewDict("msg", msg, "workers", nil)
	if len(workers) > 0 {
		args.Set("workers", workers)
	}
	var reply msgpack.Map
	if err := c.call(ctx, "broadcast", args, &reply); err != nil {
		return nil, fmt.Errorf("client: run %s: %w", name, err)
	}
	out := make(map[string]R, len(reply))
	for _, p := range reply {
		address, _ := p.Key.(string)
		d, ok := p.Value.(msgpack.Map)
		if !ok {
			return nil, fmt.Errorf("client: run %s: worker %s replied %.100v", name, address, p.Value)
		}
		r, err := runResult[R](name, address, d)
		if err != nil {
			return nil, err
		}
		out[address] = r
	}
	return out, nil
}

// runResult returns the result in the reply of a process that ran a function.
func runResult[R any](name, address string, d msgpack.Map) (R, error) {
	var zero R
	if s := d.GetString("status"); s != "OK" {
		if err := rpc.ReplyError("run", address, d); err != nil {
			return zero, fmt.Errorf("client: run %s: %w", name, err)
		}
		exc, _ := d.Get("exception")
		text, _ := d.Get("traceback_text")
		e := newTaskError(task.NewKey("run "+name), wire.Clone(exc), text)
		return zero, fmt.Errorf("client: run %s at %s: %w", name, address, e)
	}
	v, _ := d.Get("result")
	r, err := task.FromPlain[R](v)
	if err != nil {
		return zero, fmt.Errorf("client: run %s: result of %s: %w", name, address, err)
	}
	return r, nil
}
