package ucxcomm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"go.millstream.dev/mem"
	"go.millstream.dev/ucx"
	"go.millstream.dev/wire"
)

const (
	// unmatchedMessages is how many messages a writer may be ahead of the peer's reads.
	// UCX keeps small messages that nobody has asked for without any bound.
	unmatchedMessages = 64
	// receiveAhead bounds the memory that is allocated for frames that have not come yet,
	// or to one frame where that is more.
	receiveAhead = 64 << 20
	// receiveWindow is how many receives of one message wait at once.
	receiveWindow = 64
	// giveBack is how long an aborted operation may take to give its memory back.
	giveBack = 10 * time.Second
)

// bounds are what a peer may send.
type bounds struct {
	bytes     int64
	frames    int
	handshake bool // before the handshake is done
}

func (b bounds) framesError(n uint64) error {
	return &limitError{what: "frames", got: satAdd(0, n), limit: int64(b.frames), key: "Limits.Frames"}
}

var errNoFrames = errors.New("a message has at least one frame, its body")

// errShutdown is a peer that closed in peace.
var errShutdown = fmt.Errorf("closed by the peer: %w", io.EOF)

// errForm is a message in the other of distributed-ucxx's two forms.
var errForm = errors.New("no message of the expected form: is multi-buffer mode (distributed-ucxx.multi-buffer, Settings.MultiBuffer) on at one side only?")

// idleError is a read whose context ended before anything had arrived: the comm lives.
type idleError struct{ cause error }

func (e *idleError) Error() string { return e.cause.Error() }
func (e *idleError) Unwrap() error { return e.cause }

// pythonLink moves messages in distributed-ucxx's format.
type pythonLink struct {
	ep           *meeting
	multi        bool
	host, device mem.Resource // nil: Go's heap

	// Owner: who has the comm's turn to read.
	lead    [leadSize]byte
	leading *ucx.Request // receive of the next message's lead; it outlives a read that gave up

	// Owner: who has the comm's turn to write.
	unmatched []*ucx.Request // leads that the peer may not have begun to receive
}

// view is a frame for one operation.
func view(f wire.Frame) ucx.View {
	if b := f.Buffer(); b != nil {
		return ucx.Buffer(b)
	}
	return ucx.Bytes(f.Bytes())
}

// ready waits for what GPUs still write: a send that waits for it would be overtaken by
// the next one.
func ready(ctx context.Context, m *wire.Message) error {
	for _, f := range m.Frames {
		if b := f.Buffer(); b != nil {
			if err := b.WaitReady(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *pythonLink) write(ctx context.Context, m *wire.Message) error {
	if len(m.Frames) == 0 {
		return &idleError{errNoFrames}
	}
	if err := ready(ctx, m); err != nil {
		return &idleError{err}
	}
	if l.multi {
		return l.writeMulti(ctx, m)
	}
	if err := l.room(ctx, unmatchedMessages-1); err != nil {
		return err
	}
	parts := make([]part, len(m.Frames))
	for i, f := range m.Frames {
		parts[i] = part{size: int64(f.Len()), device: f.OnDevice()}
	}
	var first [leadSize]byte
	lead{frames: uint64(len(parts))}.put(&first)
	table := appendTable(nil, parts)
	// The lead is done when the peer has begun to receive the message, the others when
	// their memory is the caller's again.
	matched := l.ep.raw().StartSendSync(ucx.Bytes(first[:]), l.ep.send)
	open := []*ucx.Request{l.ep.startSend(ucx.Bytes(table))}
	for _, f := range m.Frames {
		if f.Len() == 0 {
			continue
		}
		if len(open) >= receiveWindow {
			if err := open[0].Wait(ctx); err != nil {
				return l.cut(err, append(open, matched))
			}
			open = open[1:]
		}
		open = append(open, l.ep.startSend(view(f)))
	}
	for i, r := range open {
		if err := r.Wait(ctx); err != nil {
			return l.cut(err, append(open[i:], matched))
		}
	}
	l.unmatched = append(l.unmatched, matched)
	return nil
}

func (l *pythonLink) writeMulti(ctx context.Context, m *wire.Message) error {
	views := make([]ucx.View, 0, 1+len(m.Frames))
	views = append(views, ucx.Bytes([]byte{0}))
	for _, f := range m.Frames {
		views = append(views, view(f))
	}
	return l.ep.SendMulti(ctx, ucx.ForceTag(l.ep.send), views...)
}

// room waits until at most n messages are ahead of the peer.
func (l *pythonLink) room(ctx context.Context, n int) error {
	for len(l.unmatched) > n {
		if err := l.unmatched[0].Wait(ctx); err != nil {
			if ctx.Err() != nil {
				return &idleError{err} // nothing of the next message has gone out
			}
			return err
		}
		l.unmatched = l.unmatched[1:]
	}
	return nil
}

// matchTime is how long a close waits for a peer that has not begun to read what was
// written. UCX does not tell when it has arrived, only when a receive has met it, and a
// peer that hears of the end first may drop it.
const matchTime = 250 * time.Millisecond

// shutdown tells the peer that nothing more comes.
func (l *pythonLink) shutdown(ctx context.Context) error {
	if l.multi {
		if err := l.ep.SendMulti(ctx, ucx.ForceTag(l.ep.send), ucx.Bytes([]byte{1})); err != nil {
			return err
		}
		return l.ep.raw().Flush(ctx)
	}
	matched, cancel := context.WithTimeout(ctx, matchTime)
	defer cancel()
	err := l.room(matched, 0)
	if matched.Err() != nil {
		err = nil // it reads later, or never
	}
	var b [leadSize]byte
	lead{shutdown: true}.put(&b)
	if serr := l.ep.Send(ctx, ucx.Bytes(b[:]), ucx.ForceTag(l.ep.send)); err == nil {
		err = serr
	}
	if ferr := l.ep.raw().Flush(ctx); err == nil {
		err = ferr
	}
	return err
}

// cut ends the endpoint in the middle of a message and returns err when UCX has given
// back the memory of the operations.
func (l *pythonLink) cut(err error, open []*ucx.Request) error {
	abortEndpoint(l.ep.raw())
	ctx, cancel := context.WithTimeout(context.Background(), giveBack)
	defer cancel()
	for _, r := range open {
		_ = r.Wait(ctx)
	}
	return err
}

// abortEndpoint closes an endpoint without waiting for the peer.
func abortEndpoint(ep *ucx.Endpoint) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = ep.CloseContext(ctx)
}

func (l *pythonLink) read(ctx context.Context, b bounds) (*wire.Message, error) {
	if l.multi {
		return l.readMulti(ctx, b)
	}
	if l.leading == nil {
		l.leading = l.ep.startRecv(ucx.Bytes(l.lead[:]))
	}
	if err := l.leading.Wait(ctx); err != nil {
		select {
		case <-l.leading.Done():
			l.leading = nil
			if errors.Is(err, ucx.ErrTruncated) {
				err = fmt.Errorf("%w: %w", errForm, err)
			}
			return nil, l.cut(err, nil)
		default:
			return nil, &idleError{err}
		}
	}
	n := l.leading.Info().Len
	l.leading = nil
	first, err := decodeLead(l.lead[:n])
	switch {
	case err != nil:
		return nil, l.cut(err, nil)
	case first.shutdown:
		return nil, errShutdown
	case first.frames == 0 || first.frames > uint64(b.frames):
		return nil, l.cut(b.framesError(first.frames), nil)
	}
	table, err := l.readTable(ctx, int(first.frames))
	if err != nil {
		return nil, l.cut(err, nil)
	}
	parts, _, err := decodeTable(table, int(first.frames), b.bytes)
	if err != nil {
		return nil, l.cut(err, nil)
	}
	return l.readFrames(ctx, parts)
}

// readTable receives the table of n frames.
func (l *pythonLink) readTable(ctx context.Context, n int) ([]byte, error) {
	table := make([]byte, tableSize(n))
	r := l.ep.startRecv(ucx.Bytes(table))
	if err := r.Wait(ctx); err != nil {
		return nil, l.cut(err, []*ucx.Request{r})
	}
	return table[:r.Info().Len], nil
}

// readFrames receives the frames of a table, allocating a bounded piece ahead of what
// has arrived.
func (l *pythonLink) readFrames(ctx context.Context, parts []part) (*wire.Message, error) {
	m := &wire.Message{Frames: make([]wire.Frame, len(parts))}
	type waiting struct {
		r    *ucx.Request
		size int64
	}
	var open []waiting
	var ahead int64
	fail := func(err error) (*wire.Message, error) {
		var rs []*ucx.Request
		for _, w := range open {
			rs = append(rs, w.r)
		}
		err = l.cut(err, rs)
		m.Release()
		return nil, err
	}
	finish := func() error {
		w := open[0]
		if err := w.r.Wait(ctx); err != nil {
			return err
		}
		if n := w.r.Info().Len; int64(n) != w.size {
			return fmt.Errorf("a frame has %d bytes, its table says %d", n, w.size)
		}
		open = open[1:]
		ahead -= w.size
		return nil
	}
	for i, p := range parts {
		for len(open) > 0 && (len(open) >= receiveWindow || ahead+p.size > receiveAhead) {
			if err := finish(); err != nil {
				return fail(err)
			}
		}
		f, err := l.frame(ctx, p)
		if err != nil {
			return fail(err)
		}
		m.Frames[i] = f
		if p.size > 0 {
			open = append(open, waiting{l.ep.startRecv(view(f)), p.size})
			ahead += p.size
		}
	}
	for len(open) > 0 {
		if err := finish(); err != nil {
			return fail(err)
		}
	}
	return m, nil
}

// frame allocates a frame's memory.
func (l *pythonLink) frame(ctx context.Context, p part) (wire.Frame, error) {
	res := l.host
	if p.device && l.device != nil {
		res = l.device
	}
	if res == nil || res == l.host && p.size < pooledFrom {
		return wire.HeapFrame(make([]byte, p.size)), nil
	}
	b, err := res.Alloc(ctx, int(p.size))
	if err != nil {
		return wire.Frame{}, err
	}
	if err := b.WaitReady(ctx); err != nil { // whoever had the memory before may still use it
		b.Release()
		return wire.Frame{}, err
	}
	return wire.BufferFrame(b), nil
}

func (l *pythonLink) readMulti(ctx context.Context, b bounds) (*wire.Message, error) {
	frames, err := l.ep.RecvMulti(ctx, ucx.ForceTag(l.ep.recv), ucx.Allocators{
		Host: l.host, Device: l.device, MaxFrames: b.frames + 1, MaxBytes: b.bytes + 1,
	})
	if err != nil {
		switch {
		case ctx.Err() != nil && l.ep.Err() == nil:
			err = &idleError{err}
		case b.handshake && !errors.Is(err, io.EOF):
			err = fmt.Errorf("%w: %w", errForm, err)
		}
		return nil, err
	}
	if frames[0].Len() != 1 || len(frames) == 1 && frames[0].Bytes()[0] == 0 {
		frames.Release()
		return nil, l.cut(errors.New("a multi-buffer message begins with one byte that tells whether the peer closes, and has more frames unless it does"), nil)
	}
	if frames[0].Bytes()[0] != 0 {
		frames.Release()
		return nil, errShutdown
	}
	frames[0].Release()
	return message(frames[1:]), nil
}

// message makes a message of received buffers and takes their references over.
func message(frames []*mem.Buffer) *wire.Message {
	m := &wire.Message{Frames: make([]wire.Frame, len(frames))}
	for i, b := range frames {
		if b.Region().GoHeap() {
			m.Frames[i] = wire.HeapFrame(b.Bytes())
			b.Release()
			continue
		}
		m.Frames[i] = wire.BufferFrame(b)
	}
	return m
}
