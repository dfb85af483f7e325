package ucx

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"go.millstream.dev/mem"
	"go.millstream.dev/ucx/internal/ucp"
	"go.millstream.dev/ucx/internal/wire"
)

// A message of frames is sent as one active message with the frame table and all small frames, and one contiguous
// active message for each other frame, which the receiver fetches into memory of its choice. Each part carries the
// receiver's number of the connection and the message's sequence number, so that parts of concurrent messages do not
// mix, in whatever order they arrive.
const (
	// frameInline is the length of the longest frame that is sent with the table.
	frameInline = 8 << 10
	// frameInlineTotal bounds the total length of the frames sent with the table: above it, copying them twice costs
	// more than separate messages.
	frameInlineTotal = 64 << 10
	// frameWindow is how many frames of one message are in flight at once.
	frameWindow = 64
	// defaultMaxFrameBytes bounds a received message where Allocators does not: 64 GiB.
	defaultMaxFrameBytes = 64 << 30
)

// Frames are the buffers of a received message. The receiver owns one reference to each.
type Frames []*mem.Buffer

// Release releases all frames.
func (f Frames) Release() {
	for _, b := range f {
		if b != nil {
			b.Release()
		}
	}
}

// Allocators specifies where received frames are allocated, by the kind of memory that the sender has them in. For
// fields left out the worker decides, see [Worker.SetAllocator]; without that everything is allocated on Go's heap.
type Allocators struct {
	// Host allocates frames that the sender has in host memory. Default: mem.Heap.
	Host mem.Resource
	// Device allocates frames that the sender has in device or managed memory. Default: they are allocated in host
	// memory too.
	Device mem.Resource
	// MaxFrames bounds the frames of one message. Default 65536.
	MaxFrames int
	// MaxBytes bounds the bytes of one message. Default 64 GiB.
	MaxBytes int64
	// Spin is how long to spin for the message before the wait may sleep, for a message that is expected soon, such as
	// a reply. Default: learned from recent waits, see WorkerConfig.MaxSpin.
	Spin time.Duration
	// Reserve, if not nil, is called before memory is allocated for a frame in host memory that the sender has
	// announced and not sent yet, with its length in bytes. An error ends the receive.
	Reserve func(ctx context.Context, n int) error
}

// reserve calls Reserve for a frame in host memory.
func (a *Allocators) reserve(ctx context.Context, res mem.Resource, n int) error {
	if a.Reserve == nil || a.Device != nil && res == a.Device || res.Kind() == mem.Device {
		return nil
	}
	return a.Reserve(ctx, n)
}

// resource returns the allocator for frames of a kind: that of this receive, or that of the worker.
func (a *Allocators) resource(w *Worker, k mem.Kind) mem.Resource {
	switch {
	case (k == mem.Device || k == mem.Managed) && a.Device != nil:
		return a.Device
	case a.Host != nil && !(k == mem.Device || k == mem.Managed):
		return a.Host
	}
	if res := w.allocs.get(k); res != nil {
		return res
	}
	if a.Host != nil {
		return a.Host
	}
	return w.allocs.resource(mem.Host)
}

// limits checks a message against the receiver's limits, before anything is allocated.
func (a *Allocators) limits(frames int, bytes int64) error {
	limit := a.MaxFrames
	if limit == 0 {
		limit = wire.MaxFrames
	}
	if frames > limit {
		return fmt.Errorf("%w: message of %d frames, at most %d (Allocators.MaxFrames)", ErrExceedsLimit, frames, limit)
	}
	most := a.MaxBytes
	if most == 0 {
		most = defaultMaxFrameBytes
	}
	if bytes > most {
		return fmt.Errorf("%w: message of %d bytes, at most %d (Allocators.MaxBytes)", ErrExceedsLimit, bytes, most)
	}
	return nil
}

const opSendFrames, opRecvFrames = "frames send", "frames receive"

// SendFrames sends frames as one message, which the peer receives with RecvFrames. It preserves each frame's length and
// kind of memory; frames may be empty and there may be none. Frames in device memory are sent from there. Messages of
// concurrent calls do not mix and arrive in the order in which sending began.
//
// It returns when the memory may be reused, which for frames above 8 KiB usually means that the peer has them. When ctx
// ends while such a frame is in flight the endpoint is force-closed, as with other operations. The endpoint must have
// been made by Dial, Attach or a Listener.
func (ep *Endpoint) SendFrames(ctx context.Context, frames ...View) error {
	err := ep.sendFrames(ctx, frames)
	var oe *OpError
	if err != nil && !errors.As(err, &oe) {
		err = &OpError{Op: opSendFrames, Peer: ep.peer, Err: err}
	}
	return err
}

func (ep *Endpoint) sendFrames(ctx context.Context, frames []View) error {
	fc, err := ep.frameState()
	if err != nil {
		return err
	}
	plan, err := planFrames(frames)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	for i, v := range frames {
		if plan.inline[i] && v.buf != nil { // copied below; a device may still be writing it
			if err := v.buf.WaitReady(ctx); err != nil {
				return err
			}
		}
	}
	if plan.separate == 0 {
		s, r, err := ep.w.prepare(ucp.OpAMSend, ep)
		if err != nil {
			return err
		}
		if _, err := fc.bindTable(s, r, plan, frames); err != nil {
			return err
		}
		_, err = r.finishRun(ctx, s)
		return err
	}
	s, r, err := ep.w.startOn(ucp.OpAMSend, ep)
	if err != nil {
		return err
	}
	seq, err := fc.bindTable(s, r, plan, frames)
	if err != nil {
		return err
	}
	ep.w.drv.launch(s, r)
	return fc.sendSeparate(ctx, r, seq, plan, frames)
}

// bindTable fills a slot with the table message. Once the sequence number is assigned the message must be submitted: a
// gap would block the receiver.
func (fc *frameConn) bindTable(s *ucp.Slot, r *Request, plan framePlan, frames []View) (seq uint64, err error) {
	ep := fc.ep
	h := wire.FrameHeader{Kind: wire.FrameTable, Number: ep.lifeline.remote, N: uint32(len(frames))}
	var hdr [wire.FrameHeaderSize]byte
	h.Put(hdr[:])
	// A reply endpoint lets the peer identify the sender if it must reject the message.
	if err := ep.w.mem.bindAM(s, r, amMulti, hdr[:], AMOptions{Eager: true, Reply: true}, nil); err != nil {
		return 0, r.unbind(s, err)
	}
	if plan.size <= ucp.InlineSize {
		s.Buf = uintptr(unsafe.Pointer(&s.Inline))
		plan.write(s.Inline[:plan.size], frames)
	} else {
		b, err := ep.w.mem.stagingBuffer(plan.size)
		if err != nil {
			return 0, r.unbind(s, err)
		}
		plan.write(b.Bytes(), frames)
		r.staging = b // released with the request; the caller's memory is not involved
		s.Buf = b.Addr()
	}
	s.Len, s.MemType = uint64(plan.size), 0
	seq = fc.sendSeq.Add(1)
	wire.PutFrameSequence(s.HdrBuf[:], seq)
	return seq, nil
}

// sendSeparate sends the frames that are not sent with the table, a window at a time.
func (fc *frameConn) sendSeparate(ctx context.Context, table *Request, seq uint64, plan framePlan,
	frames []View) error {
	ep := fc.ep
	open := []*Request{table}
	var hdr [wire.FrameHeaderSize]byte
	for i, v := range frames {
		if plan.inline[i] {
			continue
		}
		if len(open) >= frameWindow {
			if err := open[0].Wait(ctx); err != nil {
				return ep.breakOff(err, open)
			}
			open = open[1:]
		}
		h := wire.FrameHeader{Kind: wire.FrameData, Number: ep.lifeline.remote, Seq: seq, N: uint32(i)}
		h.Put(hdr[:])
		// Eager messages arrive in host memory; device memory is fetched from device to device.
		r := ep.startAM(amMulti, hdr[:], AMOptions{Rendezvous: v.onDevice(), Reply: true}, []View{v})
		open = append(open, r)
	}
	for i, r := range open {
		if err := r.Wait(ctx); err != nil {
			return ep.breakOff(err, open[i:])
		}
	}
	return nil
}

// breakOff ends an endpoint on which a message was cut off, and returns err when UCX has released the memory of the
// requests.
func (ep *Endpoint) breakOff(err error, open []*Request) error {
	ep.abort(&abortError{err})
	ctx, cancel := context.WithTimeout(background, forceWait)
	defer cancel()
	for _, r := range open {
		if r.Wait(ctx) != nil && r.state.Load() != reqDone {
			logf("%v", errMemoryKept(r.op.String()))
		}
	}
	return err
}

// frameState returns the endpoint's state for messages of frames.
func (ep *Endpoint) frameState() (*frameConn, error) {
	if ep.lifeline == nil {
		return nil, fmt.Errorf("ucx: messages of frames need an endpoint of Dial, Attach or Listen; use DialUCXX " +
			"for UCXX peers")
	}
	if ep.lifeline.remote == 0 || ep.lifeline.features&featureFrames == 0 {
		return nil, fmt.Errorf("ucx: one side's context lacks active messages (Config.Features) or its release knows " +
			"no messages of frames")
	}
	return ep.frameConn(), nil
}

// frameConn returns the state and creates it if needed. The token may be held.
func (ep *Endpoint) frameConn() *frameConn {
	if fc := ep.frames.Load(); fc != nil {
		return fc
	}
	fc := &frameConn{ep: ep, next: 1, msgs: map[uint64]*frameMessage{}}
	if !ep.frames.CompareAndSwap(nil, fc) {
		return ep.frames.Load()
	}
	ep.addPart(fc)
	return fc
}

// framePlan specifies which frames are sent with the table.
type framePlan struct {
	inline   []bool
	separate int
	size     int // of the table message's data
}

func planFrames(frames []View) (framePlan, error) {
	p := framePlan{size: len(frames) * wire.FrameEntrySize}
	if len(frames) > wire.MaxFrames {
		return p, fmt.Errorf("ucx: %d frames, at most %d in a message", len(frames), wire.MaxFrames)
	}
	p.inline = make([]bool, len(frames))
	total := 0
	for i, v := range frames {
		if v.bad != nil {
			return p, v.bad
		}
		switch {
		case v.n == 0:
			p.inline[i] = true
		case !v.onDevice() && v.n <= frameInline && total+v.n <= frameInlineTotal:
			p.inline[i] = true
			total += v.n
			p.size += wire.AlignFrame(v.n)
		default:
			p.separate++
		}
	}
	return p, nil
}

// write fills b, which has the plan's size.
func (p *framePlan) write(b []byte, frames []View) {
	at := len(frames) * wire.FrameEntrySize
	for i, v := range frames {
		e := b[i*wire.FrameEntrySize : (i+1)*wire.FrameEntrySize]
		wire.PutFrameEntry(e, v.n, v.kind, p.inline[i])
		if p.inline[i] {
			n := copy(b[at:], v.bytes())
			end := at + wire.AlignFrame(n)
			clear(b[at+n : end])
			at = end
		}
	}
}
