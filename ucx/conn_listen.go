package ucx

import (
	"context"
	"errors"
	"fmt"
	"net"
)

// DialConn connects to a [ConnListener] of another worker and returns a byte stream.
// addr is as in [Worker.Dial]; cfg may be nil. For programs that want a dial
// function, see [Worker.DialContext].
func (w *Worker) DialConn(ctx context.Context, addr string, cfg *ConnConfig) (*Conn, error) {
	if err := w.openConns(); err != nil {
		return nil, err
	}
	if _, err := cfg.filled(); err != nil {
		return nil, &OpError{Op: "connect", Peer: addr, Err: err}
	}
	ep, err := w.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	c, err := NewConn(ctx, ep, cfg)
	if err != nil {
		ep.abort(ErrCanceled)
		_ = ep.Close()
		return nil, err
	}
	return c, nil
}

// DialContext is DialConn in the form that programs take as a dial function, such as
// http.Transport's DialContext. network is "tcp" (or "tcp4", "tcp6"), "unix", or
// "ucx" for an address as in [Worker.Dial]; it only says where the peers meet. For
// gRPC's WithContextDialer wrap it: func(ctx, addr) { return w.DialContext(ctx, "ucx", addr) }.
func (w *Worker) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	switch network {
	case "tcp", "tcp4", "tcp6":
		addr = "tcp://" + addr
	case "unix":
		addr = "unix://" + addr
	case "ucx":
	default:
		return nil, &OpError{Op: "connect", Peer: addr, Err: fmt.Errorf("ucx: unknown network %q; use tcp, unix "+
			"or ucx", network)}
	}
	c, err := w.DialConn(ctx, addr, nil)
	if err != nil {
		return nil, err // not a nil *Conn in a non-nil interface
	}
	return c, nil
}

// ConnListener is a [net.Listener] whose connections are byte streams over UCX.
type ConnListener struct {
	l     *Listener
	cfg   ConnConfig
	queue chan *Conn
	done  chan struct{} // closed when no more connections come
}

// connBacklog bounds connections that are ready and not accepted yet.
const connBacklog = 128

// ListenConn listens for [Worker.DialConn] at an address as in [Worker.Dial]; cfg
// applies to accepted connections and may be nil. "host:0" picks a port; see Addr.
func (w *Worker) ListenConn(ctx context.Context, addr string, cfg *ConnConfig) (*ConnListener, error) {
	l, err := w.Listen(ctx, addr)
	if err != nil {
		return nil, err
	}
	return l.conns(cfg)
}

// conns turns the listener into a [net.Listener] and takes it over: Accept is not to
// be called any more. On failure the listener is closed.
func (l *Listener) conns(cfg *ConnConfig) (*ConnListener, error) {
	filled, err := cfg.filled()
	if err == nil {
		err = l.w.openConns()
	}
	if err != nil {
		_ = l.Close()
		var oe *OpError
		if !errors.As(err, &oe) {
			err = &OpError{Op: "listen", Peer: l.Addr().String(), Err: err}
		}
		return nil, err
	}
	c := &ConnListener{l: l, cfg: filled, queue: make(chan *Conn, connBacklog), done: make(chan struct{})}
	go c.serve()
	return c, nil
}

// serve makes connections as soon as endpoints are there, so that a client may write
// before Accept is called, as with a kernel socket.
func (l *ConnListener) serve() {
	defer l.drain()
	defer close(l.done)
	for {
		ep, err := l.l.Accept(background)
		if err != nil {
			return
		}
		c, err := l.l.w.adoptConn(ep, &l.cfg)
		if err != nil { // the peer is gone already
			ep.abort(ErrRejected)
			_ = ep.Close()
			continue
		}
		select {
		case l.queue <- c:
		case <-l.l.done:
			c.refuse()
			return
		}
	}
}

// drain resets connections that nobody accepted.
func (l *ConnListener) drain() {
	for {
		select {
		case c := <-l.queue:
			c.refuse()
		default:
			return
		}
	}
}

func (c *Conn) refuse() {
	_ = c.SetLinger(0)
	_ = c.Close()
}

// Accept waits for the next connection. Close ends it.
func (l *ConnListener) Accept() (net.Conn, error) {
	c, err := l.acceptContext(background)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// acceptContext waits for the next connection until ctx ends.
func (l *ConnListener) acceptContext(ctx context.Context) (*Conn, error) {
	select {
	case <-l.done:
		return nil, l.opError(net.ErrClosed)
	default:
	}
	select {
	case c := <-l.queue:
		return c, nil
	case <-l.done:
		return nil, l.opError(net.ErrClosed)
	case <-ctx.Done():
		return nil, l.opError(timeoutOf(ctx.Err()))
	}
}

func (l *ConnListener) opError(err error) error {
	return &net.OpError{Op: "accept", Net: "ucx", Addr: l.Addr(), Err: err}
}

// Addr returns the bound address.
func (l *ConnListener) Addr() net.Addr { return l.l.Addr() }

// Close stops listening. Accepted connections live on; others are reset.
func (l *ConnListener) Close() error {
	err := l.l.Close()
	<-l.done
	return err
}
