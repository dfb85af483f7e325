package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.millstream.dev/client/internal/tracker"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/wire"
)

// ScatterOptions specifies where data is sent.
type ScatterOptions struct {
	// Workers are addresses or names of workers (default: all).
	Workers []string
	// Broadcast sends all data to each of the workers.
	Broadcast bool
	// Unhashed gives each value its own key. Otherwise the key is a hash of the value, and equal values are stored
	// once.
	Unhashed bool
	// Timeout is how long to wait for the first worker (default 30 s).
	Timeout time.Duration
	// Direct sends the data directly to the workers instead of through the scheduler, for large data and clients that
	// can reach the workers.
	Direct bool
}

// Scatter sends values to workers and returns futures of them, for data that many tasks use. Scattered data cannot be
// computed again: it is lost if its workers crash.
func Scatter[T any](ctx context.Context, c *Client, values []T, opts ScatterOptions) ([]*Future[T], error) {
	if len(values) == 0 {
		return nil, nil
	}
	if opts.Timeout <= 0 {
		opts.Timeout = 30 * time.Second
	}
	data := make(wire.Dict, 0, len(values))
	keys := make([]task.Key, len(values))
	seen := make(map[task.Key]bool)
	for i, v := range values {
		s, err := task.EncodeValue(v)
		if err != nil {
			return nil, fmt.Errorf("client: scatter: value %d: %w", i, err)
		}
		if keys[i], err = scatterKey(s, v, opts.Unhashed); err != nil {
			return nil, err
		}
		if !seen[keys[i]] {
			seen[keys[i]] = true
			data = append(data, wire.Pair{Key: keys[i].String(), Value: s})
		}
	}
	// The futures are held before the scheduler reports the keys.
	states, err := c.tracker.Hold(keys)
	if err != nil {
		return nil, err
	}
	futures := make([]*Future[T], len(keys))
	for i, s := range states {
		futures[i] = newFuture[T](c, s)
	}
	send := c.scatter
	if opts.Direct && !c.cfg.NoDirect {
		send = c.scatterDirect
	}
	if err := send(ctx, data, keys, opts); err != nil {
		ReleaseAll(futures)
		return nil, fmt.Errorf("client: scatter: %w", err)
	}
	c.tracker.Scattered(states)
	return futures, nil
}

// scatter sends data through the scheduler.
func (c *Client) scatter(ctx context.Context, data wire.Dict, _ []task.Key, opts ScatterOptions) error {
	args := wire.NewDict("data", data, "client", c.id, "broadcast", opts.Broadcast, "timeout", opts.Timeout.Seconds(),
		"workers", nil)
	if len(opts.Workers) > 0 {
		args.Set("workers", opts.Workers)
	}
	return c.call(ctx, "scatter", args, nil)
}

// scatterDirect sends data to workers, a part to each, and reports its locations to the scheduler.
func (c *Client) scatterDirect(ctx context.Context, data wire.Dict, keys []task.Key, opts ScatterOptions) error {
	workers, err := c.targets(ctx, opts)
	if err != nil {
		return err
	}
	parts := make([]wire.Dict, min(len(workers), len(data)))
	for i, p := range data {
		parts[i%len(parts)] = append(parts[i%len(parts)], p)
	}
	var mu sync.Mutex // owns the three below
	var whoHas, sizes wire.Dict
	var failed error
	var wg sync.WaitGroup
	for i, part := range parts {
		wg.Go(func() {
			d, err := c.updateData(ctx, workers[i], part)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = err
				return
			}
			sizes = append(sizes, d...)
			for _, p := range part {
				whoHas = append(whoHas, wire.Pair{Key: p.Key, Value: []any{workers[i]}})
			}
		})
	}
	wg.Wait()
	if failed != nil {
		return failed
	}
	if err := c.call(ctx, "update_data", wire.NewDict("who_has", whoHas, "nbytes", sizes, "client", c.id),
		nil); err != nil || !opts.Broadcast {
		return err
	}
	list := make([]any, len(keys))
	for i, k := range keys {
		list[i] = k.Raw()
	}
	return c.call(ctx, "replicate", wire.NewDict("keys", list, "n", len(workers), "workers", workers), nil)
}

// updateData puts values on a worker and returns their sizes.
func (c *Client) updateData(ctx context.Context, worker string, part wire.Dict) (wire.Dict, error) {
	var reply struct{ Nbytes wire.Dict }
	args := wire.NewDict("data", part, "stimulus_id", "client-scatter-"+randomHex(8))
	if err := c.fetcher.Call(ctx, worker, "update_data", args, &reply); err != nil {
		return nil, fmt.Errorf("worker %s: %w", worker, err)
	}
	if n := len(reply.Nbytes); n != len(part) {
		return nil, fmt.Errorf("worker %s accepted %d of %d values", worker, n, len(part))
	}
	return reply.Nbytes, nil
}

// targets returns the addresses of the running workers that receive data, restricted to opts.Workers.
func (c *Client) targets(ctx context.Context, opts ScatterOptions) ([]string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, opts.Timeout, fmt.Errorf("no worker accepted the data "+
		"within %v", opts.Timeout))
	defer cancel()
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		all, err := c.Workers(ctx)
		if err != nil {
			if ctx.Err() != nil { // the timeout passed during the request
				err = context.Cause(ctx)
			}
			return nil, err
		}
		var out []string
		for address, w := range all {
			if w.Status != "" && w.Status != "running" {
				continue
			}
			if len(opts.Workers) == 0 || slices.Contains(opts.Workers, address) ||
				slices.Contains(opts.Workers, w.Name) || slices.Contains(opts.Workers, w.Host) {
				out = append(out, address)
			}
		}
		if len(out) > 0 {
			slices.Sort(out)
			return out, nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// scatterKey returns a key with the name of the type and a hash of the encoded value.
func scatterKey(s *wire.Serialized, v any, random bool) (task.Key, error) {
	name := task.TypeName(v)
	if random {
		return task.NewKey(name + "-" + randomHex(16)), nil
	}
	h, err := hashSerialized(s)
	if err != nil {
		return "", err
	}
	return task.NewKey(name + "-" + h), nil
}

// hashSerialized returns a hash of the frames of a value.
func hashSerialized(s *wire.Serialized) (string, error) {
	h := sha256.New()
	h.Write(s.Header)
	for _, f := range s.Frames {
		if f.OnDevice() {
			return "", fmt.Errorf("client: GPU memory cannot be hashed; set ScatterOptions.Unhashed")
		}
		h.Write(f.Bytes())
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

// ReleaseAll releases many futures in one message.
func ReleaseAll[T any](futures []*Future[T]) {
	for len(futures) > 0 {
		c := futures[0].c
		n := 0
		handles := make([]*tracker.Handle, 0, len(futures))
		for n < len(futures) && futures[n].c == c {
			if futures[n].err == nil {
				handles = append(handles, futures[n].h)
			}
			n++
		}
		c.tracker.ReleaseAll(handles)
		futures = futures[n:]
	}
}
