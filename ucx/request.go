package ucx

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"go.millstream.dev/mem"
	"go.millstream.dev/ucx/internal/ucp"
)

// Request is an operation in flight, returned by the Start functions. It keeps its memory (a Go slice stays borrowed, a
// mem.Buffer retained) until it is done. All methods are safe for concurrent use.
type Request struct {
	w      *Worker
	ep     *Endpoint // whose failure ends the operation; nil for worker-level ones
	op     ucp.Op
	slot   *ucp.Slot // of a started operation; valid while serial matches
	serial uint32

	state atomic.Uint32 // reqPending, reqDone, reqAbandoned
	ch    chan struct{} // blocking operations: capacity 1, reused
	mu    sync.Mutex    // guards done, for the lazily made channel
	done  chan struct{}

	view    View
	copied  bool           // the payload was copied: UCX does not access the caller's memory
	copyOut bool           // received data is in the slot's inline area or in staging
	staging *mem.Buffer    // C memory used in place of Go memory
	malloc  unsafe.Pointer // header or vector too long for the slot
	pinner  runtime.Pinner
	pinned  bool
	event   any    // mem.Event or a slice of them, kept while the shim may need their handles
	views   []View // vector operations keep all their memory
	onDone  func(*Request)

	status  Status
	n       int
	tag     uint64
	arg     uint64
	err     error
	message *AM    // of an active-message receive
	batch   *Batch // of which it is an operation
}

const (
	reqPending = iota
	reqDone
	reqAbandoned
)

// RecvInfo describes a received message.
type RecvInfo struct {
	Tag uint64 // the sender's tag
	Len int    // bytes received
}

// Done returns a channel that is closed when the operation has ended.
func (r *Request) Done() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done == nil {
		r.done = make(chan struct{})
		if r.state.Load() == reqDone {
			close(r.done)
		}
	}
	return r.done
}

// Err returns nil while the operation is in flight or if it succeeded, otherwise why it failed.
func (r *Request) Err() error {
	if r.state.Load() != reqDone {
		return nil
	}
	return r.err
}

// Info returns tag and length of a finished receive.
func (r *Request) Info() RecvInfo {
	if r.state.Load() != reqDone {
		return RecvInfo{}
	}
	return RecvInfo{Tag: r.tag, Len: r.n}
}

// Wait waits until the operation has ended and returns its error. When ctx ends first, Wait returns its error and the
// operation continues, keeping its memory.
func (r *Request) Wait(ctx context.Context) error {
	if r.state.Load() == reqDone {
		return r.err
	}
	if err := r.w.drv.await(ctx, r, 1); err != nil {
		return &OpError{Op: r.op.String(), Peer: r.peer(), Err: err}
	}
	return r.err
}

// waitSoon is Wait for an operation that is expected to end within a time, during which the wait does not sleep.
func (r *Request) waitSoon(ctx context.Context, soon time.Duration) error {
	if r.state.Load() == reqDone {
		return r.err
	}
	if err := r.w.drv.awaitSoon(ctx, r, soon); err != nil {
		return &OpError{Op: r.op.String(), Peer: r.peer(), Err: err}
	}
	return r.err
}

// Cancel asks UCX to cancel the operation. Only a receive that no message has matched ends immediately, with an error
// that matches [context.Canceled]; any other operation continues until it completes or its endpoint is closed. Cancel
// does not wait; see Done.
func (r *Request) Cancel() {
	if r.state.Load() == reqDone || r.slot == nil {
		return
	}
	r.w.drv.cancelSlot(r.slot, r.serial) // the slot may be reused by then: the serial distinguishes its uses
}

// Debug returns UCX's description of a request in flight (protocol, transports, memory). It is empty for a finished
// request, and if UCX was built without debug data.
func (r *Request) Debug() string {
	if r.w == nil || r.slot == nil {
		return ""
	}
	const size = 1024
	buf := ucp.Malloc(size)
	defer ucp.FreeMemory(buf)
	text := ""
	_ = r.w.drv.internalCall("request info", ucp.CallRequestText, func(x *ucp.Slot) {
		x.Buf = uintptr(unsafe.Pointer(r.slot))
		x.Arg[0] = uint64(r.serial)
		x.Hdr, x.HdrLen = uintptr(buf), size
	}, func(*ucp.Slot) { text = cString(unsafe.Slice((*byte)(buf), size)) })
	return text
}

func cString(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

func (r *Request) peer() string {
	if r.ep == nil {
		return ""
	}
	return r.ep.peer
}

// reset prepares a reusable request for the next blocking operation.
func (r *Request) reset(op ucp.Op, ep *Endpoint) {
	r.ep, r.op = ep, op
	r.view = View{}
	r.status, r.n, r.tag, r.err = 0, 0, 0, nil
	r.copyOut, r.copied = false, false
	r.state.Store(reqPending)
}

// takeResult copies the result from the slot. The slot's operation is finished; the caller owns the slot or holds the
// token.
func (r *Request) takeResult(s *ucp.Slot) {
	r.status, r.n, r.tag, r.arg = Status(s.Status), int(s.RLen), s.RTag, s.Arg[2]
	if r.copyOut && r.state.Load() != reqAbandoned {
		r.copyReceived(s)
	}
	if r.pinned {
		r.pinner.Unpin()
		r.pinned = false
	}
	if r.malloc != nil {
		ucp.FreeMemory(r.malloc)
		r.malloc = nil
	}
	if r.status != statusOK {
		r.err = r.failure(s)
	}
}

func (r *Request) copyReceived(s *ucp.Slot) {
	if r.status != statusOK || r.n == 0 {
		return
	}
	dst := r.view.bytes()
	n := min(r.n, len(dst))
	if r.staging != nil {
		copy(dst, r.staging.Bytes()[:n])
		return
	}
	copy(dst, s.Inline[:n])
}

// failure converts a status into the error for the user. An operation that ended because its endpoint failed reports
// the endpoint's reason.
func (r *Request) failure(s *ucp.Slot) error {
	var err error = r.status
	switch r.status {
	case errMessageTruncated:
		err = &TruncatedError{Message: truncatedLength(r, s), Buffer: r.view.n}
	case errCanceled, errNotConnected, errEndpointTimeout, ErrConnectionReset, errIO, errShmemSegment:
		if r.ep != nil {
			if e := r.ep.reason(); e != nil {
				err = e
			} else if e := r.ep.ending(); e != nil && r.status != errCanceled {
				err = e
			}
		}
	}
	return &OpError{Op: r.op.String(), Peer: r.peer(), Err: err}
}

// truncatedLength returns the length of the message if UCX reports it: some releases report the bytes that fitted
// instead.
func truncatedLength(r *Request, s *ucp.Slot) int {
	if n := int(s.RLen); n > r.view.n {
		return n
	}
	return 0
}

// release releases what the request held for the operation. It runs without the token: the last reference to a buffer
// may run code of its owner.
func (r *Request) release() {
	h := held{r.view.buf, r.staging, r.views}
	r.view, r.staging, r.views, r.event = View{}, nil, nil, nil
	h.release()
}

// held is the memory of a finished operation that has not been released yet.
type held struct {
	buf, staging *mem.Buffer
	views        []View
}

func (h held) release() {
	if h.buf != nil {
		h.buf.Release()
	}
	if h.staging != nil {
		h.staging.Release()
	}
	for i := range h.views {
		if b := h.views[i].buf; b != nil {
			b.Release()
		}
	}
}

// finish marks the request done and wakes its waiters.
func (r *Request) finish() {
	r.mu.Lock()
	r.finishLocked()
	r.mu.Unlock()
	if r.onDone != nil {
		r.onDone(r)
	}
}

// finishLocked is finish for a holder of mu.
func (r *Request) finishLocked() {
	r.state.Store(reqDone)
	if r.done != nil {
		close(r.done)
	}
}

// failedRequest returns a request that was rejected before it reached UCX.
func failedRequest(op ucp.Op, ep *Endpoint, err error) *Request {
	r := &Request{op: op, ep: ep}
	r.refuse(err)
	return r
}

// refuse ends a request that was rejected before it reached UCX.
func (r *Request) refuse(err error) {
	var oe *OpError
	if !errors.As(err, &oe) {
		err = &OpError{Op: r.op.String(), Peer: r.peer(), Err: err}
	}
	r.err = err
	r.state.Store(reqDone)
}

// forget drops the channel of a finished request that is used again. It waits until finish has let go of the request.
func (r *Request) forget() {
	r.mu.Lock()
	r.done = nil
	r.mu.Unlock()
}

// forceWait is how long a canceled operation may take to release its memory after its endpoint was force-closed. UCX
// needs well under a millisecond; exceeding it indicates a fault in the library, and the memory is then never reused.
const forceWait = 10 * time.Second

func errMemoryKept(op string) error {
	return fmt.Errorf("ucx: %s was canceled but UCX did not release its memory within %v; the memory is leaked", op,
		forceWait)
}

// prepare takes a slot for a blocking operation.
func (w *Worker) prepare(op ucp.Op, ep *Endpoint) (*ucp.Slot, *Request, error) {
	if err := w.ctx.allows(op); err != nil {
		return nil, nil, &OpError{Op: op.String(), Peer: peerOf(ep), Err: err}
	}
	s, r, err := w.drv.takeSlot()
	if err != nil {
		return nil, nil, &OpError{Op: op.String(), Peer: peerOf(ep), Err: err}
	}
	r.reset(op, ep)
	resetSlot(s, op, ep.native())
	return s, r, nil
}

func peerOf(ep *Endpoint) string {
	if ep == nil {
		return ""
	}
	return ep.peer
}

// startOn returns a Request for a started operation with its slot.
func (w *Worker) startOn(op ucp.Op, ep *Endpoint) (*ucp.Slot, *Request, error) {
	r := &Request{w: w, op: op, ep: ep}
	s, err := w.slotFor(r)
	return s, r, err
}

// slotFor takes a slot for a started operation.
func (w *Worker) slotFor(r *Request) (*ucp.Slot, error) {
	if err := w.ctx.allows(r.op); err != nil {
		return nil, err
	}
	s, _, err := w.drv.takeSlot()
	if err != nil {
		return nil, err
	}
	resetSlot(s, r.op, r.ep.native())
	return s, nil
}

// launch submits a started operation. The request completes without further calls.
func (d *driver) launch(s *ucp.Slot, r *Request) {
	d.entrust(s, r)
	if !d.tryToken() {
		d.push(s)
		return
	}
	if ucp.Drive(d.c, s, 0)&ucp.ResultWork != 0 {
		d.dispatch()
	}
	d.leave(false)
}

// entrust assigns a slot's completion to the request.
func (d *driver) entrust(s *ucp.Slot, r *Request) {
	c, k := d.slots.at(s.Index)
	c.cur[k] = r
	r.slot, r.serial = s, s.Serial
	s.Notify = 1
	s.State = ucp.Queued
}

func (w *Worker) startPlain(op ucp.Op, ep *Endpoint) *Request {
	s, r, err := w.startOn(op, ep)
	if err != nil {
		return failedRequest(op, ep, err)
	}
	w.drv.launch(s, r)
	return r
}

// startView is the common form of a started operation on one view. A rejected request is returned finished, with its
// error.
func (w *Worker) startView(op ucp.Op, ep *Endpoint, v View, recv bool, set func(*ucp.Slot)) *Request {
	s, r, err := w.startOn(op, ep)
	if err != nil {
		return failedRequest(op, ep, err)
	}
	if err := w.mem.bind(s, r, v, recv, false); err != nil {
		return failedRequest(op, ep, r.unbind(s, err))
	}
	if set != nil {
		set(s)
	}
	w.drv.launch(s, r)
	return r
}

// unbind undoes bind for an operation that never reached UCX.
func (r *Request) unbind(s *ucp.Slot, err error) error {
	if r.pinned {
		r.pinner.Unpin()
		r.pinned = false
	}
	if r.malloc != nil {
		ucp.FreeMemory(r.malloc)
		r.malloc = nil
	}
	op, peer := r.op.String(), r.peer()
	r.release()
	r.w.drv.putSlot(s)
	return &OpError{Op: op, Peer: peer, Err: err}
}

// finishBlocking runs a prepared operation until it completes.
func (r *Request) finishBlocking(ctx context.Context, s *ucp.Slot) error {
	_, err := r.finishInfo(ctx, s)
	return err
}

func (r *Request) finishInfo(ctx context.Context, s *ucp.Slot) (RecvInfo, error) {
	if ctx.Err() != nil {
		return RecvInfo{}, r.unbind(s, contextError(ctx))
	}
	return r.finishRun(ctx, s)
}

// finishSubmitted is finishBlocking for an operation that consumes something even when ctx has ended: it is submitted
// in any case.
func (r *Request) finishSubmitted(ctx context.Context, s *ucp.Slot) error {
	_, err := r.finishRun(ctx, s)
	return err
}

func (r *Request) finishRun(ctx context.Context, s *ucp.Slot) (RecvInfo, error) {
	if err := r.w.drv.run(ctx, s, r); err != nil {
		return RecvInfo{}, err
	}
	return r.conclude(s)
}

// conclude takes the result of a finished blocking operation and returns its slot.
func (r *Request) conclude(s *ucp.Slot) (RecvInfo, error) {
	r.takeResult(s)
	info, err := RecvInfo{Tag: r.tag, Len: r.n}, r.err
	if r.view.buf != nil || r.staging != nil || r.views != nil {
		r.release()
	} else {
		r.view = View{}
	}
	r.w.drv.putSlot(s)
	return info, err
}

// hotTag is the fast path of a blocking tag operation that finds the token free and whose memory needs no preparation:
// it uses the slot that belongs to the token and touches no other shared state. done is false if the slow path must be
// taken; then nothing has happened.
//
// Go memory is passed to C for the duration of one call, in which nothing moves; only an operation that outlives its
// first call is pinned. Small sends are copied, so that one that has to wait can be abandoned without its endpoint.
//
//nolint:revive // the error is not last: done decides whether the others mean anything
func (w *Worker) hotTag(ctx context.Context, op ucp.Op, ep *Endpoint, v View, tag, mask uint64) (info RecvInfo,
	err error, done bool) {
	recv := op == ucp.OpTagRecv
	if !w.mem.hotView(ep, v, recv) || w.ctx.cfg.Features&Tag == 0 {
		return info, nil, false
	}
	s := w.drv.startHot(ctx)
	if s == nil {
		return info, nil, false
	}
	resetSlot(s, op, ep.native())
	s.Tag, s.Mask = tag, mask
	copied := w.mem.bindHot(s, v, recv)
	info, err = w.finishHot(ctx, s, ep, v, copied)
	return info, err, true
}

// hotAM is hotTag for an active message of one part with a short header.
//
//nolint:revive // as hotTag
func hotAM(ctx context.Context, ep *Endpoint, id uint16, header []byte, opts AMOptions, data []View) (err error,
	done bool) {
	w, v := ep.w, View{device: -1}
	if len(data) == 1 {
		v = data[0]
	}
	if len(data) > 1 || len(header) > min(ucp.HeaderSize, w.mem.maxHeader) || v.n > 0 && !w.mem.hotView(ep, v, false) ||
		v.bad != nil || w.ctx.cfg.Features&ActiveMessages == 0 {
		return nil, false
	}
	s := w.drv.startHot(ctx)
	if s == nil {
		return nil, false
	}
	resetSlot(s, ucp.OpAMSend, ep.native())
	s.Tag, s.Flags = uint64(id), opts.flags(v.n)
	copy(s.HdrBuf[:], header)
	s.Hdr, s.HdrLen = uintptr(unsafe.Pointer(&s.HdrBuf)), uint64(len(header))
	copied := w.mem.bindHot(s, v, false)
	_, err = w.finishHot(ctx, s, ep, v, copied)
	return err, true
}

// startHot takes the token and its slot, or returns nil.
func (d *driver) startHot(ctx context.Context) *ucp.Slot {
	if !d.tryToken() {
		return nil
	}
	s := d.takeHot()
	if s == nil || contextEnded(ctx) {
		d.putHot(s)
		d.leave(false)
		return nil
	}
	return s
}

// finishHot runs the operation of a slot of startHot until it completes. copied reports whether its data is in the
// slot.
func (w *Worker) finishHot(ctx context.Context, s *ucp.Slot, ep *Endpoint, v View, copied bool) (info RecvInfo,
	err error) {
	s.Notify, s.State = 0, ucp.Queued
	res := ucp.Drive(w.drv.c, s, w.drv.spin.Next())
	if res&ucp.ResultOwn != 0 && s.Status == 0 {
		info.Tag, info.Len = s.RTag, int(s.RLen)
		w.drv.putHot(s)
		w.drv.spin.Won(w.drv.c.LastSpin)
		w.drv.leave(false)
		runtime.KeepAlive(v.ptr)
		return info, nil
	}
	// The operation takes longer or failed: continue on the slow path.
	c, k := w.drv.slots.at(s.Index)
	r := &c.own[k]
	r.reset(s.Op, ep)
	r.view, r.copied = v, copied
	if v.buf != nil {
		v.buf.Retain()
	} else if !copied && res&ucp.ResultOwn == 0 {
		r.pinner.Pin(v.ptr)
		r.pinned = true
	}
	if err := w.drv.resume(ctx, s, r, res); err != nil {
		return info, err
	}
	return r.conclude(s)
}

// contextEnded reports whether a context has ended, at the cost of a read of its channel.
func contextEnded(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return true
	default:
		return false
	}
}
