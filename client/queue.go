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

// Queue passes values or futures between clients and tasks of the cluster, first in, first out: Dask's Queue.
type Queue[T any] struct {
	c    *Client
	name string
	once sync.Once
}

// NewQueue returns the queue with this name, and creates it if necessary; maxsize is then its capacity (0: unlimited).
// The queue exists until all its users have called Close.
func NewQueue[T any](ctx context.Context, c *Client, name string, maxsize int) (*Queue[T], error) {
	if err := c.call(ctx, "queue_create", wire.NewDict("name", name, "client", c.id, "maxsize", maxsize),
		nil); err != nil {
		return nil, fmt.Errorf("client: queue %s: %w", name, err)
	}
	return &Queue[T]{c: c, name: name}, nil
}

// Put adds a value. It waits while the queue is full.
func (q *Queue[T]) Put(ctx context.Context, x T) error {
	data, err := task.Plain(x)
	if err != nil {
		return err
	}
	return q.put(ctx, nil, data)
}

// PutFuture adds a future. It waits while the queue is full. The queue holds the future until it is removed.
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

// Get waits for the next value and removes it. If the element is a future, Get returns its result.
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

// GetFuture waits for the next future and removes it. It returns an error if the element is a value, which is then
// lost.
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
		return nil, fmt.Errorf("client: queue %s returned a value, not a future; use Get", q.name)
	}
	return q.take(r), nil
}

// GetAll removes and returns all present elements, possibly none.
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

// Len returns the number of elements.
func (q *Queue[T]) Len(ctx context.Context) (int, error) {
	var n int
	err := q.c.call(ctx, "queue_qsize", wire.NewDict("name", q.name, "client", q.c.id), &n)
	return n, err
}

// Close releases the queue. Closing the client has the same effect. Close may be called more than once.
func (q *Queue[T]) Close() error {
	var err error
	q.once.Do(func() { err = q.c.tracker.Queue(&message.QueueRelease{Name: task.NewKey(q.name)}) })
	if errors.Is(err, ErrClosed) {
		return nil
	}
	return err
}
