package ucx

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"go.millstream.dev/internal/wire/ucxxwire"
	"go.millstream.dev/mem"
	"go.millstream.dev/ucx/internal/ucp"
)

// UCXXTag is the tag argument of UCXX's send and receive. Its zero value, DefaultTag,
// is what UCXX uses when no tag is given.
type UCXXTag struct {
	kind byte
	n    uint64 // the tag of ForceTag, Python's hash of UserTag
}

const (
	tagDefault = iota
	tagUser
	tagForced
)

// DefaultTag is UCXX's tag=None: the tag of the connection.
var DefaultTag UCXXTag

// UserTag returns UCXX's tag=n: hashed together with the connection's tag, so that equal tags of different connections
// are distinct. (Python's str and bytes tags hash differently in every process, so no other program can match them.)
func UserTag[T ~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64](n T) UCXXTag {
	if n < 0 {
		return UCXXTag{tagUser, uint64(ucxxwire.PyHash(int64(n)))}
	}
	return UCXXTag{tagUser, uint64(ucxxwire.PyHashUint(uint64(n)))}
}

// ForceTag returns UCXX's tag=t, force_tag=True: an unmodified tag, for the whole worker.
func ForceTag(t uint64) UCXXTag { return UCXXTag{tagForced, t} }

// on returns the UCX tag for a connection's tag of one direction.
func (t UCXXTag) on(e *UCXXEndpoint, connection uint64) (uint64, error) {
	switch {
	case t.kind == tagForced:
		return t.n, nil
	case !e.tagged:
		return 0, fmt.Errorf("ucx: endpoint without UCXX's handshake has no tags; use ForceTag")
	case t.kind == tagUser:
		return ucxxwire.UserTag(connection, int64(t.n)), nil
	}
	return connection, nil
}

// Send sends a message like UCXX's Endpoint.send.
func (e *UCXXEndpoint) Send(ctx context.Context, v View, tag UCXXTag) error {
	t, err := tag.on(e, e.sendTag)
	if err != nil {
		return &OpError{Op: "tag send", Peer: e.ep.peer, Err: err}
	}
	return eofOf(e.ep.Send(ctx, v, t))
}

// StartSend is the non-blocking form of Send.
func (e *UCXXEndpoint) StartSend(v View, tag UCXXTag) *Request {
	t, err := tag.on(e, e.sendTag)
	if err != nil {
		return failedRequest(ucp.OpTagSend, e.ep, err)
	}
	return e.ep.StartSend(v, t)
}

// Recv receives a message like UCXX's Endpoint.recv, and returns its length. Messages that had arrived when the
// endpoint ended can still be received.
func (e *UCXXEndpoint) Recv(ctx context.Context, v View, tag UCXXTag) (int, error) {
	t, err := tag.on(e, e.recvTag)
	if err != nil {
		return 0, &OpError{Op: "tag receive", Peer: e.ep.peer, Err: err}
	}
	info, err := e.ep.Recv(ctx, v, t, FullMask)
	if err != nil {
		return 0, eofOf(err)
	}
	e.count()
	return info.Len, nil
}

// StartRecv is the non-blocking form of Recv. It is not counted by CloseAfter, and the reset of a peer that closed is
// not converted to io.EOF.
func (e *UCXXEndpoint) StartRecv(v View, tag UCXXTag) *Request {
	t, err := tag.on(e, e.recvTag)
	if err != nil {
		return failedRequest(ucp.OpTagRecv, e.ep, err)
	}
	return e.ep.StartRecv(v, t, FullMask)
}

// Probe reports whether a message with the tag has arrived, and its length.
func (e *UCXXEndpoint) Probe(tag UCXXTag) (n int, found bool, err error) {
	t, err := tag.on(e, e.recvTag)
	if err != nil {
		return 0, false, &OpError{Op: "tag probe", Peer: e.ep.peer, Err: err}
	}
	info, found, err := e.ep.w.Probe(t, FullMask)
	return info.Len, found, err
}

// SendObject sends a message whose length the receiver does not know, like UCXX's send_obj: the length, then the bytes,
// on one tag.
func (e *UCXXEndpoint) SendObject(ctx context.Context, v View, tag UCXXTag) error {
	t, err := tag.on(e, e.sendTag)
	if err != nil {
		return &OpError{Op: "tag send", Peer: e.ep.peer, Err: err}
	}
	unlock, err := e.sending.lock(ctx, t)
	if err != nil {
		return &OpError{Op: "tag send", Peer: e.ep.peer, Err: err}
	}
	defer unlock()
	length := binary.NativeEndian.AppendUint64(nil, uint64(v.n))
	return e.sendParts(ctx, t, []View{Bytes(length), v})
}

// RecvObject receives a message of UCXX's send_obj, into memory of the resource (nil: mem.Heap). limit bounds its
// length; a longer message ends the endpoint, as it cannot be skipped.
func (e *UCXXEndpoint) RecvObject(ctx context.Context, tag UCXXTag, res mem.Resource, limit int) (*mem.Buffer, error) {
	const op = "tag receive"
	t, err := tag.on(e, e.recvTag)
	if err != nil {
		return nil, &OpError{Op: op, Peer: e.ep.peer, Err: err}
	}
	unlock, err := e.receiving.lock(ctx, t)
	if err != nil {
		return nil, &OpError{Op: op, Peer: e.ep.peer, Err: err}
	}
	defer unlock()
	var length [8]byte
	info, err := e.ep.Recv(ctx, Bytes(length[:]), t, FullMask)
	if err != nil {
		return nil, eofOf(err)
	}
	n := binary.NativeEndian.Uint64(length[:])
	if info.Len != len(length) || n > math.MaxInt64 || int64(n) > int64(limit) {
		err := fmt.Errorf("%w: object of %d bytes announced in %d bytes, at most %d", ErrExceedsLimit, n,
			info.Len, limit)
		return nil, &OpError{Op: op, Peer: e.ep.peer, Err: e.ep.breakOff(err, nil)}
	}
	if res == nil {
		res = mem.Heap
	}
	frames, err := e.recvParts(ctx, t, []ucxxwire.Frame{{Size: int64(n)}}, &Allocators{Host: res})
	if err != nil {
		return nil, &OpError{Op: op, Peer: e.ep.peer, Err: err}
	}
	e.count()
	return frames[0], nil
}

// multiWindow is how many parts of a multi-buffer message are in flight at once.
const multiWindow = 256

const opSendMulti, opRecvMulti = "UCXX multi-buffer send", "UCXX multi-buffer receive"

// SendMulti sends frames like UCXX's Endpoint.send_multi: headers that describe up to 100 frames each, then every frame
// as a message, all on one tag. Like UCXX it rejects a message without frames.
//
// When ctx ends after the first header has been sent, the endpoint is force-closed: the receiver could not find the
// next message.
func (e *UCXXEndpoint) SendMulti(ctx context.Context, tag UCXXTag, frames ...View) error {
	err := e.sendMulti(ctx, tag, frames)
	if err != nil {
		err = &OpError{Op: opSendMulti, Peer: e.ep.peer, Err: resetAsEOF(inner(err))}
	}
	return err
}

func (e *UCXXEndpoint) sendMulti(ctx context.Context, tag UCXXTag, frames []View) error {
	t, err := tag.on(e, e.sendTag)
	if err != nil {
		return err
	}
	list := make([]ucxxwire.Frame, len(frames))
	for i, v := range frames {
		list[i] = ucxxwire.Frame{Size: int64(v.n), CUDA: v.onDevice()}
	}
	headers, err := ucxxwire.AppendMultiHeaders(nil, list)
	if err != nil {
		return err
	}
	parts := make([]View, 0, ucxxwire.MultiHeaders(len(frames))+len(frames))
	for ; len(headers) > 0; headers = headers[ucxxwire.MultiHeaderSize:] {
		parts = append(parts, Bytes(headers[:ucxxwire.MultiHeaderSize]))
	}
	parts = append(parts, frames...)
	unlock, err := e.sending.lock(ctx, t)
	if err != nil {
		return err
	}
	defer unlock()
	return e.sendParts(ctx, t, parts)
}

// sendParts sends messages that must arrive in order, all on one tag.
func (e *UCXXEndpoint) sendParts(ctx context.Context, tag uint64, parts []View) error {
	for _, v := range parts {
		if v.bad != nil {
			return v.bad
		}
		// A send that waits for its device event would be overtaken by the next.
		if v.buf != nil {
			if err := v.buf.WaitReady(ctx); err != nil {
				return err
			}
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	var open []*Request
	for _, v := range parts {
		if len(open) >= multiWindow {
			if err := open[0].Wait(ctx); err != nil {
				return e.ep.breakOff(err, open)
			}
			open = open[1:]
		}
		open = append(open, e.ep.StartSend(v, tag))
	}
	for i, r := range open {
		if err := r.Wait(ctx); err != nil {
			return e.ep.breakOff(err, open[i:])
		}
	}
	return nil
}

// RecvMulti receives a message of UCXX's send_multi, into memory of the given allocators, by the sender's kind of
// memory of each frame. The caller releases the frames.
//
// The format has no way to find the next message after one that could not be read, so an invalid header, one beyond the
// limits, a lack of memory, and a context that ends within a message, end the endpoint. A connection that ends within a
// message returns an error that matches io.ErrUnexpectedEOF, one that ends before a message io.EOF.
func (e *UCXXEndpoint) RecvMulti(ctx context.Context, tag UCXXTag, alloc Allocators) (Frames, error) {
	f, err := e.recvMulti(ctx, tag, &alloc)
	if err != nil {
		return nil, &OpError{Op: opRecvMulti, Peer: e.ep.peer, Err: inner(err)}
	}
	e.count()
	return f, nil
}

func (e *UCXXEndpoint) recvMulti(ctx context.Context, tag UCXXTag, alloc *Allocators) (Frames, error) {
	t, err := tag.on(e, e.recvTag)
	if err != nil {
		return nil, err
	}
	unlock, err := e.receiving.lock(ctx, t)
	if err != nil {
		return nil, err
	}
	defer unlock()
	d := ucxxwire.MultiDecoder{Limits: ucxxwire.MultiLimits{MaxFrames: alloc.MaxFrames, MaxBytes: alloc.MaxBytes}}
	header := make([]byte, ucxxwire.MultiHeaderSize)
	for next := true; next; {
		info, err := e.ep.Recv(ctx, Bytes(header), t, FullMask)
		if err != nil {
			if len(d.Frames()) == 0 && !errors.Is(err, ErrTruncated) {
				return nil, resetAsEOF(inner(err))
			}
			return nil, e.cutOff(err, nil)
		}
		if next, err = d.Add(header[:info.Len]); err != nil {
			if errors.Is(err, ucxxwire.ErrLimit) {
				err = fmt.Errorf("%w: %w (Allocators.MaxFrames, MaxBytes)", ErrExceedsLimit, err)
			}
			return nil, e.ep.breakOff(err, nil)
		}
	}
	return e.recvParts(ctx, t, d.Frames(), alloc)
}

// recvParts receives messages that arrive in order, all on one tag.
func (e *UCXXEndpoint) recvParts(ctx context.Context, tag uint64, list []ucxxwire.Frame, alloc *Allocators) (Frames,
	error) {
	frames := make(Frames, len(list))
	var open []*Request
	fail := func(err error) (Frames, error) {
		err = e.cutOff(err, open)
		frames.Release()
		return nil, err
	}
	first := 0 // the frame of open[0]
	finish := func() error {
		if err := open[0].Wait(ctx); err != nil {
			return err
		}
		if n := open[0].Info().Len; int64(n) != list[first].Size {
			return fmt.Errorf("ucx: frame %d has %d bytes, its header says %d", first, n, list[first].Size)
		}
		open = open[1:]
		first++
		return nil
	}
	for i, f := range list {
		if len(open) >= multiWindow {
			if err := finish(); err != nil {
				return fail(err)
			}
		}
		kind := mem.Host
		if f.CUDA {
			kind = mem.Device
		}
		res := alloc.resource(e.ep.w, kind)
		if err := alloc.reserve(ctx, res, int(f.Size)); err != nil {
			return fail(err)
		}
		b, err := res.Alloc(ctx, int(f.Size))
		if err != nil {
			return fail(err)
		}
		frames[i] = b
		// A receive that waits for its memory would be overtaken by the next.
		if err := b.WaitReady(ctx); err != nil {
			return fail(err)
		}
		open = append(open, e.ep.StartRecv(Buffer(b), tag, FullMask))
	}
	for len(open) > 0 {
		if err := finish(); err != nil {
			return fail(err)
		}
	}
	return frames, nil
}

// cutOff ends the endpoint within a message and returns the error.
func (e *UCXXEndpoint) cutOff(err error, open []*Request) error {
	over := e.ep.reason()
	err = e.ep.breakOff(inner(err), open)
	if errors.Is(over, ErrConnectionReset) {
		return fmt.Errorf("%w: %w", io.ErrUnexpectedEOF, err)
	}
	return err
}
