package ucx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"go.millstream.dev/mem"
)

// RecvFrames receives the next message that the peer sent with SendFrames, into
// memory of the given allocators. The caller releases the frames. The small frames of
// a message share one piece of memory when they go to Go's heap.
//
// A message beyond the allocators' limits, or one there is no memory for, is dropped
// with an error and the next one can be received. When ctx ends after a message has
// begun to arrive the endpoint is force-closed; before, nothing is lost. After the
// peer has closed and everything was received the error is io.EOF for errors.Is.
func (ep *Endpoint) RecvFrames(ctx context.Context, alloc Allocators) (Frames, error) {
	fc, err := ep.frameState()
	if err == nil {
		var msg *frameMessage
		if msg, err = fc.ready.recvWithin(ctx, ep.w, alloc.Spin); err == nil {
			var f Frames
			if f, err = fc.receive(ctx, msg, &alloc); err == nil {
				return f, nil
			}
		}
	}
	return nil, &OpError{Op: opRecvFrames, Peer: ep.peer, Err: inner(err)}
}

// inner takes off an OpError whose place another one takes.
func inner(err error) error {
	var oe *OpError
	if errors.As(err, &oe) {
		return oe.Err
	}
	return err
}

func (fc *frameConn) receive(ctx context.Context, msg *frameMessage, alloc *Allocators) (Frames, error) {
	table := msg.table
	fc.paid(table)
	reading := ctx
	if !table.rndv {
		reading = background // it is here: reading it does not wait
	}
	data, err := table.Bytes(reading, maxFrames*(frameEntrySize+frameAlign)+frameInlineTotal)
	if err != nil { // only of a peer that does not keep to the format, or is gone
		table.Release()
		return nil, fc.violation(err)
	}
	entries, separate, total, err := decodeFrameTable(data, msg.count)
	if err != nil {
		return nil, fc.violation(err)
	}
	r := frameReceiver{fc: fc, msg: msg, frames: make(Frames, len(entries))}
	if err = alloc.limits(len(entries), total); err == nil {
		err = r.takeInline(ctx, entries, data, alloc)
	}
	if err == nil {
		err = r.takeSeparate(ctx, entries, alloc)
	}
	if err != nil {
		if ctx.Err() != nil { // an allocator gave up: the message is lost, and the peer must know
			err = fc.ep.breakOff(err, r.open)
		}
		r.frames.Release()
		fc.giveUp(msg, separate-r.taken)
		return nil, err
	}
	fc.mu.Lock()
	delete(fc.msgs, msg.seq)
	fc.mu.Unlock()
	return r.frames, nil
}

// frameReceiver is one call of RecvFrames.
type frameReceiver struct {
	fc     *frameConn
	msg    *frameMessage
	frames Frames
	taken  int // separate frames taken from the queue
	open   []*Request
	device bool // some of them are received into device memory
}

// takeInline makes buffers of the frames that came with the table.
func (r *frameReceiver) takeInline(ctx context.Context, entries []frameEntry, data []byte, alloc *Allocators) error {
	var shared *mem.Buffer
	for i, e := range entries {
		if e.offset < 0 {
			continue
		}
		res := alloc.resource(e.kind)
		if res == mem.Heap {
			if shared == nil {
				shared = mem.FromBytes(data)
				defer shared.Release()
			}
			r.frames[i] = shared.Slice(e.offset, e.n)
			continue
		}
		b, err := res.Alloc(ctx, e.n)
		if err != nil {
			return err
		}
		r.frames[i] = b
		if err := r.fc.ep.w.fill(ctx, b, data[e.offset:e.offset+e.n]); err != nil {
			return err
		}
	}
	return nil
}

// fill copies arrived bytes into a buffer of any kind.
func (w *Worker) fill(ctx context.Context, b *mem.Buffer, data []byte) error {
	if len(data) == 0 {
		return nil
	}
	if err := b.WaitReady(ctx); err != nil { // whoever had the memory before may still use it
		return err
	}
	if b.Kind().HostAccessible() {
		copy(b.Bytes(), data)
		return nil
	}
	return w.copyToDevice(ctx, Buffer(b), data)
}

// takeSeparate receives the frames that travel alone. Memory is allocated when a frame
// has come, not when it is promised.
func (r *frameReceiver) takeSeparate(ctx context.Context, entries []frameEntry, alloc *Allocators) error {
	for i, e := range entries {
		if e.offset >= 0 {
			continue
		}
		if len(r.open) >= frameWindow {
			if err := r.first(ctx); err != nil {
				return err
			}
		}
		m, err := r.part(ctx, uint32(i))
		if err != nil {
			return r.fc.ep.breakOff(err, r.open)
		}
		r.taken++
		if m.Len != e.n {
			m.Release()
			return r.fc.ep.breakOff(fmt.Errorf("ucx: frame %d of frame message %d has %d bytes, its table says %d",
				i, r.msg.seq, m.Len, e.n), r.open)
		}
		res := alloc.resource(e.kind)
		if res == mem.Heap && !m.rndv {
			b, err := m.Bytes(ctx, m.Len) // no further copy
			if err != nil {
				return r.fc.ep.breakOff(err, r.open)
			}
			r.frames[i] = mem.FromBytes(b)
			continue
		}
		var b *mem.Buffer
		if err = alloc.reserve(ctx, res, e.n); err == nil {
			b, err = res.Alloc(ctx, e.n)
		}
		if err != nil {
			if ctx.Err() != nil {
				// First the end of the endpoint: for UCX, giving a frame back is the same as
				// receiving it, and the sender would believe that it has arrived.
				err = r.fc.ep.breakOff(err, r.open)
			}
			m.Release()
			r.finish(ctx)
			return err
		}
		r.frames[i] = b
		r.device = r.device || b.Kind() == mem.Device
		r.open = append(r.open, m.StartRecv(Buffer(b)))
	}
	for len(r.open) > 0 {
		if err := r.first(ctx); err != nil {
			return err
		}
	}
	return nil
}

// deviceSpin is how long a receive into device memory is looked for before the wait sleeps: the copy of some gigabytes
// within a GPU, of some hundred megabytes between two.
const deviceSpin = 4 * time.Millisecond

// first waits for the oldest receive under way.
func (r *frameReceiver) first(ctx context.Context) error {
	soon := time.Duration(0)
	if r.device {
		soon = deviceSpin
	}
	if err := r.open[0].waitSoon(ctx, soon); err != nil {
		return r.fc.ep.breakOff(err, r.open)
	}
	r.open = r.open[1:]
	return nil
}

// finish waits for receives of a message that is dropped for another reason.
func (r *frameReceiver) finish(ctx context.Context) {
	for len(r.open) > 0 {
		if r.first(ctx) != nil {
			return
		}
	}
}

// part waits for a frame to come.
func (r *frameReceiver) part(ctx context.Context, i uint32) (*AM, error) {
	fc, msg := r.fc, r.msg
	for {
		fc.mu.Lock()
		m := msg.parts[i]
		over := fc.over
		if m != nil && (over == nil || !m.rndv) {
			delete(msg.parts, i)
			fc.queued -= frameCost(m)
			fc.mu.Unlock()
			return m, nil
		}
		if over != nil { // and with it what was still at the sender
			fc.mu.Unlock()
			if errors.Is(over, io.EOF) {
				return nil, fmt.Errorf("%w: frame %d of a message is missing: %v", io.ErrUnexpectedEOF, i, over)
			}
			return nil, fmt.Errorf("%w: frame %d of a message is missing: %w", io.ErrUnexpectedEOF, i, over)
		}
		wait := &Request{w: fc.ep.w}
		msg.want, msg.wait = i, wait
		fc.mu.Unlock()
		// Its table is here: it follows at once, as a rule.
		if err := fc.ep.w.drv.awaitSoon(ctx, wait, fc.ep.w.cfg.MaxSpin); err != nil {
			fc.mu.Lock()
			msg.wait = nil
			fc.mu.Unlock()
			return nil, err
		}
	}
}

// violation ends the endpoint of a peer that breaks the protocol.
func (fc *frameConn) violation(err error) error {
	fc.ep.abort(inner(err))
	return err
}
