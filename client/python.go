package client

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strconv"

	"go.millstream.dev/client/internal/tracker"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// Opaque is a Python value that Go has no type for, such as a pandas DataFrame, or that the program does not decode. It
// can be passed on as an argument, and Python then receives the original value.
type Opaque = wire.Object

// PyFn is a handle to a Python function with results of type R: see Python. It is immutable and safe for concurrent
// use.
type PyFn[R any] struct {
	f      task.PyFunc
	err    error // malformed name
	kwargs []task.PyKwarg
	opts   []Option
}

// Python returns a handle to the Python function with this module and name, such as "numpy:sum" or
// "package.module:Class.method". The worker that runs a call imports the module: neither the client nor the scheduler
// needs it.
//
//	norm := client.Python[float64]("numpy.linalg:norm")
//	f := norm.Kw("ord", 1).Submit(ctx, c, []float64{3, -4})
//	v, err := f.Result(ctx) // 7
//
// R is the type of decoded results: the Go type of a Python type (any accepts all of them), *wire.NDArray or a slice of
// numbers for numpy arrays, arrow.Table for Arrow tables, and *Opaque for values that are not decoded.
//
// The tasks run on Dask workers and on Millstream workers with Python. The futures return an error if the name is
// malformed.
func Python[R any](name string) *PyFn[R] {
	f, err := task.NewPyFunc(name)
	return &PyFn[R]{f: f, err: err}
}

// PythonSource returns a handle to the Python function with this source: an expression such as "lambda x: x + 1", or
// statements, of which the last defined function or class is used. The worker compiles it for each call.
func PythonSource[R any](source string) *PyFn[R] {
	f, err := task.PySource(source)
	return &PyFn[R]{f: f, err: err}
}

// Kw returns the function with a keyword argument added: a value or a future, as in Submit.
func (f *PyFn[R]) Kw(name string, value any) *PyFn[R] {
	out := *f
	out.kwargs = append(slices.Clip(f.kwargs), task.PyKwarg{Name: name, Value: value})
	return &out
}

// With returns the function with options for its tasks, such as WithWorkers or WithRetries.
func (f *PyFn[R]) With(opts ...Option) *PyFn[R] {
	out := *f
	out.opts = append(slices.Clip(f.opts), opts...)
	return &out
}

// Name returns the name of the function without its module.
func (f *PyFn[R]) Name() string { return f.f.Name() }

// Submit runs the function on a worker. Arguments are values, futures of any type, and slices, maps and structs with
// futures at any depth. The future returns errors in the arguments.
//
// Python receives slices of numbers as numpy arrays and other slices as lists ([]any is always a list), maps and
// structs as dicts, wire.Tuple and wire.Set as tuple and set.
func (f *PyFn[R]) Submit(ctx context.Context, c *Client, args ...any) *Future[R] {
	if err := ctx.Err(); err != nil {
		return failedFuture[R](c, err)
	}
	if err := c.tracker.WaitForSpace(ctx); err != nil {
		return failedFuture[R](c, err)
	}
	o := newOptions(f.opts)
	key, spec, deps, err := f.encode(&o, args)
	if err != nil {
		return failedFuture[R](c, err)
	}
	c.advice.CheckWorkers(&o.notes)
	o.trace(ctx, f.Name(), key, 1)
	s, err := c.tracker.Submit(key, spec, deps, &o.notes, o.graph(ctx))
	runtime.KeepAlive(args) // futures among them are held until the task that needs them is queued
	if err != nil {
		return failedFuture[R](c, err)
	}
	return newFuture[R](c, s)
}

// encode returns the key, the spec and the dependencies of a call.
func (f *PyFn[R]) encode(o *options, args []any) (task.Key, []byte, []task.Key, error) {
	if f.err != nil {
		return "", nil, nil, f.err
	}
	call, err := f.f.Call(args, f.kwargs)
	if err != nil {
		return "", nil, nil, err
	}
	key := o.key
	if key == "" {
		h := randomHex(16)
		if !o.impure && !o.actor {
			if h, err = call.Hash(); err != nil {
				return "", nil, nil, err
			}
		}
		key = task.NewKey(f.f.Name() + "-" + h)
	}
	spec, err := call.Append(nil, key)
	return key, spec, call.Deps(), err
}

// Map runs the function once for each element of a slice; with several slices once for each position, up to the length
// of the shortest slice. Elements may be anything that Submit accepts. Pass arguments that all calls have in common
// with Kw.
func (f *PyFn[R]) Map(ctx context.Context, c *Client, slice any, more ...any) []*Future[R] {
	columns := make([]reflect.Value, 1+len(more))
	n := 0
	for i, s := range append([]any{slice}, more...) {
		v := reflect.ValueOf(s)
		if k := v.Kind(); k != reflect.Slice && k != reflect.Array {
			return []*Future[R]{failedFuture[R](c, fmt.Errorf("client: Map of the Python function %s: "+
				"argument %d is a %T, want a slice", f.Name(), i, s))}
		}
		if columns[i] = v; i == 0 || v.Len() < n {
			n = v.Len()
		}
	}
	row := make([]any, len(columns))
	futures := f.mapRows(ctx, c, n, func(i int) []any {
		for j, v := range columns {
			row[j] = v.Index(i).Interface()
		}
		return row
	})
	runtime.KeepAlive(more)
	runtime.KeepAlive(slice)
	return futures
}

// mapRows submits n calls, a graph for each mapChunk of them.
func (f *PyFn[R]) mapRows(ctx context.Context, c *Client, n int, row func(int) []any) []*Future[R] {
	o := newOptions(f.opts)
	c.advice.CheckWorkers(&o.notes)
	o.trace(ctx, f.Name(), "", n)
	futures := make([]*Future[R], n)
	base := o.key
	for at := 0; at < n; at += mapChunk {
		end := min(at+mapChunk, n)
		err := ctx.Err()
		if err == nil {
			err = c.tracker.WaitForSpace(ctx)
		}
		g := tracker.NewGraph(o.graph(ctx), false)
		w, notes := g.Writer(), g.Annotate(&o.notes)
		keys := make([]task.Key, end-at)
		for i := at; i < end && err == nil; i++ {
			if base != "" {
				o.key = task.NewKey(base.String() + "-" + strconv.Itoa(i))
			}
			key, spec, deps, bad := f.encode(&o, row(i))
			if bad != nil {
				futures[i] = failedFuture[R](c, bad)
				continue
			}
			keys[i-at] = key
			w.Spec(key, spec, deps, notes, int64(i))
		}
		handles := make([]tracker.Handle, len(keys))
		if err == nil {
			err = c.tracker.SubmitGraph(g, keys, handles)
		}
		if err != nil {
			for i := at; i < n; i++ {
				futures[i] = failedFuture[R](c, err)
			}
			break
		}
		for i := at; i < end; i++ {
			if futures[i] == nil {
				futures[i] = newFuture[R](c, handles[i-at].State())
			}
		}
	}
	return futures
}

// Node adds a call to a graph. Graph.Submit returns its errors.
func (f *PyFn[R]) Node(g *Graph, key string, args ...any) Node[R] {
	o := newOptions(f.opts)
	o.key = task.NewKey(key)
	_, spec, deps, err := f.encode(&o, args)
	g.addSpec(o.key, spec, deps, &o, err)
	return Node[R]{o.key}
}

// Run runs the function on all workers, or on those of the option WithWorkers by address, outside of the task system,
// and returns the results by address. Arguments must be values.
func (f *PyFn[R]) Run(ctx context.Context, c *Client, args ...any) (map[string]R, error) {
	msg, err := f.call(args)
	if err != nil {
		return nil, err
	}
	o := newOptions(f.opts)
	return broadcast[R](ctx, c, f.Name(), append(wire.NewDict("op", "run"), msg...), o.notes.Workers)
}

// RunOnScheduler runs the function in the process of the scheduler, which needs its module: Dask's run_on_scheduler.
func (f *PyFn[R]) RunOnScheduler(ctx context.Context, c *Client, args ...any) (R, error) {
	var zero R
	msg, err := f.call(args)
	if err != nil {
		return zero, err
	}
	var reply msgpack.Map
	if err := c.call(ctx, "run_function", msg, &reply); err != nil {
		return zero, fmt.Errorf("client: run %s on the scheduler: %w", f.Name(), err)
	}
	return runResult[R](f.Name(), c.address, reply)
}

// call returns the arguments of a request to run the function.
func (f *PyFn[R]) call(args []any) (wire.Dict, error) {
	if f.err != nil {
		return nil, f.err
	}
	fn, list, kwargs, err := f.f.Request(args, f.kwargs)
	if err != nil {
		return nil, err
	}
	return wire.NewDict("function", fn, "args", list, "kwargs", kwargs, "wait", true), nil
}
