package handshake

import (
	"container/list"
	"context"
	"fmt"
	"sync"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/limits"
)

// Gate runs the handshakes of new connections between a listening socket and Accept: concurrently, each within
// Limits.HandshakeTime, at most Limits.Pending of them. One connection too many ends the oldest unfinished one: an
// honest peer finishes in milliseconds, so peers that only hold connections evict each other.
type Gate struct {
	limits comm.Limits
	ctx    context.Context
	cancel context.CancelFunc
	ready  chan comm.Comm // admitted, waiting for Accept
	places chan struct{}  // one for each connection that Accept has not returned

	mu      sync.Mutex // owns pending and closed
	pending *list.List // of context.CancelFunc, oldest first
	closed  bool
	running sync.WaitGroup
}

// NewGate returns an open gate.
func NewGate(l comm.Limits) *Gate {
	g := &Gate{limits: limits.Fill(l), pending: list.New()}
	g.places = make(chan struct{}, 2*g.limits.Pending)
	g.ready = make(chan comm.Comm, cap(g.places))
	g.ctx, g.cancel = context.WithCancel(context.Background())
	return g
}

// Admit runs the handshake of a new connection on a separate goroutine; its comm is then returned by Accept. handshake
// must end when its context ends, and close the connection itself if it fails. refuse closes the connection if the gate
// is closed. Admit waits while Accept is too far behind.
func (g *Gate) Admit(handshake func(context.Context) (comm.Comm, error), refuse func()) {
	// Connections that are not accepted must not accumulate without bound: the socket's own backlog holds the rest.
	select {
	case g.places <- struct{}{}:
	case <-g.ctx.Done():
		refuse()
		return
	}
	ctx, cancel := context.WithTimeout(g.ctx, g.limits.HandshakeTime)
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		cancel()
		refuse()
		return // the gate is closed: places are not needed any more
	}
	for g.pending.Len() >= g.limits.Pending {
		oldest := g.pending.Front()
		g.pending.Remove(oldest)
		oldest.Value.(context.CancelFunc)()
	}
	place := g.pending.PushBack(cancel)
	g.running.Add(1)
	g.mu.Unlock()

	go func() {
		defer g.running.Done()
		c, err := handshake(ctx)
		g.mu.Lock()
		g.pending.Remove(place)
		g.mu.Unlock()
		cancel()
		if err != nil {
			<-g.places
			return
		}
		g.ready <- c // there is room: it has a place
	}()
}

// Pending is how many handshakes are in progress.
func (g *Gate) Pending() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.pending.Len()
}

// Accept returns the next comm whose handshake is done.
func (g *Gate) Accept(ctx context.Context) (comm.Comm, error) {
	select {
	case c := <-g.ready:
		<-g.places
		return c, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-g.ctx.Done():
		return nil, fmt.Errorf("%w: accept: the listener is closed", comm.ErrClosed)
	}
}

// Close ends all handshakes and the comms that were not accepted, and waits for them.
func (g *Gate) Close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.cancel()
	g.running.Wait()
	for {
		select {
		case c := <-g.ready:
			c.Abort()
		default:
			return
		}
	}
}
