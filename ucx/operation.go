package ucx

import (
	"context"
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

// startOn makes a Request for a started operation and takes its slot.
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

// launch hands a started operation over. The request finishes by itself.
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

// entrust makes a slot's completion the request's.
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

// startView is the common form of a started operation on one view. A request that
// is refused comes back finished, with its error.
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

// finishBlocking runs a prepared operation to its end.
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

// finishSubmitted is finishBlocking for an operation that consumes something even when
// ctx has ended: it is submitted in any case.
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

// conclude takes the result of a finished blocking operation and gives its slot back.
func (r *Request) conclude(s *ucp.Slot) (RecvInfo, error) {
	r.settle(s)
	info, err := RecvInfo{Tag: r.tag, Len: r.n}, r.err
	if r.view.buf != nil || r.staging != nil || r.views != nil {
		r.release()
	} else {
		r.view = View{}
	}
	r.w.drv.putSlot(s)
	return info, err
}

// hotTag is the short way of a blocking tag operation that finds the token free and
// whose memory needs no preparation: it uses the slot that belongs to the token and
// touches no other shared state. done is false if the long way must be taken; then
// nothing has happened.
//
// Go memory is lent to C for the length of one call, in which nothing moves; only an
// operation that outlives its first call is pinned. Small sends are copied, so that
// one that has to wait can be given up without its endpoint.
//
//nolint:revive // the error is not last: done decides whether the others mean anything
func (w *Worker) hotTag(ctx context.Context, op ucp.Op, ep *Endpoint, v View, tag, mask uint64) (info RecvInfo,
	err error, done bool) {
	recv := op == ucp.OpTagRecv
	if !w.mem.hotView(ep, v, recv) || w.ctx.cfg.Features&Tag == 0 || !w.drv.tryToken() {
		return info, nil, false
	}
	s := w.drv.takeHot()
	if s == nil || ended(ctx) {
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
	// It takes longer or failed: from here on it is an operation like any other.
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

// ended reports whether a context has ended, at the price of a look at its channel.
func ended(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return true
	default:
		return false
	}
}
