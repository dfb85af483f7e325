package ucx

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"go.millstream.dev/internal/device/hooks"
	"go.millstream.dev/mem"
	"go.millstream.dev/ucx/internal/ucp"
)

// FullMask makes a receive match only its exact tag; AnyTag, used as a mask, makes it match every tag.
const (
	FullMask uint64 = ^uint64(0)
	AnyTag   uint64 = 0
)

// Send sends a message with a tag and returns when the memory may be reused. It does not imply that the peer has
// received the message: see SendSync and Flush.
func (ep *Endpoint) Send(ctx context.Context, v View, tag uint64) error {
	return ep.sendTag(ctx, ucp.OpTagSend, v, tag)
}

// SendSync is like Send but returns after the peer has matched the message with a receive.
func (ep *Endpoint) SendSync(ctx context.Context, v View, tag uint64) error {
	return ep.sendTag(ctx, ucp.OpTagSendSync, v, tag)
}

func (ep *Endpoint) sendTag(ctx context.Context, op ucp.Op, v View, tag uint64) error {
	w := ep.w
	if w.ctx.stages(&v) {
		return sendStaged(ctx, ep, op, v, tag)
	}
	if _, err, done := w.hotTag(ctx, op, ep, v, tag, 0); done {
		return err
	}
	s, r, err := w.prepare(op, ep)
	if err != nil {
		return err
	}
	s.Tag = tag
	if err := w.mem.bind(s, r, v, false, false); err != nil {
		return r.unbind(s, err)
	}
	return r.finishBlocking(ctx, s)
}

// StartSend is the non-blocking form of Send.
func (ep *Endpoint) StartSend(v View, tag uint64) *Request {
	return ep.w.startView(ucp.OpTagSend, ep, v, false, func(s *ucp.Slot) { s.Tag = tag })
}

// StartSendSync is the non-blocking form of SendSync.
func (ep *Endpoint) StartSendSync(v View, tag uint64) *Request {
	return ep.w.startView(ucp.OpTagSendSync, ep, v, false, func(s *ucp.Slot) { s.Tag = tag })
}

// Recv receives a message whose tag equals tag in the bits of mask, from any peer of the worker, and fails when this
// endpoint fails: UCX matches tags per worker, so give each connection distinct tags where that matters. A message
// longer than v is lost and reported as ErrTruncated.
func (ep *Endpoint) Recv(ctx context.Context, v View, tag, mask uint64) (RecvInfo, error) {
	return ep.w.recvTag(ctx, ep, v, tag, mask)
}

// StartRecv is the non-blocking form of Recv; see Request.Info for tag and length.
func (ep *Endpoint) StartRecv(v View, tag, mask uint64) *Request {
	return ep.w.startView(ucp.OpTagRecv, ep, v, true, func(s *ucp.Slot) { s.Tag, s.Mask = tag, mask })
}

// Recv receives a message from any endpoint of the worker; no endpoint's failure ends it.
//
// Host memory above 1 KiB is received through a staging copy: a matched message cannot be canceled without closing its
// endpoint, which is unknown to this call. Use Endpoint.Recv or StartRecv to receive in place.
func (w *Worker) Recv(ctx context.Context, v View, tag, mask uint64) (RecvInfo, error) {
	return w.recvTag(ctx, nil, v, tag, mask)
}

// StartRecv is the non-blocking form of Recv; it receives in place.
func (w *Worker) StartRecv(v View, tag, mask uint64) *Request {
	return w.startView(ucp.OpTagRecv, nil, v, true, func(s *ucp.Slot) { s.Tag, s.Mask = tag, mask })
}

func (w *Worker) recvTag(ctx context.Context, ep *Endpoint, v View, tag, mask uint64) (RecvInfo, error) {
	if w.ctx.stages(&v) {
		return w.recvStaged(ctx, ep, v, tag, mask)
	}
	if info, err, done := w.hotTag(ctx, ucp.OpTagRecv, ep, v, tag, mask); done {
		return info, err
	}
	s, r, err := w.prepare(ucp.OpTagRecv, ep)
	if err != nil {
		return RecvInfo{}, err
	}
	s.Tag, s.Mask = tag, mask
	if err := w.mem.bind(s, r, v, true, ep == nil); err != nil {
		return RecvInfo{}, r.unbind(s, err)
	}
	return r.finishInfo(ctx, s)
}

// Probe reports whether a message has arrived that a receive with this tag and mask would match, without receiving it.
// It makes progress first.
func (w *Worker) Probe(tag, mask uint64) (RecvInfo, bool, error) {
	if err := w.ctx.allows(ucp.OpTagRecv); err != nil {
		return RecvInfo{}, false, &OpError{Op: "tag probe", Err: err}
	}
	var info RecvInfo
	found := false
	err := w.drv.call("tag probe", ucp.CallProbe, func(s *ucp.Slot) { s.Tag, s.Mask = tag, mask }, func(s *ucp.Slot) {
		found = s.Hdr != 0
		info = RecvInfo{Tag: s.RTag, Len: int(s.RLen)}
	})
	if !found {
		info = RecvInfo{}
		if err == nil {
			w.drv.nudge(0)
		}
	}
	return info, found, err
}

// Message is an arrived tag message that ProbeRemove removed from matching. It must be received once.
type Message struct {
	w    *Worker
	h    uintptr
	info RecvInfo
}

// Info returns tag and length of the message.
func (m *Message) Info() RecvInfo { return m.info }

// ProbeRemove removes an arrived message from matching and returns it, or nil if there is none. The message holds UCX's
// memory until it is received. Use it to receive messages of unknown length.
func (w *Worker) ProbeRemove(tag, mask uint64) (*Message, error) {
	if err := w.ctx.allows(ucp.OpTagRecv); err != nil {
		return nil, &OpError{Op: "tag probe", Err: err}
	}
	var m *Message
	err := w.drv.call("tag probe", ucp.CallProbe, func(s *ucp.Slot) { s.Tag, s.Mask, s.Arg[0] = tag, mask, 1 },
		func(s *ucp.Slot) {
			if s.Hdr != 0 {
				m = &Message{w: w, h: s.Hdr, info: RecvInfo{Tag: s.RTag, Len: int(s.RLen)}}
			}
		})
	if m == nil && err == nil {
		w.drv.nudge(0)
	}
	return m, err
}

// StartRecv receives the message. A second receive of the same message returns an error.
func (m *Message) StartRecv(v View) *Request {
	h := m.h
	if h == 0 {
		return failedRequest(ucp.OpTagMsgRecv, nil, errNoMessage)
	}
	m.h = 0
	return m.w.startView(ucp.OpTagMsgRecv, nil, v, true, func(s *ucp.Slot) { s.Hdr = h })
}

// Recv receives the message into v. When ctx ends first the receive continues in the background into other memory.
func (m *Message) Recv(ctx context.Context, v View) (RecvInfo, error) {
	h := m.h
	if h == 0 {
		return RecvInfo{}, &OpError{Op: ucp.OpTagMsgRecv.String(), Err: errNoMessage}
	}
	w := m.w
	s, r, err := w.prepare(ucp.OpTagMsgRecv, nil)
	if err != nil {
		return RecvInfo{}, err
	}
	if err := w.mem.bind(s, r, v, true, true); err != nil {
		return RecvInfo{}, r.unbind(s, err)
	}
	if err := ctx.Err(); err != nil {
		return RecvInfo{}, r.unbind(s, err)
	}
	m.h = 0
	s.Hdr = h
	return r.finishInfo(ctx, s)
}

// RecvAlloc receives a message of unknown length into a new slice. limit bounds its length, so that a peer cannot make
// this side allocate more.
func (w *Worker) RecvAlloc(ctx context.Context, tag, mask uint64, limit int) ([]byte, RecvInfo, error) {
	var pause time.Duration
	for {
		m, err := w.ProbeRemove(tag, mask)
		if err != nil {
			return nil, RecvInfo{}, err
		}
		if m != nil {
			return m.alloc(ctx, limit)
		}
		if err := waitActivity(ctx, w.cfg.MaxSpin, &pause); err != nil {
			return nil, RecvInfo{}, &OpError{Op: "tag receive", Err: err}
		}
	}
}

func (m *Message) alloc(ctx context.Context, limit int) ([]byte, RecvInfo, error) {
	if m.info.Len > limit {
		// A message removed from matching must be received: receive no bytes, so that UCX drops it.
		r := m.StartRecv(View{device: -1})
		_ = r.Wait(ctx)
		return nil, m.info, &OpError{Op: "tag receive", Err: &TruncatedError{Message: m.info.Len, Buffer: limit}}
	}
	b := make([]byte, m.info.Len)
	r := m.StartRecv(Bytes(b))
	if err := r.Wait(ctx); err != nil {
		return nil, m.info, err // the request keeps b until it is done
	}
	return b, r.Info(), nil
}

// waitActivity waits briefly for a message to arrive. UCX has no event for a message that matches no receive, so this
// polls at growing intervals up to a millisecond.
func waitActivity(ctx context.Context, maxSpin time.Duration, pause *time.Duration) error {
	if *pause == 0 {
		*pause = time.Microsecond
	}
	if *pause < maxSpin {
		runtime.Gosched()
		if *pause *= 2; ctx.Err() == nil {
			return nil
		}
		return contextError(ctx)
	}
	t := time.NewTimer(*pause)
	defer t.Stop()
	*pause = min(*pause*2, time.Millisecond)
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return contextError(ctx)
	}
}

// SendStream appends v to the byte stream of the endpoint and returns when the memory may be reused. The stream
// preserves the order of calls and no boundaries; it is separate from tag and active messages. UCX's streams have no
// back-pressure: data that the peer does not read accumulates in its memory. For a net.Conn with a bounded window see
// Conn; raw streams are for peers that expect them, such as UCXX.
func (ep *Endpoint) SendStream(ctx context.Context, v View) error {
	if v.n == 0 {
		return ep.emptyStream(ctx, ucp.OpStreamSend, v, false)
	}
	w := ep.w
	s, r, err := w.prepare(ucp.OpStreamSend, ep)
	if err != nil {
		return err
	}
	if err := w.mem.bind(s, r, v, false, false); err != nil {
		return r.unbind(s, err)
	}
	return r.finishBlocking(ctx, s)
}

// StartSendStream is the non-blocking form of SendStream.
func (ep *Endpoint) StartSendStream(v View) *Request {
	if v.n == 0 {
		return startEmptyStream(ep, ucp.OpStreamSend, v, false)
	}
	return ep.w.startView(ucp.OpStreamSend, ep, v, false, nil)
}

// RecvStream reads from the endpoint's byte stream into v and returns the number of bytes. With waitAll it returns when
// v is full, otherwise when at least one byte is available.
//
// Bytes that UCX has stored in v cannot be returned to the stream, so when ctx ends during a receive the endpoint is
// force-closed, whatever the size of v: an abandoned receive would consume the bytes of the next one. Bytes that have
// arrived but were not received when the endpoint ends are lost.
func (ep *Endpoint) RecvStream(ctx context.Context, v View, waitAll bool) (int, error) {
	if v.n == 0 {
		return 0, ep.emptyStream(ctx, ucp.OpStreamRecv, v, true)
	}
	w := ep.w
	s, r, err := w.prepare(ucp.OpStreamRecv, ep)
	if err != nil {
		return 0, err
	}
	if err := w.mem.bind(s, r, v, true, false); err != nil {
		return 0, r.unbind(s, err)
	}
	if waitAll {
		s.Flags |= ucp.FlagWaitAll
	}
	info, err := r.finishInfo(ctx, s)
	if err != nil {
		return 0, err
	}
	return info.Len, nil
}

// StartRecvStream is the non-blocking form of RecvStream; Request.Info has the number of bytes. Receives of one
// endpoint are filled in the order in which they were started. UCX cannot cancel them: Request.Cancel does nothing,
// only closing the endpoint ends one.
func (ep *Endpoint) StartRecvStream(v View, waitAll bool) *Request {
	if v.n == 0 {
		return startEmptyStream(ep, ucp.OpStreamRecv, v, true)
	}
	return ep.w.startView(ucp.OpStreamRecv, ep, v, true, func(s *ucp.Slot) {
		if waitAll {
			s.Flags |= ucp.FlagWaitAll
		}
	})
}

// emptyStream is an operation on no bytes. It transfers nothing but reports an ended endpoint, an invalid view or an
// ended context.
func (ep *Endpoint) emptyStream(ctx context.Context, op ucp.Op, v View, recv bool) error {
	err := v.bad
	if err == nil && recv && v.readOnly {
		err = fmt.Errorf("ucx: cannot receive into read-only memory (%d bytes)", v.n)
	}
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = ep.reason()
	}
	if err != nil {
		return &OpError{Op: op.String(), Peer: ep.peer, Err: err}
	}
	return nil
}

func startEmptyStream(ep *Endpoint, op ucp.Op, v View, recv bool) *Request {
	if err := ep.emptyStream(background, op, v, recv); err != nil {
		return failedRequest(op, ep, err)
	}
	r := &Request{w: ep.w, ep: ep, op: op}
	r.state.Store(reqDone)
	return r
}

// MaxStageDevice is the maximum of Config.StageDevice in bytes.
const MaxStageDevice = 16 << 10

// stageBuffers are host memory for messages of device memory.
var stageBuffers = sync.Pool{New: func() any { return new([MaxStageDevice]byte) }}

// stages reports whether a blocking operation moves a view through host memory.
func (c *Context) stages(v *View) bool {
	return v.n <= c.cfg.StageDevice && v.n > 0 && v.kind == mem.Device && v.bad == nil
}

// sendStaged is sendTag through host memory.
func sendStaged(ctx context.Context, ep *Endpoint, op ucp.Op, v View, tag uint64) error {
	h, err := stageHooks(op)
	if err != nil {
		return err
	}
	if v.buf != nil {
		if err := v.buf.WaitReady(ctx); err != nil {
			return &OpError{Op: op.String(), Peer: ep.peer, Err: err}
		}
	}
	b := stageBuffers.Get().(*[MaxStageDevice]byte)
	defer stageBuffers.Put(b)
	if err := h.CopyOut(ctx, int(v.device), b[:v.n], v.base()); err != nil {
		return &OpError{Op: op.String(), Peer: ep.peer, Err: err}
	}
	return ep.sendTag(ctx, op, Bytes(b[:v.n]), tag)
}

// recvStaged is recvTag through host memory. A message that has arrived is copied to the device, even if ctx has ended.
func (w *Worker) recvStaged(ctx context.Context, ep *Endpoint, v View, tag, mask uint64) (RecvInfo, error) {
	h, err := stageHooks(ucp.OpTagRecv)
	if err != nil {
		return RecvInfo{}, err
	}
	fail := func(err error) (RecvInfo, error) {
		oe := &OpError{Op: ucp.OpTagRecv.String(), Err: err}
		if ep != nil {
			oe.Peer = ep.peer
		}
		return RecvInfo{}, oe
	}
	if v.readOnly {
		return fail(fmt.Errorf("ucx: cannot receive into read-only memory (%d bytes)", v.n))
	}
	if v.buf != nil { // the previous user of the memory may still use it
		if err := v.buf.WaitReady(ctx); err != nil {
			return fail(err)
		}
	}
	b := stageBuffers.Get().(*[MaxStageDevice]byte)
	defer stageBuffers.Put(b)
	info, err := w.recvTag(ctx, ep, Bytes(b[:v.n]), tag, mask)
	if err != nil {
		return info, err
	}
	if err := h.CopyIn(context.WithoutCancel(ctx), int(v.device), v.base(), b[:info.Len]); err != nil {
		return fail(err)
	}
	return info, nil
}

// stageHooks returns the functions that copy device memory.
func stageHooks(op ucp.Op) (hooks.Hooks, error) {
	h, ok := hooks.Get()
	if !ok || h.CopyIn == nil || h.CopyOut == nil {
		return h, &OpError{Op: op.String(), Err: fmt.Errorf("ucx: device memory needs package cuda: import " +
			"go.millstream.dev/cuda")}
	}
	return h, nil
}
