package dashboard

import (
	"context"
	"errors"
	"sync"
	"time"
)

// cacheTime is how long an encoded page is served again, so that many viewers cost one visit of the scheduler's loop.
// Pages that cost more are kept for slowTime.
const (
	cacheTime = 500 * time.Millisecond
	slowTime  = 2 * time.Second
)

// cache keeps the encoded form of pages. Requests for a page that is being made wait for it.
type cache struct {
	mu    sync.Mutex
	pages map[string]*cached // guarded by mu
}

// cached is one page. Its fields are set before made is closed and do not change afterwards.
type cached struct {
	made chan struct{}
	body []byte
	err  error
	at   time.Time
}

// errPanicked is the error of a page whose function panicked.
var errPanicked = errors.New("dashboard: page panicked")

// get returns the page of a name, and calls produce if it is older than age. produce runs in the goroutine of the
// first request, and to completion even if that request ends, because others may wait for it.
func (c *cache) get(ctx context.Context, name string, age time.Duration,
	produce func(context.Context) ([]byte, error)) ([]byte, error) {
	c.mu.Lock()
	p := c.pages[name]
	fresh := p != nil
	if fresh {
		select {
		case <-p.made:
			fresh = p.err == nil && time.Since(p.at) < age
		default: // being made
		}
	}
	if !fresh {
		p = &cached{made: make(chan struct{}), err: errPanicked}
		if c.pages == nil {
			c.pages = map[string]*cached{}
		}
		c.pages[name] = p
	}
	c.mu.Unlock()
	if !fresh {
		p.fill(context.WithoutCancel(ctx), produce)
	}
	select {
	case <-p.made:
		return p.body, p.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// pageTime bounds the time to make a page.
const pageTime = 10 * time.Second

func (p *cached) fill(ctx context.Context, produce func(context.Context) ([]byte, error)) {
	defer close(p.made)
	ctx, cancel := context.WithTimeout(ctx, pageTime)
	defer cancel()
	p.body, p.err = produce(ctx)
	p.at = time.Now()
}
