package transport

import (
	"context"
	"fmt"
	"sync"
)

// maxUnreceived bounds the bytes of one rank that have arrived and are not received. Collectives stay far below it,
// because no rank runs ahead of the others, and large messages wait at the sender.
const maxUnreceived = 1 << 30

// inbox holds the messages of one rank that are not received yet, and the receives that wait for a message. The reader
// of the comm adds messages, receives remove them.
type inbox struct {
	from       int
	mu         sync.Mutex
	chans      map[uint64]*queue
	unreceived int
	err        error // returned by receives without a message, once set
}

// queue is one channel: at most one of its lists is not empty.
type queue struct {
	arrived []arrival
	waiting []*recvOp
}

type arrival struct {
	data    []byte
	release func()
}

// recvOp is a receive in flight. It belongs to the inbox until it is removed from its queue, then to the goroutine that
// removed it.
type recvOp struct {
	box  *inbox
	ch   uint64
	buf  []byte
	done chan struct{}
	n    int
	err  error
}

func (op *recvOp) finish(n int, err error) {
	op.n, op.err = n, err
	close(op.done)
}

func (b *inbox) queue(ch uint64) *queue {
	l := b.chans[ch]
	if l == nil {
		if b.chans == nil {
			b.chans = map[uint64]*queue{}
		}
		l = &queue{}
		b.chans[ch] = l
	}
	return l
}

// drop removes an empty queue: channels of large messages are used once.
func (b *inbox) drop(ch uint64, l *queue) {
	if len(l.arrived) == 0 && len(l.waiting) == 0 {
		delete(b.chans, ch)
	}
}

// put delivers a message. The inbox owns data until it calls release.
func (b *inbox) put(ch uint64, data []byte, release func()) error {
	b.mu.Lock()
	l := b.queue(ch)
	if len(l.waiting) > 0 {
		op := l.waiting[0]
		l.waiting = l.waiting[1:]
		b.drop(ch, l)
		b.mu.Unlock()
		op.finish(fill(op.buf, data))
		release()
		return nil
	}
	defer b.mu.Unlock()
	if b.unreceived += len(data); b.unreceived > maxUnreceived {
		return fmt.Errorf("rank %d has sent more than %d bytes that are not received", b.from, maxUnreceived)
	}
	l.arrived = append(l.arrived, arrival{data, release})
	return nil
}

func fill(buf, data []byte) (int, error) {
	if len(data) > len(buf) {
		return 0, fmt.Errorf("message of %d bytes exceeds the buffer of %d", len(data), len(buf))
	}
	return copy(buf, data), nil
}

// start posts a receive.
func (b *inbox) start(ch uint64, buf []byte) *recvOp {
	op := &recvOp{box: b, ch: ch, buf: buf, done: make(chan struct{})}
	b.mu.Lock()
	l := b.queue(ch)
	if len(l.arrived) > 0 {
		a := l.arrived[0]
		l.arrived = l.arrived[1:]
		b.unreceived -= len(a.data)
		b.drop(ch, l)
		b.mu.Unlock()
		op.finish(fill(buf, a.data))
		a.release()
		return op
	}
	if b.err != nil {
		b.drop(ch, l)
		err := b.err
		b.mu.Unlock()
		op.finish(0, err)
		return op
	}
	l.waiting = append(l.waiting, op)
	b.mu.Unlock()
	return op
}

// Wait implements Pending.
func (op *recvOp) Wait(ctx context.Context) (int, error) {
	select {
	case <-op.done:
		return op.n, op.err
	case <-ctx.Done():
	}
	if op.box.withdraw(op) {
		return 0, context.Cause(ctx)
	}
	<-op.done // its memory is being written
	return op.n, op.err
}

// withdraw removes a receive that has no message.
func (b *inbox) withdraw(op *recvOp) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.queue(op.ch)
	defer b.drop(op.ch, l)
	for i, w := range l.waiting {
		if w == op {
			l.waiting = append(l.waiting[:i], l.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// fail fails all waiting receives, and later ones when the messages that have arrived are received. Only the first call
// has an effect.
func (b *inbox) fail(err error) {
	b.mu.Lock()
	if b.err != nil {
		b.mu.Unlock()
		return
	}
	b.err = err
	var ops []*recvOp
	for ch, l := range b.chans {
		ops = append(ops, l.waiting...)
		l.waiting = nil
		b.drop(ch, l)
	}
	b.mu.Unlock()
	for _, op := range ops {
		op.finish(0, err)
	}
}

// clear releases the messages that are not received.
func (b *inbox) clear() {
	b.mu.Lock()
	chans := b.chans
	b.chans = nil
	b.mu.Unlock()
	for _, l := range chans {
		for _, a := range l.arrived {
			a.release()
		}
	}
}
