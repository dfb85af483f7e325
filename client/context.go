package client

import (
	"context"
	"fmt"
	"time"

	"go.millstream.dev/internal/comm/peernet"
	"go.millstream.dev/internal/task"
)

type hostClient struct{}

// hostCloseTime is the timeout for closing the client of a worker's tasks when the worker ends.
const hostCloseTime = 2 * time.Second

// FromContext returns the client for functions that submit tasks themselves; ctx is the context of the function. The
// tasks of a worker share one client, which is closed with the worker.
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

// Inside calls f with the client of the worker's tasks, and releases the thread of the task meanwhile so that the tasks
// that f waits for can run: Dask's worker_client. It waits for a thread again before it returns.
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

// Secede releases the thread of the running task whose context is ctx.
func Secede(ctx context.Context) error { return task.Secede(ctx) }

// Rejoin waits for a thread again after Secede.
func Rejoin(ctx context.Context) error { return task.Rejoin(ctx) }
