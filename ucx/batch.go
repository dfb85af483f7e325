package ucx

import (
	"context"
	"fmt"

	"go.millstream.dev/ucx/internal/ucp"
)

// Batch is a number of tag operations that are handed to UCX together and waited for
// together. An operation of a batch costs a fraction of one that is started alone: one
// call into C submits them all, one collects what has completed, and nothing is allocated
// when the batch is used again. Two batches that take turns keep a connection busy:
//
//	for i := 0; ; i++ {
//		b := batches[i%2]
//		if err := b.Wait(ctx); err != nil { … } // the round before the last
//		b.Reset()
//		for … { b.Send(ep, view, tag) }
//		b.Start()
//	}
//
// One goroutine uses a batch at a time.
type Batch struct {
	w       *Worker
	reqs    []Request
	slots   []*ucp.Slot // Start's list, kept for its memory
	n       int         // operations in reqs
	started int         // of which are under way or done
}

// NewBatch makes a batch for up to size operations.
func (w *Worker) NewBatch(size int) *Batch {
	return &Batch{w: w, reqs: make([]Request, size), slots: make([]*ucp.Slot, 0, size)}
}

// Send adds a Send on an endpoint of the batch's worker.
func (b *Batch) Send(ep *Endpoint, v View, tag uint64) { b.add(ucp.OpTagSend, ep, v, tag, 0) }

// SendSync adds a SendSync.
func (b *Batch) SendSync(ep *Endpoint, v View, tag uint64) { b.add(ucp.OpTagSendSync, ep, v, tag, 0) }

// Recv adds a receive: Endpoint.Recv, or Worker.StartRecv if ep is nil.
func (b *Batch) Recv(ep *Endpoint, v View, tag, mask uint64) { b.add(ucp.OpTagRecv, ep, v, tag, mask) }

func (b *Batch) add(op ucp.Op, ep *Endpoint, v View, tag, mask uint64) {
	if b.n == len(b.reqs) {
		panic(fmt.Sprintf("ucx: a batch of %d operations is full: Start it, Wait and Reset, or make a larger one", b.n))
	}
	r := &b.reqs[b.n]
	b.n++
	r.w, r.op, r.ep = b.w, op, ep
	r.view, r.tag, r.arg = v, tag, mask
}

// Start hands what was added since the last Start to UCX, in order. One that is refused has
// ended then, with its error.
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
		return nil, fmt.Errorf("ucx: the endpoint is of another worker than the batch")
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

// Wait waits until all started operations have ended and returns the first error among
// them. When ctx ends first, Wait returns its error and the operations go on, keeping
// their memory.
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

// Len is how many operations the batch has.
func (b *Batch) Len() int { return b.n }

// Request returns an operation by its place in the batch, for its error, its Info or to
// cancel it. It is valid until Reset.
func (b *Batch) Request(i int) *Request { return &b.reqs[:b.n][i] }

// Reset empties the batch for its next use. All its operations must have ended: it panics
// if one has not, or was added and not started.
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
