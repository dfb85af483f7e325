package client

import (
	"context"
	"fmt"
	"time"

	"go.millstream.dev/task"
	"go.millstream.dev/wire"
)

// ScatterOptions say where data goes.
type ScatterOptions struct {
	// Workers are addresses or names; empty: all.
	Workers []string
	// Broadcast puts all data on all of the workers.
	Broadcast bool
	// Unhashed gives each value a key of its own. Otherwise the key is a hash of the value,
	// and equal values are one.
	Unhashed bool
	// Timeout is how long to wait for the first worker (default 30 s).
	Timeout time.Duration
}

// Scatter moves values to workers and returns futures of them: for data that many tasks use.
// Scattered data cannot be computed again: if its workers die it is lost.
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
	c.mu.Lock()
	if c.closed != nil {
		c.mu.Unlock()
		return nil, c.closed
	}
	futures := make([]*Future[T], len(keys))
	for i, k := range keys {
		ks, _ := c.hold(k)
		futures[i] = newFuture[T](c, ks)
	}
	c.mu.Unlock()
	args := wire.NewDict("data", data, "client", c.id, "broadcast", opts.Broadcast, "timeout", opts.Timeout.Seconds(), "workers", nil)
	if len(opts.Workers) > 0 {
		args.Set("workers", opts.Workers)
	}
	if err := c.call(ctx, "scatter", args, nil); err != nil {
		ReleaseAll(futures)
		return nil, fmt.Errorf("client: scatter: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range futures {
		if ks := f.h.ks; !ks.status.ended() {
			c.settle(ks, Finished, nil)
		}
	}
	return futures, nil
}

// scatterKey is the type's name and a hash of the encoded value.
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

// ReleaseAll releases many futures in one message.
func ReleaseAll[T any](futures []*Future[T]) {
	for len(futures) > 0 {
		c := futures[0].c
		n := 0
		c.mu.Lock()
		for n < len(futures) && futures[n].c == c {
			if futures[n].err == nil {
				c.release(futures[n].h)
			}
			n++
		}
		c.mu.Unlock()
		futures = futures[n:]
	}
}
