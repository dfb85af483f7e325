package profiles

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.millstream.dev/internal/proc/profile"
)

const (
	// viewTime is how long a tree is returned again, so that many viewers of the dashboard cost one request to each
	// worker, and maxViews the number of different trees that are kept.
	viewTime = 4 * time.Second
	maxViews = 32
)

// views keeps the latest trees of the dashboard. Requests for a tree that is being made wait for it.
type views struct {
	mu   sync.Mutex
	list map[string]*view // guarded by mu
}

// view is one tree. Its fields are set before made is closed.
type view struct {
	made chan struct{}
	tree *profile.View
	err  error
	at   time.Time
}

// expired reports whether a view is old or has failed. One that is being made is neither.
func (v *view) expired(now time.Time) bool {
	select {
	case <-v.made:
		return v.err != nil || now.Sub(v.at) >= viewTime
	default:
		return false
	}
}

var errPanicked = errors.New("profile panicked")

// get returns the tree with a name, and calls produce if it is not known. produce runs to completion even if the
// request of ctx ends, because others may wait for it.
func (c *views) get(ctx context.Context, name string,
	produce func(context.Context) (*profile.View, error)) (*profile.View, error) {
	now := time.Now()
	c.mu.Lock()
	for n, v := range c.list {
		if v.expired(now) {
			delete(c.list, n)
		}
	}
	v, known := c.list[name]
	if !known {
		v = &view{made: make(chan struct{}), err: errPanicked}
		if c.list == nil {
			c.list = map[string]*view{}
		}
		if len(c.list) < maxViews {
			c.list[name] = v
		}
	}
	c.mu.Unlock()
	if !known {
		func() {
			defer close(v.made)
			v.tree, v.err = produce(context.WithoutCancel(ctx))
			v.at = time.Now()
		}()
	}
	select {
	case <-v.made:
		return v.tree, v.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
