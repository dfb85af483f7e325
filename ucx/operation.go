package ucx

import (
	"context"
	"fmt"
	"runtime"
	"unsafe"

	"go.millstream.dev/ucx/internal/ucp"
)

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
	if !w.mem.hotView(ep, v, recv) || w.ctx.cfg.Features&Tag == 0 || !w.drv.tryToken() {
		return info, nil, false
	}
	s := w.drv.takeHot()
	if s == nil || contextEnded(ctx) {
		w.drv.putHot(s)
		w.drv.leave(false)
		return info, nil, false
	}
	resetSlot(s, op, ep.native())
	s.Tag, s.Mask, s.Len, s.MemType = tag, mask, uint64(v.n), 0
	copied := v.ptr != nil && !recv && v.n <= ucp.InlineSize
	if copied {
		s.Buf = uintptr(unsafe.Pointer(&s.Inline))
		copy(s.Inline[:], unsafe.Slice((*byte)(v.ptr), v.n))
	} else {
		s.Buf = v.base()
		if v.buf != nil {
			if reg, ok := v.buf.Region().Attached(w.ctx); ok {
				s.Memh = reg.(*registration).memh
			}
		}
	}
	s.Notify, s.State = 0, ucp.Queued
	res := ucp.Drive(w.drv.c, s, w.drv.spin.Next())
	if res&ucp.ResultOwn != 0 && s.Status == 0 {
		info.Tag, info.Len = s.RTag, int(s.RLen)
		w.drv.putHot(s)
		w.drv.spin.Won(w.drv.c.LastSpin)
		w.drv.leave(false)
		runtime.KeepAlive(v.ptr)
		return info, nil, true
	}
	// The operation takes longer or failed: continue on the slow path.
	c, k := w.drv.slots.at(s.Index)
	r := &c.own[k]
	r.reset(op, ep)
	r.view, r.copied = v, copied
	if v.buf != nil {
		v.buf.Retain()
	} else if !copied && res&ucp.ResultOwn == 0 {
		r.pinner.Pin(v.ptr)
		r.pinned = true
	}
	if err := w.drv.resume(ctx, s, r, res); err != nil {
		return info, err, true
	}
	info, err = r.conclude(s)
	return info, err, true
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

// Batch is a set of tag operations that are submitted to UCX together and waited for together. An operation of a batch
// costs a fraction of one that is started alone: one call into C submits them all, one collects the completions, and
// nothing is allocated when the batch is used again. Two alternating batches keep a connection busy:
//
//	for i := 0; ; i++ {
//		b := batches[i%2]
//		if err := b.Wait(ctx); err != nil { … } // the round before the last
//		b.Reset()
//		for … { b.Send(ep, view, tag) }
//		b.Start()
//	}
//
// A batch must be used by one goroutine at a time.
type Batch struct {
	w       *Worker
	reqs    []Request
	slots   []*ucp.Slot // Start's list, kept for its memory
	n       int         // operations in reqs
	started int         // of which are in flight or done
}

// NewBatch returns a batch for up to size operations.
func (w *Worker) NewBatch(size int) *Batch {
	return &Batch{w: w, reqs: make([]Request, size), slots: make([]*ucp.Slot, 0, size)}
}

// Send adds a Send on an endpoint of the batch's worker.
func (b *Batch) Send(ep *Endpoint, v View, tag uint64) { b.add(ucp.OpTagSend, ep, v, tag, 0) }

// Recv adds a receive: Endpoint.Recv, or Worker.StartRecv if ep is nil.
func (b *Batch) Recv(ep *Endpoint, v View, tag, mask uint64) { b.add(ucp.OpTagRecv, ep, v, tag, mask) }

func (b *Batch) add(op ucp.Op, ep *Endpoint, v View, tag, mask uint64) {
	if b.n == len(b.reqs) {
		panic(fmt.Sprintf("ucx: batch of %d operations is full: Start it, Wait and Reset, or create a larger one", b.n))
	}
	r := &b.reqs[b.n]
	b.n++
	r.w, r.op, r.ep = b.w, op, ep
	r.view, r.tag, r.arg = v, tag, mask
}

// Start submits the operations added since the last Start to UCX, in order. An operation that is rejected is finished,
// with its error.
func (b *Batch) Start() {
	for ; b.started < b.n; b.started++ {
		r := &b.reqs[b.started]
		if s, err := b.prepare(r); err != nil {
			r.refuse(err)
		} else {
			b.slots = append(b.slots, s)
		}
	}
	if len(b.slots) > 0 {
		b.w.drv.push(b.slots...)
		b.slots = b.slots[:0]
	}
}

func (b *Batch) prepare(r *Request) (*ucp.Slot, error) {
	v := r.view
	r.view = View{}
	if r.ep != nil && r.ep.w != b.w {
		return nil, fmt.Errorf("ucx: endpoint and batch belong to different workers")
	}
	s, err := b.w.slotFor(r)
	if err != nil {
		return nil, err
	}
	if err := b.w.mem.bind(s, r, v, r.op == ucp.OpTagRecv, false); err != nil {
		return nil, r.unbind(s, err)
	}
	s.Tag, s.Mask = r.tag, r.arg
	b.w.drv.entrust(s, r)
	return s, nil
}

// Wait waits until all started operations have ended and returns the first error among them. When ctx ends first, Wait
// returns its error and the operations continue, keeping their memory.
func (b *Batch) Wait(ctx context.Context) error {
	var first error
	for i := range b.started {
		r := &b.reqs[i]
		if r.state.Load() != reqDone {
			if err := r.await(ctx, b.started-i); err != nil && r.state.Load() != reqDone {
				return err
			}
		}
		if r.err != nil && first == nil {
			first = r.err
		}
	}
	return first
}

// Request returns an operation by its index in the batch, for its error, its Info or to cancel it. It is valid until
// Reset.
func (b *Batch) Request(i int) *Request { return &b.reqs[:b.n][i] }

// Reset empties the batch for its next use. It panics if an operation has not ended, or was added and not started.
func (b *Batch) Reset() {
	for i := range b.n {
		r := &b.reqs[i]
		if i >= b.started || r.state.Load() != reqDone {
			panic(fmt.Sprintf("ucx: Reset of a batch whose operation %d has not ended: Start it and Wait first", i))
		}
		r.reuse()
	}
	b.n, b.started = 0, 0
}
