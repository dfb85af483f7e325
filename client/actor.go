package client

import (
	"context"
	"fmt"

	"go.millstream.dev/task"
	"go.millstream.dev/wire"
	"go.millstream.dev/wire/msgpack"
)

// ActorType makes actors: values that stay on the worker where they were made and are changed
// by calls of methods, one at a time. S is usually a pointer to a struct; I is what a new one
// is made of.
type ActorType[S, I any] struct {
	name string
	fn   *Fn1[I, S]
}

// NewActorType registers a type of actors. Like functions it is made at package level.
func NewActorType[S, I any](name string, start func(ctx context.Context, init I) (S, error)) *ActorType[S, I] {
	return &ActorType[S, I]{name, Func(name, start)}
}

// Method is a method of actors.
type Method[S, A, R any] struct {
	name string
}

// NewMethod registers a method of a type of actors under the type's name, a dot and its own.
func NewMethod[S, I, A, R any](t *ActorType[S, I], name string, f func(ctx context.Context, s S, a A) (R, error)) *Method[S, A, R] {
	full := t.name + "." + name
	task.RegisterMethod(full, f)
	return &Method[S, A, R]{full}
}

// Actor is one actor.
type Actor[S any] struct{ f *Future[S] }

// Start makes an actor on some worker.
func (t *ActorType[S, I]) Start(ctx context.Context, c *Client, init Arg[I], opts ...Option) *Actor[S] {
	opts = append(opts[:len(opts):len(opts)], func(o *options) { o.actor = true })
	return &Actor[S]{t.fn.Submit(ctx, c, init, opts...)}
}

// ActorOf is the actor of a key, which some client or task has started.
func ActorOf[S any](c *Client, key task.Key) *Actor[S] { return &Actor[S]{FutureOf[S](c, key)} }

// Key is the actor's.
func (a *Actor[S]) Key() task.Key { return a.f.Key() }

// Wait waits until the actor is there, and returns its error.
func (a *Actor[S]) Wait(ctx context.Context) error { return a.f.Wait(ctx) }

// Release gives the actor up: it ends with its last holder.
func (a *Actor[S]) Release() { a.f.Release() }

// Call calls the method of an actor and waits for its result. An error of the method is a
// *TaskError.
func (m *Method[S, A, R]) Call(ctx context.Context, a *Actor[S], arg A) (R, error) {
	var zero R
	if err := a.f.Wait(ctx); err != nil {
		return zero, err
	}
	c, ks, err := a.f.state()
	if err != nil {
		return zero, err
	}
	address, err := c.whereIs(ctx, ks)
	if err != nil {
		return zero, err
	}
	v, err := task.EncodeValue(arg)
	if err != nil {
		return zero, err
	}
	args := wire.NewDict("actor", ks.key.Raw(), "function", m.name, "args", []any{v}, "kwargs", wire.Dict{})
	ctx, stop := c.within(ctx)
	defer stop()
	var reply msgpack.Map
	if err := c.workers.Call(ctx, address, "actor_execute", args, &reply); err != nil {
		return zero, fmt.Errorf("client: actor %s at %s: %w", ks.key, address, err)
	}
	if s := reply.GetString("status"); s != "OK" {
		exc, _ := reply.Get("exception")
		text, _ := reply.Get("traceback_text")
		return zero, newTaskError(ks.key, exc, text)
	}
	x, _ := reply.Get("result")
	return task.FromPlain[R](x)
}

// whereIs is the worker that has a result.
func (c *Client) whereIs(ctx context.Context, ks *keyState) (string, error) {
	keys := []*keyState{ks}
	for range 2 {
		c.mu.Lock()
		if ks.where >= 0 {
			defer c.mu.Unlock()
			return c.addresses[ks.where], nil
		}
		c.mu.Unlock()
		if err := c.locate(ctx, keys, []int{0}); err != nil {
			return "", err
		}
	}
	return "", &cancelledError{key: ks.key, cause: ErrLostData}
}
