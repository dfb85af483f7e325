package ucx

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"go.millstream.dev/ucx/internal/netif"
	"go.millstream.dev/ucx/internal/ucp"
)

// Listener accepts connections: from other Millstream workers, see [Worker.Listen], or from other UCX programs, see
// [Worker.ListenSocket].
type Listener struct {
	w    *Worker
	sock *sockListener // of ListenSocket; nil for Millstream's own connections, which the other fields serve
	ln   net.Listener

	once   sync.Once
	queue  chan *Endpoint
	done   chan struct{}   // closed when the listener has ended; also that of sock
	ctx    context.Context // of handshakes: ends with the listener
	cancel context.CancelFunc
	slots  chan struct{} // bounds handshakes in progress
}

// maxHandshakes bounds connections that have not finished their handshake.
const maxHandshakes = 256

// Listen listens for other Millstream workers at an address as in Dial. "host:0" picks a port; see Addr.
func (w *Worker) Listen(ctx context.Context, addr string) (*Listener, error) {
	network, address, err := splitNetwork(addr)
	if err != nil {
		return nil, &OpError{Op: "listen", Peer: addr, Err: err}
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, network, address)
	if err != nil {
		return nil, &OpError{Op: "listen", Peer: addr, Err: err}
	}
	return w.ListenOn(ln)
}

// ListenOn serves handshakes on an existing listener of any kind, which Close closes.
func (w *Worker) ListenOn(ln net.Listener) (*Listener, error) {
	l := &Listener{w: w, ln: ln, queue: make(chan *Endpoint), done: make(chan struct{}),
		slots: make(chan struct{}, maxHandshakes)}
	l.ctx, l.cancel = context.WithCancel(background)
	if err := w.listeners.add(l); err != nil {
		l.cancel()
		_ = ln.Close()
		return nil, &OpError{Op: "listen", Peer: ln.Addr().String(), Err: err}
	}
	go l.serve()
	return l, nil
}

func (l *Listener) serve() {
	for {
		conn, err := l.ln.Accept()
		if err != nil {
			if !l.retry(err) {
				l.Close()
				return
			}
			continue
		}
		select {
		case l.slots <- struct{}{}:
			go l.handshake(conn)
		case <-l.done:
			_ = conn.Close()
			return
		}
	}
}

// retry waits after an Accept that failed for lack of descriptors or memory, or because the peer disconnected early:
// the listener is still usable. Other errors end it.
func (l *Listener) retry(err error) bool {
	for _, passing := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM,
		syscall.ECONNABORTED, syscall.EINTR} {
		if errors.Is(err, passing) {
			select {
			case <-time.After(acceptPause):
				return true
			case <-l.done:
				return false
			}
		}
	}
	return false
}

const acceptPause = 20 * time.Millisecond

func (l *Listener) handshake(conn net.Conn) {
	defer func() { <-l.slots }()
	ctx, cancel := context.WithTimeout(l.ctx, handshakeTimeout)
	defer cancel()
	peer := conn.RemoteAddr().String()
	if peer == "" || peer == "@" {
		peer = "client of " + l.ln.Addr().String()
	}
	ep, err := l.w.Attach(ctx, conn, peer)
	if err != nil {
		return // not logged: any client could fill the log
	}
	select {
	case l.queue <- ep:
	case <-l.done:
		ep.abort(ErrRejected)
		_ = ep.Close()
	}
}

// Accept waits for the next connection. A listener of ListenSocket logs and skips peers to which no connection can be
// made, so that they do not end a server's loop.
func (l *Listener) Accept(ctx context.Context) (*Endpoint, error) {
	if l.sock != nil {
		return l.sock.accept(ctx)
	}
	select {
	case ep := <-l.queue:
		return ep, nil
	case <-l.done:
		return nil, &OpError{Op: "accept", Peer: l.ln.Addr().String(), Err: ErrClosed}
	case <-ctx.Done():
		return nil, &OpError{Op: "accept", Peer: l.ln.Addr().String(), Err: contextError(ctx)}
	}
}

// Done returns a channel that is closed when the listener has ended: by Close, by Close of its worker, or because the
// socket failed.
func (l *Listener) Done() <-chan struct{} { return l.done }

// Next waits for a connection request, to inspect before Accept or Reject. Only listeners of ListenSocket have
// requests; the others return an error that matches [errors.ErrUnsupported].
func (l *Listener) Next(ctx context.Context) (*ConnRequest, error) {
	if l.sock == nil {
		return nil, &OpError{Op: "accept", Peer: l.Addr().String(), Err: fmt.Errorf("ucx: only listeners of "+
			"ListenSocket have connection requests: %w", errUnsupported)}
	}
	return l.sock.next(ctx)
}

// Addr returns the bound address.
func (l *Listener) Addr() net.Addr {
	if l.sock != nil {
		return tcpAddr(l.sock.addr)
	}
	return l.ln.Addr()
}

// Close stops listening, and rejects pending connection requests, also those that Next has returned and that were
// neither accepted nor rejected. Accepted endpoints stay open.
func (l *Listener) Close() error {
	if l.sock != nil {
		return l.sock.close()
	}
	l.once.Do(func() {
		close(l.done)
		l.cancel()
		_ = l.ln.Close()
		l.w.listeners.remove(l)
	})
	return nil
}

// DialSocket connects to a UCX listener at "host:port" (IPv4, IPv6 or a name), as UCX-Py, UCXX and other UCX programs
// provide. All addresses of a name are tried. It returns when UCX has exchanged a first flush with the peer. UCX itself
// detects the peer's death on such an endpoint.
func (w *Worker) DialSocket(ctx context.Context, hostport string, cfg *EndpointConfig) (*Endpoint, error) {
	if err := w.ctx.sockaddr; err != nil {
		return nil, &OpError{Op: "connect", Peer: hostport, Err: err}
	}
	addrs, err := netif.Resolve(ctx, hostport)
	if err != nil {
		return nil, &OpError{Op: "connect", Peer: hostport, Err: err}
	}
	var last error
	for _, a := range addrs {
		ep, err := w.dialSockaddr(ctx, hostport, a, cfg)
		if err == nil {
			return ep, nil
		}
		last = err
		if ctx.Err() != nil {
			break
		}
	}
	if last == nil {
		last = &OpError{Op: "connect", Peer: hostport, Err: ErrUnreachable}
	}
	return nil, last
}

func (w *Worker) dialSockaddr(ctx context.Context, name string, a netip.AddrPort, cfg *EndpointConfig) (*Endpoint,
	error) {
	if cfg != nil && cfg.Name != "" {
		name = cfg.Name
	}
	var local netip.Addr
	if cfg != nil && cfg.Local != "" {
		var err error
		if local, err = netip.ParseAddr(cfg.Local); err != nil {
			return nil, &OpError{Op: "connect", Peer: name, Err: fmt.Errorf("ucx: local address %q: %w", cfg.Local,
				err)}
		}
	}
	if err := w.ctx.checkFamily(ctx, a, local, false); err != nil {
		return nil, &OpError{Op: "connect", Peer: name, Err: err}
	}
	ep, err := w.peers.create(bySockaddr, name, cfg.handlesErrors(w), nil, func(s *ucp.Slot) {
		s.Arg[0] = 1
		s.Buf, s.Len = uintptr(unsafe.Pointer(&s.Inline)), uint64(netif.PutSockaddr(s.Inline[:64], a))
		if local.IsValid() {
			s.Hdr = uintptr(unsafe.Pointer(&s.Inline[128]))
			s.HdrLen = uint64(netif.PutSockaddr(s.Inline[128:192], netip.AddrPortFrom(local, 0)))
		}
	})
	if err != nil {
		return nil, err
	}
	if err := ep.connect().Wait(ctx); err != nil {
		go func() { // the handshake is not cut off at once, see awaitConnected
			ep.abort(errCanceled)
			_ = ep.Close()
		}()
		return nil, &OpError{Op: "connect", Peer: name, Err: errors.Unwrap(err)}
	}
	return ep, nil
}

// sockListener is the part of a [Listener] that accepts UCX's own connections.
type sockListener struct {
	w    *Worker
	id   uint64
	addr netip.AddrPort

	mu     sync.Mutex
	queue  []*ConnRequest
	ready  chan struct{} // capacity 1
	closed bool
	done   chan struct{}
}

// defaultBacklog is how many connection requests may be pending; more are rejected.
const defaultBacklog = 1024

// ListenSocket listens on "host:port" (port 0: any) for UCXX and other UCX programs as well as for DialSocket.
func (w *Worker) ListenSocket(ctx context.Context, hostport string) (*Listener, error) {
	if err := w.ctx.sockaddr; err != nil {
		return nil, &OpError{Op: "listen", Peer: hostport, Err: err}
	}
	addrs, err := netif.Resolve(ctx, hostport)
	if err != nil {
		return nil, &OpError{Op: "listen", Peer: hostport, Err: err}
	}
	if len(addrs) == 0 {
		return nil, &OpError{Op: "listen", Peer: hostport, Err: errInvalidAddr}
	}
	at, err := w.ctx.listenAddress(ctx, addrs)
	if err != nil {
		return nil, &OpError{Op: "listen", Peer: hostport, Err: err}
	}
	l := &sockListener{w: w, ready: make(chan struct{}, 1), done: make(chan struct{})}
	if err := w.listeners.addSock(l); err != nil {
		return nil, &OpError{Op: "listen", Peer: hostport, Err: err}
	}
	err = w.drv.call("listen", ucp.CallListen, func(s *ucp.Slot) {
		s.Tag, s.Arg[0] = l.id, defaultBacklog
		s.Buf, s.Len = uintptr(unsafe.Pointer(&s.Inline[256])), uint64(netif.PutSockaddr(s.Inline[256:], at))
	}, func(s *ucp.Slot) {
		l.addr, _ = netif.ParseSockaddr(s.Inline[:128])
	})
	if err != nil {
		w.listeners.removeSock(l)
		return nil, &OpError{Op: "listen", Peer: hostport, Err: fmt.Errorf("%w (is the port in use, and is tcp or "+
			"rdmacm among UCX_TLS / UCX_SOCKADDR_TLS_PRIORITY?)", err)}
	}
	return &Listener{w: w, sock: l, done: l.done}, nil
}

// listenAddress returns the first address of a name that UCX can listen on.
func (c *Context) listenAddress(ctx context.Context, addrs []netip.AddrPort) (netip.AddrPort, error) {
	var first error
	for _, a := range addrs {
		err := c.checkFamily(ctx, a, netip.Addr{}, true)
		if err == nil {
			return a, nil
		}
		if first == nil {
			first = err
		}
	}
	return netip.AddrPort{}, first
}

// deliver queues a connection request; the token is held.
func (l *sockListener) deliver(e *ucp.Event) {
	peer, _ := netif.ParseSockaddr(e.Addr[:])
	r := &ConnRequest{l: l, number: e.Len, peer: peer}
	ucp.FreeEvent(l.w.drv.c, e)
	l.mu.Lock()
	if l.closed { // the shim rejects it with the listener
		l.mu.Unlock()
		return
	}
	l.queue = append(l.queue, r)
	l.mu.Unlock()
	select {
	case l.ready <- struct{}{}:
	default:
	}
}

func (l *sockListener) next(ctx context.Context) (*ConnRequest, error) {
	for {
		l.mu.Lock()
		if l.closed {
			l.mu.Unlock()
			return nil, &OpError{Op: "accept", Peer: l.addr.String(), Err: ErrClosed}
		}
		if len(l.queue) > 0 {
			r := l.queue[0]
			l.queue = l.queue[1:]
			more := len(l.queue) > 0
			l.mu.Unlock()
			if more {
				select {
				case l.ready <- struct{}{}:
				default:
				}
			}
			return r, nil
		}
		l.mu.Unlock()
		select {
		case <-l.ready:
		case <-l.done:
		case <-ctx.Done():
			return nil, &OpError{Op: "accept", Peer: l.addr.String(), Err: contextError(ctx)}
		}
	}
}

func (l *sockListener) accept(ctx context.Context) (*Endpoint, error) {
	for {
		r, err := l.next(ctx)
		if err != nil {
			return nil, err
		}
		ep, err := r.Accept(nil)
		if err == nil {
			return ep, nil
		}
		if errors.Is(err, ErrClosed) {
			return nil, err
		}
		logf("%v", err)
	}
}

func (l *sockListener) close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	queue := l.queue
	l.queue = nil
	l.mu.Unlock()
	if !l.w.ctx.lib.AtLeast(1, 18) {
		for _, r := range queue {
			_ = r.Reject()
		}
	}
	close(l.done)
	err := l.w.drv.internalCall("close listener", ucp.CallListenerClose, func(s *ucp.Slot) { s.Tag = l.id }, nil)
	l.w.listeners.removeSock(l)
	return err
}

// ConnRequest is a peer's request to connect. It must be accepted or rejected once.
type ConnRequest struct {
	l      *sockListener
	number uint64
	peer   netip.AddrPort
	used   atomic.Bool
}

// RemoteAddr returns the peer's address.
func (r *ConnRequest) RemoteAddr() net.Addr { return tcpAddr(r.peer) }

// Accept accepts the request and makes the endpoint.
func (r *ConnRequest) Accept(cfg *EndpointConfig) (*Endpoint, error) {
	if r.used.Swap(true) {
		return nil, r.decidedError("accept")
	}
	name := r.peer.String()
	if cfg != nil && cfg.Name != "" {
		name = cfg.Name
	}
	w := r.l.w
	ep, err := w.peers.create(accepted, name, cfg.handlesErrors(w), nil, func(s *ucp.Slot) {
		s.Arg[0], s.Len, s.Mask = 2, r.l.id, r.number
	})
	if errors.Is(err, errNotConnected) {
		return nil, r.decidedError("accept")
	}
	if err != nil {
		return nil, err
	}
	ep.connect()
	return ep, nil
}

// Reject rejects the peer, whose endpoint fails with ErrRejected or ErrUnreachable.
//
// In UCX before 1.18 a rejection leaves events behind that abort the process at the worker's next connection. There the
// peer is accepted and disconnected instead: its endpoint fails with ErrConnectionReset, shortly after it was made.
func (r *ConnRequest) Reject() error {
	if r.used.Swap(true) {
		return r.decidedError("reject")
	}
	if !r.l.w.ctx.lib.AtLeast(1, 18) {
		return r.hangUp()
	}
	err := r.l.w.drv.internalCall("reject", ucp.CallConnReject, func(s *ucp.Slot) {
		s.Tag, s.Mask = r.l.id,
			r.number
	}, nil)
	if errors.Is(err, errNotConnected) {
		return r.decidedError("reject")
	}
	return err
}

// hangUp accepts the peer and closes the connection once it is established.
func (r *ConnRequest) hangUp() error {
	w := r.l.w
	ep, err := w.peers.create(accepted, r.peer.String(), true, nil, func(s *ucp.Slot) {
		s.Arg[0], s.Len, s.Mask = 2, r.l.id, r.number
	})
	if errors.Is(err, errNotConnected) {
		return r.decidedError("reject")
	}
	if err == nil {
		go ep.Close()
	}
	return err
}

// decidedError returns the error of a request that was already accepted or rejected, by its owner or by the listener's
// Close.
func (r *ConnRequest) decidedError(op string) error {
	return &OpError{Op: op, Peer: r.peer.String(), Err: fmt.Errorf("%w: connection request already decided, or "+
		"listener closed", ErrClosed)}
}
