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

// timeoutOf is the time that ctx leaves in seconds, as an argument; nil without a bound. The
// scheduler gives up a little before the client does, so that its answer is heard.
func timeoutOf(ctx context.Context) any {
	d, ok := ctx.Deadline()
	if !ok {
		return nil
	}
	return max(time.Until(d).Seconds()*0.99, 0)
}

// record is what a variable or queue holds, as the scheduler tells it.
type record struct {
	key   task.Key // "" for data
	token string
	data  any
}

func readRecord(v any) (record, error) {
	d, ok := v.(msgpack.Map)
	if !ok {
		return record{}, fmt.Errorf("client: an answer that is no record: %.100v", v)
	}
	x, _ := d.Get("value")
	switch d.GetString("type") {
	case "Future":
		k, err := task.KeyOf(keyValue(x))
		return record{key: k, token: d.GetString("token")}, err
	case "msgpack":
		return record{data: wire.Clone(x)}, nil
	}
	return record{}, fmt.Errorf("client: a record of type %.40q", d.GetString("type"))
}

// takeFuture returns the future of a record that the scheduler gave out. note tells the scheduler that it is held.
func takeFuture[T any](c *Client, r record, note tracker.Message) *Future[T] {
	f := FutureOf[T](c, r.key)
	_ = c.tracker.Queue(note) // the future has the error
	return f
}

// Variable is a value or future under a name, which all clients and tasks of the cluster see:
// Dask's Variable. Values are those that task.Plain takes; for larger ones use futures.
type Variable[T any] struct {
	c    *Client
	name string
}

// NewVariable is the variable of a name.
func NewVariable[T any](c *Client, name string) *Variable[T] { return &Variable[T]{c, name} }

// Set sets it to a value.
func (v *Variable[T]) Set(ctx context.Context, x T) error {
	data, err := task.Plain(x)
	if err != nil {
		return err
	}
	return v.c.call(ctx, "variable_set", wire.NewDict("name", v.name, "data", data, "key", nil, "client", v.c.id,
		"timeout", timeoutOf(ctx)), nil)
}

// SetFuture sets it to a future, which it then holds.
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

// Get waits until it is set and returns its value; of a future the result.
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

// GetFuture waits until it is set and returns its future. It is an error if it holds a value.
func (v *Variable[T]) GetFuture(ctx context.Context) (*Future[T], error) {
	r, err := v.get(ctx)
	if err != nil {
		return nil, err
	}
	if r.key == "" {
		return nil, fmt.Errorf("client: variable %s holds a value, not a future: use Get", v.name)
	}
	return v.take(r), nil
}

// take returns the future of a record of the variable.
func (v *Variable[T]) take(r record) *Future[T] {
	return takeFuture[T](v.c, r, &message.VariableReceived{Name: task.NewKey(v.name), Key: r.key, Token: r.token})
}

// Delete makes it unset.
func (v *Variable[T]) Delete() error {
	return v.c.tracker.Queue(&message.VariableDelete{Name: task.NewKey(v.name)})
}
