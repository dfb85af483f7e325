package execution

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.millstream.dev/internal/task"
)

// runContext is the part of a run that its function may keep after it has returned: its context, and its use of a
// thread. It refers to the run by its key only, because the memory of runs is reused.
type runContext struct {
	lazyContext
	p    *Pool
	info task.Info

	seceded, rejoined atomic.Bool
}

// Value returns the Info of the task, or a value of the real context.
func (c *runContext) Value(key any) any {
	if task.IsInfoKey(key) {
		return &c.info
	}
	return c.lazyContext.Value(key)
}

// run returns the run of the context, nil if it has ended or was abandoned. The caller holds the turn.
func (c *runContext) run() *Run {
	if r := c.p.executing[c.info.Key]; r != nil && r.c == c {
		return r
	}
	return nil
}

// lazyContext is the context of a run. It creates a cancelable context on first use only, because most tasks end
// without using it.
type lazyContext struct {
	parent context.Context

	mu    sync.Mutex // guards the fields below
	real  context.Context
	stop  context.CancelCauseFunc
	ended bool // canceled before real was created
	cause error
}

func (c *lazyContext) get() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.real == nil {
		c.real, c.stop = context.WithCancelCause(c.parent)
		if c.ended {
			c.stop(c.cause)
		}
	}
	return c.real
}

// cancel ends the context; only the first cause counts.
func (c *lazyContext) cancel(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stop != nil {
		c.stop(cause)
		return
	}
	if !c.ended {
		c.ended, c.cause = true, cause
	}
}

// endCause returns the cause of the end, nil before it.
func (c *lazyContext) endCause() error {
	c.mu.Lock()
	real, cause := c.real, c.cause
	c.mu.Unlock()
	if real != nil {
		return context.Cause(real)
	}
	return cause
}

// Deadline implements context.Context.
func (c *lazyContext) Deadline() (time.Time, bool) { return c.parent.Deadline() }

// Done returns a channel that is closed when the task is canceled or the worker closes.
func (c *lazyContext) Done() <-chan struct{} { return c.get().Done() }

// Err returns an error if Done is closed.
func (c *lazyContext) Err() error {
	c.mu.Lock()
	real, ended := c.real, c.ended
	c.mu.Unlock()
	switch {
	case real != nil:
		return real.Err()
	case ended:
		return context.Canceled
	}
	return c.parent.Err()
}

// Value returns the value of the real context, in which package context finds its own parts.
func (c *lazyContext) Value(key any) any { return c.get().Value(key) }
