package client

import (
	"context"
	"fmt"
	"time"

	"go.millstream.dev/internal/comm/peernet"
	"go.millstream.dev/internal/task"
)

type hostClient struct{}

// hostCloseTime bounds how long the client of a worker's tasks may take to leave when the worker ends.
const hostCloseTime = 2 * time.Second

// FromContext is the client of a worker's tasks, for functions that submit tasks themselves:
// ctx is the one that the function got. The tasks of a worker share it; it is closed with the
// worker.
func FromContext(ctx context.Context) (*Client, error) {
	i := task.FromContext(ctx)
	if i == nil || i.Host == nil {
		return nil, fmt.Errorf("client: FromContext: %w", task.ErrOutside)
	}
	h := i.Host
	v, err := h.Shared(hostClient{}, func() (any, func() error, error) {
		p, err := peernet.Of(h)
		if err != nil {
			return nil, nil, err
		}
		c, err := Connect(ctx, h.Scheduler, Config{Network: p.Network, Dial: p.Dial, Name: "Client-worker"})
		if err != nil {
			return nil, nil, err
		}
		return c, func() error {
			ctx, cancel := context.WithTimeout(context.Background(), hostCloseTime)
			defer cancel()
			return c.Shutdown(ctx)
		}, nil
	})
	if err != nil {
		return nil, err
	}
	return v.(*Client), nil
}

// Inside runs f with the client of the worker's tasks, and without the task's thread, so that
// the tasks that f waits for can run: Dask's worker_client. The thread is taken again before
// Inside returns.
func Inside(ctx context.Context, f func(c *Client) error) error {
	c, err := FromContext(ctx)
	if err != nil {
		return err
	}
	if err := task.Secede(ctx); err != nil {
		return err
	}
	err = f(c)
	if rerr := task.Rejoin(ctx); err == nil {
		err = rerr
	}
	return err
}

// Secede gives up the thread of the running task whose context it is.
func Secede(ctx context.Context) error { return task.Secede(ctx) }

// Rejoin waits for a thread again after Secede.
func Rejoin(ctx context.Context) error { return task.Rejoin(ctx) }
