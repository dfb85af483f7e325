package inproc

import (
	"context"
	"sync"

	"go.millstream.dev/wire"
)

// window bounds the messages, and windowBytes roughly the bytes, that wait in one
// direction: a writer then waits for the reader.
const (
	window      = 256
	windowBytes = 64 << 20
)

// queue is one direction of a comm: a ring of messages that it owns until they are popped.
type queue struct {
	mu     sync.Mutex // owns everything but the channels
	ring   []*wire.Message
	head   int // of the oldest
	count  int
	bytes  int64
	closed bool // no push succeeds any more

	filled chan struct{} // holds a token when a reader may find something
	freed  chan struct{} // holds a token when a writer may find room
	ended  chan struct{} // closed with closed
}

func newQueue() *queue {
	return &queue{filled: make(chan struct{}, 1), freed: make(chan struct{}, 1), ended: make(chan struct{})}
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// push adds a message with references of its own. It waits for room; it returns false if
// the queue is closed, and ctx's cause if that ends first.
func (q *queue) push(ctx context.Context, m *wire.Message) (bool, error) {
	size := m.Size()
	for {
		q.mu.Lock()
		if q.closed {
			q.mu.Unlock()
			return false, nil
		}
		if q.count < window && (q.bytes < windowBytes || q.count == 0) {
			q.append(m.Retain())
			q.bytes += size
			room := q.count < window && q.bytes < windowBytes
			q.mu.Unlock()
			signal(q.filled)
			if room {
				signal(q.freed) // for the next writer that waits
			}
			return true, nil
		}
		q.mu.Unlock()
		select {
		case <-q.freed:
		case <-q.ended:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

func (q *queue) append(m *wire.Message) {
	if q.count == len(q.ring) {
		grown := make([]*wire.Message, max(8, 2*len(q.ring)))
		n := copy(grown, q.ring[q.head:])
		copy(grown[n:], q.ring[:q.head])
		q.ring, q.head = grown, 0
	}
	q.ring[(q.head+q.count)%len(q.ring)] = m
	q.count++
}

// pop takes the oldest message, and waits for one. It returns nil if the queue is closed
// and empty, or when gone is closed.
func (q *queue) pop(ctx context.Context, gone <-chan struct{}) (*wire.Message, error) {
	for {
		q.mu.Lock()
		if q.count > 0 {
			m := q.take()
			more := q.count > 0
			q.mu.Unlock()
			signal(q.freed)
			if more {
				signal(q.filled) // for the next reader that waits
			}
			return m, nil
		}
		closed := q.closed
		q.mu.Unlock()
		if closed {
			return nil, nil
		}
		select {
		case <-q.filled:
		case <-q.ended:
		case <-gone:
			return nil, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (q *queue) take() *wire.Message {
	m := q.ring[q.head]
	q.ring[q.head] = nil
	q.head = (q.head + 1) % len(q.ring)
	q.count--
	q.bytes -= m.Size()
	return m
}

// close ends pushes. What is queued can still be popped, unless drop releases it.
func (q *queue) close(drop bool) {
	q.mu.Lock()
	if !q.closed {
		q.closed = true
		close(q.ended)
	}
	var dropped []*wire.Message
	for drop && q.count > 0 {
		dropped = append(dropped, q.take())
	}
	q.mu.Unlock()
	for _, m := range dropped {
		m.Release()
	}
}
