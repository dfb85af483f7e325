package ucx

import (
	"context"
	"fmt"

	"go.millstream.dev/ucx/internal/ucp"
)

// Put writes v to the peer's memory at off and returns when v may be used again. The
// peer's side may see the bytes later: they are there after [Endpoint.Flush], and a
// [Worker.Fence] orders what follows after them.
//
// When ctx ends first and UCX still reads v, the endpoint is closed by force to get
// v back, as for every blocking operation.
func (ep *Endpoint) Put(ctx context.Context, v View, rk *RemoteKey, off int64) error {
	return ep.transfer(ctx, ucp.OpPut, v, rk, off)
}

// StartPut is Put as a Request. v stays borrowed until it is done.
func (ep *Endpoint) StartPut(v View, rk *RemoteKey, off int64) *Request {
	return ep.startTransfer(ucp.OpPut, v, rk, off)
}

// Get reads the peer's memory at off into v. v is filled when it returns.
//
// When ctx ends first and UCX still writes v, the endpoint is closed by force to get
// v back, as for every blocking operation.
func (ep *Endpoint) Get(ctx context.Context, v View, rk *RemoteKey, off int64) error {
	return ep.transfer(ctx, ucp.OpGet, v, rk, off)
}

// StartGet is Get as a Request. v stays borrowed until it is done.
func (ep *Endpoint) StartGet(v View, rk *RemoteKey, off int64) *Request {
	return ep.startTransfer(ucp.OpGet, v, rk, off)
}

func (ep *Endpoint) transfer(ctx context.Context, op ucp.Op, v View, rk *RemoteKey, off int64) error {
	addr, err := ep.target(op, v, rk, off)
	if err != nil {
		return &OpError{Op: op.String(), Peer: ep.peer, Err: err}
	}
	w := ep.w
	s, r, err := w.prepare(op, ep)
	if err != nil {
		return err
	}
	rk.aim(s, addr)
	if err := w.mem.bind(s, r, v, op == ucp.OpGet, false); err != nil {
		return r.unbind(s, err)
	}
	return r.finishBlocking(ctx, s)
}

func (ep *Endpoint) startTransfer(op ucp.Op, v View, rk *RemoteKey, off int64) *Request {
	addr, err := ep.target(op, v, rk, off)
	if err != nil {
		return failedRequest(op, ep, err)
	}
	return ep.w.startView(op, ep, v, op == ucp.OpGet, func(s *ucp.Slot) { rk.aim(s, addr) })
}

func (ep *Endpoint) target(op ucp.Op, v View, rk *RemoteKey, off int64) (uint64, error) {
	if v.bad != nil {
		return 0, v.bad
	}
	if ep.w.ctx.cfg.Features&RMA == 0 {
		return 0, fmt.Errorf("ucx: the context does not have the feature RMA; add it to Config.Features: %w", ErrUnsupported)
	}
	return rk.reach(ep, off, v.n, op == ucp.OpPut)
}
