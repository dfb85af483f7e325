package ucx

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"go.millstream.dev/internal/ucx/ucxxwire"
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

// DefaultTag is UCXX's tag=None: the tag of the connection itself.
var DefaultTag UCXXTag

// UserTag is UCXX's tag=n: hashed together with the connection's tag, so that equal
// tags of different connections do not meet. (Python's str and bytes tags hash
// differently in every process, so no other program can match those.)
func UserTag[T ~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64](n T) UCXXTag {
	if n < 0 {
		return UCXXTag{tagUser, uint64(ucxxwire.PyHash(int64(n)))}
	}
	return UCXXTag{tagUser, uint64(ucxxwire.PyHashUint(uint64(n)))}
}

// ForceTag is UCXX's tag=t, force_tag=True: the tag as it is, for the whole worker.
func ForceTag(t uint64) UCXXTag { return UCXXTag{tagForced, t} }

// on returns the UCX tag for a connection's tag of one direction.
func (t UCXXTag) on(e *UCXXEndpoint, connection uint64) (uint64, error) {
	switch {
	case t.kind == tagForced:
		return t.n, nil
	case !e.tagged:
		return 0, fmt.Errorf("ucx: an endpoint without UCXX's handshake has no tags of its own; use ForceTag")
	case t.kind == tagUser:
		return ucxxwire.UserTag(connection, int64(t.n)), nil
	}
	return connection, nil
}

// Send sends a message, as UCXX's Endpoint.send.
func (e *UCXXEndpoint) Send(ctx context.Context, v View, tag UCXXTag) error {
	t, err := tag.on(e, e.sendTag)
	if err != nil {
		return &OpError{Op: "tag send", Peer: e.ep.peer, Err: err}
	}
	return eofOf(e.ep.Send(ctx, v, t))
}

// StartSend is Send as a Request.
func (e *UCXXEndpoint) StartSend(v View, tag UCXXTag) *Request {
	t, err := tag.on(e, e.sendTag)
	if err != nil {
		return failedRequest(ucp.OpTagSend, e.ep, err)
	}
	return e.ep.StartSend(v, t)
}

// Recv receives a message, as UCXX's Endpoint.recv, and returns its length. What had
// arrived when the endpoint ended can still be received.
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

// StartRecv is Recv as a Request. It does not count for CloseAfter, and the reset of
// a peer that closed is not turned into io.EOF.
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

// SendObject sends a message of a length that the receiver does not know, as UCXX's
// send_obj: the length, then the bytes, on one tag.
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

// RecvObject receives what UCXX's send_obj sent, into memory of the resource (nil:
// mem.Heap). limit bounds what a peer can make this side allocate; a longer message
// ends the endpoint, as there is no way to skip it.
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
		err := fmt.Errorf("%w: the peer announces an object of %d bytes in %d bytes, at most %d", ErrExceedsLimit, n, info.Len, limit)
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
