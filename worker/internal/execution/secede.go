package execution

import (
	"context"
	"errors"
	"time"

	"go.millstream.dev/internal/engine/worker/state"
)

// Secede removes the task from those that count against the threads of the worker: another executor replaces this one,
// which ends with the task.
func (r *Run) Secede(context.Context) error {
	p := r.p
	if !r.seceded.CompareAndSwap(false, true) {
		return nil
	}
	took := time.Duration(time.Now().UnixNano() - r.start)
	if !p.w.Do(func() {
		if p.executing[r.key] != r {
			return // abandoned: the executor has been replaced
		}
		r.left = true
		p.startExecutor()
		p.running--
		p.w.Apply(&state.Secede{Stimulus: p.w.Stimulus(), Key: r.key, Duration: took})
	}) {
		return p.w.Closed
	}
	return nil
}

// rejoin waits until another executor ends in favor of this one. To the scheduler the task remains long-running, as in
// Dask.
func (r *Run) rejoin(ctx context.Context) error {
	if !r.seceded.Load() || r.rejoined.Load() {
		return nil
	}
	p := r.p
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
		if err = nil; p.executing[r.key] != r {
			p.startExecutor() // abandoned: replace the executor that has ended
			err = errors.Join(errAbandoned, ctx.Err())
			return
		}
		r.rejoined.Store(true)
	})
	return err
}
