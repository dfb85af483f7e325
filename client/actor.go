package client

import (
	"context"
	"fmt"
	"slices"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/wire"
)

// ActorType is a registered type of actors. An actor is a value that stays on the worker where it was created and is
// changed by method calls, one at a time. S is usually a pointer to a struct; I is the argument of the function that
// creates it.
type ActorType[S, I any] struct {
	name string
	fn   *Fn1[I, S]
}

// NewActorType registers a type of actors. Like Func it is called at package level.
func NewActorType[S, I any](name string, start func(ctx context.Context, init I) (S, error)) *ActorType[S, I] {
	return &ActorType[S, I]{name, Func(name, start)}
}

// Method is a registered method of actors.
type Method[S, A, R any] struct {
	name string
}

// NewMethod registers a method of a type of actors under the name of the type, a dot and name.
func NewMethod[S, I, A, R any](t *ActorType[S, I], name string,
	f func(ctx context.Context, s S, a A) (R, error)) *Method[S, A, R] {
	full := t.name + "." + name
	task.RegisterMethod(full, f)
	return &Method[S, A, R]{full}
}

// Method0 is a registered method of actors without parameters.
type Method0[S, R any] struct{ name string }

// NewMethod0 is NewMethod for a method without parameters.
func NewMethod0[S, I, R any](t *ActorType[S, I], name string, f func(ctx context.Context, s S) (R, error)) *Method0[S,
	R] {
	full := t.name + "." + name
	task.RegisterMethod0(full, f)
	return &Method0[S, R]{full}
}

// Method2 is a registered method of actors with two parameters.
type Method2[S, A, B, R any] struct{ name string }

// NewMethod2 is NewMethod for two parameters.
func NewMethod2[S, I, A, B, R any](t *ActorType[S, I], name string,
	f func(ctx context.Context, s S, a A, b B) (R, error)) *Method2[S, A, B, R] {
	full := t.name + "." + name
	task.RegisterMethod2(full, f)
	return &Method2[S, A, B, R]{full}
}

// Method3 is a registered method of actors with three parameters.
type Method3[S, A, B, C, R any] struct{ name string }

// NewMethod3 is NewMethod for three parameters.
func NewMethod3[S, I, A, B, C, R any](t *ActorType[S, I], name string,
	f func(ctx context.Context, s S, a A, b B, c C) (R, error)) *Method3[S, A, B, C, R] {
	full := t.name + "." + name
	task.RegisterMethod3(full, f)
	return &Method3[S, A, B, C, R]{full}
}

// Actor is a handle to an actor.
type Actor[S any] struct{ f *Future[S] }

// Start starts an actor on a worker.
func (t *ActorType[S, I]) Start(ctx context.Context, c *Client, init Arg[I], opts ...Option) *Actor[S] {
	opts = append(opts[:len(opts):len(opts)], func(o *options) { o.actor = true })
	return &Actor[S]{t.fn.Submit(ctx, c, init, opts...)}
}

// ActorOf returns a handle to the actor with this key, which a client or task has started.
func ActorOf[S any](c *Client, key task.Key) *Actor[S] { return &Actor[S]{FutureOf[S](c, key)} }

// Key returns the key of the actor.
func (a *Actor[S]) Key() task.Key { return a.f.Key() }

// AppendArg encodes the actor as an argument of a Python function, which receives Dask's proxy for it. Pass Handle to
// Go functions instead.
func (a *Actor[S]) AppendArg(b *task.Builder) error { return a.f.AppendArg(b) }

// Wait waits until the actor has been created, and returns the error of its creation.
func (a *Actor[S]) Wait(ctx context.Context) error { return a.f.Wait(ctx) }

// Release releases the handle. The actor ends when no client holds a handle to it.
func (a *Actor[S]) Release() { a.f.Release() }

// Handle returns a value by which tasks on any worker use the actor when it is passed to them as an argument: see
// ActorHandle.Actor. It does not hold the actor, so keep the actor while tasks use it.
func (a *Actor[S]) Handle() ActorHandle[S] { return ActorHandle[S]{Key: a.Key().String()} }

// ActorHandle identifies an actor in the arguments of a task.
type ActorHandle[S any] struct {
	// Key is the key of the actor, as text.
	Key string
}

// Actor returns a handle to the actor. ctx is the context of the running task. Method calls are sent to the worker that
// has the actor.
func (h ActorHandle[S]) Actor(ctx context.Context) (*Actor[S], error) {
	c, err := FromContext(ctx)
	if err != nil {
		return nil, err
	}
	return ActorOf[S](c, task.NewKey(h.Key)), nil
}

func (a *Actor[S]) future() AnyFuture { return a.f }

// AnyActor is a Go or Python actor of any type.
type AnyActor interface {
	future() AnyFuture
}

// Call calls the method of an actor and waits for its result. An error of the method is returned as a *TaskError.
func (m *Method[S, A, R]) Call(ctx context.Context, a *Actor[S], arg A) (R, error) {
	return callMethod[R](ctx, a, m.name, []any{arg}, nil)
}

// Call calls the method of an actor: see Method.Call.
func (m *Method0[S, R]) Call(ctx context.Context, a *Actor[S]) (R, error) {
	return callMethod[R](ctx, a, m.name, nil, nil)
}

// Call calls the method of an actor: see Method.Call.
func (m *Method2[S, A, B, R]) Call(ctx context.Context, a *Actor[S], x A, y B) (R, error) {
	return callMethod[R](ctx, a, m.name, []any{x, y}, nil)
}

// Call calls the method of an actor: see Method.Call.
func (m *Method3[S, A, B, C, R]) Call(ctx context.Context, a *Actor[S], x A, y B, z C) (R, error) {
	return callMethod[R](ctx, a, m.name, []any{x, y, z}, nil)
}

// callMethod calls a method on the worker that has the actor.
func callMethod[R any](ctx context.Context, a AnyActor, name string, args []any, kwargs []task.PyKwarg) (R, error) {
	var zero R
	list := make([]any, len(args))
	for i, x := range args {
		v, err := task.EncodeValue(x)
		if err != nil {
			return zero, fmt.Errorf("client: argument %d of method %s: %w", i, name, err)
		}
		list[i] = v
	}
	named := wire.Dict{}
	for _, k := range kwargs {
		v, err := task.EncodeValue(k.Value)
		if err != nil {
			return zero, fmt.Errorf("client: argument %s of method %s: %w", k.Name, name, err)
		}
		named.Set(k.Name, v)
	}
	return callActor[R](ctx, a, "actor_execute", wire.NewDict("function", name, "args", list, "kwargs", named))
}

// callActor sends a request to the worker that has an actor.
func callActor[R any](ctx context.Context, a AnyActor, op string, args wire.Dict) (R, error) {
	var zero R
	f := a.future()
	if err := f.Wait(ctx); err != nil {
		return zero, err
	}
	c, s, err := f.state()
	if err != nil {
		return zero, err
	}
	address, err := c.fetcher.Locate(ctx, s)
	if err != nil {
		return zero, err
	}
	args.Set("actor", s.Key().Raw())
	var reply struct {
		Status                           string
		Exception, TracebackText, Result any
	}
	if err := c.callWorker(ctx, address, op, args, &reply); err != nil {
		return zero, fmt.Errorf("client: actor %s at %s: %w", s.Key(), address, err)
	}
	if reply.Status != "OK" {
		return zero, newTaskError(s.Key(), reply.Exception, reply.TracebackText)
	}
	return task.FromPlain[R](wire.Clone(reply.Result))
}

// callWorker sends a request to a worker, with Config.NoDirect through the scheduler.
func (c *Client) callWorker(ctx context.Context, address, op string, args wire.Dict, reply any) error {
	if c.cfg.NoDirect {
		args.Set("op", op)
		return c.call(ctx, "proxy", wire.NewDict("worker", address, "msg", args), reply)
	}
	return c.fetcher.Call(ctx, address, op, args, reply)
}

// Start starts an actor on a worker. The actor is the result of the function, which is usually a class:
//
//	counter := client.Python[any]("counters:Counter").Start(ctx, c)
//	n, err := client.PythonMethod[int]("increment").Call(ctx, counter, 10)
func (f *PyFn[R]) Start(ctx context.Context, c *Client, args ...any) *Actor[R] {
	return &Actor[R]{f.With(func(o *options) { o.actor = true }).Submit(ctx, c, args...)}
}

// PyMethod is a handle to a method of Python actors, with results of type R.
type PyMethod[R any] struct {
	name   string
	kwargs []task.PyKwarg
}

// PythonMethod returns a handle to the method with this name.
func PythonMethod[R any](name string) *PyMethod[R] { return &PyMethod[R]{name: name} }

// Kw returns the method with a keyword argument added.
func (m *PyMethod[R]) Kw(name string, value any) *PyMethod[R] {
	return &PyMethod[R]{m.name, append(slices.Clip(m.kwargs), task.PyKwarg{Name: name, Value: value})}
}

// Call calls the method and waits for its result. Arguments are values. An exception is returned as a *TaskError.
func (m *PyMethod[R]) Call(ctx context.Context, a AnyActor, args ...any) (R, error) {
	return callMethod[R](ctx, a, m.name, args, m.kwargs)
}

// Attribute returns an attribute of a Python actor.
func Attribute[R any](ctx context.Context, a AnyActor, name string) (R, error) {
	return callActor[R](ctx, a, "actor_attribute", wire.NewDict("attribute", name))
}
