package client

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/wire"
)

// Queue carries values or futures between clients and tasks of the cluster, first in, first
// out: Dask's Queue.
type Queue[T any] struct {
	c    *Client
	name string
	once sync.Once
}

// NewQueue is the queue of a name. It is made if there is none; maxsize bounds it then (0: no
// bound). It lives until all who have it have called Close.
func NewQueue[T any](ctx context.Context, c *Client, name string, maxsize int) (*Queue[T], error) {
	if err := c.call(ctx, "queue_create", wire.NewDict("name", name, "client", c.id, "maxsize", maxsize),
		nil); err != nil {
		return nil, fmt.Errorf("client: queue %s: %w", name, err)
	}
	return &Queue[T]{c: c, name: name}, nil
}

// Put adds a value, when there is room.
func (q *Queue[T]) Put(ctx context.Context, x T) error {
	data, err := task.Plain(x)
	if err != nil {
		return err
	}
	return q.put(ctx, nil, data)
}

// PutFuture adds a future, when there is room. The queue holds it until it is taken.
func (q *Queue[T]) PutFuture(ctx context.Context, f *Future[T]) error {
	_, s, err := f.state()
	if err != nil {
		return err
	}
	return q.put(ctx, s.Key().Raw(), nil)
}

func (q *Queue[T]) put(ctx context.Context, key, data any) error {
	err := q.c.call(ctx, "queue_put", wire.NewDict("name", q.name, "key", key, "data", data, "client", q.c.id,
		"timeout", timeoutOf(ctx)), nil)
	if err != nil {
		return fmt.Errorf("client: queue %s: %w", q.name, err)
	}
	return nil
}

func (q *Queue[T]) get(ctx context.Context, batch any) (any, error) {
	var reply any
	err := q.c.call(ctx, "queue_get", wire.NewDict("name", q.name, "client", q.c.id, "timeout", timeoutOf(ctx), "batch",
		batch), &reply)
	if err != nil {
		return nil, fmt.Errorf("client: queue %s: %w", q.name, err)
	}
	return reply, nil
}

// Get takes the next value, when there is one; of a future its result.
func (q *Queue[T]) Get(ctx context.Context) (T, error) {
	var zero T
	v, err := q.get(ctx, false)
	if err != nil {
		return zero, err
	}
	r, err := readRecord(v)
	if err != nil {
		return zero, err
	}
	return q.value(ctx, r)
}

func (q *Queue[T]) value(ctx context.Context, r record) (T, error) {
	if r.key == "" {
		return task.FromPlain[T](r.data)
	}
	f := q.take(r)
	defer f.Release()
	return f.Result(ctx)
}

// take returns the future of a record of the queue.
func (q *Queue[T]) take(r record) *Future[T] {
	return takeFuture[T](q.c, r, &message.QueueReceived{Name: task.NewKey(q.name), Key: r.key, Token: r.token})
}

// GetFuture takes the next future, when there is one. A value is an error, and is lost.
func (q *Queue[T]) GetFuture(ctx context.Context) (*Future[T], error) {
	v, err := q.get(ctx, false)
	if err != nil {
		return nil, err
	}
	r, err := readRecord(v)
	if err != nil {
		return nil, err
	}
	if r.key == "" {
		return nil, fmt.Errorf("client: queue %s gave a value, not a future: use Get", q.name)
	}
	return q.take(r), nil
}

// GetAll takes all that is there now, perhaps nothing.
func (q *Queue[T]) GetAll(ctx context.Context) ([]T, error) {
	v, err := q.get(ctx, true)
	if err != nil {
		return nil, err
	}
	list, _ := v.([]any)
	out := make([]T, 0, len(list))
	for _, x := range list {
		r, err := readRecord(x)
		if err != nil {
			return nil, err
		}
		y, err := q.value(ctx, r)
		if err != nil {
			return nil, err
		}
		out = append(out, y)
	}
	return out, nil
}

// Len is how many are in the queue.
func (q *Queue[T]) Len(ctx context.Context) (int, error) {
	var n int
	err := q.c.call(ctx, "queue_qsize", wire.NewDict("name", q.name, "client", q.c.id), &n)
	return n, err
}

// Close gives the queue up. A Close of the client has done so already. It is idempotent.
func (q *Queue[T]) Close() error {
	var err error
	q.once.Do(func() { err = q.c.tracker.Queue(&message.QueueRelease{Name: task.NewKey(q.name)}) })
	if errors.Is(err, ErrClosed) {
		return nil
	}
	return err
}
