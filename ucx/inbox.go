package ucx

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.millstream.dev/ucx/internal/epstate"
	"go.millstream.dev/ucx/internal/obs"
	"go.millstream.dev/ucx/internal/ucp"
)

// amTable is a worker's side of active messages: the receivers by id.
type amTable struct {
	w     *Worker
	drops uint64 // messages refused because the queue was full; owner: token holder

	inboxes atomic.Pointer[inboxMap] // replaced, never modified: read for every message

	// A receiver that drives progress takes its message here, without a queue; owner: token holder.
	wants *inbox
	got   *AM

	mu     sync.Mutex // guards the replacement of inboxes, and closed; never held across a C call
	closed bool
}

// inboxMap has the receivers by id, and those of small ids in an array.
type inboxMap struct {
	low [16]*inbox
	all map[uint16]*inbox
}

func (t *amTable) init(w *Worker) {
	t.w = w
	t.inboxes.Store(&inboxMap{})
}

// find returns the receiver of an id, or nil.
func (t *amTable) find(id uint16) *inbox {
	m := t.inboxes.Load()
	if int(id) < len(m.low) {
		return m.low[id]
	}
	return m.all[id]
}

// set replaces the receiver of an id; nil removes it. mu is held.
func (t *amTable) set(id uint16, b *inbox) {
	old := t.inboxes.Load()
	next := &inboxMap{low: old.low, all: maps.Clone(old.all)}
	if next.all == nil {
		next.all = map[uint16]*inbox{}
	}
	if next.all[id] = b; b == nil {
		delete(next.all, id)
	}
	if int(id) < len(next.low) {
		next.low[id] = b
	}
	t.inboxes.Store(next)
}

// shut prevents further ids from being opened and returns the existing receivers.
func (t *amTable) shut() []*inbox {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	return slices.Collect(maps.Values(t.inboxes.Load().all))
}

// open installs the receiver of an id once.
func (t *amTable) open(id uint16, sink func(*AM)) (*inbox, error) {
	return t.openFor(id, &inbox{sink: sink})
}

// openFor is open with a receiver that is used if there is none yet.
func (t *amTable) openFor(id uint16, side *inbox) (*inbox, error) {
	w := t.w
	if err := w.ctx.allows(ucp.OpAMRecv); err != nil {
		return nil, err
	}
	t.mu.Lock()
	b := t.find(id)
	fresh := b == nil && !t.closed
	var ids []uint16
	if fresh {
		b, ids = side, []uint16{id}
		if id < maxKindAM && side.sink == nil && side.raw == nil { // opened by a user
			ids = append(ids, deviceAM+id, managedAM+id)
		}
		for _, i := range ids {
			t.set(i, b)
		}
	}
	closed := t.closed
	t.mu.Unlock()
	if closed {
		return nil, ErrClosed
	}
	if !fresh {
		return b, nil
	}
	for _, i := range ids {
		err := w.drv.call("set active-message handler", ucp.CallAMHandler,
			func(s *ucp.Slot) { s.Tag, s.Arg[0] = uint64(i), 1 }, nil)
		if err != nil {
			t.mu.Lock()
			for _, i := range ids {
				t.set(i, nil)
			}
			t.mu.Unlock()
			return nil, err
		}
	}
	return b, nil
}

func (t *amTable) recv(ctx context.Context, b *inbox) (*AM, error) {
	w := t.w
	if err := ctx.Err(); err != nil {
		return nil, &OpError{Op: ucp.OpAMRecv.String(), Err: err}
	}
	b.mu.Lock()
	if b.empty() {
		b.mu.Unlock()
		if m := t.drive(ctx, b); m != nil {
			return m, nil
		}
		b.mu.Lock()
	}
	if b.head < len(b.queue) {
		m := b.pop()
		b.mu.Unlock()
		return m, nil
	}
	if b.closed {
		b.mu.Unlock()
		return nil, &OpError{Op: ucp.OpAMRecv.String(), Err: ErrClosed}
	}
	r := b.idle
	if b.idle = nil; r == nil {
		r = &Request{w: w, op: ucp.OpAMRecv}
	}
	b.waiting = append(b.waiting, r)
	b.mu.Unlock()
	if err := w.drv.await(ctx, r, 1); err != nil {
		b.mu.Lock()
		if i := slices.Index(b.waiting, r); i >= 0 {
			b.waiting = slices.Delete(b.waiting, i, i+1)
			b.mu.Unlock()
			return nil, &OpError{Op: ucp.OpAMRecv.String(), Err: err}
		}
		b.mu.Unlock() // a message arrived at the same time: keep it
		<-r.Done()
	}
	m, err := r.message, r.err
	if err == nil {
		b.reuse(r)
	}
	return m, err
}

// drive makes progress for the first receiver of an inbox, which takes its message without waiting for a request. It
// returns nil if another goroutine holds the token, another receiver was first, or no message came within the spin.
func (t *amTable) drive(ctx context.Context, b *inbox) *AM {
	d := &t.w.drv
	if !d.tryToken() {
		return nil
	}
	b.mu.Lock()
	first := b.empty() // messages are added with the token held, so it stays empty
	b.mu.Unlock()
	var m *AM
	if first {
		t.wants = b
		for range maxOtherWork {
			res := ucp.Drive(d.c, nil, d.spin.Next())
			if res&ucp.ResultWork != 0 {
				d.dispatch()
			}
			if t.got != nil || res&ucp.ResultTimeout != 0 || contextEnded(ctx) {
				break
			}
		}
		if m = t.got; m != nil {
			d.spin.Won(d.c.LastSpin)
		}
		t.wants, t.got = nil, nil
	}
	d.leave(false)
	return m
}

// maxOtherWork is how often amTable.drive delivers only work of others before it waits as all do, which releases their
// memory in between.
const maxOtherWork = 16

// reuse keeps the request of a receiver that has its message for the next receiver.
func (b *inbox) reuse(r *Request) {
	r.mu.Lock() // finish may still hold the lock
	r.message, r.done = nil, nil
	r.state.Store(reqPending)
	r.mu.Unlock()
	b.mu.Lock()
	b.idle = r
	b.mu.Unlock()
}

// deliver converts an arrived message into an AM. The token is held.
func (t *amTable) deliver(e *ucp.Event) {
	w := t.w
	b := t.find(uint16(e.ID))
	if b == nil {
		ucp.FreeEvent(w.drv.c, e)
		return
	}
	if b.raw != nil {
		b.raw(e)
		return
	}
	m := newAM(e)
	m.w = w
	if e.ReplyEP != nil {
		if m.ReplyTo = w.peers.byHandle(e.ReplyEP); m.ReplyTo == nil {
			m.ReplyTo = w.peers.reply(e.ReplyEP)
		}
	}
	if e.AMKind == ucp.AMCopy {
		ucp.FreeEvent(w.drv.c, e)
	} else {
		m.event = e
	}
	switch {
	case b.sink != nil:
		b.sink(m)
	case b == t.wants && t.got == nil:
		t.got = m
	default:
		b.put(w, m)
	}
}

// refuse drops a message for lack of queue space and fails the sender's endpoint. The token is held.
func (t *amTable) refuse(m *AM) {
	t.report(m.ID, m.Len)
	if m.event != nil {
		go m.Release() // needs the token, which the caller holds
	}
	if ep := trackedEndpoint(m.ReplyTo); ep != nil {
		ep.on(epstate.Overflow, ErrExceedsLimit)
	}
}
func dropOf(w *Worker, m *AM) obs.Drop { return obs.Drop{Worker: w.name(), ID: m.ID, Bytes: m.Len} }

// reportDropped reports a message that exceeded the worker's limit and fails its sender's endpoint, so that neither
// side assumes it was delivered.
func (t *amTable) reportDropped(e *ucp.Event) {
	w := t.w
	t.report(uint16(e.ID), int(e.Len))
	if ep := w.peers.byHandle(e.ReplyEP); ep != nil {
		ep.on(epstate.Overflow, ErrExceedsLimit)
	}
}

// report reports a refused message: the hook for each one, the log for the first and then at every doubling, since a
// peer could otherwise fill the disk. The token is held.
func (t *amTable) report(id uint16, n int) {
	w := t.w
	if f := w.ctx.cfg.Events.MessageDropped; f != nil {
		f(obs.Drop{Worker: w.name(), ID: id, Bytes: n})
	}
	if t.drops++; t.drops&(t.drops-1) == 0 {
		logf("active message %d of %d bytes refused: more than %d bytes are queued on the worker "+
			"(WorkerConfig.MaxQueuedMessages); %d messages refused so far", id, n, w.cfg.MaxQueuedMessages, t.drops)
	}
}

// stray drops a message that belongs to no connection. The token is held.
func (t *amTable) stray(m *AM) {
	w := t.w
	if f := w.ctx.cfg.Events.MessageDropped; f != nil {
		f(dropOf(w, m))
	}
	if m.event != nil {
		go m.Release()
	}
}

// inbox queues the active messages of one id. Messages are added with the token held; the queue has its own lock, never
// held across a call into UCX.
type inbox struct {
	sink func(*AM)        // internal receivers: called with the token held, must not block
	raw  func(*ucp.Event) // the same before anything is copied or allocated; frees the event

	mu      sync.Mutex
	queue   []*AM       // from head on
	head    int         // the oldest message in queue
	waiting []*Request  // receivers waiting for a message
	first   [1]*Request // memory of waiting for one receiver
	idle    *Request    // of the last receiver, to be used again
	bytes   int64
	closed  bool
}

// OpenAM opens an id for receiving, so that messages that arrive before the first RecvAM are kept. UCX drops messages
// of ids that are not open.
func (w *Worker) OpenAM(id uint16) error {
	if err := checkAMID(id); err != nil {
		return &OpError{Op: ucp.OpAMRecv.String(), Err: err}
	}
	if _, err := w.ams.open(id, nil); err != nil {
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
	b := w.ams.find(id)
	if b == nil {
		var err error
		if b, err = w.ams.open(id, nil); err != nil {
			return nil, &OpError{Op: ucp.OpAMRecv.String(), Err: err}
		}
	}
	return w.ams.recv(ctx, b)
}

// empty reports whether a receiver would have to wait, as the first one. mu is held.
func (b *inbox) empty() bool { return b.head == len(b.queue) && len(b.waiting) == 0 && !b.closed }

func (b *inbox) pop() *AM {
	m := b.queue[b.head]
	b.queue[b.head] = nil
	switch b.head++; {
	case b.head < len(b.queue):
	case cap(b.queue) > maxIdleQueue:
		b.queue, b.head = nil, 0
	default:
		b.queue, b.head = b.queue[:0], 0
	}
	b.bytes -= int64(len(m.bytes()))
	return m
}

// maxIdleQueue is the capacity up to which an empty queue is kept.
const maxIdleQueue = 1 << 10

// makeRoom drops the places of received messages before the queue grows.
func (b *inbox) makeRoom() {
	if b.head > len(b.queue)/2 && len(b.queue) == cap(b.queue) {
		n := copy(b.queue, b.queue[b.head:])
		clear(b.queue[n:])
		b.queue, b.head = b.queue[:n], 0
	}
}

func (b *inbox) close() {
	b.mu.Lock()
	b.closed = true
	waiting, queue := b.waiting, b.queue[b.head:]
	b.waiting, b.queue, b.head = nil, nil, 0
	b.mu.Unlock()
	for _, r := range waiting {
		r.err = &OpError{Op: ucp.OpAMRecv.String(), Err: ErrClosed}
		r.finish()
	}
	for _, m := range queue {
		m.Release()
	}
}

// HandleAM calls h for each message of an id, sequentially in the order of arrival, on a separate goroutine, until ctx
// ends or the worker is closed. h may block and may use the worker. HandleAM returns after the id is open.
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

func (b *inbox) put(w *Worker, m *AM) {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		go m.Release() // needs the token, which the caller holds
		return
	}
	if len(b.waiting) > 0 {
		r := b.waiting[0]
		b.waiting[0] = nil
		if b.waiting = b.waiting[1:]; len(b.waiting) == 0 {
			b.waiting = b.first[:0]
		}
		b.mu.Unlock()
		r.message = m
		r.finish()
		return
	}
	if b.bytes+int64(len(m.bytes())) > w.cfg.MaxQueuedMessages {
		b.mu.Unlock()
		w.ams.refuse(m)
		return
	}
	b.bytes += int64(len(m.bytes()))
	b.makeRoom()
	b.queue = append(b.queue, m)
	b.mu.Unlock()
}

// mailbox is a first-in first-out queue between arriving messages and receivers that drive the worker's progress while
// they wait. put and fail may be called with the token held. The producer bounds its length.
type mailbox[T any] struct {
	mu      sync.Mutex
	queue   []T
	waiting []*mailWait[T]
	err     error // why no more items arrive
	shut    bool  // no more items are accepted
}

type mailWait[T any] struct {
	req  Request
	item T
}

// put passes an item to the first receiver or queues it. It returns false, and the caller keeps the item, if the
// mailbox is closed.
func (b *mailbox[T]) put(item T) bool {
	b.mu.Lock()
	if b.shut {
		b.mu.Unlock()
		return false
	}
	if len(b.waiting) > 0 {
		m := b.waiting[0]
		b.waiting = b.waiting[1:]
		b.mu.Unlock()
		m.item = item
		m.req.finish()
		return true
	}
	b.queue = append(b.queue, item)
	b.mu.Unlock()
	return true
}

// unget returns an item to the front of the queue. It returns false, and the caller keeps the item, if the mailbox is
// closed.
func (b *mailbox[T]) unget(item T) bool {
	b.mu.Lock()
	if b.shut || len(b.waiting) > 0 {
		b.mu.Unlock()
		return b.put(item)
	}
	b.queue = slices.Insert(b.queue, 0, item)
	b.mu.Unlock()
	return true
}

// recv returns the next item. Queued items can be received also after fail. When it returns an error of ctx no item was
// removed.
func (b *mailbox[T]) recv(ctx context.Context, w *Worker) (T, error) { return b.recvWithin(ctx, w, 0) }

// recvWithin is recv for an item that is expected within a time, during which the wait does not sleep.
func (b *mailbox[T]) recvWithin(ctx context.Context, w *Worker, soon time.Duration) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	b.mu.Lock()
	if len(b.queue) > 0 {
		item := b.queue[0]
		b.queue[0] = none
		if b.queue = b.queue[1:]; len(b.queue) == 0 {
			b.queue = nil
		}
		b.mu.Unlock()
		return item, nil
	}
	if err := b.err; err != nil {
		b.mu.Unlock()
		return none, err
	}
	m := &mailWait[T]{}
	m.req.w = w
	b.waiting = append(b.waiting, m)
	b.mu.Unlock()
	if err := w.drv.awaitSoon(ctx, &m.req, soon); err != nil {
		b.mu.Lock()
		if i := slices.Index(b.waiting, m); i >= 0 {
			b.waiting = slices.Delete(b.waiting, i, i+1)
			b.mu.Unlock()
			return none, err
		}
		b.mu.Unlock()
		<-m.req.Done() // an item, or the end, arrived at the same time
		if m.req.err != nil {
			return none, m.req.err
		}
		if !b.unget(m.item) {
			return m.item, nil // only this call can return it
		}
		return none, err
	}
	return m.item, m.req.err
}

// fail ends current and future waits of receivers that find the queue empty.
func (b *mailbox[T]) fail(err error) {
	b.mu.Lock()
	if b.err == nil {
		b.err = err
	}
	waiting := b.waiting
	b.waiting = nil
	b.mu.Unlock()
	for _, m := range waiting {
		m.req.err = err
		m.req.finish()
	}
}

// close is fail that also empties the queue for good. The caller releases the returned items.
func (b *mailbox[T]) close(err error) []T {
	b.fail(err)
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.queue
	b.queue, b.shut = nil, true
	return q
}

// len returns the number of queued items.
func (b *mailbox[T]) len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queue)
}
