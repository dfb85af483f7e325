package client

import (
	"context"
	"slices"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/wire"
)

// Start makes an actor on some worker of what the function returns, which is usually a class:
//
//	counter := client.Python[any]("counters:Counter").Start(ctx, c)
//	n, err := client.PythonMethod[int]("increment").Call(ctx, counter, 10)
func (f *PyFn[R]) Start(ctx context.Context, c *Client, args ...any) *Actor[R] {
	return &Actor[R]{f.With(func(o *options) { o.actor = true }).Submit(ctx, c, args...)}
}

// PyMethod is a method of actors of Python's, with results of type R.
type PyMethod[R any] struct {
	name   string
	kwargs []task.PyKwarg
}

// PythonMethod is the method of a name.
func PythonMethod[R any](name string) *PyMethod[R] { return &PyMethod[R]{name: name} }

// Kw is the method with a keyword argument.
func (m *PyMethod[R]) Kw(name string, value any) *PyMethod[R] {
	return &PyMethod[R]{m.name, append(slices.Clip(m.kwargs), task.PyKwarg{Name: name, Value: value})}
}

// Call calls the method and waits for its result. Arguments are values; an exception is a
// *TaskError.
func (m *PyMethod[R]) Call(ctx context.Context, a AnyActor, args ...any) (R, error) {
	return callMethod[R](ctx, a, m.name, args, m.kwargs)
}

// Attribute is an attribute of an actor of Python's.
func Attribute[R any](ctx context.Context, a AnyActor, name string) (R, error) {
	return askActor[R](ctx, a, "actor_attribute", wire.NewDict("attribute", name))
}
