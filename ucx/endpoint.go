package ucx

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"go.millstream.dev/ucx/internal/epstate"
	"go.millstream.dev/ucx/internal/netif"
	"go.millstream.dev/ucx/internal/obs"
	"go.millstream.dev/ucx/internal/ucp"
)

// Endpoint is a connection to one peer. It is safe for concurrent use.
type Endpoint struct {
	w        *Worker
	id       uint64
	c        *ucp.EP        // owner: token holder; freed when this Endpoint is unreachable
	h        unsafe.Pointer // ucp_ep_h, the key in Worker.handles; guarded by Worker.mu
	peer     string
	kind     endpointKind
	lifeline *lifeline // nil for endpoints whose peer's death only UCX detects

	handshake atomic.Pointer[Request] // first flush of an endpoint with a socket address: done when it is connected
	born      time.Time

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
	flushed     bool  // before its close; owner: closeOnce
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

// EndpointConfig configures an endpoint that is connected by worker address or socket address.
type EndpointConfig struct {
	Name  string // how errors name the peer; default: its address
	Local string // local IP address to connect from (socket addresses only)
	// NoErrorHandling selects UCX's error mode "none": the endpoint does not detect the failure of its peer. It is
	// slightly cheaper, and atomics require it with newer releases of UCX. Default: WorkerConfig.NoErrorHandling.
	NoErrorHandling bool
}

// handlesErrors reports whether the endpoint detects the failure of its peer.
func (c *EndpointConfig) handlesErrors(w *Worker) bool {
	return !w.cfg.NoErrorHandling && (c == nil || !c.NoErrorHandling)
}

// Connect makes an endpoint from the bytes of a peer's worker address, without an IP address or a listener. Addresses
// can be exchanged by any means (see [WorkerAddress]). Connect does not wait for the peer; the first operations do.
// Such an endpoint detects a dead peer by UCX's keepalive only; one of [Worker.Dial] detects it immediately.
func (w *Worker) Connect(addr WorkerAddress, cfg *EndpointConfig) (*Endpoint, error) {
	p := w.peers.pairing(addr.owner())
	if err := p.take(background); err != nil { // waits for one handshake at most
		return nil, err
	}
	defer p.give()
	name := "worker address " + addr.short()
	if cfg != nil && cfg.Name != "" {
		name = cfg.Name
	}
	return p.makeOne(func() (*Endpoint, error) { return w.peers.connect(addr, name, cfg.handlesErrors(w), nil) })
}

func describe(ep *Endpoint) obs.Endpoint {
	return obs.Endpoint{Worker: ep.w.name(), ID: ep.id, Peer: ep.peer}
}

// Worker returns the endpoint's worker.
func (ep *Endpoint) Worker() *Worker { return ep.w }

// Peer returns the name of the peer in errors.
func (ep *Endpoint) Peer() string { return ep.peer }

// Done returns a channel that is closed when the endpoint has failed or was closed.
func (ep *Endpoint) Done() <-chan struct{} { return ep.done }

// Err returns why the endpoint failed. It is nil while the endpoint is open, and after a Close of this side that
// succeeded. Done reports the end of an endpoint, whatever the cause.
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

// StartFlush is the non-blocking form of Flush.
func (ep *Endpoint) StartFlush() *Request { return ep.w.startPlain(ucp.OpEPFlush, ep) }

// Transport is a UCX transport on a device, over which an endpoint moves data.
type Transport struct {
	Name   string // posix, sysv, cma, tcp, rc_mlx5, cuda_ipc, …
	Device string // memory, eth0, mlx5_0:1, …
}

// String returns "name/device".
func (t Transport) String() string { return t.Name + "/" + t.Device }

// Transports returns the transports that the endpoint uses. Until the first message has been delivered UCX may list
// those of its wire-up. UCX before 1.14 has no query, so the result is parsed from its printed description.
func (ep *Endpoint) Transports() ([]Transport, error) {
	transports, _, _, err := ep.query()
	return transports, err
}

func (ep *Endpoint) query() (transports []Transport, local, remote netip.AddrPort, err error) {
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
	err = ep.w.drv.call("endpoint query", ucp.CallEPQuery, func(s *ucp.Slot) {
		s.Buf, s.Hdr, s.HdrLen = uintptr(unsafe.Pointer(ep.c)), uintptr(buf), room
		s.Arg[0] = can
	}, func(s *ucp.Slot) {
		local, _ = netif.ParseSockaddr(s.Inline[:128])
		remote, _ = netif.ParseSockaddr(s.Inline[128:256])
	})
	runtime.KeepAlive(ep)
	if err != nil {
		return nil, local, remote, err
	}
	if can == 0 {
		text, err := ep.Info()
		return parseTransports(text), local, remote, err
	}
	for line := range strings.Lines(cString(unsafe.Slice((*byte)(buf), room))) {
		tl, dev, _ := strings.Cut(strings.TrimSpace(line), "/")
		transports = append(transports, Transport{tl, dev})
	}
	return transports, local, remote, nil
}

// parseTransports parses transports from UCX's description: "lane[0]:  2:posix/memory.0 md[1] …".
func parseTransports(text string) []Transport {
	var transports []Transport
	for line := range strings.Lines(text) {
		_, rest, ok := strings.Cut(line, "lane[")
		if !ok {
			continue
		}
		for f := range strings.FieldsSeq(rest) {
			_, name, ok := strings.Cut(f, ":")
			if tl, dev, isTransport := strings.Cut(name, "/"); ok && isTransport && tl != "" {
				if i := strings.LastIndexByte(dev, '.'); i > 0 {
					dev = dev[:i]
				}
				transports = append(transports, Transport{tl, dev})
				break
			}
		}
	}
	return transports
}

// Info returns UCX's description of the endpoint.
func (ep *Endpoint) Info() (string, error) {
	if e := ep.reason(); e != nil {
		return "", &OpError{Op: "endpoint info", Peer: ep.peer, Err: e}
	}
	var text string
	err := ep.w.drv.call("endpoint info", ucp.CallEPText, func(s *ucp.Slot) { s.Buf = uintptr(unsafe.Pointer(ep.c)) },
		func(s *ucp.Slot) { text = ucp.TakeText(s.RTag) })
	runtime.KeepAlive(ep)
	return text, err
}

// LocalAddr returns the local socket address of an endpoint that was connected by one.
func (ep *Endpoint) LocalAddr() net.Addr {
	if ep.lifeline != nil {
		return ep.lifeline.conn.LocalAddr()
	}
	_, local, _, _ := ep.query()
	return tcpAddr(local)
}

// RemoteAddr returns the peer's socket address of an endpoint that was connected by one.
func (ep *Endpoint) RemoteAddr() net.Addr {
	if ep.lifeline != nil {
		return ep.lifeline.conn.RemoteAddr()
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
	err := ep.w.drv.call("evaluate performance", ucp.CallPerf, func(s *ucp.Slot) {
		s.Buf, s.Len = uintptr(unsafe.Pointer(ep.c)), uint64(n)
	}, func(s *ucp.Slot) {
		d = time.Duration(*(*float64)(unsafe.Pointer(&s.Arg[0])) * float64(time.Second))
	})
	runtime.KeepAlive(ep)
	return d, err
}

func (ep *Endpoint) String() string { return fmt.Sprintf("endpoint %d to %s", ep.id, ep.peer) }

// endpointPart is a queue of arrived messages that a higher layer attaches to an endpoint.
type endpointPart interface {
	// end is called when no more messages will arrive, with the reason. Queued messages can still be received. The
	// token may be held: end must not block or call into UCX.
	end(reason error)
	// discard releases messages that were not received. The token is not held.
	discard()
}

// addPart attaches a part to the endpoint. If the endpoint has ended, end is called immediately.
func (ep *Endpoint) addPart(p endpointPart) {
	ep.mu.Lock()
	ep.parts = append(ep.parts, p)
	over := ep.state.Ended()
	ep.mu.Unlock()
	if over {
		p.end(ep.reason())
	}
}

func (ep *Endpoint) discardParts() {
	ep.mu.Lock()
	parts := ep.parts
	ep.parts = nil
	ep.mu.Unlock()
	for _, p := range parts {
		p.discard()
	}
}

// endpointTable holds the endpoints of a worker, by UCX handle and by the numbers that messages carry.
type endpointTable struct {
	w *Worker

	mu        sync.Mutex // guards the fields below; never held across a C call
	eps       map[uint64]*Endpoint
	handles   map[unsafe.Pointer]*Endpoint // by ucp_ep_h, for reply endpoints
	dead      []*ucp.EP                    // C halves of unreachable endpoints, to be freed
	lifelines map[uint64]*lifeline         // by this end's number
	pairings  map[uint64]*pairing          // by the other worker's number
	nextID    uint64
	closed    bool
}

func (t *endpointTable) init(w *Worker) {
	t.w = w
	t.eps, t.handles = map[uint64]*Endpoint{}, map[unsafe.Pointer]*Endpoint{}
	t.lifelines, t.pairings = map[uint64]*lifeline{}, map[uint64]*pairing{}
}

// shut rejects further endpoints and returns the existing ones.
func (t *endpointTable) shut() []*Endpoint {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	return slices.Collect(maps.Values(t.eps))
}

// discard releases messages that arrived for endpoints and were never received.
func (t *endpointTable) discard() {
	t.mu.Lock()
	eps := slices.Collect(maps.Values(t.eps))
	eps = slices.AppendSeq(eps, maps.Values(t.handles)) // includes those that UCX created
	t.mu.Unlock()
	for _, ep := range eps {
		ep.discardParts()
	}
}

// byID returns the endpoint with a number, or nil.
func (t *endpointTable) byID(id uint64) *Endpoint {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.eps[id]
}

// byHandle returns the endpoint with a UCX handle, or nil.
func (t *endpointTable) byHandle(h unsafe.Pointer) *Endpoint {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.handles[h]
}

// count returns the number of open endpoints.
func (t *endpointTable) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.eps)
}

// addLifeline registers a lifeline, before the peer can send a message that refers to it.
func (t *endpointTable) addLifeline(l *lifeline) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return ErrClosed
	}
	t.lifelines[l.local] = l
	return nil
}

func (t *endpointTable) dropLine(l *lifeline) {
	t.mu.Lock()
	delete(t.lifelines, l.local)
	t.mu.Unlock()
}

// lifeline returns a lifeline and its endpoint by this end's number, or nil.
func (t *endpointTable) lifeline(number uint64) (*lifeline, *Endpoint) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.lifelines[number]; l != nil {
		return l, l.ep
	}
	return nil, nil
}

// conn returns the connection of a lifeline and creates it on first use: frames may arrive before NewConn is called.
func (t *endpointTable) conn(number uint64) *Conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.lifelines[number]
	if l == nil || l.ep == nil {
		return nil
	}
	if l.stream == nil {
		c := &Conn{w: t.w, ep: l.ep, lifeline: l, local: l.conn.LocalAddr(), remote: l.conn.RemoteAddr()}
		c.onSent, c.onDataSent = c.finishSend, c.finishDataSend
		l.stream = c
	}
	return l.stream
}

func (t *endpointTable) pairing(owner uint64) *pairing {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.pairings[owner]
	if p == nil {
		p = &pairing{turn: make(chan struct{}, 1)}
		p.turn <- struct{}{}
		t.pairings[owner] = p
	}
	return p
}

func (t *endpointTable) connect(addr WorkerAddress, name string, handleErrors bool, line *lifeline) (*Endpoint,
	error) {
	if err := addr.check(); err != nil {
		return nil, &OpError{Op: "connect", Err: err}
	}
	// UCX reads the address without a length; a padded copy keeps it from reading past the end of a truncated one.
	buf := ucp.Malloc(len(addr) + addressPadding)
	defer ucp.FreeMemory(buf)
	b := unsafe.Slice((*byte)(buf), len(addr)+addressPadding)
	clear(b[copy(b, addr):])
	return t.create(byAddress, name, handleErrors, line, func(s *ucp.Slot) { s.Buf, s.Arg[0] = uintptr(buf), 0 })
}

const addressPadding = 4096

// create makes the UCX endpoint and registers it.
func (t *endpointTable) create(kind endpointKind, peer string, handleErrors bool, line *lifeline,
	set func(*ucp.Slot)) (*Endpoint, error) {
	t.freeDead()
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return nil, &OpError{Op: "connect", Peer: peer, Err: ErrClosed}
	}
	t.nextID++
	ep := &Endpoint{w: t.w, id: t.nextID, peer: peer, kind: kind, lifeline: line, born: time.Now(),
		done: make(chan struct{})}
	if line != nil {
		line.ep = ep
	}
	t.eps[ep.id] = ep // before creation: an error event may arrive first
	t.mu.Unlock()
	var c *ucp.EP
	var h unsafe.Pointer
	err := t.w.drv.call("connect", ucp.CallEPCreate, func(s *ucp.Slot) {
		s.Tag = ep.id
		if handleErrors {
			s.Arg[1] = 1
		}
		set(s)
	}, func(s *ucp.Slot) { c, h = (*ucp.EP)(foreign(uintptr(s.RTag))), foreign(uintptr(s.RLen)) })
	if err != nil {
		t.forget(ep)
		return nil, &OpError{Op: "connect", Peer: peer, Err: errors.Unwrap(err)}
	}
	runtime.AddCleanup(ep, t.retire, c)
	ep.mu.Lock()
	ep.c = c
	ep.mu.Unlock()
	ep.on(epstate.Create, errCanceled) // Close of the worker or the peer may have ended it meanwhile
	t.mu.Lock()
	closed := t.closed
	ep.h = h
	t.handles[h] = ep
	t.mu.Unlock()
	if ep.reason() != nil {
		t.dropHandle(ep)
	}
	if closed {
		ep.abort(ErrClosed) // Close may have run before it was registered
		return nil, &OpError{Op: "connect", Peer: peer, Err: ErrClosed}
	}
	// A peer that connected, sent and disconnected still gets an endpoint, which has ended: its messages can be
	// received.
	if f := t.w.ctx.cfg.Events.EndpointOpened; f != nil {
		f(describe(ep))
	}
	return ep, nil
}

func (t *endpointTable) forget(ep *Endpoint) {
	t.mu.Lock()
	delete(t.eps, ep.id)
	t.dropHandleLocked(ep)
	t.mu.Unlock()
}

// dropHandle removes the UCX handle of a dead endpoint, which UCX reuses, so that messages of its next user are not
// attributed to this endpoint.
func (t *endpointTable) dropHandle(ep *Endpoint) {
	t.mu.Lock()
	t.dropHandleLocked(ep)
	t.mu.Unlock()
}

func (t *endpointTable) dropHandleLocked(ep *Endpoint) {
	if t.handles[ep.h] == ep {
		delete(t.handles, ep.h)
	}
}

// retire queues the C half of an endpoint that no goroutine and no operation references. It is freed when the next
// endpoint is created or with the worker.
func (t *endpointTable) retire(c *ucp.EP) {
	t.mu.Lock()
	t.dead = append(t.dead, c)
	t.mu.Unlock()
}

func (t *endpointTable) freeDead() {
	t.mu.Lock()
	dead := t.dead
	t.dead = nil
	t.mu.Unlock()
	for _, c := range dead {
		_ = t.w.drv.internalCall("endpoint free", ucp.CallEPFree,
			func(s *ucp.Slot) { s.Buf = uintptr(unsafe.Pointer(c)) },
			nil)
	}
}

// reply returns the endpoint of a handle that is not registered: one that is being created, or one of UCX's own. The
// token is held.
func (t *endpointTable) reply(h unsafe.Pointer) *Endpoint {
	if id := ucp.EPNumber(t.w.drv.c, h); id != 0 {
		if ep := t.byID(id); ep != nil {
			return ep
		}
	}
	return t.borrow(h)
}

// borrow wraps a reply endpoint that UCX created for a peer without a Millstream endpoint. UCX keeps it for the life of
// the worker, so it is cached. The token is held.
func (t *endpointTable) borrow(h unsafe.Pointer) *Endpoint {
	ep := &Endpoint{w: t.w, c: ucp.BorrowEP(t.w.drv.c, h), peer: "sender of an active message", kind: borrowed,
		state: epstate.Open, done: make(chan struct{})}
	runtime.AddCleanup(ep, t.retire, ep.c)
	t.mu.Lock()
	ep.h = h
	t.handles[h] = ep
	t.mu.Unlock()
	return ep
}
