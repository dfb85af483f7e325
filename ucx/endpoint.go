package ucx

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"go.millstream.dev/ucx/internal/epstate"
	"go.millstream.dev/ucx/internal/obs"
	"go.millstream.dev/ucx/internal/ucp"
)

// Endpoint is a connection to one peer. It is safe for any number of goroutines.
type Endpoint struct {
	w    *Worker
	id   uint64
	c    *ucp.EP        // owner: token holder; freed when nobody can name this Endpoint any more
	h    unsafe.Pointer // ucp_ep_h, the key in Worker.handles; guarded by Worker.mu
	peer string
	kind endpointKind
	line *lifeline // nil for endpoints that rely on UCX to notice death

	handshake atomic.Pointer[Request] // first flush of an endpoint with a socket address: done when it is connected
	born      time.Time               // of those

	done  chan struct{} // closed when the endpoint has failed or was closed
	mu    sync.Mutex    // guards the fields below
	state epstate.State
	err   error // why it failed; nil while alive and after a Close of this side
	rkeys map[*RemoteKey]struct{}
	parts []endpointPart

	frames atomic.Pointer[frameConn] // messages of frames; made at first use
	ucxx   atomic.Pointer[ucxxBox]   // UCXX's active messages; made at first use

	closeOnce   sync.Once
	closeErr    error
	giveBackErr error // of the close of the UCX endpoint; owner: closeOnce
}

type endpointKind int

const (
	byAddress endpointKind = iota
	bySockaddr
	accepted
	borrowed
)

func (ep *Endpoint) native() *ucp.EP {
	if ep == nil {
		return nil
	}
	return ep.c
}

// EndpointConfig configures an endpoint made from worker address bytes or a socket address.
type EndpointConfig struct {
	Errors *ErrorMode // default: the worker's
	Name   string     // how errors name the peer; default: its address
	Local  string     // local IP address to connect from (socket addresses only)
}

func (c *EndpointConfig) mode(w *Worker) ErrorMode {
	if c != nil && c.Errors != nil {
		return *c.Errors
	}
	return w.cfg.Errors
}

// Connect makes an endpoint from the bytes of a peer's worker address: no IP
// address, no listener. Exchange addresses by any means (see [WorkerAddress]).
// Creation does not wait for the peer; the first operations do. Such an endpoint
// notices a dead peer by UCX's keepalive only; [Worker.Dial] notices at once.
func (w *Worker) Connect(addr WorkerAddress, cfg *EndpointConfig) (*Endpoint, error) {
	p := w.pairingWith(addr.owner())
	if err := p.take(background); err != nil { // at most one handshake long
		return nil, err
	}
	defer p.give()
	return p.makeOne(func() (*Endpoint, error) { return w.connect(addr, cfg, nil) })
}

func (w *Worker) connect(addr WorkerAddress, cfg *EndpointConfig, line *lifeline) (*Endpoint, error) {
	if err := addr.check(); err != nil {
		return nil, &OpError{Op: "connect", Err: err}
	}
	name := "worker address " + addr.short()
	if cfg != nil && cfg.Name != "" {
		name = cfg.Name
	}
	// UCX reads the address without a length; a padded copy keeps a cut-off one from
	// being read past its end.
	buf := ucp.Malloc(len(addr) + addressPadding)
	defer ucp.FreeMemory(buf)
	b := unsafe.Slice((*byte)(buf), len(addr)+addressPadding)
	clear(b[copy(b, addr):])
	return w.newEndpoint(byAddress, name, cfg.mode(w), line, func(s *ucp.Slot) { s.Buf, s.Arg[0] = uintptr(buf), 0 })
}

const addressPadding = 4096

// newEndpoint creates the UCX endpoint and enters it.
func (w *Worker) newEndpoint(kind endpointKind, peer string, mode ErrorMode, line *lifeline,
	set func(*ucp.Slot)) (*Endpoint, error) {
	w.freeDead()
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return nil, &OpError{Op: "connect", Peer: peer, Err: ErrClosed}
	}
	w.nextID++
	ep := &Endpoint{w: w, id: w.nextID, peer: peer, kind: kind, line: line, done: make(chan struct{})}
	if line != nil {
		line.ep = ep
	}
	w.eps[ep.id] = ep // before creation: its error event may come first
	w.mu.Unlock()
	var c *ucp.EP
	var h unsafe.Pointer
	err := w.drv.call("connect", ucp.CallEPCreate, func(s *ucp.Slot) {
		s.Tag = ep.id
		if mode == ErrorPeer {
			s.Arg[1] = 1
		}
		set(s)
	}, func(s *ucp.Slot) { c, h = (*ucp.EP)(foreign(uintptr(s.RTag))), foreign(uintptr(s.RLen)) })
	if err != nil {
		w.forget(ep)
		return nil, &OpError{Op: "connect", Peer: peer, Err: errors.Unwrap(err)}
	}
	runtime.AddCleanup(ep, w.buryEndpoint, c)
	ep.mu.Lock()
	ep.c = c
	ep.mu.Unlock()
	ep.on(epstate.Create, ErrCanceled) // the worker's Close or the peer's may have ended it while it was made
	w.mu.Lock()
	closed := w.closed
	ep.h = h
	w.handles[h] = ep
	w.mu.Unlock()
	if ep.reason() != nil {
		w.dropHandle(ep)
	}
	if closed {
		ep.abort(ErrClosed) // Close may have passed before it was entered
		return nil, &OpError{Op: "connect", Peer: peer, Err: ErrClosed}
	}
	// A peer that came, sent and left again gets an endpoint all the same, which says
	// so: what it sent is there to be received.
	if f := w.ctx.cfg.Events.EndpointOpened; f != nil {
		f(ep.describe())
	}
	return ep, nil
}

func (ep *Endpoint) describe() obs.Endpoint {
	return obs.Endpoint{Worker: ep.w.name(), ID: ep.id, Peer: ep.peer}
}

func (w *Worker) forget(ep *Endpoint) {
	w.mu.Lock()
	delete(w.eps, ep.id)
	w.dropHandleLocked(ep)
	w.mu.Unlock()
}

// dropHandle makes sure that a message with UCX's handle of a dead endpoint, which UCX
// gives to others, is not taken for this one's.
func (w *Worker) dropHandle(ep *Endpoint) {
	w.mu.Lock()
	w.dropHandleLocked(ep)
	w.mu.Unlock()
}

func (w *Worker) dropHandleLocked(ep *Endpoint) {
	if w.handles[ep.h] == ep {
		delete(w.handles, ep.h)
	}
}

// buryEndpoint takes the C half of an endpoint that no goroutine and no operation can
// name any more. It is freed with the next endpoint's creation or with the worker.
func (w *Worker) buryEndpoint(c *ucp.EP) {
	w.mu.Lock()
	w.dead = append(w.dead, c)
	w.mu.Unlock()
}

func (w *Worker) freeDead() {
	w.mu.Lock()
	dead := w.dead
	w.dead = nil
	w.mu.Unlock()
	for _, c := range dead {
		_ = w.drv.internalCall("endpoint free", ucp.CallEPFree, func(s *ucp.Slot) { s.Buf = uintptr(unsafe.Pointer(c)) },
			nil)
	}
}

// Worker returns the endpoint's worker.
func (ep *Endpoint) Worker() *Worker { return ep.w }

// Peer returns how errors name the peer.
func (ep *Endpoint) Peer() string { return ep.peer }

// Done returns a channel that is closed when the endpoint has failed or was closed.
func (ep *Endpoint) Done() <-chan struct{} { return ep.done }

// Err returns why the endpoint failed. It is nil while the endpoint is open, and after a Close of this side that ended
// without an error: Done reports the end of an endpoint, whatever the cause.
func (ep *Endpoint) Err() error {
	ep.mu.Lock()
	defer ep.mu.Unlock()
	return ep.err
}

// Flush waits until all operations started on the endpoint are complete at the peer.
func (ep *Endpoint) Flush(ctx context.Context) error {
	s, r, err := ep.w.prepare(ucp.OpEPFlush, ep)
	if err != nil {
		return err
	}
	return r.finishBlocking(ctx, s)
}

// StartFlush is Flush as a Request.
func (ep *Endpoint) StartFlush() *Request { return ep.w.startPlain(ucp.OpEPFlush, ep) }
