package clique

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// ReformOptions say what a clique becomes after a failure. The zero value is the survivors.
type ReformOptions struct {
	// Add are workers that join the survivors, by address or name.
	Add []string
	// Size, when set, is how many ranks the new clique has: workers of the cluster that had no
	// part in the old one fill it up, and are waited for until the context ends.
	Size int
	// Timeout bounds the forming, as Options.Timeout does (default: the clique's).
	Timeout time.Duration
}

// probeTime is how long a worker that the scheduler still knows may take to say that it lives,
// and probePause how often the scheduler is asked whether it still knows it.
const (
	probeTime  = 15 * time.Second
	probePause = 200 * time.Millisecond
)

// Reform forms the clique anew, of those of its workers that live, and others if wanted, and
// dissolves the old one. It does so whether the clique has failed or not. Ranks are numbered
// anew, in the order that Form gives.
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
		return nil, fmt.Errorf("clique %s: none of its %d workers is left: form another one, or give Reform workers "+
			"(Add, Size)", q.id, q.Size())
	}
	opts.Workers = alive
	return Form(ctx, q.c, opts)
}

// survivors dissolves the clique on all workers that answer, and returns them. It waits neither
// for a worker that the scheduler has given up meanwhile nor longer than probeTime.
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
				continue // probe ends it
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

// fillPause is how often new workers are looked for.
const fillPause = 50 * time.Millisecond

// fill takes workers that had no part in the clique until there are as many as wanted.
func (q *Clique) fill(ctx context.Context, have []string, size int) ([]string, error) {
	if len(have) > size {
		return nil, fmt.Errorf("clique %s: it has %d workers left, more than %d: name those that stay with Form", q.id,
			len(have), size)
	}
	old := q.Workers()
	for {
		known, err := q.c.Workers(ctx)
		if err != nil {
			return nil, fmt.Errorf("clique %s: the workers of the cluster: %w", q.id, err)
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
			return nil, fmt.Errorf("clique %s: %d workers for %d ranks: %w", q.id, len(out), size, context.Cause(ctx))
		}
	}
}
