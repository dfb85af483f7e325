package ucx

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"unsafe"

	"go.millstream.dev/ucx/internal/ucp"
)

// DialSocket connects to a UCX listener at "host:port" (IPv4, IPv6 or a name): how
// UCX-Py, UCXX and other UCX programs listen. All addresses of a name are tried.
// The endpoint is returned when UCX has exchanged a first flush with the peer.
// UCX notices the peer's death by itself on such an endpoint.
func (w *Worker) DialSocket(ctx context.Context, hostport string, cfg *EndpointConfig) (*Endpoint, error) {
	if err := w.ctx.sockaddr; err != nil {
		return nil, &OpError{Op: "connect", Peer: hostport, Err: err}
	}
	addrs, err := resolve(ctx, hostport)
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
	ep, err := w.newEndpoint(bySockaddr, name, cfg.mode(w), nil, func(s *ucp.Slot) {
		s.Arg[0] = 1
		s.Buf, s.Len = uintptr(unsafe.Pointer(&s.Inline)), uint64(putSockaddr(s.Inline[:64], a))
		if local.IsValid() {
			s.Hdr = uintptr(unsafe.Pointer(&s.Inline[128]))
			s.HdrLen = uint64(putSockaddr(s.Inline[128:192], netip.AddrPortFrom(local, 0)))
		}
	})
	if err != nil {
		return nil, err
	}
	if err := ep.connect().Wait(ctx); err != nil {
		go func() { // the handshake is not cut off at once, see settle
			ep.abort(ErrCanceled)
			_ = ep.Close()
		}()
		return nil, &OpError{Op: "connect", Peer: name, Err: errors.Unwrap(err)}
	}
	return ep, nil
}

// SockListener accepts connections of UCX's own kind, from UCXX and other UCX
// programs as well as from DialSocket.
type SockListener struct {
	w    *Worker
	id   uint64
	addr netip.AddrPort

	mu     sync.Mutex
	queue  []*ConnRequest
	ready  chan struct{} // capacity 1
	closed bool
	done   chan struct{}
}

// defaultBacklog is how many connection requests wait; more are rejected.
const defaultBacklog = 1024

// ListenSocket listens on "host:port" (port 0: any) the way UCX programs do.
func (w *Worker) ListenSocket(ctx context.Context, hostport string) (*SockListener, error) {
	if err := w.ctx.sockaddr; err != nil {
		return nil, &OpError{Op: "listen", Peer: hostport, Err: err}
	}
	addrs, err := resolve(ctx, hostport)
	if err != nil {
		return nil, &OpError{Op: "listen", Peer: hostport, Err: err}
	}
	if len(addrs) == 0 {
		return nil, &OpError{Op: "listen", Peer: hostport, Err: ErrInvalidAddr}
	}
	at, err := w.listenAddress(ctx, addrs)
	if err != nil {
		return nil, &OpError{Op: "listen", Peer: hostport, Err: err}
	}
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return nil, &OpError{Op: "listen", Peer: hostport, Err: ErrClosed}
	}
	w.nextID++
	l := &SockListener{w: w, id: w.nextID, ready: make(chan struct{}, 1), done: make(chan struct{})}
	w.listeners[l.id] = l
	w.mu.Unlock()
	err = w.drv.call("listen", ucp.CallListen, func(s *ucp.Slot) {
		s.Tag, s.Arg[0] = l.id, defaultBacklog
		s.Buf, s.Len = uintptr(unsafe.Pointer(&s.Inline[256])), uint64(putSockaddr(s.Inline[256:], at))
	}, func(s *ucp.Slot) {
		l.addr, _ = parseSockaddr(s.Inline[:128])
	})
	if err != nil {
		w.mu.Lock()
		delete(w.listeners, l.id)
		w.mu.Unlock()
		return nil, &OpError{Op: "listen", Peer: hostport, Err: fmt.Errorf("%w (is the port in use, and is tcp or "+
			"rdmacm among UCX_TLS / UCX_SOCKADDR_TLS_PRIORITY?)", err)}
	}
	return l, nil
}

// listenAddress picks the first address of a name that UCX can listen on.
func (w *Worker) listenAddress(ctx context.Context, addrs []netip.AddrPort) (netip.AddrPort, error) {
	var first error
	for _, a := range addrs {
		err := w.ctx.checkFamily(ctx, a, netip.Addr{}, true)
		if err == nil {
			return a, nil
		}
		if first == nil {
			first = err
		}
	}
	return netip.AddrPort{}, first
}

// Done returns a channel that is closed when the listener was closed, by itself or with its worker.
func (l *SockListener) Done() <-chan struct{} { return l.done }

// Addr returns the bound address.
func (l *SockListener) Addr() net.Addr { return tcpAddr(l.addr) }

// deliver queues a connection request; the token is held.
func (l *SockListener) deliver(e *ucp.Event) {
	peer, _ := parseSockaddr(e.Addr[:])
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

// Next waits for a connection request, to look at before Accept or Reject.
func (l *SockListener) Next(ctx context.Context) (*ConnRequest, error) {
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

// Accept waits for a connection and accepts it. A peer with which no connection can be
// made is logged and passed over: it must not end a server's loop.
func (l *SockListener) Accept(ctx context.Context) (*Endpoint, error) {
	for {
		r, err := l.Next(ctx)
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

// Close stops listening and rejects requests that wait, also those that Next has
// returned and nobody has decided. Accepted endpoints live on.
func (l *SockListener) Close() error {
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
	l.w.mu.Lock()
	delete(l.w.listeners, l.id)
	l.w.mu.Unlock()
	return err
}

// ConnRequest is a peer that wants to connect. Accept or Reject it, once.
type ConnRequest struct {
	l      *SockListener
	number uint64
	peer   netip.AddrPort
	used   atomic.Bool
}

// RemoteAddr returns the peer's address.
func (r *ConnRequest) RemoteAddr() net.Addr { return tcpAddr(r.peer) }

// Accept makes the endpoint.
func (r *ConnRequest) Accept(cfg *EndpointConfig) (*Endpoint, error) {
	if r.used.Swap(true) {
		return nil, r.late("accept")
	}
	name := r.peer.String()
	if cfg != nil && cfg.Name != "" {
		name = cfg.Name
	}
	w := r.l.w
	ep, err := w.newEndpoint(accepted, name, cfg.mode(w), nil, func(s *ucp.Slot) {
		s.Arg[0], s.Len, s.Mask = 2, r.l.id, r.number
	})
	if errors.Is(err, ErrNotConnected) {
		return nil, r.late("accept")
	}
	if err != nil {
		return nil, err
	}
	ep.connect()
	return ep, nil
}

// Reject refuses the peer, whose endpoint fails with ErrRejected or ErrUnreachable.
//
// In UCX before 1.18 a refusal leaves events behind that end the process when they meet
// the worker's next connection. There the peer is let in and hung up on instead: its
// endpoint fails with ErrConnectionReset, shortly after it was made.
func (r *ConnRequest) Reject() error {
	if r.used.Swap(true) {
		return r.late("reject")
	}
	if !r.l.w.ctx.lib.AtLeast(1, 18) {
		return r.hangUp()
	}
	err := r.l.w.drv.internalCall("reject", ucp.CallConnReject, func(s *ucp.Slot) { s.Tag, s.Mask = r.l.id, r.number }, nil)
	if errors.Is(err, ErrNotConnected) {
		return r.late("reject")
	}
	return err
}

// hangUp accepts the peer and closes the connection once it has come about.
func (r *ConnRequest) hangUp() error {
	w := r.l.w
	ep, err := w.newEndpoint(accepted, r.peer.String(), ErrorPeer, nil, func(s *ucp.Slot) {
		s.Arg[0], s.Len, s.Mask = 2, r.l.id, r.number
	})
	if errors.Is(err, ErrNotConnected) {
		return r.late("reject")
	}
	if err == nil {
		go ep.Close()
	}
	return err
}

// late is the error of a request that was decided before, by its owner or by the
// listener's end.
func (r *ConnRequest) late(op string) error {
	return &OpError{Op: op, Peer: r.peer.String(), Err: fmt.Errorf("%w: the connection request was decided before, or "+
		"its listener is closed", ErrClosed)}
}
