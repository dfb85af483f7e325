package execution

import (
	"context"
	"errors"
	"time"

	"go.millstream.dev/internal/engine/worker/state"
)

// Secede removes the task from those that count against the threads of the worker: another executor replaces this one,
// which ends with the task.
func (c *runContext) Secede(context.Context) error {
	p := c.p
	if !c.seceded.CompareAndSwap(false, true) {
		return nil
	}
	now := time.Now().UnixNano()
	if !p.w.Do(func() {
		r := c.run()
		if r == nil {
			return // abandoned: the executor has been replaced
		}
		r.left = true
		p.startExecutor()
		p.running--
		p.w.Apply(&state.Secede{Stimulus: p.w.Stimulus(), Key: r.key, Duration: time.Duration(now - r.start)})
	}) {
		return p.w.Closed
	}
	return nil
}

// Secede is that of the context, for the sidecar.
func (r *Run) Secede(ctx context.Context) error { return r.c.Secede(ctx) }

// Rejoin waits until another executor ends in favor of this one. To the scheduler the task remains long-running, as in
// Dask.
func (c *runContext) Rejoin(ctx context.Context) error {
	if !c.seceded.Load() || c.rejoined.Load() {
		return nil
	}
	p := c.p
	place := make(chan struct{})
	select {
	case p.leave <- place:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-p.w.Stopped:
		return errors.Join(p.w.Closed, ctx.Err())
	}
	<-place
	err := p.w.Closed
	p.w.Do(func() {
		if err = nil; c.run() == nil {
			p.startExecutor() // abandoned: replace the executor that has ended
			err = errors.Join(errAbandoned, ctx.Err())
			return
		}
		c.rejoined.Store(true)
	})
	return err
}
