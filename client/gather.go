package client

import (
	"context"
	"fmt"
	"runtime"

	"go.millstream.dev/client/internal/fetch"
	"go.millstream.dev/client/internal/tracker"
)

// Wait waits until all futures have ended, with or without a result, or ctx ends.
func Wait[T any](ctx context.Context, futures []*Future[T]) error {
	_, keys, err := statesOf(futures)
	if err != nil || len(keys) == 0 {
		return err
	}
	err = futures[0].c.tracker.Wait(ctx, keys, false)
	runtime.KeepAlive(futures)
	return err
}

// statesOf returns the states of futures, which must be of one client. It returns the error of the first future whose
// task was not submitted.
func statesOf[T any](futures []*Future[T]) (*Client, []*tracker.State, error) {
	if len(futures) == 0 {
		return nil, nil, nil
	}
	c := futures[0].c
	keys := make([]*tracker.State, len(futures))
	for i, f := range futures {
		if f.err != nil {
			return c, nil, f.err
		}
		if f.c != c {
			return c, nil, fmt.Errorf("client: future %s belongs to another client than those before it", f.Key())
		}
		keys[i] = f.h.State()
	}
	return c, keys, nil
}

// Gather waits for all futures and returns their results in order. The results are requested from the workers in large
// batches, and through the scheduler if a worker cannot be reached. Gather returns the first error.
func Gather[T any](ctx context.Context, futures []*Future[T]) ([]T, error) {
	c, keys, err := statesOf(futures)
	if err != nil || len(keys) == 0 {
		return nil, err
	}
	out := make([]T, len(futures))
	err = c.fetcher.Fetch(ctx, keys, func(i int, v fetch.Value) (err error) {
		out[i], err = fetch.As[T](v)
		return err
	})
	runtime.KeepAlive(futures)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Outcome is the result or the error of a future.
type Outcome[T any] struct {
	Value T
	Err   error
}

// GatherAll is Gather that returns the result or error of each future instead of the first error (Dask's
// errors="skip"). It returns an error only if ctx or the client ends.
func GatherAll[T any](ctx context.Context, futures []*Future[T]) ([]Outcome[T], error) {
	out := make([]Outcome[T], len(futures))
	var at []int
	var keys []*tracker.State
	for i, f := range futures {
		if f.err != nil {
			out[i].Err = f.err
			continue
		}
		at, keys = append(at, i), append(keys, f.h.State())
	}
	if len(keys) == 0 {
		return out, ctx.Err()
	}
	c := futures[at[0]].c
	for len(keys) > 0 {
		if err := c.tracker.Wait(ctx, keys, false); err != nil {
			return nil, err
		}
		var good []*tracker.State
		var goodAt []int
		c.tracker.Outcomes(keys, func(i int, status tracker.Status, err error) {
			switch status {
			case tracker.Failed, tracker.Canceled:
				out[at[i]].Err = err
			default:
				good, goodAt = append(good, keys[i]), append(goodAt, at[i])
			}
		})
		got := make([]bool, len(good))
		err := c.fetcher.Fetch(ctx, good, func(i int, v fetch.Value) error {
			got[i] = true
			out[goodAt[i]].Value, out[goodAt[i]].Err = fetch.As[T](v)
			return nil
		})
		if err == nil {
			break
		}
		if ctx.Err() != nil || c.Err() != nil {
			return nil, err
		}
		keys, at = keys[:0], at[:0] // a task failed in the meantime: try again
		for i, ks := range good {
			if !got[i] {
				keys, at = append(keys, ks), append(at, goodAt[i])
			}
		}
	}
	runtime.KeepAlive(futures)
	return out, nil
}
