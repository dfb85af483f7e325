package inproc

import (
	"context"
	"runtime"
	"sync"

	"go.millstream.dev/wire"
)

// window bounds the messages, and windowBytes roughly the bytes, that are queued in one direction: a writer then waits
// for the reader.
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
	closed bool // pushes fail
	takers int  // waiting readers
	givers int  // waiting writers

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

// push adds a message with its own references. It waits for room; it returns false if the queue is closed, and ctx's
// cause if that ends first.
func (q *queue) push(ctx context.Context, m *wire.Message) (bool, error) {
	size := m.Size()
	for waited := false; ; waited = true {
		q.mu.Lock()
		if waited {
			q.givers--
		}
		if q.closed {
			q.mu.Unlock()
			return false, nil
		}
		if q.count < window && (q.bytes < windowBytes || q.count == 0) {
			q.append(retain(m))
			q.bytes += size
			wake := q.takers > 0
			// A token may stand for more room than one message takes.
			next := q.givers > 0 && q.count < window && q.bytes < windowBytes
			q.mu.Unlock()
			if wake {
				signal(q.filled)
			}
			if next {
				signal(q.freed)
			}
			return true, nil
		}
		q.givers++
		q.mu.Unlock()
		select {
		case <-q.freed:
		case <-q.ended:
		case <-ctx.Done():
			q.mu.Lock()
			q.givers--
			// A token meant for this writer can be used by another.
			next := q.givers > 0
			q.mu.Unlock()
			if next {
				signal(q.freed)
			}
			return false, context.Cause(ctx)
		}
	}
}

// handed is a message with inline space for the frames of most messages.
type handed struct {
	wire.Message
	room [2]wire.Frame
}

// retain is wire.Message.Retain with one allocation.
func retain(m *wire.Message) *wire.Message {
	h := new(handed)
	h.Frames = h.room[:0]
	for _, f := range m.Frames {
		h.Frames = append(h.Frames, f.Retain())
	}
	return &h.Message
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

// yields is how often a reader yields before it waits: an answer is often produced by the goroutine that runs next, and
// parking costs more than the message.
const yields = 2

// pop removes the oldest message, and waits for one. It returns nil if the queue is closed and empty, or when gone is
// closed.
func (q *queue) pop(ctx context.Context, gone <-chan struct{}) (*wire.Message, error) {
	waited := false
	for spin := 0; ; spin++ {
		q.mu.Lock()
		if waited {
			q.takers--
			waited = false
		}
		if q.count > 0 {
			m := q.take()
			wake, next := q.givers > 0, q.takers > 0 && q.count > 0
			q.mu.Unlock()
			if wake {
				signal(q.freed)
			}
			if next {
				signal(q.filled)
			}
			return m, nil
		}
		if q.closed {
			q.mu.Unlock()
			return nil, nil
		}
		if spin < yields {
			q.mu.Unlock()
			runtime.Gosched()
			continue
		}
		q.takers++
		waited = true
		q.mu.Unlock()
		var err error
		select {
		case <-q.filled:
			continue
		case <-q.ended:
			continue
		case <-gone:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		q.mu.Lock()
		q.takers--
		next := q.takers > 0 && q.count > 0
		q.mu.Unlock()
		if next { // a token meant for this reader can be used by another
			signal(q.filled)
		}
		return nil, err
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

// close ends pushes. Queued messages can still be popped, unless drop releases them.
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
