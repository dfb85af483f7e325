package ucx

import (
	"context"
	"unsafe"

	"go.millstream.dev/internal/ucp"
)

// hotTag is the short way of a blocking tag operation that finds the token free and
// whose memory needs no preparation: it uses the slot that belongs to the token and
// touches no other shared state. done is false if the long way must be taken; then
// nothing has happened.
//
//nolint:revive // the error is not last: done decides whether the others mean anything
func (w *Worker) hotTag(ctx context.Context, op ucp.Op, ep *Endpoint, v View, tag, mask uint64) (info RecvInfo, err error, done bool) {
	recv := op == ucp.OpTagRecv
	inline := v.ptr != nil && v.n <= ucp.InlineSize
	pinned := v.ptr != nil && !inline && ep != nil && w.ctx.pinOK
	if !inline && !pinned && !w.hotBuffer(ep, v) || recv && v.readOnly || w.ctx.cfg.Features&Tag == 0 || !w.tryToken() {
		return info, nil, false
	}
	s := w.takeHot()
	if s == nil || ended(ctx) {
		w.putHot(s)
		w.leaveFast()
		return info, nil, false
	}
	c, k := w.slots.at(s.Index)
	r := &c.own[k]
	resetSlot(s, op, ep.native())
	s.Tag, s.Mask, s.Len, s.MemType = tag, mask, uint64(v.n), 0
	switch {
	case inline:
		s.Buf = uintptr(unsafe.Pointer(&s.Inline))
		if !recv {
			copy(s.Inline[:], unsafe.Slice((*byte)(v.ptr), v.n))
		}
	case pinned:
		r.pinner.Pin(v.ptr)
		s.Buf = uintptr(v.ptr)
	default:
		s.Buf = v.base()
		if reg, ok := v.buf.Region().Attached(w.ctx); ok {
			s.Memh = reg.(*registration).memh
		}
	}
	s.Notify, s.State = 0, ucp.Queued
	res := ucp.Drive(w.c, s, w.spin.next())
	if res&ucp.ResultOwn != 0 && s.Status == 0 {
		info.Tag, info.Len = s.RTag, int(s.RLen)
		if inline && recv {
			copy(unsafe.Slice((*byte)(v.ptr), v.n), s.Inline[:info.Len])
		}
		if pinned {
			r.pinner.Unpin()
		}
		w.putHot(s)
		w.spin.won(w.c.LastSpin)
		w.leaveFast()
		return info, nil, true
	}
	// It takes longer or failed: from here on it is an operation like any other.
	r.reset(op, ep)
	r.view, r.copyOut, r.pinned = v, inline && recv, pinned
	if v.buf != nil {
		v.buf.Retain()
	}
	if err := w.drive(ctx, s, r, res); err != nil {
		return info, err, true
	}
	info, err = w.conclude(s, r)
	return info, err, true
}

// hotBuffer reports counted host memory that can be handed to UCX as it is. A receive
// that no endpoint's closing can end is staged instead, and so takes the long way.
func (w *Worker) hotBuffer(ep *Endpoint, v View) bool {
	if v.buf == nil || v.n == 0 || ep == nil || v.bad != nil || v.onDevice() || v.buf.Ready() != nil {
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
