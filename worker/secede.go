package worker

import (
	"context"
	"errors"
	"time"

	"go.millstream.dev/internal/engine/worker/state"
)

// Secede takes the task from those that count against the worker's threads: another
// executor takes the place of this one, which ends with the task.
func (r *run) Secede(context.Context) error {
	w := r.w
	if !r.seceded.CompareAndSwap(false, true) {
		return nil
	}
	took := time.Duration(time.Now().UnixNano() - r.start)
	if !w.do(func() {
		if w.executing[r.key] != r {
			return // the task was given up, and its place with it
		}
		r.left = true
		w.startExecutor()
		w.running--
		w.apply(&state.Secede{Stimulus: w.stimulus, Key: r.key, Duration: took})
	}) {
		return ErrClosed
	}
	return nil
}

// rejoin waits until another executor gives its place up. To the scheduler the task stays a
// long-running one, as in Dask.
func (r *run) rejoin(ctx context.Context) error {
	if !r.seceded.Load() || r.rejoined.Load() {
		return nil
	}
	place := make(chan struct{})
	select {
	case r.w.leave <- place:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-r.w.stopped:
		return errors.Join(ErrClosed, ctx.Err())
	}
	<-place
	err := ErrClosed
	r.w.do(func() {
		if err = nil; r.w.executing[r.key] != r {
			r.w.startExecutor() // the task was given up: it needs no place
			err = errors.Join(errAbandoned, ctx.Err())
			return
		}
		r.rejoined.Store(true)
	})
	return err
}

// startExecutor starts one more of the goroutines that run tasks.
func (w *Worker) startExecutor() {
	e := &executor{thread: w.threads.Add(1) - 1}
	w.tasks.Go(func() { w.executor(e) })
}
