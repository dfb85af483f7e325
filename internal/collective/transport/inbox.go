package transport

import (
	"context"
	"fmt"
	"sync"
)

// maxUnasked bounds the bytes of one rank that have arrived and were not received yet. Collectives cannot come near
// it, as nobody runs ahead of the others, and large messages wait at the sender.
const maxUnasked = 1 << 30

// inbox holds what one rank has sent: messages that nobody has asked for yet, or receives that wait for one.
// The reader of the rank's comm puts in, receives take out.
type inbox struct {
	from    int
	mu      sync.Mutex
	chans   map[uint64]*lane
	unasked int
	err     error // of every receive that finds nothing, once set
}

// lane is one channel: at most one of its lists is not empty.
type lane struct {
	arrived []arrival
	waiting []*recvOp
}

type arrival struct {
	data    []byte
	release func()
}

// recvOp is a receive under way. It belongs to the inbox until it is taken out of its lane, then to who took it.
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

func (b *inbox) lane(ch uint64) *lane {
	l := b.chans[ch]
	if l == nil {
		if b.chans == nil {
			b.chans = map[uint64]*lane{}
		}
		l = &lane{}
		b.chans[ch] = l
	}
	return l
}

// drop forgets an empty lane: channels come and go with large messages.
func (b *inbox) drop(ch uint64, l *lane) {
	if len(l.arrived) == 0 && len(l.waiting) == 0 {
		delete(b.chans, ch)
	}
}

// put delivers a message. data is the inbox's until release is called.
func (b *inbox) put(ch uint64, data []byte, release func()) error {
	b.mu.Lock()
	l := b.lane(ch)
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
	if b.unasked += len(data); b.unasked > maxUnasked {
		return fmt.Errorf("rank %d has sent more than %d bytes that nobody receives", b.from, maxUnasked)
	}
	l.arrived = append(l.arrived, arrival{data, release})
	return nil
}

func fill(buf, data []byte) (int, error) {
	if len(data) > len(buf) {
		return 0, fmt.Errorf("message of %d bytes for a buffer of %d", len(data), len(buf))
	}
	return copy(buf, data), nil
}

// start posts a receive.
func (b *inbox) start(ch uint64, buf []byte) *recvOp {
	op := &recvOp{box: b, ch: ch, buf: buf, done: make(chan struct{})}
	b.mu.Lock()
	l := b.lane(ch)
	if len(l.arrived) > 0 {
		a := l.arrived[0]
		l.arrived = l.arrived[1:]
		b.unasked -= len(a.data)
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
	if op.box.takeBack(op) {
		return 0, context.Cause(ctx)
	}
	<-op.done // somebody is copying into its memory
	return op.n, op.err
}

// takeBack removes a receive that nothing has come for.
func (b *inbox) takeBack(op *recvOp) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.lane(op.ch)
	defer b.drop(op.ch, l)
	for i, w := range l.waiting {
		if w == op {
			l.waiting = append(l.waiting[:i], l.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// fail ends all receives that wait, and those to come once what has arrived is used up. The first call counts.
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

// clear gives back what nobody has received.
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
