package sim

import "time"

// link is one direction of a connection: messages arrive in order, each after a random delay. Links are independent, so
// messages of two connections overtake each other.
type link struct {
	w       *world
	queue   []any // sent and not yet arrived, from head on
	head    int
	last    int64 // arrival of the last message
	blocked int64 // messages sent before this time arrive after it: a partition
	gone    bool  // no more messages arrive
	ended   bool  // closed by the sender: eof is the last message
	slow    float64
	to      *proc // receiver that may be frozen; nil for none
	recv    func(any)
}

// eof is the last message of a link: the connection is closed.
type eof struct{}

func (w *world) newLink(to *proc, recv func(any)) *link {
	return &link{w: w, to: to, recv: recv, slow: 1}
}

// send sends a message; after the end it is lost, like a write to a closed connection.
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

// fire delivers the first message in the queue.
func (l *link) fire() {
	if l.gone {
		return
	}
	if l.to != nil && l.to.frozen > l.w.clock.now {
		l.w.clock.at(l.to.frozen, l) // stays in the receive buffer
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

// end closes the sending side: sent messages arrive, or a part of them, then eof.
func (l *link) end(lose bool, after time.Duration) {
	if l.gone || l.ended {
		return
	}
	if lose {
		// Some messages in flight are lost with the sender. Each message has its own time of delivery, so lost ones
		// stay in the queue as lostMessage.
		if n := len(l.queue) - l.head; n > 0 {
			for i := l.head + l.w.rnd.IntN(n+1); i < len(l.queue); i++ {
				l.queue[i] = lostMessage{}
			}
		}
	}
	l.last = max(l.last, l.w.clock.now+int64(after))
	l.send(eof{})
	l.ended = true
}

// lostMessage is a lost message.
type lostMessage struct{}

// drop closes the receiving side: no more messages arrive, not even eof.
func (l *link) drop() { l.gone, l.queue = true, nil }

// block delays messages that are sent from now on until a time.
func (l *link) block(until int64) { l.blocked = max(l.blocked, until) }
