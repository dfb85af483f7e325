package collective

import (
	"context"
	"sync"
)

// Request is an operation in flight, returned by Start. Its buffers must not be used until Done is closed. It is safe
// for concurrent use.
type Request struct {
	done chan struct{}
	n    int
	err  error // written before done is closed
}

func newRequest() *Request { return &Request{done: make(chan struct{})} }

func (r *Request) finish(n int, err error) {
	r.n, r.err = n, err
	close(r.done)
}

// Done returns a channel that is closed when the operation has ended.
func (r *Request) Done() <-chan struct{} { return r.done }

// Err returns the error of the operation, nil while it is in flight or if it succeeded.
func (r *Request) Err() error {
	select {
	case <-r.done:
		return r.err
	default:
		return nil
	}
}

// Len returns the number of elements that a finished Recv or SendRecv has received.
func (r *Request) Len() int {
	select {
	case <-r.done:
		return r.n
	default:
		return 0
	}
}

// Wait waits for the operation and returns its error. If ctx ends first, only Wait ends: the operation is bound by the
// context that it was started with.
func (r *Request) Wait(ctx context.Context) error {
	select {
	case <-r.done:
		return r.err
	default:
	}
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// FailedRequest returns a request that has ended with err.
func FailedRequest(err error) *Request {
	r := newRequest()
	r.finish(0, err)
	return r
}

// turns is a lock that is granted in the order of requests: collectives of one rank run in the order of calls, as on
// every other rank.
type turns struct {
	mu    sync.Mutex
	held  bool
	queue []*turn
}

// turn is a place in the queue; nil is a turn that was granted immediately.
type turn struct{ ready chan struct{} }

// enqueue requests the lock.
func (t *turns) enqueue() *turn {
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

// wait waits for the turn. If ctx ends or a channel is closed first, it withdraws the request and returns false.
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
	t.done() // granted meanwhile
	return false
}

// done releases the lock.
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
