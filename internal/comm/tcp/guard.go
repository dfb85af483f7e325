package tcp

import (
	"context"
	"sync"
	"time"
)

// past is a deadline that ends every wait immediately.
var past = time.Unix(1, 0)

// guard ends the waits of one direction of a connection when a context ends. It stays armed from one call to the next:
// a loop that reads with one context pays for it once.
//
// The holder of the direction's turn owns done, stop and gen; mu protects fired and the deadline against the context's
// goroutine.
type guard struct {
	set  func(time.Time) error // SetReadDeadline or SetWriteDeadline
	done <-chan struct{}
	stop func() bool

	mu    sync.Mutex
	gen   uint64
	fired bool
}

// arm makes the end of ctx end waits from now on. It fails if ctx has ended.
func (g *guard) arm(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	d := ctx.Done()
	if d == g.done {
		return nil // still armed, or ctx never ends
	}
	g.disarm()
	g.done = d
	if d == nil {
		return nil
	}
	gen := g.gen
	g.stop = context.AfterFunc(ctx, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.gen == gen {
			g.fired = true
			_ = g.set(past)
		}
	})
	return nil
}

// disarm releases the context.
func (g *guard) disarm() {
	if g.stop != nil {
		g.stop()
	}
	g.mu.Lock()
	g.gen++
	if g.fired {
		g.fired = false
		_ = g.set(time.Time{})
	}
	g.mu.Unlock()
	g.done, g.stop = nil, nil
}

// turn gives one goroutine at a time the use of one direction of a comm.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

// take waits for the turn; it fails if ctx or the comm ends first.
func (t turn) take(ctx context.Context, gone <-chan struct{}) error {
	select {
	case t <- struct{}{}:
		return nil
	default:
	}
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-gone:
		return errGone
	}
}

func (t turn) give() { <-t }
