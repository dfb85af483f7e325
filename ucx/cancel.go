package ucx

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"go.millstream.dev/ucx/internal/ucp"
)

// abandon ends the wait of a blocking operation whose context has ended. UCX can
// cancel only a receive that nothing matched; what else happens depends on whose
// memory UCX holds:
//
//   - the slot's or staging memory: the operation is left to the worker, which
//     cleans up when it completes. The endpoint stays usable.
//   - the caller's memory: the endpoint is force-closed, which makes UCX give the
//     memory back at once, and the call returns then.
//   - a stream receive ends its endpoint in any case: left behind, it would take the
//     bytes that the next receive should get.
//
// A peer that reads memory by itself (cma, RDMA) may go on reading what a cancelled send
// has given back, until it hears of the close: what it receives then is of no value, and
// its endpoint fails.
//
// It returns nil if the operation finished after all.
func (w *Worker) abandon(ctx context.Context, s *ucp.Slot, r *Request) error {
	cause := contextError(ctx)
	w.cancelSlot(s, s.Serial)
	if r.state.Load() == reqDone {
		return w.cancelled(s, r, cause)
	}
	ep := r.ep
	op, peer := r.op.String(), r.peer()
	if !r.borrows() && r.op != ucp.OpStreamRecv {
		if r.state.CompareAndSwap(reqPending, reqAbandoned) {
			return &OpError{Op: op, Peer: peer, Err: cause}
		}
		return w.cancelled(s, r, cause)
	}
	if ep != nil {
		ep.abort(&abortError{cause})
	}
	timer := time.NewTimer(forceWait)
	defer timer.Stop()
	select {
	case <-r.ch:
		if ep != nil && ep.line != nil {
			ep.line.awaitHangup() // UCX lets go at once, but the peer may be reading
		}
		return w.cancelledTaken(s, r, cause)
	case <-timer.C:
	}
	if r.state.CompareAndSwap(reqPending, reqAbandoned) {
		logf("%v", errMemoryKept(op))
		return &OpError{Op: op, Peer: peer, Err: cause}
	}
	return w.cancelled(s, r, cause)
}

// borrows reports whether UCX may still touch the caller's memory.
func (r *Request) borrows() bool {
	return r.view.n > 0 && r.staging == nil && !r.copied && (r.pinned || !r.copyOut && (r.view.buf != nil || r.view.addr != 0)) || len(r.views) > 0
}

// cancelled takes the wake-up of a finished operation and its result.
func (w *Worker) cancelled(s *ucp.Slot, r *Request, cause error) error {
	<-r.ch
	return w.cancelledTaken(s, r, cause)
}

// cancelledTaken decides what the caller hears: success if the operation completed
// before the cancel reached it, otherwise why the context ended.
func (w *Worker) cancelledTaken(s *ucp.Slot, r *Request, cause error) error {
	if Status(s.Status) == OK {
		return nil
	}
	r.settle(s)
	op, peer := r.op.String(), r.peer()
	r.release()
	w.putSlot(s)
	return &OpError{Op: op, Peer: peer, Err: cause}
}

// contextError is why a context ended: its error, and the cause that was given for it.
func contextError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == nil || errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// abortError is why an endpoint failed whose operation was cancelled.
type abortError struct{ cause error }

func (e *abortError) Error() string {
	return "ucx: an operation in flight was cancelled: " + e.cause.Error()
}
func (e *abortError) Unwrap() error { return e.cause }

// cancel asks UCX to cancel a started request. The slot may serve another operation
// by the time the call runs; its serial number tells.
func (w *Worker) cancel(r *Request) { w.cancelSlot(r.slot, r.serial) }

func (w *Worker) cancelSlot(s *ucp.Slot, serial uint32) {
	_ = w.internalCall("cancel", ucp.CallCancel, func(x *ucp.Slot) {
		x.Buf = uintptr(unsafe.Pointer(s))
		x.Arg[0] = uint64(serial)
	}, nil)
}

// requestText returns UCX's description of a request under way.
func (w *Worker) requestText(r *Request) string {
	if w == nil || r.slot == nil {
		return ""
	}
	const size = 1024
	buf := ucp.Malloc(size)
	defer ucp.FreeMemory(buf)
	text := ""
	_ = w.internalCall("request info", ucp.CallRequestText, func(x *ucp.Slot) {
		x.Buf = uintptr(unsafe.Pointer(r.slot))
		x.Arg[0] = uint64(r.serial)
		x.Hdr, x.HdrLen = uintptr(buf), size
	}, func(*ucp.Slot) { text = cString(unsafe.Slice((*byte)(buf), size)) })
	return text
}

func cString(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}
