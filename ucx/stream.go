package ucx

import (
	"context"
	"fmt"

	"go.millstream.dev/ucx/internal/ucp"
)

// SendStream appends v to the byte stream of the endpoint and returns when the
// memory may be used again. The stream keeps the order of calls and no boundaries;
// it is not mixed with tag or active messages. UCX's streams have no back-pressure:
// what the peer does not read piles up in its memory. For a net.Conn with a bounded
// window see Conn; raw streams are for peers that expect them, such as UCXX.
func (ep *Endpoint) SendStream(ctx context.Context, v View) error {
	if v.n == 0 {
		return ep.emptyStream(ctx, ucp.OpStreamSend, v, false)
	}
	w := ep.w
	s, r, err := w.prepare(ucp.OpStreamSend, ep)
	if err != nil {
		return err
	}
	if err := w.mem.bind(s, r, v, false, false); err != nil {
		return r.unbind(s, err)
	}
	return r.finishBlocking(ctx, s)
}

// StartSendStream is SendStream as a Request.
func (ep *Endpoint) StartSendStream(v View) *Request {
	if v.n == 0 {
		return ep.startEmptyStream(ucp.OpStreamSend, v, false)
	}
	return ep.w.startView(ucp.OpStreamSend, ep, v, false, nil)
}

// RecvStream reads from the endpoint's byte stream into v and returns the number of
// bytes. With waitAll it returns when v is full, otherwise with what is there, at
// least one byte.
//
// Bytes that UCX has put into v cannot be given back to the stream, so when ctx ends
// during a receive the endpoint is force-closed, whatever the size of v: a receive
// left behind would take what the next one should get. Bytes that have arrived but
// were not received when the endpoint ends are lost with it.
func (ep *Endpoint) RecvStream(ctx context.Context, v View, waitAll bool) (int, error) {
	if v.n == 0 {
		return 0, ep.emptyStream(ctx, ucp.OpStreamRecv, v, true)
	}
	w := ep.w
	s, r, err := w.prepare(ucp.OpStreamRecv, ep)
	if err != nil {
		return 0, err
	}
	if err := w.mem.bind(s, r, v, true, false); err != nil {
		return 0, r.unbind(s, err)
	}
	if waitAll {
		s.Flags |= ucp.FlagWaitAll
	}
	info, err := r.finishInfo(ctx, s)
	if err != nil {
		return 0, err
	}
	return info.Len, nil
}

// StartRecvStream is RecvStream as a Request; Request.Info has the number of bytes.
// Receives of one endpoint are filled in the order in which they were started. UCX
// cannot cancel them: Request.Cancel does nothing, only closing the endpoint ends one.
func (ep *Endpoint) StartRecvStream(v View, waitAll bool) *Request {
	if v.n == 0 {
		return ep.startEmptyStream(ucp.OpStreamRecv, v, true)
	}
	return ep.w.startView(ucp.OpStreamRecv, ep, v, true, func(s *ucp.Slot) {
		if waitAll {
			s.Flags |= ucp.FlagWaitAll
		}
	})
}

// emptyStream is an operation on no bytes: nothing to move, but a dead endpoint, a
// bad view or an ended context are still told.
func (ep *Endpoint) emptyStream(ctx context.Context, op ucp.Op, v View, recv bool) error {
	err := v.bad
	if err == nil && recv && v.readOnly {
		err = fmt.Errorf("ucx: cannot receive into read-only memory (%d bytes)", v.n)
	}
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = ep.reason()
	}
	if err != nil {
		return &OpError{Op: op.String(), Peer: ep.peer, Err: err}
	}
	return nil
}

func (ep *Endpoint) startEmptyStream(op ucp.Op, v View, recv bool) *Request {
	if err := ep.emptyStream(background, op, v, recv); err != nil {
		return failedRequest(op, ep, err)
	}
	r := &Request{w: ep.w, ep: ep, op: op}
	r.state.Store(reqDone)
	return r
}
