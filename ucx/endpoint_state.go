package ucx

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"go.millstream.dev/ucx/internal/epstate"
	"go.millstream.dev/ucx/internal/ucp"
)

// on applies an event to the endpoint's state machine and performs the actions of the transition. err is why the
// endpoint ends, for events that end it. It returns the actions, 0 if the event changed nothing.
//
// Events that may occur with the token held (PeerFailed, PeerClose, Overflow, Connected) have only actions that
// neither block nor call into UCX.
func (ep *Endpoint) on(e epstate.Event, err error) epstate.Action {
	ep.mu.Lock()
	t, ok := ep.state.On(e)
	if !ok {
		ep.mu.Unlock()
		return 0
	}
	ep.state = t.To
	if t.Do&epstate.PeerReason != 0 {
		err = ErrPeerClosed
	}
	if t.Do&epstate.SetReason != 0 {
		ep.err = err
	}
	var parts []endpointPart
	if t.Do&epstate.EndParts != 0 {
		parts = ep.parts
	}
	ep.mu.Unlock()
	if t.Do == 0 {
		return 0
	}
	for _, p := range parts {
		p.end(ep.reason())
	}
	ep.perform(t.Do, err)
	return t.Do
}

// perform performs the actions of a transition, except those that on and close have performed.
func (ep *Endpoint) perform(do epstate.Action, err error) {
	if do&epstate.StartAbort != 0 {
		go ep.abort(err) // needs the token, which the caller holds
	}
	if ep.lifeline != nil {
		switch {
		case do&epstate.HangUp == 0:
		case do&epstate.GiveBack != 0:
			ep.lifeline.close()
		default:
			go ep.lifeline.close() // closing a socket may block, and the token may be held
		}
		if do&epstate.AbortLifeline != 0 {
			ep.lifeline.abort()
		}
	}
	if do&epstate.ForceClose != 0 && ep.kind != borrowed {
		awaitConnected(ep)
		ep.destroyKeys()
		ep.failNative(statusOf(err))
	}
	if do&epstate.DropHandle != 0 && ep.kind != borrowed {
		ep.w.peers.dropHandle(ep)
	}
	if do&epstate.GiveBack != 0 {
		ep.destroyKeys()
		ep.discardParts()
		ep.giveBackErr = ep.closeNative()
	}
	if do&epstate.CloseDone != 0 {
		close(ep.done)
	}
	if f := ep.w.ctx.cfg.Events.EndpointClosed; f != nil && do&epstate.Report != 0 {
		f(describe(ep), err)
	}
}

// statusOf returns the status with which the operations of an endpoint end.
func statusOf(reason error) Status {
	var s Status
	if errors.As(reason, &s) && s < 0 {
		return s
	}
	return errCanceled
}

// reason returns the error of operations that ended with the endpoint.
func (ep *Endpoint) reason() error {
	ep.mu.Lock()
	defer ep.mu.Unlock()
	if ep.err != nil {
		return ep.err
	}
	if ep.state.Ended() {
		return ErrClosed
	}
	return nil
}

// ending returns why operations of the endpoint end: it has ended, or its peer is closing. It is nil otherwise.
func (ep *Endpoint) ending() error {
	if err := ep.reason(); err != nil {
		return err
	}
	ep.mu.Lock()
	defer ep.mu.Unlock()
	if ep.state.PeerLeaves() {
		return ErrPeerClosed
	}
	return nil
}

// abort ends the endpoint immediately, from any goroutine that does not hold the token: pending operations complete
// with the reason, and a live peer is notified.
func (ep *Endpoint) abort(reason error) { ep.on(epstate.Abort, reason) }

// A forced close waits for a connection attempt to finish until the endpoint has this age, and for an endpoint by
// worker address at least connectWait.
const (
	connectGrace = time.Second
	connectWait  = 250 * time.Millisecond
)

// connect starts the first flush of an endpoint with a socket address.
func (ep *Endpoint) connect() *Request {
	ep.on(epstate.Connect, nil)
	s, r, err := ep.w.startOn(ucp.OpEPFlush, ep)
	if err != nil {
		r = failedRequest(ucp.OpEPFlush, ep, err)
		ep.handshake.Store(r)
		ep.on(epstate.Connected, nil)
		return r
	}
	r.onDone = func(*Request) { ep.on(epstate.Connected, nil) }
	ep.handshake.Store(r) // a closing worker reads it
	ep.w.drv.launch(s, r)
	return r
}

// awaitConnected waits, for a short time, until the endpoint is connected or has failed. UCX does not survive every
// forced close during its handshakes.
func awaitConnected(ep *Endpoint) {
	switch ep.kind {
	case byAddress:
		awaitAddressConnected(ep)
	case bySockaddr, accepted:
		awaitSocketConnected(ep)
	}
}

// awaitAddressConnected flushes the endpoint: UCX completes a flush when the connection request that it has sent, if
// any, is answered. Two workers may have sent requests to each other at the same time, each of which names its
// endpoint. If one of these endpoints is gone when the peer's request arrives, UCX answers with another endpoint, and a
// UCX that was built with assertions aborts the peer's process since the answer does not name the endpoint of the
// request.
func awaitAddressConnected(ep *Endpoint) {
	wait := max(connectWait, time.Until(ep.born.Add(connectGrace)))
	if ep.lifeline != nil && ep.lifeline.ended.Load() {
		// The peer has closed its endpoint, or has died.
		if wait = time.Until(ep.born.Add(connectGrace)); wait <= 0 || !assertsWireup() {
			return
		}
	}
	ep.mu.Lock()
	made := ep.c != nil
	ep.mu.Unlock()
	if !made {
		return
	}
	s, r, err := ep.w.startOn(ucp.OpEPFlush, ep)
	if err != nil {
		return
	}
	ep.w.drv.launch(s, r)
	ctx, cancel := context.WithTimeout(background, wait)
	defer cancel()
	_ = r.Wait(ctx) // an unfinished flush ends with the endpoint
}

// assertsWireup reports whether this UCX may abort the process when an endpoint is closed by force before its answer to
// the peer's connection request was sent. Releases before 1.14 that were built with assertions do.
func assertsWireup() bool {
	major, minor, _ := ucp.Version()
	return major == 1 && minor < 14
}

// awaitSocketConnected waits for the first flush. Late events of a closed socket of UCX's connection manager would
// affect the next user of its descriptor number.
func awaitSocketConnected(ep *Endpoint) {
	handshake := ep.handshake.Load()
	if handshake == nil {
		return
	}
	select {
	case <-handshake.Done():
		return
	default:
	}
	t := time.NewTimer(time.Until(ep.born.Add(connectGrace)))
	defer t.Stop()
	select {
	case <-handshake.Done():
	case <-t.C:
	}
}

// failNative force-closes the UCX endpoint if it exists already: newEndpoint checks again.
func (ep *Endpoint) failNative(st Status) {
	ep.mu.Lock()
	c := ep.c
	ep.mu.Unlock()
	if c == nil {
		return
	}
	_ = ep.w.drv.internalCall("endpoint abort", ucp.CallEPFail, func(x *ucp.Slot) {
		x.Buf = uintptr(unsafe.Pointer(c))
		x.Arg[0] = uint64(int64(st))
	}, nil)
	runtime.KeepAlive(ep)
}

// closeTimeout bounds a Close without a deadline of its own.
const closeTimeout = 5 * time.Second

// Close is Shutdown with a deadline of five seconds.
func (ep *Endpoint) Close() error {
	ctx, cancel := context.WithTimeout(background, closeTimeout)
	defer cancel()
	return ep.Shutdown(ctx)
}

// Shutdown closes the endpoint: sent data is flushed and, between Millstream peers, confirmed; when ctx ends before
// that, the rest is dropped. The endpoint is closed in any case when it returns; the error says whether data may be
// lost. Closing again returns the first result.
func (ep *Endpoint) Shutdown(ctx context.Context) error {
	ep.closeOnce.Do(func() { ep.closeErr = ep.close(ctx) })
	return ep.closeErr
}

func (ep *Endpoint) close(ctx context.Context) error {
	var err error
	alive := ep.reason() == nil
	if ep.on(epstate.Close, nil)&epstate.Drain != 0 && ep.kind != borrowed {
		if err = ep.drain(ctx); err == nil {
			err = ep.Flush(ctx)
		}
		ep.flushed = err == nil
		if err == nil && ep.lifeline != nil {
			err = ep.lifeline.confirmDelivery(ctx, ep)
		}
	}
	ep.on(epstate.Release, nil)
	if err == nil {
		err = ep.giveBackErr
	}
	if errors.Is(err, ErrConnectionReset) || errors.Is(err, errNotConnected) && !alive {
		err = nil // the peer closed first and no operation was pending
	}
	return err
}

// drain waits until no operation that was started on the endpoint depends on the peer. UCX's flush does not: it would
// cut off a rendezvous send that the peer has not received yet.
func (ep *Endpoint) drain(ctx context.Context) error {
	for pause := 20 * time.Microsecond; ; pause = min(2*pause, time.Millisecond) {
		n := uint64(0)
		err := ep.w.drv.call("endpoint close", ucp.CallEPUnsent, func(s *ucp.Slot) {
			s.Buf, s.Flags = uintptr(unsafe.Pointer(ep.c)), ucp.FlagOrdered
		}, func(s *ucp.Slot) { n = s.RLen })
		if err != nil || n == 0 {
			return err
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ep.done:
			t.Stop()
			return nil // its operations have failed, each with its own error
		case <-ctx.Done():
			t.Stop()
			err := fmt.Errorf("ucx: %d operations are unfinished: %w", n, contextError(ctx))
			return &OpError{Op: "endpoint close", Peer: ep.peer, Err: err}
		}
	}
}

// closeNative closes the UCX endpoint by force, after a flush.
func (ep *Endpoint) closeNative() error {
	w := ep.w
	s, r, err := w.drv.takeSlot()
	if err != nil {
		if w.drv.closing.Load() {
			return nil // the worker ends all endpoints itself
		}
		return &OpError{Op: "endpoint close", Peer: ep.peer, Err: err}
	}
	if !ep.flushed {
		awaitConnected(ep)
	}
	r.reset(ucp.OpEPClose, ep)
	resetSlot(s, ucp.OpEPClose, ep.c)
	s.Flags = ucp.FlagForce
	_ = w.drv.run(background, s, r)
	w.drv.putSlot(s)
	w.peers.forget(ep)
	return nil
}
