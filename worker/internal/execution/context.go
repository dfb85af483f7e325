package execution

import (
	"context"
	"sync"
	"time"
)

// lazyContext is the context of a run. Most tasks are over before anybody looks at it, so
// it becomes a real one only when somebody does.
type lazyContext struct {
	parent context.Context

	mu    sync.Mutex // owns what follows
	real  context.Context
	stop  context.CancelCauseFunc
	ended bool // cancelled before it became real
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

// why is the cause of its end, nil while it has none.
func (c *lazyContext) why() error {
	c.mu.Lock()
	real, cause := c.real, c.cause
	c.mu.Unlock()
	if real != nil {
		return context.Cause(real)
	}
	return cause
}

// Deadline, Done, Err and Value are context.Context's.
func (c *lazyContext) Deadline() (time.Time, bool) { return c.parent.Deadline() }

// Done is closed when nobody waits for the task any more, or the worker ends.
func (c *lazyContext) Done() <-chan struct{} { return c.get().Done() }

// Err says that Done is closed.
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

// Value asks the real context: package context finds its own parts in this way.
func (c *lazyContext) Value(key any) any { return c.get().Value(key) }
