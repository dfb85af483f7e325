package ucx

import (
	"context"
	"fmt"
	"unsafe"

	"go.millstream.dev/ucx/internal/ucp"
)

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
	ops     []batchOp
	reqs    []Request   // in use: not small, failed, or returned by Request
	slots   []*ucp.Slot // Start's list, kept for its memory
	starts  []start     // as many as operations; nstarts are in use
	nstarts int
	n       int  // operations in ops
	started int  // of which are in flight or done
	refused bool // an operation was rejected before it reached UCX
	large   bool // an operation is not small
	sends   bool // an operation is not a receive
	// alone is set when Request has returned an operation that had not ended: operations then complete one by one.
	alone bool
	// returned is set when Request has returned an operation, ended or not: it may have a channel.
	returned bool
}

// batchOp is one operation. Most have small Go memory, which is copied through the slot, and succeed: they need no
// more than this, which is a fraction of a Request.
type batchOp struct {
	ep    *Endpoint
	ptr   unsafe.Pointer // memory of a small operation
	slot  *ucp.Slot      // nil: rejected
	tag   uint64         // of the operation, then of the message
	mask  uint64         // of a receive; then the length of the message
	n     uint32         // length of ptr
	op    ucp.Op
	small bool
}

// start is what one call of Start has submitted: operations that complete together, so that the last one is delivered
// for all of them.
type start struct {
	first, n int      // in Batch.ops
	leader   *Request // done when all are; nil: they complete one by one
	filled   bool     // the requests of small operations are in use; guarded by leader.mu
	failed   bool     // an operation has an error; owner: the token holder until the leader is done
}

// NewBatch returns a batch for up to size operations.
func (w *Worker) NewBatch(size int) *Batch {
	b := &Batch{w: w, ops: make([]batchOp, size), reqs: make([]Request, size), slots: make([]*ucp.Slot, 0, size),
		starts: make([]start, size)}
	for i := range b.reqs {
		b.reqs[i].w, b.reqs[i].batch = w, b
	}
	return b
}

// Send adds a Send on an endpoint of the batch's worker.
func (b *Batch) Send(ep *Endpoint, v View, tag uint64) { b.add(ucp.OpTagSend, ep, &v, tag, 0) }

// Recv adds a receive: Endpoint.Recv, or Worker.StartRecv if ep is nil.
func (b *Batch) Recv(ep *Endpoint, v View, tag, mask uint64) { b.add(ucp.OpTagRecv, ep, &v, tag, mask) }

func (b *Batch) add(op ucp.Op, ep *Endpoint, v *View, tag, mask uint64) {
	if b.n == len(b.ops) {
		panic(fmt.Sprintf("ucx: batch of %d operations is full: Start it, Wait and Reset, or create a larger one", b.n))
	}
	o := &b.ops[b.n]
	o.ep, o.tag, o.mask, o.op = ep, tag, mask, op
	b.sends = b.sends || op != ucp.OpTagRecv
	if v.ptr != nil && v.n <= ucp.InlineSize && v.bad == nil && !v.readOnly {
		o.ptr, o.n, o.small = v.ptr, uint32(v.n), true
	} else {
		o.small, b.large = false, true
		b.reqs[b.n].view = *v
	}
	b.n++
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
		i := b.started - first
		if i >= len(free) {
			b.refuse(b.started, err)
			continue
		}
		s := free[i]
		if err := b.prepare(b.started, s); err != nil {
			b.refuse(b.started, err)
			continue
		}
		slots = append(slots, s)
	}
	b.submit(first, slots)
}

// prepare points a slot at an operation. If it fails, the slot is returned.
func (b *Batch) prepare(i int, s *ucp.Slot) error {
	o, d := &b.ops[i], &b.w.drv
	err := b.w.ctx.allows(o.op)
	if o.ep != nil && o.ep.w != b.w {
		err = fmt.Errorf("ucx: endpoint and batch belong to different workers")
	}
	if err != nil {
		b.reqs[i].view = View{}
		d.putSlot(s)
		return err
	}
	c, k := d.slots.at(s.Index)
	r := &b.reqs[i]
	if o.small {
		s.Op, s.EP = o.op, o.ep.native()
		s.Tag, s.Mask = o.tag, o.mask
		s.Buf, s.Len, s.MemType = uintptr(unsafe.Pointer(&s.Inline)), uint64(o.n), 0
		s.Memh, s.Event, s.Device, s.Flags, s.Status = nil, 0, -1, 0, 0
		s.RTag, s.RLen, s.Leader = 0, 0, nil
		if o.op != ucp.OpTagRecv {
			copy(s.Inline[:], unsafe.Slice((*byte)(o.ptr), o.n))
		}
		s.Notify, s.State = 1, ucp.Queued
		if o.slot = s; b.alone {
			b.fill(i)
		}
	} else {
		resetSlot(s, o.op, o.ep.native())
		s.Tag, s.Mask = o.tag, o.mask
		view := r.view
		r.op, r.ep, r.view = o.op, o.ep, View{}
		if err := b.w.mem.bind(s, r, view, o.op == ucp.OpTagRecv, false); err != nil {
			return r.unbind(s, err)
		}
		o.slot = s
		d.entrust(s, r)
	}
	c.cur[k] = r
	return nil
}

// fill sets the request of a small operation in flight.
func (b *Batch) fill(i int) {
	o, r := &b.ops[i], &b.reqs[i]
	recv := o.op == ucp.OpTagRecv
	r.op, r.ep, r.view = o.op, o.ep, View{ptr: o.ptr, n: int(o.n), device: -1}
	r.copyOut, r.copied = recv, !recv
	r.slot, r.serial = o.slot, o.slot.Serial
}

// submit passes the slots of the operations from first on to UCX.
func (b *Batch) submit(first int, slots []*ucp.Slot) {
	if len(slots) == 0 {
		return
	}
	st := &b.starts[b.nstarts]
	st.first, st.n, st.leader, st.filled, st.failed = first, b.started-first, nil, b.alone, false
	if !b.alone {
		leader := slots[0]
		for _, s := range slots {
			s.Leader = leader
		}
		c, k := b.w.drv.slots.at(leader.Index)
		st.leader = c.cur[k]
		leader.Left, leader.Arg[0] = uint64(len(slots)), uint64(b.nstarts)
	}
	b.nstarts++
	if b.sends {
		b.w.drv.push(slots...)
	} else {
		b.w.drv.pushReceives(slots...)
	}
}

// refuse ends an operation that was rejected.
func (b *Batch) refuse(i int, err error) {
	b.refused = true
	o, r := &b.ops[i], &b.reqs[i]
	o.slot = nil
	r.op, r.ep = o.op, o.ep
	r.refuse(err)
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
	// Until r is done, the goroutine that progresses the worker may set its other fields: see takeResult.
	if err := r.w.drv.await(ctx, r, several); err != nil && r.state.Load() != reqDone {
		return &OpError{Op: "batch", Err: err}
	}
	return nil
}

// Reset empties the batch for its next use. It panics if an operation has not ended, or was added and not started.
func (b *Batch) Reset() {
	if i := b.unfinished(); i >= 0 {
		panic(fmt.Sprintf("ucx: Reset of a batch whose operation %d has not ended: Start it and Wait first", i))
	}
	used := b.large || b.refused || b.returned
	for k := range b.nstarts {
		st := &b.starts[k]
		if r := st.leader; r != nil {
			r.forget()
			r.state.Store(reqPending)
		}
		used = used || st.failed || st.filled
	}
	if used {
		b.resetRequests()
	}
	clear(b.ops[:b.n])
	b.n, b.started, b.nstarts = 0, 0, 0
	b.refused, b.large, b.sends, b.alone, b.returned = false, false, false, false, false
}

func (b *Batch) resetRequests() {
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

// deliverBatch delivers the operations of one start, whose last one has completed; r is the leader. The caller holds
// the token.
func (d *driver) deliverBatch(r *Request, leader *ucp.Slot) {
	b := r.batch
	st := &b.starts[leader.Arg[0]]
	r.mu.Lock() // fillStart may be called now
	var free slotChain
	for i := st.first; i < st.first+st.n; i++ {
		o := &b.ops[i]
		s := o.slot
		if s == nil {
			continue // it was rejected
		}
		c, k := d.slots.at(s.Index)
		c.cur[k] = nil
		if o.small && !st.filled && s.Status == 0 {
			o.take(s)
		} else {
			b.takeResult(i, st)
		}
		s.Leader, s.State = nil, ucp.Free
		s.Serial++
		free.add(&d.slots, s.Index)
	}
	d.slots.pushChain(free)
	r.finishLocked()
	r.mu.Unlock()
}

// take copies the result of a small operation that succeeded.
func (o *batchOp) take(s *ucp.Slot) {
	if o.op == ucp.OpTagRecv {
		o.tag, o.mask = s.RTag, s.RLen
		copy(unsafe.Slice((*byte)(o.ptr), o.n), s.Inline[:min(s.RLen, uint64(o.n))])
	}
	o.ptr = nil
}

// takeResult takes the result of an operation with its request.
func (b *Batch) takeResult(i int, st *start) {
	o, q := &b.ops[i], &b.reqs[i]
	if o.small && !st.filled {
		b.fill(i)
	}
	q.takeResult(o.slot)
	st.failed = st.failed || q.err != nil
	b.w.drv.drop(q)
	o.small = false
	if st.filled && q != st.leader { // it may have a waiter of its own
		q.finish()
	}
}

// Request returns an operation by its index in the batch, for its error, its Info or to cancel it. It is valid until
// Reset.
func (b *Batch) Request(i int) *Request {
	r := &b.reqs[:b.n][i]
	b.returned = true
	if !b.ended(i) && !b.alone {
		b.alone = true
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
	if r.state.Load() == reqDone && r != b.leaderOf(i) {
		return true
	}
	l := b.leaderOf(i)
	if l == nil || l.state.Load() != reqDone {
		return false
	}
	if o := &b.ops[i]; o.small {
		r.op, r.ep = o.op, o.ep
		if o.op == ucp.OpTagRecv {
			r.tag, r.n = o.tag, int(o.mask)
		}
		o.small = false
	}
	r.state.Store(reqDone)
	return true
}

// leaderOf returns the leader of the start to which an operation belongs, or nil.
func (b *Batch) leaderOf(i int) *Request {
	for k := range b.nstarts {
		if st := &b.starts[k]; i >= st.first && i < st.first+st.n {
			return st.leader
		}
	}
	return nil
}

// ungroup makes the operations of a start that have not been delivered complete one by one.
func (b *Batch) ungroup(st *start) {
	if st.leader == nil || !b.fillStart(st) {
		return
	}
	list := ucp.Malloc(st.n * int(unsafe.Sizeof(b.slots[0])))
	defer ucp.FreeMemory(list)
	n := 0
	for i := range st.n {
		if s := b.ops[st.first+i].slot; s != nil {
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

// fillStart sets the requests of a start that has not been delivered, and reports whether there is one.
func (b *Batch) fillStart(st *start) bool {
	l := st.leader
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state.Load() == reqDone {
		return false
	}
	for i := st.first; i < st.first+st.n; i++ {
		if o := &b.ops[i]; o.small && o.slot != nil {
			b.fill(i)
		}
	}
	st.filled = true
	return true
}
