package ucxcomm

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"go.millstream.dev/mem"
	"go.millstream.dev/ucx"
	"go.millstream.dev/wire"
)

const (
	// dataWindow is how many bytes of messages the peer may be ahead of this side's reads; see dataLink.room.
	dataWindow = 16 << 20
	// minWindow is the smallest window that a peer may offer: with less, every message would wait.
	minWindow = 64 << 10
	// dataFrames is the maximum number of frames that ucx sends as one message. Messages with more, and those that
	// begin with an empty frame, are sent in pieces: an empty frame, a frame of one byte, 1 if more pieces follow, and
	// frames of the message.
	dataFrames = 1 << 16
)

// dataLink is a data connection between Millstream programs: over shared memory, NVLink, InfiniBand or any transport
// that UCX finds, one active message for all small frames of a message and one for each large frame.
type dataLink struct {
	ep     *ucx.Endpoint
	t      *controlChannel
	window uint64 // the peer's

	host, device mem.Resource // nil: Go's heap
	stripes      *stripes     // for frames on GPUs; nil: UCX moves them. Set before the comm is shared
	large        *hostStripes // for large frames in host memory; nil: UCX moves them

	mu    sync.Mutex
	sent  uint64        // cost of all written messages
	taken uint64        // cost of the messages that the peer has read, as last reported
	grown chan struct{} // capacity 1: taken has grown

	// Owner: the current reader of the comm.
	consumed, told uint64
}

// messageCost is what a message counts against the window: the most that it makes the peer keep.
func messageCost(m *wire.Message) uint64 { return uint64(m.Size()) + 128*uint64(1+len(m.Frames)) }

// addCredit processes a credit from the control connection.
func (l *dataLink) addCredit(taken uint64) {
	l.mu.Lock()
	if taken > l.taken && taken <= l.sent {
		l.taken = taken
	}
	l.mu.Unlock()
	select {
	case l.grown <- struct{}{}:
	default:
	}
}

// room waits until the peer can receive a message. A reader reports its progress in units of a quarter of the window,
// so a message longer than the window is sent when less than half of it is used.
func (l *dataLink) room(ctx context.Context, cost uint64) error {
	for {
		l.mu.Lock()
		ahead := l.sent - l.taken
		if ahead+cost <= l.window || ahead <= l.window/2 {
			l.sent += cost
			l.mu.Unlock()
			return nil
		}
		l.mu.Unlock()
		select {
		case <-l.grown:
		case <-l.ep.Done():
			return fmt.Errorf("data connection has ended: %w", orClosed(l.ep.Err()))
		case <-ctx.Done():
			return &idleError{context.Cause(ctx)}
		}
	}
}

func orClosed(err error) error {
	if err == nil {
		return ucx.ErrClosed
	}
	return err
}

func (l *dataLink) write(ctx context.Context, m *wire.Message) error {
	if len(m.Frames) == 0 {
		return &idleError{errNoFrames}
	}
	if err := ctx.Err(); err != nil {
		return &idleError{err}
	}
	if err := l.room(ctx, messageCost(m)); err != nil {
		return err
	}
	if l.stripes != nil && onDevice(m) && len(m.Frames) <= dataFrames-3 {
		return l.writeStaged(ctx, m)
	}
	if stripes := l.stripesFor(m); stripes != nil {
		return l.writeStriped(ctx, m, stripes)
	}
	if len(m.Frames) <= dataFrames && m.Frames[0].Len() > 0 {
		var few [8]ucx.View
		views := few[:0]
		for _, f := range m.Frames {
			views = append(views, view(f))
		}
		return l.send(ctx, views)
	}
	for rest := m.Frames; len(rest) > 0; {
		n := min(len(rest), dataFrames-2)
		views := []ucx.View{ucx.Bytes(nil), ucx.Bytes([]byte{flag(n < len(rest))})}
		for _, f := range rest[:n] {
			views = append(views, view(f))
		}
		if err := l.send(ctx, views); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

func (l *dataLink) send(ctx context.Context, views []ucx.View) error {
	err := l.ep.SendFrames(ctx, views...)
	if err != nil {
		abortEndpoint(l.ep) // the rest of the message will not be sent
	}
	return err
}

func (l *dataLink) read(ctx context.Context, b bounds) (*wire.Message, error) {
	m, more, err := l.piece(ctx, b)
	for err == nil && more {
		b.frames -= len(m.Frames)
		b.bytes -= m.Size()
		var next *wire.Message
		if next, more, err = l.piece(ctx, b); err == nil {
			m.Frames = append(m.Frames, next.Frames...)
			continue
		}
		m.Release()
		abortEndpoint(l.ep)
		var idle *idleError
		if errors.As(err, &idle) {
			err = idle.cause
		}
	}
	if err != nil {
		return nil, err
	}
	l.consumed += messageCost(m)
	if l.consumed-l.told >= dataWindow/4 {
		l.told = l.consumed
		l.t.sendCredit(l.told)
	}
	return m, nil
}

// piece receives one piece, and reports whether the message continues.
func (l *dataLink) piece(ctx context.Context, b bounds) (m *wire.Message, more bool, err error) {
	frames, err := l.ep.RecvFrames(ctx, ucx.Allocators{Host: l.host, Device: l.device,
		MaxFrames: min(b.frames+3, dataFrames), MaxBytes: b.bytes + 1 +
			int64(l.tableRoom(b)), Spin: b.soon, Reserve: b.reserve})
	switch {
	case err == nil:
	case ctx.Err() != nil && l.ep.Err() == nil:
		return nil, false, &idleError{err}
	default:
		abortEndpoint(l.ep) // a message beyond the limits is dropped, and the peer must be notified
		return nil, false, err
	}
	switch {
	case len(frames) > 0 && frames[0].Len() > 0:
		if err = b.check(frames); err == nil {
			return message(frames), false, nil
		}
	case len(frames) > 2 && frames[1].Len() == 1 && frames[1].Bytes()[0] == stagedMark:
		if m, err = l.readStaged(ctx, frames, b); err != nil {
			abortEndpoint(l.ep)
		}
		return m, false, err
	case len(frames) > 2 && frames[1].Len() == 1 && frames[1].Bytes()[0] == stripedMark:
		if m, err = l.readStriped(ctx, frames, b); err != nil {
			abortEndpoint(l.ep)
		}
		return m, false, err
	case len(frames) > 2 && frames[1].Len() == 1:
		if err = b.check(frames[2:]); err == nil {
			more = frames[1].Bytes()[0] == 1
			frames[:2].Release()
			return message(frames[2:]), more, nil
		}
	default:
		err = fmt.Errorf("message of %d frames without a body", len(frames))
	}
	frames.Release()
	abortEndpoint(l.ep)
	return nil, false, err
}

// check compares received frames with the bounds: the limits of their receive had room for a table of striped frames.
func (b bounds) check(frames ucx.Frames) error {
	if len(frames) > b.frames {
		return b.framesError(uint64(len(frames)))
	}
	total := int64(0)
	for _, f := range frames {
		total += int64(f.Len())
	}
	if total > b.bytes {
		return &limitError{what: "bytes", got: total, limit: b.bytes, key: "Limits.Message"}
	}
	return nil
}

// shutdown closes the data connection: all written data is known to have arrived.
func (l *dataLink) shutdown(ctx context.Context) error { return l.ep.Shutdown(ctx) }
