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

// A message of frames travels as one active message with the frame table and all
// small frames, and one contiguous active message for each other frame, which the
// receiver fetches into memory of its choice. Each part carries the receiver's number
// of the connection and the message's sequence number, so that parts of concurrent
// messages never mix, in whatever order they arrive.
const (
	// frameInline is the longest frame that travels with the table.
	frameInline = 8 << 10
	// frameInlineTotal bounds the frames that travel with the table together: above,
	// copying them twice costs more than messages of their own.
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

// Allocators says where received frames go: the receiver chooses, by the kind of
// memory that the sender has them in. What it leaves out is up to the worker, see
// [Worker.SetAllocator]; without that everything goes to Go's heap.
type Allocators struct {
	// Host gives memory for frames in host memory. Default: mem.Heap.
	Host mem.Resource
	// Device gives memory for frames that the sender has in device or managed memory.
	// Default: they go to host memory too.
	Device mem.Resource
	// MaxFrames bounds the frames of one message. Default 65536.
	MaxFrames int
	// MaxBytes bounds the bytes of one message. Default 64 GiB.
	MaxBytes int64
	// Spin is how long to look for the message before the wait may sleep: for one that is
	// expected at once, such as an answer. Default: as recent waits make sensible, see
	// WorkerConfig.MaxSpin.
	Spin time.Duration
	// Reserve, when set, is called before memory is allocated for a frame in host memory
	// that the sender has announced and not sent yet, with its length in bytes. Its error
	// ends the receive.
	Reserve func(ctx context.Context, n int) error
}

// reserve calls Reserve for a frame that goes to host memory.
func (a *Allocators) reserve(ctx context.Context, res mem.Resource, n int) error {
	if a.Reserve == nil || a.Device != nil && res == a.Device || res.Kind() == mem.Device {
		return nil
	}
	return a.Reserve(ctx, n)
}

// resource returns where a frame of a kind goes: to this receive's allocator, or to the worker's.
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

// limits checks a message against the receiver's bounds, before anything is allocated.
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

// SendFrames sends frames as one message, which the peer takes with RecvFrames. It
// keeps each frame's length and kind of memory; frames may be empty and there may be
// none. Frames of device memory are sent from where they are. Messages of concurrent
// calls do not mix and arrive in the order in which their sending began.
//
// It returns when the memory may be used again, which for frames above 8 KiB usually
// means that the peer has them. When ctx ends while such a frame is on its way the
// endpoint is force-closed, as with other operations. The endpoint must have been
// made by Dial, Attach or a Listener.
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

// bindTable fills a slot with the table message. With the sequence number assigned
// the message must be submitted: a gap would stop the receiver.
func (fc *frameConn) bindTable(s *ucp.Slot, r *Request, plan framePlan, frames []View) (seq uint64, err error) {
	ep := fc.ep
	h := wire.FrameHeader{Kind: wire.FrameTable, Number: ep.line.remote, N: uint32(len(frames))}
	var hdr [wire.FrameHeaderSize]byte
	h.Put(hdr[:])
	// With a reply endpoint the peer can tell whose message it was if it must refuse it.
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
		r.staging = b // goes back with the request; the caller's memory is not involved
		s.Buf = b.Addr()
	}
	s.Len, s.MemType = uint64(plan.size), 0
	seq = fc.sendSeq.Add(1)
	wire.PutFrameSequence(s.HdrBuf[:], seq)
	return seq, nil
}

// sendSeparate sends the frames that do not travel with the table, a window at a time.
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
		h := wire.FrameHeader{Kind: wire.FrameData, Number: ep.line.remote, Seq: seq, N: uint32(i)}
		h.Put(hdr[:])
		// An eager message arrives in host memory; device memory is fetched from device to device.
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

// breakOff ends an endpoint on which a message was cut off in the middle, and returns
// err when UCX has given back the memory of the requests.
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
	if ep.line == nil {
		return nil, fmt.Errorf("ucx: messages of frames need an endpoint made by Dial, Attach or Listen; this one is " +
			"of another kind (UCXX peers: see DialUCXX)")
	}
	if ep.line.remote == 0 || ep.line.features&featureFrames == 0 {
		return nil, fmt.Errorf("ucx: one side's context lacks active messages (Config.Features) or its release knows " +
			"no messages of frames")
	}
	return ep.frameConn(), nil
}

// frameConn returns the state, making it if needed. The token may be held.
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

// framePlan says which frames travel with the table.
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
