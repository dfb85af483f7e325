package ucx

import (
	"context"
	"fmt"
	"unsafe"

	"go.millstream.dev/mem"
	"go.millstream.dev/ucx/internal/ucp"
)

// registerAbove is the region size from which memory is registered explicitly. For
// smaller regions UCX's own handling is cheaper than keeping a registration.
const registerAbove = 64 << 10

// prepare takes a slot for a blocking operation.
func (w *Worker) prepare(op ucp.Op, ep *Endpoint) (*ucp.Slot, *Request, error) {
	if err := w.ctx.allows(op); err != nil {
		return nil, nil, &OpError{Op: op.String(), Peer: peerOf(ep), Err: err}
	}
	s, r, err := w.takeSlot()
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

// bind points a slot at the memory of a view. recv says that UCX will write it.
//
// Go memory up to the slot's inline size is copied. Above, it is pinned where no
// transport of the context caches registrations, and staged otherwise. stage asks
// for staging in any case: for blocking receives that no endpoint's closing can end.
func (w *Worker) bind(s *ucp.Slot, r *Request, v View, recv, stage bool) error {
	if v.bad != nil {
		return v.bad
	}
	if recv && v.readOnly {
		return fmt.Errorf("ucx: cannot receive into read-only memory (%d bytes)", v.n)
	}
	s.Len = uint64(v.n)
	r.view = v
	if v.buf != nil {
		v.buf.Retain()
	}
	if v.n == 0 {
		s.Buf, s.MemType = uintptr(unsafe.Pointer(&s.Inline)), 0
		return nil
	}
	if v.buf != nil { // host memory too: a device may be copying to or from it
		if ev := v.buf.Ready(); ev != nil {
			s.Event, r.event = ev.Handle(), ev
		}
	}
	if v.goHeap() || stage && !v.onDevice() {
		return w.bindHost(s, r, v, recv, stage)
	}
	s.Buf, s.MemType = v.base(), v.memType()
	if v.onDevice() {
		s.Device = v.device
	}
	return w.bindRegistered(s, v)
}

func (w *Worker) bindHost(s *ucp.Slot, r *Request, v View, recv, stage bool) error {
	s.MemType = 0
	switch {
	case v.n <= ucp.InlineSize:
		s.Buf = uintptr(unsafe.Pointer(&s.Inline))
		if recv {
			r.copyOut = true
		} else {
			r.copied = true
			copy(s.Inline[:], v.bytes())
		}
	case w.ctx.pinOK && !stage:
		r.pinner.Pin(v.goPointer())
		r.pinned = true
		s.Buf = uintptr(v.goPointer())
	default:
		b, err := w.stagingBuffer(v.n)
		if err != nil {
			return err
		}
		r.staging = b
		s.Buf = b.Addr()
		if recv {
			r.copyOut = true
		} else {
			copy(b.Bytes(), v.bytes())
		}
	}
	return nil
}

func (w *Worker) bindRegistered(s *ucp.Slot, v View) error {
	if v.buf == nil || !w.registers(v.buf.Region()) {
		return nil
	}
	reg, err := w.ctx.register(v.buf.Region())
	if err != nil {
		return err
	}
	s.Memh = reg.memh
	return nil
}

// registers reports whether a region is handed to UCX with a registration of its own.
// Protocols before 1.16 ignore user handles and register by themselves.
func (w *Worker) registers(r *mem.Region) bool {
	return r.Len() >= registerAbove && w.ctx.lib.AtLeast(1, 16)
}

// stagingBuffer returns C memory that UCX may keep registered.
func (w *Worker) stagingBuffer(n int) (*mem.Buffer, error) {
	w.poolMu.Lock()
	defer w.poolMu.Unlock()
	if w.pool == nil {
		p, err := mem.NewPool(mem.NewMmap(mem.MmapConfig{}), mem.PoolConfig{})
		if err != nil {
			return nil, err
		}
		w.pool = p
	}
	return w.pool.Alloc(background, n)
}

// unbind undoes bind for an operation that never reached UCX.
func (w *Worker) unbind(s *ucp.Slot, r *Request, err error) error {
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
	w.putSlot(s)
	return &OpError{Op: op, Peer: peer, Err: err}
}

// finishBlocking runs a prepared operation to its end.
func (w *Worker) finishBlocking(ctx context.Context, s *ucp.Slot, r *Request) error {
	_, err := w.finishInfo(ctx, s, r)
	return err
}

func (w *Worker) finishInfo(ctx context.Context, s *ucp.Slot, r *Request) (RecvInfo, error) {
	if ctx.Err() != nil {
		return RecvInfo{}, w.unbind(s, r, contextError(ctx))
	}
	return w.finishRun(ctx, s, r)
}

// finishSubmitted is finishBlocking for an operation that consumes something even when
// ctx has ended: it is submitted in any case.
func (w *Worker) finishSubmitted(ctx context.Context, s *ucp.Slot, r *Request) error {
	_, err := w.finishRun(ctx, s, r)
	return err
}

func (w *Worker) finishRun(ctx context.Context, s *ucp.Slot, r *Request) (RecvInfo, error) {
	if err := w.run(ctx, s, r); err != nil {
		return RecvInfo{}, err
	}
	return w.conclude(s, r)
}

// conclude takes the result of a finished blocking operation and gives its slot back.
func (w *Worker) conclude(s *ucp.Slot, r *Request) (RecvInfo, error) {
	r.settle(s)
	info, err := RecvInfo{Tag: r.tag, Len: r.n}, r.err
	if r.view.buf != nil || r.staging != nil || r.views != nil {
		r.release()
	} else {
		r.view = View{}
	}
	w.putSlot(s)
	return info, err
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
	s, _, err := w.takeSlot()
	if err != nil {
		return nil, err
	}
	resetSlot(s, r.op, r.ep.native())
	return s, nil
}

// launch hands a started operation over. The request finishes by itself.
func (w *Worker) launch(s *ucp.Slot, r *Request) {
	w.entrust(s, r)
	if !w.tryToken() {
		w.push(s)
		return
	}
	if ucp.Drive(w.c, s, 0)&ucp.ResultWork != 0 {
		w.dispatch()
	}
	w.leaveFast()
}

// entrust makes a slot's completion the request's.
func (w *Worker) entrust(s *ucp.Slot, r *Request) {
	c, k := w.slots.at(s.Index)
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
	w.launch(s, r)
	return r
}

// startView is the common form of a started operation on one view. A request that
// is refused comes back finished, with its error.
func (w *Worker) startView(op ucp.Op, ep *Endpoint, v View, recv bool, set func(*ucp.Slot)) *Request {
	s, r, err := w.startOn(op, ep)
	if err != nil {
		return failedRequest(op, ep, err)
	}
	if err := w.bind(s, r, v, recv, false); err != nil {
		return failedRequest(op, ep, w.unbind(s, r, err))
	}
	if set != nil {
		set(s)
	}
	w.launch(s, r)
	return r
}
