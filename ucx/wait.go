package ucx

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"go.millstream.dev/ucx/internal/progress"
	"go.millstream.dev/ucx/internal/ucp"
)

// waiter is one wait: for a blocking operation, or for a request that no goroutine drives.
type waiter struct {
	policy progress.Policy
	r      *Request
	s      *ucp.Slot // the own operation; nil for a request
	gather int       // how many requests the caller waits for, better collected together
	until  time.Time // how long to spin for one that is expected to end soon
}

// run performs one blocking operation whose slot is filled. When it returns nil the operation is finished and the
// caller owns the slot. Otherwise ctx ended, and the caller owns the slot too unless the operation had to be abandoned
// (slot kept).
func (d *driver) run(ctx context.Context, s *ucp.Slot, r *Request) error {
	s.State, s.Notify = ucp.Queued, 0
	x := waiter{policy: progress.Policy{Own: true, Polling: d.polling, Thread: d.wakeFile != nil}, r: r, s: s}
	return d.wait(ctx, &x, x.policy.First(0))
}

// resume continues a blocking operation after its first pass, whose result is res. The caller holds the token.
func (d *driver) resume(ctx context.Context, s *ucp.Slot, r *Request, res int) error {
	x := waiter{policy: progress.Policy{Own: true, Polling: d.polling}, r: r, s: s}
	return d.wait(ctx, &x, x.policy.Next(progress.Drive, d.judge(ctx, &x, res)))
}

// await waits for a request that is not tied to a goroutine, one of several that the caller waits for.
func (d *driver) await(ctx context.Context, r *Request, several int) error {
	x := waiter{policy: progress.Policy{Polling: d.polling, Thread: d.wakeFile != nil}, r: r, gather: several}
	return d.wait(ctx, &x, x.policy.First(x.seen(ctx)))
}

// awaitSoon is await for a request that is expected to end soon: it spins for that time, whatever recent waits were
// like. The worker's spin budget does not learn from it.
func (d *driver) awaitSoon(ctx context.Context, r *Request, soon time.Duration) error {
	if soon <= 0 || d.polling || d.wakeFile != nil || runtime.NumCPU() == 1 {
		return d.await(ctx, r, 1)
	}
	x := waiter{policy: progress.Policy{Soon: true}, r: r, gather: 1, until: time.Now().Add(soon)}
	return d.wait(ctx, &x, x.policy.First(x.seen(ctx)))
}

// wait is the loop of all waits. Package progress decides on its steps.
func (d *driver) wait(ctx context.Context, x *waiter, step progress.Step) error {
	for {
		var saw progress.Seen
		switch step {
		case progress.Take, progress.Retry:
			if d.tryToken() {
				saw = progress.Token
			}
		case progress.Push:
			x.s.Notify = 1
			d.put(x.s)
		case progress.Serve:
			d.service()
		case progress.Yield:
			runtime.Gosched() // the token holder drives progress
			saw = x.seen(ctx)
		case progress.Drive:
			saw = d.judge(ctx, x, d.pass(x))
		case progress.Release:
			d.leave(false)
			saw = x.seen(ctx)
		case progress.Leave:
			d.leave(false)
		case progress.Sleep:
			if x.s != nil {
				x.s.Notify = 1
			}
			d.leave(true)
		case progress.Park:
			saw = d.park(ctx, x)
		case progress.Return:
			return nil
		case progress.Cancel:
			if x.s != nil {
				return x.r.abandon(ctx, x.s)
			}
			return contextError(ctx)
		}
		step = x.policy.Next(step, saw)
		if saw&progress.Late != 0 {
			x.policy.Soon = false
		}
	}
}

// pass submits and makes progress. The caller holds the token.
func (d *driver) pass(x *waiter) int {
	if x.s != nil {
		return ucp.Drive(d.c, x.s, d.spin.Next())
	}
	spin := d.spin.Next()
	if x.policy.Soon {
		spin = progress.PollSlice
	}
	d.c.Gather = uint32(x.gather)
	res := ucp.Drive(d.c, nil, spin)
	d.c.Gather = 0
	return res
}

// judge delivers the completions of a pass and returns what the waiter has seen. The caller holds the token.
func (d *driver) judge(ctx context.Context, x *waiter, res int) progress.Seen {
	if res&ucp.ResultOwn != 0 {
		d.spin.Won(d.c.LastSpin)
		return progress.Done
	}
	if res&ucp.ResultWork != 0 {
		d.dispatch()
	}
	saw := progress.Seen(0)
	if x.s == nil && x.r.state.Load() == reqDone {
		saw = progress.Done
	}
	if res&ucp.ResultTimeout != 0 {
		saw |= progress.Timeout
	}
	switch {
	case x.policy.Soon:
		d.releaseAsync()
		return saw | x.seen(ctx)
	case saw&progress.Done != 0:
		d.spin.Won(d.c.LastSpin)
		return saw
	case saw&progress.Timeout != 0:
		d.spin.Lost()
	}
	if ctx.Err() != nil {
		saw |= progress.Ended
	}
	if x.policy.Polling {
		d.releaseAsync()
	}
	return saw
}

// seen checks the request, the context and the clock.
func (x *waiter) seen(ctx context.Context) (saw progress.Seen) {
	if x.r.state.Load() == reqDone {
		saw = progress.Done
	}
	if ctx.Err() != nil {
		saw |= progress.Ended
	}
	if x.policy.Soon && !time.Now().Before(x.until) {
		saw |= progress.Late
	}
	return saw
}

// park sleeps until the awaited operation or ctx has ended.
func (d *driver) park(ctx context.Context, x *waiter) progress.Seen {
	done := (<-chan struct{})(x.r.ch)
	if x.s == nil {
		if x.r.state.Load() == reqDone {
			return progress.Done
		}
		done = x.r.Done()
	}
	d.parks.Add(1)
	d.parked.Add(1)
	defer d.parked.Add(-1)
	select {
	case <-done:
		return progress.Done
	case <-ctx.Done():
		if x.s == nil && x.r.state.Load() == reqDone {
			return progress.Done
		}
		return progress.Ended
	}
}

// abandon ends the wait of a blocking operation whose context has ended. UCX can cancel only a receive that nothing
// matched; what else happens depends on whose memory UCX holds:
//
//   - memory of the slot or staging: the operation is left to the worker, which cleans up when it completes. The
//     endpoint stays usable.
//   - the caller's memory: the endpoint is force-closed, which makes UCX release the memory immediately, and the call
//     returns then.
//   - a stream receive ends its endpoint in any case: an abandoned one would consume the bytes of the next receive.
//
// A peer that reads memory itself (cma, RDMA) may continue to read the memory of a canceled send until it is notified
// of the close: the data that it receives is invalid, and its endpoint fails.
//
// It returns nil if the operation finished after all.
func (r *Request) abandon(ctx context.Context, s *ucp.Slot) error {
	cause := contextError(ctx)
	r.w.drv.cancelSlot(s, s.Serial)
	if r.state.Load() == reqDone {
		return r.awaitCanceled(s, cause)
	}
	ep := r.ep
	op, peer := r.op.String(), r.peer()
	if !r.borrows() && r.op != ucp.OpStreamRecv {
		if r.state.CompareAndSwap(reqPending, reqAbandoned) {
			return &OpError{Op: op, Peer: peer, Err: cause}
		}
		return r.awaitCanceled(s, cause)
	}
	if ep != nil {
		ep.abort(&abortError{cause})
	}
	timer := time.NewTimer(forceWait)
	defer timer.Stop()
	select {
	case <-r.ch:
		if ep != nil && ep.lifeline != nil {
			ep.lifeline.awaitHangup() // UCX releases the memory at once, but the peer may be reading it
		}
		return r.cancelResult(s, cause)
	case <-timer.C:
	}
	if r.state.CompareAndSwap(reqPending, reqAbandoned) {
		logf("%v", errMemoryKept(op))
		return &OpError{Op: op, Peer: peer, Err: cause}
	}
	return r.awaitCanceled(s, cause)
}

// borrows reports whether UCX may still touch the caller's memory.
func (r *Request) borrows() bool {
	return r.view.n > 0 && r.staging == nil && !r.copied && (r.pinned || !r.copyOut &&
		(r.view.buf != nil || r.view.addr != 0)) || len(r.views) > 0
}

// awaitCanceled waits for a finished operation and returns its result.
func (r *Request) awaitCanceled(s *ucp.Slot, cause error) error {
	<-r.ch
	return r.cancelResult(s, cause)
}

// cancelResult returns nil if the operation completed before the cancel reached it, otherwise why the context ended.
func (r *Request) cancelResult(s *ucp.Slot, cause error) error {
	if Status(s.Status) == statusOK {
		return nil
	}
	r.takeResult(s)
	op, peer := r.op.String(), r.peer()
	r.release()
	r.w.drv.putSlot(s)
	return &OpError{Op: op, Peer: peer, Err: cause}
}

// contextError returns why a context ended: its error and its cause.
func contextError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == nil || errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// abortError is the failure of an endpoint whose operation was canceled.
type abortError struct{ cause error }

func (e *abortError) Error() string {
	return "ucx: operation in flight was canceled: " + e.cause.Error()
}
func (e *abortError) Unwrap() error { return e.cause }
