package ucx

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

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

	connecting atomic.Pointer[Request] // first flush of an endpoint with a socket address: done when it is connected
	born       time.Time               // of those

	done  chan struct{} // closed when the endpoint has failed or was closed
	mu    sync.Mutex    // guards the fields below
	err   error         // why it failed; nil while alive and after a peaceful close
	ended bool
	rkeys map[*RemoteKey]struct{}
	parts []endpointPart

	frames atomic.Pointer[frameConn] // messages of frames; made at first use
	ucxx   atomic.Pointer[ucxxBox]   // UCXX's active messages; made at first use

	overflowed atomic.Bool // the peer sent more than the worker keeps; the end is on its way

	closeOnce sync.Once
	closeErr  error
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
func (w *Worker) newEndpoint(kind endpointKind, peer string, mode ErrorMode, line *lifeline, set func(*ucp.Slot)) (*Endpoint, error) {
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
	err := w.call("connect", ucp.CallEPCreate, func(s *ucp.Slot) {
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
	ended := ep.ended
	ep.mu.Unlock()
	if ended { // by the worker's Close or the peer's, while it was made
		ep.failNative(ErrCanceled)
	}
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
		_ = w.internalCall("endpoint free", ucp.CallEPFree, func(s *ucp.Slot) { s.Buf = uintptr(unsafe.Pointer(c)) }, nil)
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

// reason is what operations report that ended with the endpoint.
func (ep *Endpoint) reason() error {
	ep.mu.Lock()
	defer ep.mu.Unlock()
	if ep.err != nil {
		return ep.err
	}
	if ep.ended {
		return ErrClosed
	}
	return nil
}

// end marks the endpoint as over, once. It reports whether this call did it; the
// caller then closes done, when no operation can start on the endpoint any more.
func (ep *Endpoint) end(err error) bool {
	ep.mu.Lock()
	if ep.ended {
		ep.mu.Unlock()
		return false
	}
	ep.ended, ep.err = true, err
	parts := ep.parts
	ep.mu.Unlock()
	if len(parts) > 0 {
		reason := ep.reason()
		for _, p := range parts {
			p.ended(reason)
		}
	}
	return true
}

// fail is told by UCX that the peer is gone; the shim has force-closed the endpoint.
// The caller holds the token.
func (ep *Endpoint) fail(err error) {
	if ep.line != nil && ep.line.farewelled.Load() {
		err = ErrPeerClosed // UCX saw the end of the close before the lifeline's reader did
	}
	if !ep.end(err) {
		return
	}
	close(ep.done)
	ep.w.dropHandle(ep)
	if ep.line != nil {
		go ep.line.lost() // closing a socket may block
	}
	if f := ep.w.ctx.cfg.Events.EndpointClosed; f != nil {
		f(ep.describe(), err)
	}
}

// abort ends the endpoint now, from any goroutine that does not hold the token:
// pending operations complete with the reason, a live peer is told.
func (ep *Endpoint) abort(reason error) {
	if !ep.end(reason) {
		return
	}
	if ep.line != nil {
		ep.line.abort()
	}
	ep.settle()
	if ep.kind != borrowed {
		st := ErrCanceled
		var s Status
		if errors.As(reason, &s) && s < 0 {
			st = s
		}
		ep.destroyKeys()
		ep.failNative(st)
		ep.w.dropHandle(ep)
	}
	close(ep.done)
	if f := ep.w.ctx.cfg.Events.EndpointClosed; f != nil {
		f(ep.describe(), reason)
	}
}

// connectGrace is how long a forced close waits for a connection that is being made.
const connectGrace = time.Second

// connect starts the first flush of an endpoint with a socket address.
func (ep *Endpoint) connect() {
	ep.born = time.Now()
	ep.connecting.Store(ep.StartFlush()) // the worker may be closing, and looks at it
}

// settle waits, for a short time after the endpoint's birth, until it is connected or has
// failed. UCX's connection manager does not survive every force close in the middle of
// its handshake: late events of the closed socket strike whoever gets its number next.
func (ep *Endpoint) settle() {
	connecting := ep.connecting.Load()
	if connecting == nil {
		return
	}
	select {
	case <-connecting.Done():
		return
	default:
	}
	t := time.NewTimer(time.Until(ep.born.Add(connectGrace)))
	defer t.Stop()
	select {
	case <-connecting.Done():
	case <-t.C:
	}
}

// failNative force-closes the UCX endpoint, if it exists yet: newEndpoint looks again.
func (ep *Endpoint) failNative(st Status) {
	ep.mu.Lock()
	c := ep.c
	ep.mu.Unlock()
	if c == nil {
		return
	}
	_ = ep.w.internalCall("endpoint abort", ucp.CallEPFail, func(x *ucp.Slot) {
		x.Buf = uintptr(unsafe.Pointer(c))
		x.Arg[0] = uint64(int64(st))
	}, nil)
	runtime.KeepAlive(ep)
}

// Flush waits until all operations started on the endpoint are complete at the peer.
func (ep *Endpoint) Flush(ctx context.Context) error {
	s, r, err := ep.w.prepare(ucp.OpEPFlush, ep)
	if err != nil {
		return err
	}
	return ep.w.finishBlocking(ctx, s, r)
}

// StartFlush is Flush as a Request.
func (ep *Endpoint) StartFlush() *Request { return ep.w.startPlain(ucp.OpEPFlush, ep) }

// closeTimeout bounds a Close without a deadline of its own.
const closeTimeout = 5 * time.Second

// Close is CloseContext with a deadline of five seconds.
func (ep *Endpoint) Close() error {
	ctx, cancel := context.WithTimeout(background, closeTimeout)
	defer cancel()
	return ep.CloseContext(ctx)
}

// CloseContext closes the endpoint: what was sent is flushed and, between Millstream
// peers, known to have arrived; when ctx ends before, the rest is cut off. The
// endpoint is gone in any case when it returns; the error says whether data may be
// lost. Closing again returns the first result.
func (ep *Endpoint) CloseContext(ctx context.Context) error {
	ep.closeOnce.Do(func() { ep.closeErr = ep.close(ctx) })
	return ep.closeErr
}

func (ep *Endpoint) close(ctx context.Context) error {
	var err error
	alive := ep.reason() == nil
	if alive && ep.kind != borrowed {
		if err = ep.drain(ctx); err == nil {
			err = ep.Flush(ctx)
		}
		if err == nil && ep.line != nil {
			err = ep.line.farewell(ctx, ep)
		}
	}
	ended := ep.end(nil)
	if ep.line != nil {
		ep.line.close()
	}
	ep.destroyKeys()
	ep.discardParts()
	if cerr := ep.closeNative(); err == nil {
		err = cerr
	}
	if ended {
		close(ep.done)
		if f := ep.w.ctx.cfg.Events.EndpointClosed; f != nil {
			f(ep.describe(), nil)
		}
	}
	if errors.Is(err, ErrConnectionReset) || errors.Is(err, ErrNotConnected) && !alive {
		err = nil // the peer left first: nothing of ours was pending
	}
	return err
}

// drain waits until no operation that was started on the endpoint waits for the peer
// any more. UCX's flush does not: a rendezvous send that the peer has not received yet
// would be cut off.
func (ep *Endpoint) drain(ctx context.Context) error {
	for pause := 20 * time.Microsecond; ; pause = min(2*pause, time.Millisecond) {
		n := uint64(0)
		err := ep.w.call("endpoint close", ucp.CallEPUnsent, func(s *ucp.Slot) {
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
			return &OpError{Op: "endpoint close", Peer: ep.peer, Err: fmt.Errorf("ucx: %d operations are unfinished: %w", n, contextError(ctx))}
		}
	}
}

// closeNative closes the UCX endpoint by force (it has been flushed).
func (ep *Endpoint) closeNative() error {
	w := ep.w
	s, r, err := w.takeSlot()
	if err != nil {
		if w.closing.Load() {
			return nil // the worker ends all endpoints itself
		}
		return &OpError{Op: "endpoint close", Peer: ep.peer, Err: err}
	}
	ep.settle()
	r.reset(ucp.OpEPClose, ep)
	resetSlot(s, ucp.OpEPClose, ep.c)
	s.Flags = ucp.FlagForce
	_ = w.run(background, s, r)
	w.putSlot(s)
	w.forget(ep)
	return nil
}

// Lane is one transport on one device that an endpoint uses.
type Lane struct {
	Transport string // posix, sysv, cma, tcp, rc_mlx5, cuda_ipc, …
	Device    string // memory, eth0, mlx5_0:1, …
}

// String returns "transport/device".
func (l Lane) String() string { return l.Transport + "/" + l.Device }

// Transports returns the lanes the endpoint uses. Before the first message has gone
// through UCX may still list its wire-up lanes. With UCX before 1.14, which cannot be
// asked, the answer is read from its printed description.
func (ep *Endpoint) Transports() ([]Lane, error) {
	lanes, _, _, err := ep.query()
	return lanes, err
}

func (ep *Endpoint) query() (lanes []Lane, local, remote netip.AddrPort, err error) {
	const room = 8192
	buf := ucp.Malloc(room)
	defer ucp.FreeMemory(buf)
	can := uint64(0)
	if ep.w.ctx.lib.AtLeast(1, 14) {
		can = 1
	}
	if e := ep.reason(); e != nil {
		return nil, local, remote, &OpError{Op: "endpoint query", Peer: ep.peer, Err: e}
	}
	err = ep.w.call("endpoint query", ucp.CallEPQuery, func(s *ucp.Slot) {
		s.Buf, s.Hdr, s.HdrLen = uintptr(unsafe.Pointer(ep.c)), uintptr(buf), room
		s.Arg[0] = can
	}, func(s *ucp.Slot) {
		local, _ = parseSockaddr(s.Inline[:128])
		remote, _ = parseSockaddr(s.Inline[128:256])
	})
	runtime.KeepAlive(ep)
	if err != nil {
		return nil, local, remote, err
	}
	if can == 0 {
		text, err := ep.Info()
		return parseLanes(text), local, remote, err
	}
	for line := range strings.Lines(cString(unsafe.Slice((*byte)(buf), room))) {
		tl, dev, _ := strings.Cut(strings.TrimSpace(line), "/")
		lanes = append(lanes, Lane{tl, dev})
	}
	return lanes, local, remote, nil
}

// parseLanes reads lanes from UCX's description: "lane[0]:  2:posix/memory.0 md[1] …".
func parseLanes(text string) []Lane {
	var lanes []Lane
	for line := range strings.Lines(text) {
		_, rest, ok := strings.Cut(line, "lane[")
		if !ok {
			continue
		}
		for f := range strings.FieldsSeq(rest) {
			_, name, ok := strings.Cut(f, ":")
			if tl, dev, isLane := strings.Cut(name, "/"); ok && isLane && tl != "" {
				if i := strings.LastIndexByte(dev, '.'); i > 0 {
					dev = dev[:i]
				}
				lanes = append(lanes, Lane{tl, dev})
				break
			}
		}
	}
	return lanes
}

// Info returns UCX's description of the endpoint.
func (ep *Endpoint) Info() (string, error) {
	if e := ep.reason(); e != nil {
		return "", &OpError{Op: "endpoint info", Peer: ep.peer, Err: e}
	}
	var text string
	err := ep.w.call("endpoint info", ucp.CallEPText, func(s *ucp.Slot) { s.Buf = uintptr(unsafe.Pointer(ep.c)) },
		func(s *ucp.Slot) { text = ucp.TakeText(s.RTag) })
	runtime.KeepAlive(ep)
	return text, err
}

// LocalAddr returns the local socket address of an endpoint that was made with one.
func (ep *Endpoint) LocalAddr() net.Addr {
	if ep.line != nil {
		return ep.line.conn.LocalAddr()
	}
	_, local, _, _ := ep.query()
	return tcpAddr(local)
}

// RemoteAddr returns the peer's socket address of an endpoint that was made with one.
func (ep *Endpoint) RemoteAddr() net.Addr {
	if ep.line != nil {
		return ep.line.conn.RemoteAddr()
	}
	_, _, remote, _ := ep.query()
	return tcpAddr(remote)
}

func tcpAddr(a netip.AddrPort) net.Addr {
	if !a.IsValid() {
		return nil
	}
	return net.TCPAddrFromAddrPort(a)
}

// EstimateTime returns UCX's estimate of how long a message of n bytes takes.
func (ep *Endpoint) EstimateTime(n int) (time.Duration, error) {
	var d time.Duration
	err := ep.w.call("evaluate performance", ucp.CallPerf, func(s *ucp.Slot) {
		s.Buf, s.Len = uintptr(unsafe.Pointer(ep.c)), uint64(n)
	}, func(s *ucp.Slot) {
		d = time.Duration(*(*float64)(unsafe.Pointer(&s.Arg[0])) * float64(time.Second))
	})
	runtime.KeepAlive(ep)
	return d, err
}

func (ep *Endpoint) String() string { return fmt.Sprintf("endpoint %d to %s", ep.id, ep.peer) }
