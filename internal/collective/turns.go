package collective

import (
	"context"
	"sync"
)

// turns is a lock that is given in the order in which it was asked for: collectives of one rank run in the order of
// their calls, as every other rank runs them in that order too.
type turns struct {
	mu    sync.Mutex
	held  bool
	queue []*turn
}

// turn is a place in the queue; nil is one that has come already.
type turn struct{ ready chan struct{} }

// ask takes a place.
func (t *turns) ask() *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.held {
		t.held = true
		return nil
	}
	w := &turn{ready: make(chan struct{})}
	t.queue = append(t.queue, w)
	return w
}

// wait returns when the turn has come. If ctx ends or a channel is closed first it gives the place back and says so.
func (t *turns) wait(ctx context.Context, w *turn, failed, gone <-chan struct{}) bool {
	if w == nil {
		return true
	}
	select {
	case <-w.ready:
		return true
	case <-ctx.Done():
	case <-failed:
	case <-gone:
	}
	t.mu.Lock()
	for i, q := range t.queue {
		if q == w {
			t.queue = append(t.queue[:i], t.queue[i+1:]...)
			t.mu.Unlock()
			return false
		}
	}
	t.mu.Unlock()
	t.done() // it came meanwhile
	return false
}

// done passes the turn on.
func (t *turns) done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.queue) == 0 {
		t.held = false
		return
	}
	close(t.queue[0].ready)
	t.queue = t.queue[1:]
}
