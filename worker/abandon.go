package worker

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Go cannot end a goroutine from outside. A function that ignores its context keeps running after the
// timeout of its task or its cancellation; the worker then ends the task without it and lets another
// executor take the thread's place. What the function returns later is dropped.

const (
	// timeoutGrace is how long a function may take to notice that its timeout has passed.
	timeoutGrace = 250 * time.Millisecond
	// firstReminder is when the log first repeats that an abandoned function still runs. Each further
	// time takes four times as long.
	firstReminder = time.Minute
)

// maxAbandoned is how many functions may run beyond their tasks before their threads are not replaced any
// more: each keeps its inputs in memory and a processor busy.
func (w *Worker) maxAbandoned() int { return max(16, 4*w.cfg.Threads) }

// abandoned is a run whose function goes on after the end of its task. It belongs to the turn.
type abandoned struct {
	since time.Time // when the function was called
	next  time.Time // when the log says so again
	name  string
}

var errAbandoned = errors.New("worker: the task was given up")

// timeoutError is the error of a task that took too long.
func timeoutError(name string, limit time.Duration) error {
	return fmt.Errorf("worker: %s took longer than its limit of %v: %w", name, limit, context.DeadlineExceeded)
}

// abandon ends a task whose function does not return although its context has ended.
func (w *Worker) abandon(r *run, err error) {
	w.do(func() {
		began := r.began.Load()
		if w.executing[r.key] != r || began == 0 || r.inSidecar.Load() || !r.ended.CompareAndSwap(false, true) {
			return
		}
		name := ""
		if p := r.function.Load(); p != nil {
			name = *p
		}
		r.replaced = (!r.left || r.rejoined.Load()) && len(w.abandoned) < w.maxAbandoned()
		if r.replaced {
			w.startExecutor()
		}
		w.abandonedTotal.Add(1)
		since := time.Unix(0, began)
		w.abandoned[r] = &abandoned{since, w.now.Add(firstReminder), name}
		w.log.Warn("task ignores its context and still runs; abandoned", "function", name, "key", r.key.String(),
			"age", w.now.Sub(since).Round(time.Millisecond), "reason", err, "thread_replaced", r.replaced)
		delete(w.executing, r.key)
		end := &run{w: w, key: r.key, actor: r.actor, err: fmt.Errorf("%w; the function ignores its context and still runs", err), start: began, stop: w.now.UnixNano()}
		end.seceded.Store(r.left)
		w.runEnded(end)
	})
}

// abandonLater gives a cancelled run some time to return.
func (w *Worker) abandonLater(r *run) {
	if w.cfg.CancelGrace > 0 {
		time.AfterFunc(w.cfg.CancelGrace, func() { w.abandon(r, errCancelled) })
	}
}

// returned is called when the function of an abandoned run has returned. It reports whether another
// executor has the place of the one that called it.
func (w *Worker) returned(r *run) (replaced bool) {
	if r.result != nil {
		r.result.Release()
		r.result = nil
	}
	w.turn.Lock()
	defer w.turn.Unlock()
	if a := w.abandoned[r]; a != nil {
		w.log.Info("function of abandoned task has returned", "function", a.name, "key", r.key.String(), "age", time.Since(a.since).Round(time.Millisecond))
		delete(w.abandoned, r)
	}
	return r.replaced || r.left && !r.rejoined.Load()
}

// remind logs which functions run beyond their tasks. The caller holds the turn.
func (w *Worker) remind() {
	for r, a := range w.abandoned {
		if w.now.Before(a.next) {
			continue
		}
		age := w.now.Sub(a.since)
		a.next = w.now.Add(4 * age)
		w.log.Warn("abandoned task still runs", "function", a.name, "key", r.key.String(), "age", age.Round(time.Second))
	}
}
