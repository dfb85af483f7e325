package client

import (
	"context"
	"fmt"
	"time"

	"go.millstream.dev/client/internal/tracker"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// timeoutOf returns the remaining time of ctx in seconds, as an argument; nil without a deadline. It is slightly
// shorter, so that the reply of the scheduler arrives before ctx ends.
func timeoutOf(ctx context.Context) any {
	d, ok := ctx.Deadline()
	if !ok {
		return nil
	}
	return max(time.Until(d).Seconds()*0.99, 0)
}

// record is the content of a variable or queue, as the scheduler sends it.
type record struct {
	key   task.Key // "" for data
	token string
	data  any
}

func readRecord(v any) (record, error) {
	d, ok := v.(msgpack.Map)
	if !ok {
		return record{}, fmt.Errorf("client: malformed record %.100v", v)
	}
	x, _ := d.Get("value")
	switch d.GetString("type") {
	case "Future":
		k, err := task.KeyOf(keyValue(x))
		return record{key: k, token: d.GetString("token")}, err
	case "msgpack":
		return record{data: wire.Clone(x)}, nil
	}
	return record{}, fmt.Errorf("client: unknown type of record %.40q", d.GetString("type"))
}

// takeFuture returns the future of a record that the scheduler sent. note is the message that acknowledges it.
func takeFuture[T any](c *Client, r record, note tracker.Message) *Future[T] {
	f := FutureOf[T](c, r.key)
	_ = c.tracker.Queue(note) // the future has the error
	return f
}

// Variable is a named value or future that all clients and tasks of the cluster can access: Dask's Variable. Values
// must be of a kind that task.Plain accepts; use futures for larger values.
type Variable[T any] struct {
	c    *Client
	name string
}

// NewVariable returns the variable with this name.
func NewVariable[T any](c *Client, name string) *Variable[T] { return &Variable[T]{c, name} }

// Set sets the variable to a value.
func (v *Variable[T]) Set(ctx context.Context, x T) error {
	data, err := task.Plain(x)
	if err != nil {
		return err
	}
	return v.c.call(ctx, "variable_set", wire.NewDict("name", v.name, "data", data, "key", nil, "client", v.c.id,
		"timeout", timeoutOf(ctx)), nil)
}

// SetFuture sets the variable to a future. The variable then holds the future.
func (v *Variable[T]) SetFuture(ctx context.Context, f *Future[T]) error {
	_, s, err := f.state()
	if err != nil {
		return err
	}
	return v.c.call(ctx, "variable_set", wire.NewDict("name", v.name, "data", nil, "key", s.Key().Raw(), "client",
		v.c.id, "timeout", timeoutOf(ctx)), nil)
}

func (v *Variable[T]) get(ctx context.Context) (record, error) {
	var reply any
	if err := v.c.call(ctx, "variable_get", wire.NewDict("name", v.name, "client", v.c.id, "timeout", timeoutOf(ctx)),
		&reply); err != nil {
		return record{}, fmt.Errorf("client: variable %s: %w", v.name, err)
	}
	return readRecord(reply)
}

// Get waits until the variable is set and returns its value, or the result if it holds a future.
func (v *Variable[T]) Get(ctx context.Context) (T, error) {
	r, err := v.get(ctx)
	if err != nil {
		var zero T
		return zero, err
	}
	if r.key == "" {
		return task.FromPlain[T](r.data)
	}
	f := v.take(r)
	defer f.Release()
	return f.Result(ctx)
}

// GetFuture waits until the variable is set and returns its future. It returns an error if the variable holds a value.
func (v *Variable[T]) GetFuture(ctx context.Context) (*Future[T], error) {
	r, err := v.get(ctx)
	if err != nil {
		return nil, err
	}
	if r.key == "" {
		return nil, fmt.Errorf("client: variable %s holds a value, not a future; use Get", v.name)
	}
	return v.take(r), nil
}

// take returns the future of a record of the variable.
func (v *Variable[T]) take(r record) *Future[T] {
	return takeFuture[T](v.c, r, &message.VariableReceived{Name: task.NewKey(v.name), Key: r.key, Token: r.token})
}

// Delete unsets the variable.
func (v *Variable[T]) Delete() error {
	return v.c.tracker.Queue(&message.VariableDelete{Name: task.NewKey(v.name)})
}
