package sim

import "time"

// link is one direction of a connection: what is sent arrives in order, each message after a delay of its
// own. Different links do not wait for each other, so messages of two connections overtake each other.
type link struct {
	w       *world
	queue   []any // sent and not yet arrived, from head on
	head    int
	last    int64 // when the last one arrives
	blocked int64 // nothing that is sent before this time arrives before it: a partition
	gone    bool  // nothing arrives any more
	ended   bool  // the sender is gone: eof is the last message
	slow    float64
	to      *proc // who may be frozen; nil if nobody
	recv    func(any)
}

// eof is the last message of a link: the connection is closed.
type eof struct{}

func (w *world) newLink(to *proc, recv func(any)) *link {
	return &link{w: w, to: to, recv: recv, slow: 1}
}

// send sends a message; after the end it is lost, as a write to a closed connection.
func (l *link) send(m any) {
	if l.gone || l.ended {
		return
	}
	w := l.w
	at := max(w.clock.now, l.blocked) + int64(float64(w.delay())*l.slow)
	l.last = max(at, l.last)
	l.queue = append(l.queue, m)
	w.clock.at(l.last, l)
}

// fire lets the first message in the queue arrive.
func (l *link) fire() {
	if l.gone {
		return
	}
	if l.to != nil && l.to.frozen > l.w.clock.now {
		l.w.clock.at(l.to.frozen, l) // its kernel keeps it
		return
	}
	m := l.queue[l.head]
	l.queue[l.head] = nil
	l.head++
	if l.head == len(l.queue) {
		l.queue, l.head = l.queue[:0], 0
	} else if l.head > 1024 && l.head*2 > len(l.queue) {
		n := copy(l.queue, l.queue[l.head:])
		clear(l.queue[n:])
		l.queue, l.head = l.queue[:n], 0
	}
	l.w.messages++
	l.recv(m)
}

// end closes the sending side: what was sent arrives, or as much of it as had left, then eof.
func (l *link) end(lose bool, after time.Duration) {
	if l.gone || l.ended {
		return
	}
	if lose {
		// A part of what is under way is lost with the sender. Each message has a time of its own to fire,
		// so the lost ones stay in the queue as nothing.
		if n := len(l.queue) - l.head; n > 0 {
			for i := l.head + l.w.rnd.IntN(n+1); i < len(l.queue); i++ {
				l.queue[i] = nothing{}
			}
		}
	}
	l.last = max(l.last, l.w.clock.now+int64(after))
	l.send(eof{})
	l.ended = true
}

// nothing is a message that was lost.
type nothing struct{}

// drop forgets the link at the receiver's side: nothing more arrives, not even eof.
func (l *link) drop() { l.gone, l.queue = true, nil }

// block holds back what is sent from now on until a time.
func (l *link) block(until int64) { l.blocked = max(l.blocked, until) }
