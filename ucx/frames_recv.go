package ucx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"go.millstream.dev/internal/proc/rawmem"
	"go.millstream.dev/mem"
	"go.millstream.dev/ucx/internal/wire"
)

// RecvFrames receives the next message that the peer sent with SendFrames, into memory of the given allocators. The
// caller releases the frames. The small frames of a message share one allocation on Go's heap.
//
// A message beyond the allocators' limits, or for which there is no memory, is dropped with an error and the next one
// can be received. When ctx ends after a message has begun to arrive the endpoint is force-closed; before that, nothing
// is lost. After the peer has closed and all messages were received the error matches io.EOF with errors.Is.
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

// inner unwraps an OpError that is replaced by another one.
func inner(err error) error {
	var oe *OpError
	if errors.As(err, &oe) {
		return oe.Err
	}
	return err
}

func (fc *frameConn) receive(ctx context.Context, msg *frameMessage, alloc *Allocators) (Frames, error) {
	table := msg.table
	fc.uncount(table)
	reading := ctx
	if !table.rndv {
		reading = background // the message has arrived: reading does not wait
	}
	data, err := table.Bytes(reading, wire.MaxFrames*(wire.FrameEntrySize+wire.FrameAlign)+frameInlineTotal)
	if err != nil { // a malformed message, or the peer has disconnected
		table.Release()
		return nil, fc.violation(err)
	}
	entries, separate, total, err := wire.DecodeFrameTable(data, msg.count)
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
		if ctx.Err() != nil { // an allocator failed: the message is lost, and the peer must be notified
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

// takeInline makes buffers of the frames that were sent with the table.
func (r *frameReceiver) takeInline(ctx context.Context, entries []wire.FrameEntry, data []byte,
	alloc *Allocators) error {
	var shared *mem.Buffer
	for i, e := range entries {
		if e.Offset < 0 {
			continue
		}
		res := alloc.resource(r.fc.ep.w, e.Kind)
		if res == mem.Heap {
			if shared == nil {
				shared = mem.FromBytes(data)
				defer shared.Release()
			}
			r.frames[i] = shared.Slice(e.Offset, e.N)
			continue
		}
		b, err := res.Alloc(ctx, e.N)
		if err != nil {
			return err
		}
		r.frames[i] = b
		if err := fillBuffer(ctx, b, data[e.Offset:e.Offset+e.N]); err != nil {
			return err
		}
	}
	return nil
}

// fillBuffer copies arrived bytes into a buffer of any kind.
func fillBuffer(ctx context.Context, b *mem.Buffer, data []byte) error {
	if len(data) == 0 {
		return nil
	}
	if err := b.WaitReady(ctx); err != nil { // the previous user of the memory may still use it
		return err
	}
	if b.Kind().HostAccessible() {
		copy(b.Bytes(), data)
		return nil
	}
	return copyToDevice(ctx, Buffer(b), data)
}

// takeSeparate receives the frames that are sent separately. Memory is allocated when a frame has arrived, not when it
// is announced.
func (r *frameReceiver) takeSeparate(ctx context.Context, entries []wire.FrameEntry, alloc *Allocators) error {
	for i, e := range entries {
		if e.Offset >= 0 {
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
		if m.Len != e.N {
			m.Release()
			return r.fc.ep.breakOff(fmt.Errorf("ucx: frame %d of frame message %d has %d bytes, its table says %d",
				i, r.msg.seq, m.Len, e.N), r.open)
		}
		res := alloc.resource(r.fc.ep.w, e.Kind)
		if res == mem.Heap && !m.rndv {
			b, err := m.Bytes(ctx, m.Len) // no further copy
			if err != nil {
				return r.fc.ep.breakOff(err, r.open)
			}
			r.frames[i] = mem.FromBytes(b)
			continue
		}
		var b *mem.Buffer
		if err = alloc.reserve(ctx, res, e.N); err == nil {
			b, err = allocRaw(ctx, res, e.N)
		}
		if err != nil {
			if ctx.Err() != nil {
				// The endpoint ends first: for UCX, releasing a frame is the same as receiving it, and the sender would
				// assume that it has arrived.
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

// allocRaw allocates memory that is about to be overwritten.
func allocRaw(ctx context.Context, res mem.Resource, n int) (*mem.Buffer, error) {
	if err := ctx.Err(); err != nil || res != mem.Heap {
		return res.Alloc(ctx, n)
	}
	return mem.FromBytes(rawmem.Alloc(n)), nil
}

// deviceSpin is how long a receive into device memory spins before it sleeps: the time to copy some gigabytes within a
// GPU, or some hundred megabytes between two.
const deviceSpin = 4 * time.Millisecond

// first waits for the oldest receive in flight.
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

// finish waits for the receives of a message that is dropped for another reason.
func (r *frameReceiver) finish(ctx context.Context) {
	for len(r.open) > 0 {
		if r.first(ctx) != nil {
			return
		}
	}
}

// part waits for a frame to arrive.
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
		if over != nil { // data still at the sender is lost
			fc.mu.Unlock()
			if errors.Is(over, io.EOF) {
				return nil, fmt.Errorf("%w: frame %d of a message is missing: %v", io.ErrUnexpectedEOF, i, over)
			}
			return nil, fmt.Errorf("%w: frame %d of a message is missing: %w", io.ErrUnexpectedEOF, i, over)
		}
		wait := &Request{w: fc.ep.w}
		msg.want, msg.wait = i, wait
		fc.mu.Unlock()
		// The table has arrived, so the frame usually follows soon.
		if err := fc.ep.w.drv.awaitSoon(ctx, wait, fc.ep.w.cfg.MaxSpin); err != nil {
			fc.mu.Lock()
			msg.wait = nil
			fc.mu.Unlock()
			return nil, err
		}
	}
}

// violation ends the endpoint of a peer that violates the protocol.
func (fc *frameConn) violation(err error) error {
	fc.ep.abort(inner(err))
	return err
}

// frameConn collects the parts of the messages of one connection.
type frameConn struct {
	ep      *Endpoint
	sendSeq atomic.Uint64
	ready   mailbox[*frameMessage] // messages whose tables have arrived, in sequence

	mu     sync.Mutex
	next   uint64 // the first sequence number whose table has not arrived
	msgs   map[uint64]*frameMessage
	queued int64 // queued bytes, as counted by frameCost
	over   error // why no more messages arrive
	shut   bool
}

// frameMessage is a message in flight. Its fields are guarded by frameConn.mu.
type frameMessage struct {
	seq   uint64
	count int
	table *AM
	parts map[uint32]*AM
	want  uint32   // the frame that the receiver waits for
	wait  *Request // its wait
	drop  bool     // the receiver gave up: later frames are released
	left  int      // number of frames still to arrive
}

// frameCost is what an arrived part counts against WorkerConfig.MaxQueuedMessages. The data of a rendezvous is still at
// the sender.
func frameCost(m *AM) int64 {
	if m.rndv {
		return 512
	}
	return 128 + int64(m.Len)
}

// receiveFrames processes a part of a message. The token is held.
func (w *Worker) receiveFrames(m *AM) {
	h, err := wire.DecodeFrameHeader(m.Header)
	if err != nil {
		w.ams.stray(m)
		return
	}
	_, ep := w.peers.lifeline(h.Number)
	if ep == nil {
		w.ams.stray(m) // its connection has ended or never existed
		return
	}
	m.ReplyTo = ep // a rendezvous ends with the connection
	if release, err := ep.frameConn().receivePart(h, m); release || err != nil {
		go func() { // both need the token, which the caller holds
			m.Release()
			if err != nil {
				ep.abort(err)
			}
		}()
	}
}

// receivePart adds a part. It reports whether to release the part, and returns an error if the peer violates the
// protocol.
func (fc *frameConn) receivePart(h wire.FrameHeader, m *AM) (release bool, err error) {
	fc.mu.Lock()
	defer fc.mu.Unlock()
	if fc.shut {
		return true, nil
	}
	msg := fc.msgs[h.Seq]
	if msg == nil {
		if h.Seq < fc.next {
			return true, fmt.Errorf("ucx: the peer sent more of frame message %d, which was complete", h.Seq)
		}
		msg = &frameMessage{seq: h.Seq}
		fc.msgs[h.Seq] = msg
	}
	if msg.drop {
		if msg.left--; msg.left == 0 {
			delete(fc.msgs, h.Seq)
		}
		return true, nil
	}
	limit := fc.ep.w.cfg.MaxQueuedMessages
	if fc.queued += frameCost(m); fc.queued > limit {
		fc.queued -= frameCost(m)
		return true, fmt.Errorf("%w: frame messages of more than %d bytes wait for RecvFrames "+
			"(WorkerConfig.MaxQueuedMessages)", ErrExceedsLimit, limit)
	}
	if h.Kind == wire.FrameTable {
		if msg.table != nil || h.Seq < fc.next {
			return true, fmt.Errorf("ucx: the peer sent the table of frame message %d twice", h.Seq)
		}
		msg.table, msg.count = m, int(h.N)
		for {
			first := fc.msgs[fc.next]
			if first == nil || first.table == nil {
				return false, nil
			}
			fc.next++
			fc.ready.put(first)
		}
	}
	if _, twice := msg.parts[h.N]; twice {
		return true, fmt.Errorf("ucx: the peer sent frame %d of frame message %d twice", h.N, h.Seq)
	}
	if msg.parts == nil {
		msg.parts = map[uint32]*AM{}
	}
	msg.parts[h.N] = m
	if msg.wait != nil && msg.want == h.N {
		msg.wait.finish()
		msg.wait = nil
	}
	return false, nil
}

// end is called when the endpoint has ended; the token may be held.
func (fc *frameConn) end(reason error) {
	fc.mu.Lock()
	fc.over = reason
	for _, msg := range fc.msgs {
		if msg.wait != nil {
			msg.wait.finish()
			msg.wait = nil
		}
	}
	fc.mu.Unlock()
	fc.ready.fail(reason)
}

// discard releases parts that were not received.
func (fc *frameConn) discard() {
	fc.mu.Lock()
	fc.shut = true
	msgs := fc.msgs
	fc.msgs = map[uint64]*frameMessage{}
	var ams []*AM
	for _, msg := range msgs {
		if msg.table != nil {
			ams = append(ams, msg.table)
		}
		for _, m := range msg.parts {
			ams = append(ams, m)
		}
		msg.parts = nil
	}
	fc.mu.Unlock()
	fc.ready.close(ErrClosed)
	for _, m := range ams {
		m.Release()
	}
}

// uncount subtracts a part from the queued bytes.
func (fc *frameConn) uncount(m *AM) {
	fc.mu.Lock()
	fc.queued -= frameCost(m)
	fc.mu.Unlock()
}

// giveUp drops a message of which some frames, left in number, were not received.
func (fc *frameConn) giveUp(msg *frameMessage, left int) {
	fc.mu.Lock()
	var ams []*AM
	for _, m := range msg.parts {
		fc.queued -= frameCost(m)
		ams = append(ams, m)
	}
	msg.parts, msg.drop, msg.left = nil, true, left-len(ams)
	if msg.left <= 0 {
		delete(fc.msgs, msg.seq)
	}
	fc.mu.Unlock()
	for _, m := range ams {
		m.Release()
	}
}
