package execution

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Go cannot stop a goroutine from outside. A function that ignores its context continues after the timeout or the
// cancellation of its task; the worker then ends the task without it and starts another executor in its place. The
// result of the function is dropped.

const (
	// timeoutGrace is how long a function may take to return after its timeout.
	timeoutGrace = 250 * time.Millisecond
	// firstReminder is the time of the first log record about an abandoned function that still runs. Each interval is
	// four times as long as the previous one.
	firstReminder = time.Minute
)

// maxAbandoned returns the number of abandoned functions above which their threads are not replaced: each keeps its
// inputs in memory and a processor busy.
func (p *Pool) maxAbandoned() int { return max(16, 4*p.cfg.Threads) }

// abandoned is a run whose function continues after the end of its task. It is guarded by the turn.
type abandoned struct {
	since time.Time // when the function was called
	next  time.Time // time of the next log record
	name  string
}

var errAbandoned = errors.New("worker: task abandoned")

// timeoutError returns the error of a task that exceeded its timeout.
func timeoutError(name string, limit time.Duration) error {
	return fmt.Errorf("worker: %s took longer than its limit of %v: %w", name, limit, context.DeadlineExceeded)
}

// abandon ends a task whose function does not return although its context has ended.
func (p *Pool) abandon(r *Run, err error) {
	p.w.Do(func() {
		began := r.began.Load()
		if p.executing[r.key] != r || began == 0 || r.inSidecar.Load() || !r.ended.CompareAndSwap(false, true) {
			return
		}
		name := ""
		if f := r.function.Load(); f != nil {
			name = *f
		}
		r.replaced = (!r.left || r.c.rejoined.Load()) && len(p.abandoned) < p.maxAbandoned()
		if r.replaced {
			p.startExecutor()
		}
		p.abandonedTotal.Add(1)
		since := time.Unix(0, began)
		p.abandoned[r] = &abandoned{since, p.now.Add(firstReminder), name}
		p.log.Warn("task ignores its context and still runs; abandoned", "function", name, "key", r.key.String(),
			"age", p.now.Sub(since).Round(time.Millisecond), "reason", err, "thread_replaced", r.replaced)
		delete(p.executing, r.key)
		end := &Run{p: p, key: r.key, actor: r.actor, start: began, stop: p.now.UnixNano(), c: &runContext{p: p},
			err: fmt.Errorf("%w; the function ignores its context and still runs", err)}
		end.c.seceded.Store(r.left)
		p.w.FinishRun(end)
	})
}

// abandonAfterGrace abandons a canceled run that has not returned after CancelGrace.
func (p *Pool) abandonAfterGrace(r *Run) {
	if p.cfg.CancelGrace > 0 {
		time.AfterFunc(p.cfg.CancelGrace, func() { p.abandon(r, errCancelled) })
	}
}

// finishAbandoned is called when the function of an abandoned run has returned. It reports whether another executor has
// replaced the caller.
func (p *Pool) finishAbandoned(r *Run) (replaced bool) {
	if r.result != nil {
		r.result.Release()
		r.result = nil
	}
	p.w.Locked(func() {
		if a := p.abandoned[r]; a != nil {
			p.log.Info("function of abandoned task has returned", "function", a.name, "key", r.key.String(),
				"age", time.Since(a.since).Round(time.Millisecond))
			delete(p.abandoned, r)
		}
		replaced = r.replaced || r.left && !r.c.rejoined.Load()
	})
	return replaced
}

// LogAbandoned logs the abandoned functions that still run. The caller holds the turn.
func (p *Pool) LogAbandoned() {
	for r, a := range p.abandoned {
		if p.now.Before(a.next) {
			continue
		}
		age := p.now.Sub(a.since)
		a.next = p.now.Add(4 * age)
		p.log.Warn("abandoned task still runs", "function", a.name, "key", r.key.String(), "age",
			age.Round(time.Second))
	}
}
