package client

import (
	"context"
	"fmt"
	"time"

	"go.millstream.dev/client/internal/advice"
	"go.millstream.dev/client/internal/tracker"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// keysOf returns the keys of futures in their form on the wire.
func keysOf(futures []AnyFuture) ([]any, error) {
	keys := make([]any, 0, len(futures))
	for _, f := range futures {
		_, s, err := f.state()
		if err != nil {
			return nil, err
		}
		keys = append(keys, s.Key().Raw())
	}
	return keys, nil
}

// Futures converts futures of one type to futures of any type.
func Futures[T any](futures []*Future[T]) []AnyFuture {
	out := make([]AnyFuture, len(futures))
	for i, f := range futures {
		out[i] = f
	}
	return out
}

// WhoHas returns the addresses of the workers that have the results of futures; without futures those of all results on
// the cluster.
func (c *Client) WhoHas(ctx context.Context, futures ...AnyFuture) (map[task.Key][]string, error) {
	keys, err := keysOf(futures)
	if err != nil {
		return nil, err
	}
	args := wire.Dict{}
	if len(keys) > 0 {
		args.Set("keys", keys)
	}
	var reply msgpack.Map
	if err := c.call(ctx, "who_has", args, &reply); err != nil {
		return nil, err
	}
	out := make(map[task.Key][]string, len(reply))
	for _, p := range reply {
		k, err := task.KeyOf(keyValue(p.Key))
		if err != nil {
			return nil, err
		}
		out[k] = textList(p.Value)
	}
	return out, nil
}

// keyValue converts a key of a decoded map: Python tuples are lists in Go keys.
func keyValue(v any) any {
	if t, ok := v.(wire.Tuple); ok {
		return []any(t)
	}
	return v
}

func textList(v any) []string {
	list, _ := v.([]any)
	out := make([]string, 0, len(list))
	for _, x := range list {
		if s, ok := x.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// HasWhat returns the keys of the results on workers, by address; without arguments those on all workers.
func (c *Client) HasWhat(ctx context.Context, workers ...string) (map[string][]task.Key, error) {
	args := wire.Dict{}
	if len(workers) > 0 {
		args.Set("workers", workers)
	}
	var reply msgpack.Map
	if err := c.call(ctx, "has_what", args, &reply); err != nil {
		return nil, err
	}
	out := make(map[string][]task.Key, len(reply))
	for _, p := range reply {
		address, _ := p.Key.(string)
		list, _ := p.Value.([]any)
		keys := make([]task.Key, 0, len(list))
		for _, x := range list {
			k, err := task.KeyOf(keyValue(x))
			if err != nil {
				return nil, err
			}
			keys = append(keys, k)
		}
		out[address] = keys
	}
	return out, nil
}

// Replicate copies results until n workers have each of them. The copies are on the given workers, or on any if none is
// given. A Millstream scheduler keeps them until the results are released.
func (c *Client) Replicate(ctx context.Context, n int, workers []string, futures ...AnyFuture) error {
	if err := waitFutures(ctx, futures); err != nil {
		return err
	}
	keys, err := keysOf(futures)
	if err != nil {
		return err
	}
	args := wire.NewDict("keys", keys, "n", n)
	if len(workers) > 0 {
		args.Set("workers", workers)
	}
	return c.call(ctx, "replicate", args, nil)
}

// Rebalance moves results between workers so that each has about the same amount of data. Without futures it moves any
// result.
func (c *Client) Rebalance(ctx context.Context, workers []string, futures ...AnyFuture) error {
	if err := waitFutures(ctx, futures); err != nil {
		return err
	}
	args := wire.Dict{}
	if len(futures) > 0 {
		keys, err := keysOf(futures)
		if err != nil {
			return err
		}
		args.Set("keys", keys)
	}
	if len(workers) > 0 {
		args.Set("workers", workers)
	}
	var reply msgpack.Map
	if err := c.call(ctx, "rebalance", args, &reply); err != nil {
		return err
	}
	if s := reply.GetString("status"); s != "" && s != "OK" {
		missing, _ := reply.Get("keys")
		return fmt.Errorf("client: rebalance: %s: %v", s, missing)
	}
	return nil
}

func waitFutures(ctx context.Context, futures []AnyFuture) error {
	for _, f := range futures {
		if err := f.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Retry runs failed tasks again, with the tasks that failed because of them.
func (c *Client) Retry(ctx context.Context, futures ...AnyFuture) error {
	keys, err := keysOf(futures)
	if err != nil {
		return err
	}
	states := make([]*tracker.State, len(futures))
	for i, f := range futures {
		_, states[i], _ = f.state()
	}
	before := c.tracker.Retries(states)
	if err := c.call(ctx, "retry", wire.NewDict("keys", keys, "client", c.id), nil); err != nil {
		return err
	}
	c.tracker.RetryRequested(states, before)
	return nil
}

// Restart removes all tasks from the cluster and restarts the workers that have a nanny. All futures of all clients are
// canceled. It waits for the workers until timeout has passed (default 30 s).
func (c *Client) Restart(ctx context.Context, timeout time.Duration) error {
	if timeout <= 0 {
		timeout = 30 * time.Second
	}
	return c.call(ctx, "restart", wire.NewDict("client", c.id, "timeout", timeout.Seconds(), "wait_for_workers", true),
		nil)
}

// ShutdownCluster shuts down the scheduler and its workers, like Client.shutdown in Dask.
func (c *Client) ShutdownCluster(ctx context.Context) error {
	c.link.Stay()
	return c.call(ctx, "terminate", wire.Dict{}, nil)
}

// Worker describes a worker as the scheduler reports it.
type Worker struct {
	// Address and Name identify the worker; Host is the host on which it runs.
	Address, Name, Host string
	// Threads is the number of tasks that run at once, Memory the memory limit in bytes.
	Threads int
	Memory  int64
	// Status is running, paused, closing_gracefully, …, as in Dask.
	Status string
	// Resources are the resources that tasks can require, by name.
	Resources map[string]float64
}

// Workers returns the workers by address.
func (c *Client) Workers(ctx context.Context) (map[string]Worker, error) {
	var reply struct {
		Workers map[string]struct {
			Host, Status string
			Name         any
			Threads      int   `rpc:"nthreads"`
			Memory       int64 `rpc:"memory_limit"`
			Resources    map[string]float64
		}
	}
	if err := c.call(ctx, "identity", wire.NewDict("n_workers", -1), &reply); err != nil {
		return nil, err
	}
	out := make(map[string]Worker, len(reply.Workers))
	for address, w := range reply.Workers {
		info := Worker{Address: address, Host: w.Host, Threads: w.Threads, Memory: w.Memory, Status: w.Status,
			Resources: w.Resources}
		if w.Name != nil {
			info.Name = fmt.Sprint(w.Name)
		}
		out[address] = info
	}
	return out, nil
}

// WaitForWorkers waits until at least n workers are connected.
func (c *Client) WaitForWorkers(ctx context.Context, n int) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		w, err := c.Workers(ctx)
		if err != nil {
			return err
		}
		if len(w) >= n {
			return nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("client: %d of %d workers connected: %w", len(w), n, ctx.Err())
		}
	}
}

// workerNames returns the names of all workers to which tasks can be restricted.
func (c *Client) workerNames(ctx context.Context) ([]advice.Worker, error) {
	all, err := c.Workers(ctx)
	out := make([]advice.Worker, 0, len(all))
	for address, w := range all {
		out = append(out, advice.Worker{Address: address, Name: w.Name, Host: w.Host})
	}
	return out, err
}
