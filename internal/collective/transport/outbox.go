package transport

import (
	"context"
	"sync"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/wire"
)

// Grace is how long a partly written message may continue after the group was aborted. Ending it immediately would
// close its connection, and the other side would report this rank as lost.
const Grace = time.Second

// outbox writes to the comm of one rank, in order, in its own goroutine: a rank that sends and receives concurrently
// must not wait until the other one reads.
type outbox struct {
	c      comm.Comm
	shared bool // the comm passes memory on without copying
	ctx    context.Context
	cancel context.CancelFunc
	mu     sync.Mutex
	queue  []*sendOp
	err    error // returned by later sends
	wake   chan struct{}
	done   chan struct{}
}

// sendOp is a message that is queued or being written.
type sendOp struct {
	box  *outbox
	head [9]byte
	buf  []byte
	last bool // the last message
	done chan struct{}
	err  error
}

func newOutbox(c comm.Comm, shared bool) *outbox {
	o := &outbox{c: c, shared: shared, wake: make(chan struct{}, 1), done: make(chan struct{})}
	o.ctx, o.cancel = context.WithCancel(context.Background())
	go o.run()
	return o
}

// start queues a message.
func (o *outbox) start(kind byte, ch uint64, b []byte) *sendOp {
	op := &sendOp{box: o, buf: b, last: kind == msgLeave, done: make(chan struct{})}
	putHead(&op.head, kind, ch)
	o.mu.Lock()
	if o.err != nil {
		op.err = o.err
		o.mu.Unlock()
		close(op.done)
		return op
	}
	o.queue = append(o.queue, op)
	if op.last {
		o.err = ErrClosed
	}
	o.mu.Unlock()
	select {
	case o.wake <- struct{}{}:
	default:
	}
	return op
}

func (o *outbox) run() {
	defer close(o.done)
	for {
		o.mu.Lock()
		var op *sendOp
		if len(o.queue) > 0 {
			op = o.queue[0]
			o.queue = o.queue[1:]
		}
		o.mu.Unlock()
		if op == nil {
			select {
			case <-o.wake:
				continue
			case <-o.ctx.Done():
				o.fail(context.Cause(o.ctx))
				return
			}
		}
		op.err = o.write(op)
		close(op.done)
		if op.err != nil {
			o.fail(op.err)
			return
		}
		if op.last {
			return
		}
	}
}

func (o *outbox) write(op *sendOp) error {
	b := op.buf
	head := op.head[:]
	if o.shared {
		b = append([]byte(nil), b...)
	}
	m := wire.Message{Frames: []wire.Frame{wire.HeapFrame(head), wire.HeapFrame(b)}}
	return o.c.Write(o.ctx, &m)
}

// fail fails the queued messages.
func (o *outbox) fail(err error) {
	o.mu.Lock()
	if o.err == nil || o.err == ErrClosed {
		o.err = err
	}
	queue := o.queue
	o.queue = nil
	o.mu.Unlock()
	for _, op := range queue {
		op.err = err
		close(op.done)
	}
}

// Wait implements Pending.
func (op *sendOp) Wait(ctx context.Context) (int, error) {
	select {
	case <-op.done:
		return len(op.buf), op.err
	case <-ctx.Done():
	}
	if op.box.withdraw(op) {
		return 0, context.Cause(ctx)
	}
	timer := time.NewTimer(Grace)
	defer timer.Stop()
	select {
	case <-op.done:
	case <-timer.C:
		op.box.c.Abort()
		<-op.done
	}
	if op.err == nil {
		return len(op.buf), nil
	}
	return 0, context.Cause(ctx)
}

func (o *outbox) withdraw(op *sendOp) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, q := range o.queue {
		if q == op {
			o.queue = append(o.queue[:i], o.queue[i+1:]...)
			return true
		}
	}
	return false
}
