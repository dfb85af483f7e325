package clique

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// ReformOptions configure Reform. The zero value keeps the survivors.
type ReformOptions struct {
	// Add are the addresses or names of workers that join the survivors.
	Add []string
	// Size, if set, is the number of ranks of the new clique. Other workers of the cluster fill it up; Reform waits for
	// them until the context ends.
	Size int
	// Timeout bounds the forming, as Options.Timeout does (default: that of the clique).
	Timeout time.Duration
}

// probeTime bounds how long Reform waits for the reply of a worker that is still in the cluster; probePause is how
// often it checks that the worker is.
const (
	probeTime  = 15 * time.Second
	probePause = 200 * time.Millisecond
)

// Reform forms a new clique from the workers of this one that are alive, and from others if r requests them, and
// dissolves this one. It does so whether or not the clique has failed. Ranks are numbered again in the order of Form.
func (q *Clique) Reform(ctx context.Context, r ReformOptions) (*Clique, error) {
	opts := q.opts
	if r.Timeout > 0 {
		opts.Timeout = r.Timeout
	}
	alive, err := q.survivors(ctx)
	if err != nil {
		return nil, err
	}
	q.mu.Lock()
	q.dissolved = true
	q.mu.Unlock()
	if len(r.Add) > 0 {
		more, err := resolve(ctx, q.c, r.Add)
		if err != nil {
			return nil, err
		}
		for _, w := range more {
			if !slices.Contains(alive, w) {
				alive = append(alive, w)
			}
		}
	}
	if r.Size > 0 {
		if alive, err = q.fill(ctx, alive, r.Size); err != nil {
			return nil, err
		}
	}
	if len(alive) == 0 {
		return nil, fmt.Errorf("clique %s: none of the %d workers is left; form a new clique, or pass workers "+
			"(Add, Size)", q.id, q.Size())
	}
	opts.Workers = alive
	return Form(ctx, q.c, opts)
}

// survivors dissolves the clique on all workers that reply, and returns them. It waits at most probeTime, and not for
// workers that leave the cluster meanwhile.
func (q *Clique) survivors(ctx context.Context) ([]string, error) {
	here, _, err := q.split(ctx)
	if err != nil {
		return nil, err
	}
	probe, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	var mu sync.Mutex
	alive := map[string]bool{}
	var all sync.WaitGroup
	for _, w := range here {
		all.Go(func() {
			answers, _ := each(probe, q.c, dissolveFn, q.id, []string{w})
			mu.Lock()
			defer mu.Unlock()
			_, alive[w] = answers[w]
		})
	}
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	for waiting := true; waiting; {
		select {
		case <-done:
			waiting = false
		case <-time.After(probePause):
			known, err := q.c.Workers(probe)
			if err != nil {
				continue // probe ends the loop
			}
			mu.Lock()
			lost := true
			for _, w := range here {
				_, answered := alive[w]
				_, there := known[w]
				lost = lost && (answered || !there)
			}
			mu.Unlock()
			if lost {
				cancel()
			}
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("clique %s: %w", q.id, context.Cause(ctx))
	}
	return slices.DeleteFunc(here, func(w string) bool { return !alive[w] }), nil
}

// fillPause is the pause between searches for new workers.
const fillPause = 50 * time.Millisecond

// fill adds workers that are not in the clique until there are size of them.
func (q *Clique) fill(ctx context.Context, have []string, size int) ([]string, error) {
	if len(have) > size {
		return nil, fmt.Errorf("clique %s: %d workers are left, more than Size %d; pass those to keep to Form", q.id,
			len(have), size)
	}
	old := q.Workers()
	for {
		known, err := q.c.Workers(ctx)
		if err != nil {
			return nil, fmt.Errorf("clique %s: list workers: %w", q.id, err)
		}
		out := slices.Clone(have)
		for w := range sorted(known) {
			if len(out) < size && known[w].Status == "running" && !slices.Contains(old, w) && !slices.Contains(out, w) {
				out = append(out, w)
			}
		}
		if len(out) == size {
			return out, nil
		}
		select {
		case <-time.After(fillPause):
		case <-ctx.Done():
			return nil, fmt.Errorf("clique %s: found %d workers for %d ranks: %w", q.id, len(out), size,
				context.Cause(ctx))
		}
	}
}
