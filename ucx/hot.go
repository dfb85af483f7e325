package ucx

import (
	"context"
	"runtime"
	"unsafe"

	"go.millstream.dev/ucx/internal/ucp"
)

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
func (w *Worker) hotTag(ctx context.Context, op ucp.Op, ep *Endpoint, v View, tag, mask uint64) (info RecvInfo, err error, done bool) {
	recv := op == ucp.OpTagRecv
	if !w.hotView(ep, v, recv) || w.ctx.cfg.Features&Tag == 0 || !w.tryToken() {
		return info, nil, false
	}
	s := w.takeHot()
	if s == nil || ended(ctx) {
		w.putHot(s)
		w.leaveFast()
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
	res := ucp.Drive(w.c, s, w.spin.next())
	if res&ucp.ResultOwn != 0 && s.Status == 0 {
		info.Tag, info.Len = s.RTag, int(s.RLen)
		w.putHot(s)
		w.spin.won(w.c.LastSpin)
		w.leaveFast()
		runtime.KeepAlive(v.ptr)
		return info, nil, true
	}
	// It takes longer or failed: from here on it is an operation like any other.
	c, k := w.slots.at(s.Index)
	r := &c.own[k]
	r.reset(op, ep)
	r.view, r.copied = v, copied
	if v.buf != nil {
		v.buf.Retain()
	} else if !copied && res&ucp.ResultOwn == 0 {
		r.pinner.Pin(v.ptr)
		r.pinned = true
	}
	if err := w.drive(ctx, s, r, res); err != nil {
		return info, err, true
	}
	info, err = w.conclude(s, r)
	return info, err, true
}

// hotView reports memory that needs no preparation. A receive above the inline size
// that no endpoint's closing can end is staged instead, and so takes the long way.
func (w *Worker) hotView(ep *Endpoint, v View, recv bool) bool {
	switch {
	case v.n == 0 || v.bad != nil || recv && v.readOnly:
		return false
	case v.ptr != nil:
		return w.ctx.pinOK && ep != nil || !recv && v.n <= ucp.InlineSize
	}
	return w.hotBuffer(ep, v)
}

// hotBuffer reports counted host memory that can be handed to UCX as it is.
func (w *Worker) hotBuffer(ep *Endpoint, v View) bool {
	if v.buf == nil || ep == nil || v.onDevice() || v.buf.Ready() != nil {
		return false
	}
	region := v.buf.Region()
	if region.GoHeap() {
		return false
	}
	if !w.registers(region) {
		return true
	}
	_, ok := region.Attached(w.ctx)
	return ok
}

// takeHot takes the token's slot. The caller holds the token.
func (w *Worker) takeHot() *ucp.Slot {
	s := w.hot
	if s != nil {
		w.hot = nil
		return s
	}
	if w.closing.Load() {
		return nil
	}
	if i, ok := w.slots.pop(); ok {
		c, k := w.slots.at(i)
		return &c.slots[k]
	}
	return nil
}

// putHot gives the token its slot back. The caller holds the token.
func (w *Worker) putHot(s *ucp.Slot) {
	if s == nil {
		return
	}
	if w.hot != nil || w.closing.Load() {
		w.putSlot(s)
		return
	}
	s.State = ucp.Free
	s.Serial++
	w.hot = s
}

// dropHot returns the token's slot to the free list, for the closing worker.
func (w *Worker) dropHot() {
	if s := w.hot; s != nil {
		w.hot = nil
		w.putSlot(s)
	}
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
