package ucx

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"go.millstream.dev/ucx/internal/epstate"
	"go.millstream.dev/ucx/internal/ucp"
)

// inbox queues the active messages of one id. Messages enter with the token held;
// the queue has its own lock, never held across a call into UCX.
type inbox struct {
	sink func(*AM)        // internal receivers: called with the token held, must not block
	raw  func(*ucp.Event) // the same before anything is copied or allocated; frees the event

	mu      sync.Mutex
	queue   []*AM
	waiting []*Request // receivers that came before their message
	bytes   int64
	closed  bool
}

// openInbox installs the receiving side of an id once.
func (w *Worker) openInbox(id uint16, sink func(*AM)) (*inbox, error) {
	return w.openInboxFor(id, &inbox{sink: sink})
}

// openInboxFor is openInbox with a receiving side that is used if there is none yet.
func (w *Worker) openInboxFor(id uint16, side *inbox) (*inbox, error) {
	if err := w.ctx.allows(ucp.OpAMRecv); err != nil {
		return nil, err
	}
	w.mu.Lock()
	b := w.inboxes[id]
	fresh := b == nil
	if fresh {
		b = side
		w.inboxes[id] = b
	}
	closed := w.closed
	w.mu.Unlock()
	if closed {
		return nil, ErrClosed
	}
	if fresh {
		err := w.drv.call("set active-message handler", ucp.CallAMHandler,
			func(s *ucp.Slot) { s.Tag, s.Arg[0] = uint64(id), 1 }, nil)
		if err != nil {
			w.mu.Lock()
			delete(w.inboxes, id)
			w.mu.Unlock()
			return nil, err
		}
	}
	return b, nil
}

// OpenAM opens the receiving side of an id, so that messages that arrive before
// the first RecvAM are kept. UCX drops messages of ids that nobody opened.
func (w *Worker) OpenAM(id uint16) error {
	if err := checkAMID(id); err != nil {
		return &OpError{Op: ucp.OpAMRecv.String(), Err: err}
	}
	if _, err := w.openInbox(id, nil); err != nil {
		return &OpError{Op: ucp.OpAMRecv.String(), Err: err}
	}
	return nil
}

// RecvAM waits for the next active message of an id. Messages of one sender arrive
// in order. The first call opens the id, as OpenAM does.
func (w *Worker) RecvAM(ctx context.Context, id uint16) (*AM, error) {
	if err := checkAMID(id); err != nil {
		return nil, &OpError{Op: ucp.OpAMRecv.String(), Err: err}
	}
	b, err := w.openInbox(id, nil)
	if err != nil {
		return nil, &OpError{Op: ucp.OpAMRecv.String(), Err: err}
	}
	return w.recvInbox(ctx, b)
}

func (w *Worker) recvInbox(ctx context.Context, b *inbox) (*AM, error) {
	if err := ctx.Err(); err != nil {
		return nil, &OpError{Op: ucp.OpAMRecv.String(), Err: err}
	}
	b.mu.Lock()
	if len(b.queue) > 0 {
		m := b.pop()
		b.mu.Unlock()
		return m, nil
	}
	if b.closed {
		b.mu.Unlock()
		return nil, &OpError{Op: ucp.OpAMRecv.String(), Err: ErrClosed}
	}
	r := &Request{w: w, op: ucp.OpAMRecv}
	b.waiting = append(b.waiting, r)
	b.mu.Unlock()
	if err := w.drv.await(ctx, r, 1); err != nil {
		b.mu.Lock()
		if i := slices.Index(b.waiting, r); i >= 0 {
			b.waiting = slices.Delete(b.waiting, i, i+1)
			b.mu.Unlock()
			return nil, &OpError{Op: ucp.OpAMRecv.String(), Err: err}
		}
		b.mu.Unlock() // a message came in the same moment: it is not lost
		<-r.Done()
	}
	if r.err != nil {
		return nil, r.err
	}
	return r.message, nil
}

func (b *inbox) pop() *AM {
	m := b.queue[0]
	b.queue[0] = nil
	if b.queue = b.queue[1:]; len(b.queue) == 0 {
		b.queue = nil
	}
	b.bytes -= int64(len(m.data))
	return m
}

func (b *inbox) close() {
	b.mu.Lock()
	b.closed = true
	waiting, queue := b.waiting, b.queue
	b.waiting, b.queue = nil, nil
	b.mu.Unlock()
	for _, r := range waiting {
		r.err = &OpError{Op: ucp.OpAMRecv.String(), Err: ErrClosed}
		r.finish()
	}
	for _, m := range queue {
		m.Release()
	}
}

// HandleAM calls h for each message of an id, one after the other in the order of
// arrival, on a goroutine of its own, until ctx ends or the worker is closed. h may
// block and may use the worker. It returns after the id is open.
func (w *Worker) HandleAM(ctx context.Context, id uint16, h func(context.Context, *AM)) error {
	if err := w.OpenAM(id); err != nil {
		return err
	}
	go func() {
		for {
			m, err := w.RecvAM(ctx, id)
			if err != nil {
				return
			}
			h(ctx, m)
		}
	}()
	return nil
}

// deliverMessage turns an arrived message into an AM. The token is held.
func (w *Worker) deliverMessage(e *ucp.Event) {
	w.mu.Lock()
	b := w.inboxes[uint16(e.ID)]
	ep := w.handles[e.ReplyEP]
	w.mu.Unlock()
	if b == nil {
		ucp.FreeEvent(w.drv.c, e)
		return
	}
	if b.raw != nil {
		b.raw(e)
		return
	}
	m := &AM{ID: uint16(e.ID), Len: int(e.Len), w: w, ReplyTo: ep, rndv: e.AMKind == ucp.AMRndv}
	if e.HdrLen > 0 {
		m.Header = append([]byte(nil), unsafe.Slice(e.Hdr, e.HdrLen)...)
	}
	if ep == nil && e.ReplyEP != nil {
		m.ReplyTo = w.replyEndpoint(e.ReplyEP)
	}
	if e.AMKind == ucp.AMCopy {
		m.data = append(make([]byte, 0, max(e.Len, 1)), unsafe.Slice((*byte)(e.Ptr), e.Len)...)
		ucp.FreeEvent(w.drv.c, e)
	} else {
		m.event = e
	}
	if b.sink != nil {
		b.sink(m)
		return
	}
	b.put(w, m)
}

func (b *inbox) put(w *Worker, m *AM) {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		go m.Release() // needs the token, which the caller holds
		return
	}
	if len(b.waiting) > 0 {
		r := b.waiting[0]
		b.waiting = b.waiting[1:]
		b.mu.Unlock()
		r.message = m
		r.finish()
		return
	}
	if b.bytes+int64(len(m.data)) > w.cfg.MaxQueuedMessages {
		b.mu.Unlock()
		w.refuse(m)
		return
	}
	b.bytes += int64(len(m.data))
	b.queue = append(b.queue, m)
	b.mu.Unlock()
}

// replyEndpoint finds the endpoint behind a handle that is not entered: one that is just
// being made, or one of UCX's own. The token is held.
func (w *Worker) replyEndpoint(h unsafe.Pointer) *Endpoint {
	if id := ucp.EPNumber(w.drv.c, h); id != 0 {
		w.mu.Lock()
		ep := w.eps[id]
		w.mu.Unlock()
		if ep != nil {
			return ep
		}
	}
	return w.borrow(h)
}

// borrow wraps a reply endpoint that UCX made for a peer Millstream has no endpoint
// for. UCX keeps it as long as the worker, so it is remembered. The token is held.
func (w *Worker) borrow(h unsafe.Pointer) *Endpoint {
	ep := &Endpoint{w: w, c: ucp.BorrowEP(w.drv.c, h), peer: "sender of an active message", kind: borrowed,
		state: epstate.Open, done: make(chan struct{})}
	runtime.AddCleanup(ep, w.buryEndpoint, ep.c)
	w.mu.Lock()
	ep.h = h
	w.handles[h] = ep
	w.mu.Unlock()
	return ep
}

// refuse drops a message for want of room, with the sender's endpoint. The token is held.
func (w *Worker) refuse(m *AM) {
	w.reportDrop(m.ID, m.Len)
	if m.event != nil {
		go m.Release() // needs the token, which the caller holds
	}
	if ep := m.ReplyTo.ownedOrNil(); ep != nil {
		ep.on(epstate.Overflow, ErrExceedsLimit)
	}
}
