package ucx

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
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
// The operations that one Start submitted keep their memory until the last of them has ended, unless Request was called
// for one that had not. A batch must be used by one goroutine at a time.
type Batch struct {
	w       *Worker
	reqs    []Request
	slots   []*ucp.Slot // Start's list, kept for its memory
	starts  []start     // as many as operations; nstarts are in use
	nstarts int
	n       int  // operations in reqs
	started int  // of which are in flight or done
	refused bool // an operation was rejected before it reached UCX
	// alone is set when Request has returned an operation that had not ended: operations then complete one by one.
	alone atomic.Bool
	// returned is set when Request has returned an operation, ended or not: it may have a channel.
	returned bool
}

// start is what one call of Start has submitted: operations that complete together, so that the last one is delivered
// for all of them.
type start struct {
	first, n int      // in Batch.reqs
	leader   *Request // done when all are; nil: they complete one by one
	failed   bool     // an operation has an error; owner: the token holder until the leader is done
}

// NewBatch returns a batch for up to size operations.
func (w *Worker) NewBatch(size int) *Batch {
	b := &Batch{w: w, reqs: make([]Request, size), slots: make([]*ucp.Slot, 0, size), starts: make([]start, size)}
	for i := range b.reqs {
		b.reqs[i].w, b.reqs[i].batch = w, b
	}
	return b
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
	r.op, r.ep = op, ep
	r.view, r.tag, r.arg = v, tag, mask
}

// Start submits the operations added since the last Start to UCX, in order. An operation that is rejected is finished,
// with its error.
func (b *Batch) Start() {
	first := b.started
	if first == b.n {
		return
	}
	free, err := b.w.drv.takeSlots(b.slots[:0], b.n-first)
	slots := free[:0]
	for ; b.started < b.n; b.started++ {
		r := &b.reqs[b.started]
		i := b.started - first
		if i >= len(free) {
			b.refuse(r, err)
			continue
		}
		s := free[i]
		if err := b.prepare(r, s); err != nil {
			b.refuse(r, err)
			continue
		}
		slots = append(slots, s)
	}
	b.submit(first, slots)
}

// submit passes the slots of the operations from first on to UCX.
func (b *Batch) submit(first int, slots []*ucp.Slot) {
	if len(slots) == 0 {
		return
	}
	st := &b.starts[b.nstarts]
	st.first, st.n, st.leader, st.failed = first, b.started-first, nil, false
	if !b.alone.Load() {
		leader := slots[0]
		for _, s := range slots {
			s.Leader = leader
		}
		c, k := b.w.drv.slots.at(leader.Index)
		st.leader = c.cur[k]
		leader.Left, leader.Arg[0] = uint64(len(slots)), uint64(b.nstarts)
	}
	b.nstarts++
	b.w.drv.push(slots...)
}

// refuse ends an operation that was rejected.
func (b *Batch) refuse(r *Request, err error) {
	b.refused = true
	r.refuse(err)
}

// prepare points a slot at the operation. If it fails, the slot is returned.
func (b *Batch) prepare(r *Request, s *ucp.Slot) error {
	d, v := &b.w.drv, &r.view
	err := b.w.ctx.allows(r.op)
	if r.ep != nil && r.ep.w != b.w {
		err = fmt.Errorf("ucx: endpoint and batch belong to different workers")
	}
	if err != nil {
		r.view = View{}
		d.putSlot(s)
		return err
	}
	resetSlot(s, r.op, r.ep.native())
	s.Tag, s.Mask = r.tag, r.arg
	if recv := r.op == ucp.OpTagRecv; v.ptr != nil && v.n <= ucp.InlineSize && v.bad == nil && !v.readOnly {
		s.Buf, s.Len, s.MemType = uintptr(unsafe.Pointer(&s.Inline)), uint64(v.n), 0
		if r.copyOut, r.copied = recv, !recv; !recv {
			copy(s.Inline[:], unsafe.Slice((*byte)(v.ptr), v.n))
		}
	} else {
		view := *v
		r.view = View{}
		if err := b.w.mem.bind(s, r, view, recv, false); err != nil {
			return r.unbind(s, err)
		}
	}
	d.entrust(s, r)
	return nil
}

// deliverBatch delivers the operations of one start, whose last one has completed; r is the leader. The caller holds
// the token.
func (d *driver) deliverBatch(r *Request, leader *ucp.Slot) {
	b := r.batch
	st := &b.starts[leader.Arg[0]]
	alone := b.alone.Load()
	var free slotChain
	for i := range st.n {
		q := &b.reqs[st.first+i]
		s := q.slot
		if s == nil {
			continue // it was rejected
		}
		c, k := d.slots.at(s.Index)
		c.cur[k] = nil
		q.takeResult(s)
		st.failed = st.failed || q.err != nil
		d.drop(q)
		s.Leader, s.State = nil, ucp.Free
		s.Serial++
		free.add(&d.slots, s.Index)
		if alone && q != r { // it may have a waiter of its own
			q.finish()
		}
	}
	d.slots.pushChain(free)
	r.finish()
}

// Wait waits until all started operations have ended and returns the first error among them. When ctx ends first, Wait
// returns its error and the operations continue, keeping their memory.
func (b *Batch) Wait(ctx context.Context) error {
	failed := b.refused
	for i := range b.nstarts {
		st := &b.starts[i]
		if err := b.waitStart(ctx, st); err != nil {
			return err
		}
		failed = failed || st.failed
	}
	if !failed {
		return nil
	}
	for i := range b.started {
		if err := b.reqs[i].err; err != nil {
			return err
		}
	}
	return nil
}

// waitStart waits for the operations of one start.
func (b *Batch) waitStart(ctx context.Context, st *start) error {
	if st.leader != nil {
		return waitEnd(ctx, st.leader, 1)
	}
	for i := range st.n {
		r := &b.reqs[st.first+i]
		if err := waitEnd(ctx, r, st.n-i); err != nil {
			return err
		}
		st.failed = st.failed || r.err != nil
	}
	return nil
}

// waitEnd waits until a request has ended, one of several that the caller waits for. It returns only errors of the
// context.
func waitEnd(ctx context.Context, r *Request, several int) error {
	if r.state.Load() == reqDone {
		return nil
	}
	if err := r.await(ctx, several); err != nil && r.state.Load() != reqDone {
		return err
	}
	return nil
}

// Request returns an operation by its index in the batch, for its error, its Info or to cancel it. It is valid until
// Reset.
func (b *Batch) Request(i int) *Request {
	r := &b.reqs[:b.n][i]
	b.returned = true
	if !b.ended(i) && !b.alone.Swap(true) {
		for k := range b.nstarts {
			b.ungroup(&b.starts[k])
		}
		b.ended(i)
	}
	return r
}

// ended reports whether an operation has ended, and marks it as such.
func (b *Batch) ended(i int) bool {
	r := &b.reqs[i]
	if r.state.Load() == reqDone {
		return true
	}
	for k := range b.nstarts {
		st := &b.starts[k]
		if i >= st.first && i < st.first+st.n {
			if st.leader != nil && st.leader.state.Load() == reqDone {
				r.state.Store(reqDone)
				return true
			}
			break
		}
	}
	return false
}

// ungroup makes the operations of a start that have not been delivered complete one by one.
func (b *Batch) ungroup(st *start) {
	list := ucp.Malloc(st.n * int(unsafe.Sizeof(b.slots[0])))
	defer ucp.FreeMemory(list)
	n := 0
	for i := range st.n {
		if s := b.reqs[st.first+i].slot; s != nil {
			unsafe.Slice((**ucp.Slot)(list), st.n)[n] = s
			n++
		}
	}
	_ = b.w.drv.internalCall("ungroup batch", ucp.CallUngroup, func(s *ucp.Slot) {
		s.Hdr, s.HdrLen, s.Arg[0] = uintptr(list), uint64(n), uint64(st.leader.serial)
	}, func(s *ucp.Slot) {
		if s.Arg[1] != 0 {
			st.leader = nil
		}
	})
}

// Reset empties the batch for its next use. It panics if an operation has not ended, or was added and not started.
func (b *Batch) Reset() {
	if i := b.unfinished(); i >= 0 {
		panic(fmt.Sprintf("ucx: Reset of a batch whose operation %d has not ended: Start it and Wait first", i))
	}
	for k := range b.nstarts {
		if r := b.starts[k].leader; r != nil && !b.returned {
			r.forget()
		}
	}
	for i := range b.n {
		r := &b.reqs[i]
		if b.returned {
			r.forget()
		}
		if r.state.Load() != reqPending {
			r.state.Store(reqPending)
		}
		r.ep, r.slot, r.err, r.status, r.n = nil, nil, nil, 0, 0
		r.copyOut, r.copied = false, false
	}
	b.n, b.started, b.nstarts, b.refused, b.returned = 0, 0, 0, false, false
	b.alone.Store(false)
}

// unfinished returns the index of an operation that has not ended, or was not started, or -1.
func (b *Batch) unfinished() int {
	for k := range b.nstarts {
		st := &b.starts[k]
		if st.leader != nil {
			if st.leader.state.Load() != reqDone {
				return st.first
			}
			continue
		}
		for i := range st.n {
			if b.reqs[st.first+i].state.Load() != reqDone {
				return st.first + i
			}
		}
	}
	if b.started < b.n {
		return b.started
	}
	return -1
}
