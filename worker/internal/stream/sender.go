package stream

import (
	"context"
	"encoding/binary"
	"sync"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// Batch is a list of messages that leave together: their maps, one behind the other, and the frames that they refer to.
// The zero value is empty.
type Batch struct {
	body   []byte
	n      int
	frames []wire.Frame
}

// Len returns the number of messages.
func (b *Batch) Len() int { return b.n }

// Reset empties the batch. Its memory is used again.
func (b *Batch) Reset() { b.body, b.n, b.frames = b.body[:0], 0, nil }

// Raw adds a message that is encoded already, with the frames that its markers count from 1. The batch must be empty
// if there are frames.
func (b *Batch) Raw(message []byte, frames [][]byte) {
	b.n++
	b.body = append(b.body, message...)
	for _, f := range frames {
		b.frames = append(b.frames, wire.HeapFrame(f))
	}
}

// serialized appends the marker of a value whose frames travel with the batch.
func (b *Batch) serialized(s *wire.Serialized) {
	b.body = msgpack.AppendMapHeader(b.body, 1)
	b.body = msgpack.AppendString(b.body, "__Serialized__")
	b.body = msgpack.AppendInt(b.body, int64(1+len(b.frames))) // the body itself is frame 0
	b.frames = append(b.frames, wire.HeapFrame(s.Header))
	b.frames = append(b.frames, s.Frames...)
}

// listHead is the length of a msgpack list's head in its longest form: how many messages a
// batch has is known at its end.
const listHead = 5

// Sender writes batches to the scheduler in a goroutine of its own. What the loop adds
// during a write goes together with the next.
type Sender struct {
	comm  comm.Comm
	reuse bool // Write has copied what it was given when it returns

	mu      sync.Mutex // owns what follows
	queue   []Batch    // each becomes a message; bodies begin with room for a list's head
	closing bool
	hurry   bool   // what is queued is urgent
	free    []byte // memory of a message that has left, for the next

	wake chan struct{} // holds one token: there is something, or it became urgent
	done chan struct{}
}

// linger is how long a message may wait for others if it is not urgent. Dask's workers let
// 2 ms pass between any two.
const linger = 500 * time.Microsecond

// NewSender returns a Sender on a comm, which Close and Abort end.
func NewSender(c comm.Comm) *Sender {
	scheme, _ := comm.ParseAddress(c.LocalAddr())
	// Elsewhere a receiver may still hold what was written: in this process, or UCX.
	s := &Sender{comm: c, reuse: scheme == "tcp" || scheme == "tls", wake: make(chan struct{}, 1),
		done: make(chan struct{})}
	go s.run()
	return s
}

// Add queues a copy of the batch, which stays the caller's. Without hurry it may linger.
func (s *Sender) Add(b *Batch, hurry bool) {
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		return
	}
	wake := len(s.queue) == 0 || hurry && !s.hurry
	s.hurry = s.hurry || hurry
	// The indices of markers count from the start of a message's frames, so only one of two
	// that go together may have frames.
	if last := len(s.queue) - 1; last >= 0 && (len(b.frames) == 0 || len(s.queue[last].frames) == 0) {
		q := &s.queue[last]
		q.body = append(q.body, b.body...)
		q.frames = append(q.frames, b.frames...)
		q.n += b.n
	} else {
		body := s.free
		s.free = nil
		if body == nil {
			body = make([]byte, listHead, max(4096, 2*len(b.body)))
		}
		s.queue = append(s.queue, Batch{body: append(body, b.body...), n: b.n, frames: b.frames})
	}
	s.mu.Unlock()
	if wake {
		s.poke()
	}
}

func (s *Sender) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// next takes the oldest batch out of the queue; none if it may linger.
func (s *Sender) next(lingered bool) (b Batch, wait time.Duration, closing bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		s.hurry = false
		return b, 0, s.closing
	}
	if !lingered && !s.hurry && !s.closing {
		return b, linger, false
	}
	b = s.queue[0]
	s.queue = s.queue[1:]
	if len(s.queue) == 0 {
		s.queue, s.hurry = nil, false
	}
	return b, 0, false
}

func (s *Sender) run() {
	defer close(s.done)
	t := time.NewTimer(time.Hour)
	defer t.Stop()
	lingered := false
	for {
		b, wait, closing := s.next(lingered)
		lingered = false
		switch {
		case wait > 0:
			t.Reset(wait)
			select {
			case <-t.C:
				lingered = true
			case <-s.wake: // look again
			case <-s.comm.Done():
				return
			}
		case b.n > 0:
			b.body[0] = 0xdd // a list whose length is in the four bytes that follow
			binary.BigEndian.PutUint32(b.body[1:listHead], uint32(b.n))
			m := &wire.Message{Frames: append([]wire.Frame{wire.HeapFrame(b.body)}, b.frames...)}
			if err := s.comm.Write(context.Background(), m); err != nil {
				s.comm.Abort() // the reader notices, and the session ends
				return
			}
			s.recycle(b.body)
		case closing:
			return
		default:
			select {
			case <-s.wake:
			case <-s.comm.Done():
				return
			}
		}
	}
}

// maxFree is the largest memory that is kept for the next message.
const maxFree = 1 << 20

// recycle keeps the memory of a message that has left.
func (s *Sender) recycle(body []byte) {
	if !s.reuse || cap(body) > maxFree {
		return
	}
	s.mu.Lock()
	s.free = body[:listHead]
	s.mu.Unlock()
}

// Close sends what is queued, for as long as that takes but not longer than a limit, and
// closes the comm.
func (s *Sender) Close(limit time.Duration) {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	s.poke()
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-s.done:
		_ = s.comm.Close()
	case <-t.C:
		s.comm.Abort()
		<-s.done
	}
}

// Abort ends the comm at once.
func (s *Sender) Abort() {
	s.comm.Abort()
	<-s.done
}
