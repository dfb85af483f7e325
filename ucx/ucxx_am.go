package ucx

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"go.millstream.dev/internal/wire/ucxxwire"
	"go.millstream.dev/mem"
	"go.millstream.dev/ucx/internal/ucp"
)

// UCXXCallback identifies a receiver callback of the peer's program.
type UCXXCallback struct {
	Owner string // the application, at most 63 bytes; UCXX keeps "ucxx" for itself
	ID    uint64
}

// UCXXOptions are the options of one active message in UCXX's format.
type UCXXOptions struct {
	// Callback is the receiver callback that the message is sent to. Default: the queue that the peer's am_recv reads.
	Callback *UCXXCallback
	// User is an application-defined header that is sent with the data. UCXX's C++ interface passes it to callbacks,
	// Python's does not.
	User []byte
	// MustMatchMemory makes the receive fail when the receiver has no allocator for
	// the data's kind of memory. Default: it falls back to host memory.
	MustMatchMemory bool
}

// SendAM sends an active message like UCXX's Endpoint.am_send.
func (e *UCXXEndpoint) SendAM(ctx context.Context, v View, opts UCXXOptions) error {
	h, err := e.amHeader(v, opts)
	if err != nil {
		return &OpError{Op: "am send", Peer: e.ep.peer, Err: err}
	}
	return eofOf(e.ep.sendAM(ctx, ucxxwire.AMID, h, AMOptions{Reply: true}, []View{v}))
}

// StartSendAM is the non-blocking form of SendAM.
func (e *UCXXEndpoint) StartSendAM(v View, opts UCXXOptions) *Request {
	h, err := e.amHeader(v, opts)
	if err != nil {
		return failedRequest(ucp.OpAMSend, e.ep, err)
	}
	return e.ep.startAM(ucxxwire.AMID, h, AMOptions{Reply: true}, []View{v})
}

func (e *UCXXEndpoint) amHeader(v View, opts UCXXOptions) ([]byte, error) {
	h := ucxxwire.AMHeader{MemoryType: v.memType(), User: opts.User}
	if opts.MustMatchMemory {
		h.Policy = ucxxwire.AMErrorOnUnsupported
	}
	if c := opts.Callback; c != nil {
		h.HasCallback, h.Owner, h.ID = true, c.Owner, c.ID
	}
	return h.Append(make([]byte, 0, h.Size()))
}

// UCXXMessage is a received active message in UCXX's format. Its data must be received once, or released with Release.
type UCXXMessage struct {
	Len  int       // bytes of data
	Kind mem.Kind  // memory that the sender has the data in
	User []byte    // the application's header, if the sender set one
	From *Endpoint // the sender, for answers; see NewUCXXEndpoint

	am     *AM
	ctype  int32 // the sender's ucs_memory_type_t
	policy ucxxwire.AMPolicy
}

// Rendezvous reports whether the data is still at the sender.
func (m *UCXXMessage) Rendezvous() bool { return m.am.rndv }

// Buffer receives the data into memory of the given allocators, by the sender's kind of memory. The caller releases the
// buffer. A message beyond the limits, or one whose sender requires a kind of memory for which there is no allocator,
// is dropped with an error.
func (m *UCXXMessage) Buffer(ctx context.Context, alloc Allocators) (*mem.Buffer, error) {
	err := alloc.limits(1, int64(m.Len))
	matches := m.ctype == 0 || (m.Kind == mem.Device || m.Kind == mem.Managed) && alloc.Device != nil
	if err == nil && !matches && m.policy == ucxxwire.AMErrorOnUnsupported {
		err = fmt.Errorf("%w: the sender requires memory of its own kind (UCX memory type %d), for which "+
			"there is no allocator (Allocators.Device)", errUnsupported, m.ctype)
	}
	if err != nil {
		m.Release()
		return nil, &OpError{Op: "am receive", Peer: m.am.peer(), Err: err}
	}
	b, err := m.am.Buffer(ctx, alloc.resource(m.am.w, m.Kind))
	if err != nil {
		m.Release()
		return nil, eofOf(err)
	}
	return b, nil
}

// Recv receives the data into v, which must be long enough.
func (m *UCXXMessage) Recv(ctx context.Context, v View) error { return eofOf(m.am.Recv(ctx, v)) }

// Bytes receives the data into a new slice of at most limit bytes.
func (m *UCXXMessage) Bytes(ctx context.Context, limit int) ([]byte, error) {
	b, err := m.am.Bytes(ctx, limit)
	return b, eofOf(err)
}

// Release discards a message that is not received. Releasing again does nothing.
func (m *UCXXMessage) Release() { m.am.Release() }

// ucxxMessages is a worker's side of UCXX's active messages.
type ucxxMessages struct {
	w      *Worker
	queued atomic.Int64 // queued bytes, as counted by frameCost

	mu        sync.Mutex
	callbacks map[UCXXCallback]*mailbox[*UCXXMessage]
}

// ucxxBox holds the messages of one sender.
type ucxxBox struct {
	mailbox[*UCXXMessage]
	st *ucxxMessages
}

func (b *ucxxBox) end(reason error) { b.fail(reason) }

func (b *ucxxBox) discard() {
	for _, m := range b.close(ErrClosed) {
		b.st.queued.Add(-frameCost(m.am))
		m.Release()
	}
}

func (w *Worker) openUCXXMessages() error {
	if w.ucxx.Load() == nil {
		w.ucxx.CompareAndSwap(nil, &ucxxMessages{w: w, callbacks: map[UCXXCallback]*mailbox[*UCXXMessage]{}})
	}
	b, err := w.ams.open(ucxxwire.AMID, w.ucxx.Load().receive)
	if err == nil && b.sink == nil {
		err = fmt.Errorf("ucx: active-message id %d is already open for RecvAM; UCXX's protocol needs that id "+
			"for itself", ucxxwire.AMID)
	}
	return err
}

// box returns a sender's queue and creates it if needed. The token may be held.
func (st *ucxxMessages) box(ep *Endpoint) *ucxxBox {
	if b := ep.ucxx.Load(); b != nil {
		return b
	}
	b := &ucxxBox{st: st}
	if !ep.ucxx.CompareAndSwap(nil, b) {
		return ep.ucxx.Load()
	}
	ep.addPart(b)
	return b
}

// receive processes a message. The token is held.
func (st *ucxxMessages) receive(am *AM) {
	h, err := ucxxwire.DecodeAMHeader(am.Header)
	if err == nil && am.ReplyTo == nil && !h.HasCallback {
		err = fmt.Errorf("message without a reply endpoint")
	}
	if err != nil {
		logf("active message %d of %d bytes dropped: %v", am.ID, am.Len, err)
		st.w.ams.stray(am)
		return
	}
	m := &UCXXMessage{Len: am.Len, User: h.User, From: am.ReplyTo, am: am, ctype: h.MemoryType, policy: h.Policy}
	switch h.MemoryType {
	case 1:
		m.Kind = mem.Device
	case 2:
		m.Kind = mem.Managed
	}
	var to *mailbox[*UCXXMessage]
	if h.HasCallback {
		st.mu.Lock()
		to = st.callbacks[UCXXCallback{h.Owner, h.ID}]
		st.mu.Unlock()
		if to == nil {
			logf("active message of %d bytes dropped: UCXX callback %q, %d has no handler (HandleUCXX)", am.Len,
				h.Owner, h.ID)
			st.w.ams.stray(am)
			return
		}
	} else {
		to = &st.box(am.ReplyTo).mailbox
	}
	cost := frameCost(am)
	if st.queued.Add(cost) > st.w.cfg.MaxQueuedMessages {
		st.queued.Add(-cost)
		st.w.ams.refuse(am)
		return
	}
	if !to.put(m) {
		st.queued.Add(-cost)
		go am.Release() // needs the token, which the caller holds
	}
}

// RecvAM waits for the next active message of the peer, like UCXX's Endpoint.am_recv. Messages that arrived before the
// connection ended can still be received.
func (e *UCXXEndpoint) RecvAM(ctx context.Context) (*UCXXMessage, error) {
	st := e.ep.w.ucxx.Load()
	if st == nil {
		return nil, &OpError{Op: "am receive", Peer: e.ep.peer, Err: fmt.Errorf("ucx: the context lacks active " +
			"messages (Config.Features)")}
	}
	m, err := st.box(e.ep).recv(ctx, e.ep.w)
	if err != nil {
		return nil, &OpError{Op: "am receive", Peer: e.ep.peer, Err: resetAsEOF(err)}
	}
	st.queued.Add(-frameCost(m.am))
	e.count()
	return m, nil
}

// ProbeAM reports whether RecvAM would return immediately.
func (e *UCXXEndpoint) ProbeAM() bool {
	st := e.ep.w.ucxx.Load()
	if st == nil {
		return false
	}
	e.ep.w.drv.nudge(0)
	return st.box(e.ep).len() > 0
}

// HandleUCXX calls h for each active message to a callback of this program, sequentially on a separate goroutine, until
// ctx ends or the worker is closed. It is the counterpart of UCXXOptions.Callback and of UCXX's
// registerAmReceiverCallback. h must receive or release each message.
func (w *Worker) HandleUCXX(ctx context.Context, c UCXXCallback, h func(context.Context, *UCXXMessage)) error {
	fail := func(err error) error { return &OpError{Op: "am receive", Err: inner(err)} }
	if _, err := (&ucxxwire.AMHeader{HasCallback: true, Owner: c.Owner, ID: c.ID}).Append(nil); err != nil {
		return fail(err)
	}
	if err := w.openUCXX(); err != nil {
		return fail(err)
	}
	st := w.ucxx.Load()
	if st == nil {
		return fail(fmt.Errorf("ucx: the context lacks active messages (Config.Features)"))
	}
	st.mu.Lock()
	if st.callbacks[c] != nil {
		st.mu.Unlock()
		return fail(fmt.Errorf("ucx: UCXX callback %q, %d has a handler already", c.Owner, c.ID))
	}
	box := &mailbox[*UCXXMessage]{}
	st.callbacks[c] = box
	st.mu.Unlock()
	go func() {
		for {
			m, err := box.recv(ctx, w)
			if err != nil {
				break
			}
			st.queued.Add(-frameCost(m.am))
			h(ctx, m)
		}
		st.mu.Lock()
		delete(st.callbacks, c)
		st.mu.Unlock()
		for _, m := range box.close(ErrClosed) {
			st.queued.Add(-frameCost(m.am))
			m.Release()
		}
	}()
	return nil
}

// closeHandlers ends the handlers of a closing worker and releases queued messages.
func (st *ucxxMessages) closeHandlers() {
	st.mu.Lock()
	boxes := make([]*mailbox[*UCXXMessage], 0, len(st.callbacks))
	for _, b := range st.callbacks {
		boxes = append(boxes, b)
	}
	st.mu.Unlock()
	for _, b := range boxes {
		for _, m := range b.close(ErrClosed) {
			m.Release()
		}
	}
}
