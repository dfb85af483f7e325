package ucx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"go.millstream.dev/ucx/internal/ucp"
)

// ConnConfig configures a [Conn]. The zero value, and a nil pointer, are useful.
type ConnConfig struct {
	// Window is how many bytes the peer may send ahead of this side's Read. It bounds the memory that a connection with
	// a stalled reader uses at each end. Default 1 MiB, at least 64 KiB.
	Window int
	// Linger is how long Close waits for the peer to confirm that all data has arrived, before it resets the
	// connection. Default 5 s.
	Linger time.Duration
}

const (
	defaultConnWindow = 1 << 20
	minConnWindow     = 64 << 10
)

func (c *ConnConfig) filled() (out ConnConfig, err error) {
	if c != nil {
		out = *c
	}
	if out.Window == 0 {
		out.Window = defaultConnWindow
	}
	if out.Linger == 0 {
		out.Linger = closeTimeout
	}
	if out.Window < minConnWindow || out.Linger < 0 {
		return out, fmt.Errorf("ucx: ConnConfig{Window: %d, Linger: %v}: want a window of at least %d bytes and no "+
			"negative linger", out.Window, out.Linger, minConnWindow)
	}
	return out, nil
}

// Conn is a byte stream between two workers: a [net.Conn] whose bytes travel over UCX's fastest transports. Unlike
// UCX's own streams it has back-pressure: a writer blocks when the reader is a window behind. The death of the peer is
// detected immediately through the endpoint's lifeline.
//
// Write returns when the bytes are copied, as with a kernel socket; the memory may be reused. Close waits until the
// peer has received all written data. Errors of Read and Write are *[net.OpError]; io.EOF is returned unwrapped. A Conn
// is safe for concurrent use.
type Conn struct {
	w             *Worker
	ep            *Endpoint
	lifeline      *lifeline
	local, remote net.Addr

	reading sync.Mutex // held by the Read in progress; taken before mu
	writing sync.Mutex // held by the Write in progress; taken before mu

	// mu guards everything below. It is acquired with the progress token held, so it must not be held across a call
	// into UCX, nor while copying a user's memory.
	mu       sync.Mutex
	cfg      ConnConfig
	adopted  bool  // returned to a user; before, it only queues early data
	opened   bool  // the peer's open frame has arrived
	closed   bool  // Close was called
	failure  error // why the connection broke; nil while it works
	reported bool  // the failure was returned to the user
	linger   time.Duration

	in  connReceiver
	out connSender

	onSent, onDataSent func(*Request) // finishSend and finishDataSend, bound once

	opening connWaiter // DialConn, for the peer's open frame
	ending  connWaiter // Close, for the peer's confirmation

	closeOnce sync.Once
	closeErr  error
}

var (
	_ net.Conn     = (*Conn)(nil)
	_ net.Listener = (*connListener)(nil)
)

// NewConn returns a byte stream over an endpoint that was made by [Worker.Dial], [Listener.Accept] or [Worker.Attach];
// both sides must call it. The stream takes ownership of the endpoint: closing the stream closes the endpoint. NewConn
// waits for the peer's side for at most ten seconds. On failure the endpoint is left unchanged.
//
// The endpoint may be used for tag messages and the like at the same time; only the data of the stream itself is
// confirmed before Close returns.
func NewConn(ctx context.Context, ep *Endpoint, cfg *ConnConfig) (*Conn, error) {
	if err := ep.w.openConns(); err != nil {
		return nil, err
	}
	c, err := ep.w.adoptConn(ep, cfg)
	if err != nil {
		return nil, &OpError{Op: "connect", Peer: ep.peer, Err: err}
	}
	if err := c.awaitOpen(ctx); err != nil {
		return nil, &OpError{Op: "connect", Peer: ep.peer, Err: err}
	}
	return c, nil
}

// adoptConn hands the connection of an endpoint to the user and sends the open frame to the peer.
func (w *Worker) adoptConn(ep *Endpoint, cfg *ConnConfig) (*Conn, error) {
	filled, err := cfg.filled()
	if err != nil {
		return nil, err
	}
	l := ep.lifeline
	if l == nil {
		return nil, errors.New("ucx: a net.Conn needs an endpoint with a lifeline; make it with Worker.Dial, " +
			"Listener.Accept or Worker.Attach")
	}
	if l.remote == 0 {
		return nil, errors.New("ucx: a net.Conn needs active messages; add ActiveMessages to Config.Features on both " +
			"sides")
	}
	if err := ep.reason(); err != nil {
		return nil, err
	}
	c := w.peers.conn(l.local)
	if c == nil {
		return nil, ErrClosed
	}
	c.mu.Lock()
	if c.adopted {
		c.mu.Unlock()
		return nil, fmt.Errorf("ucx: %s has a net.Conn already", ep)
	}
	c.adopted = true
	c.cfg, c.linger = filled, filled.Linger
	c.in.window = uint64(filled.Window)
	c.in.granted = c.in.window
	c.mu.Unlock()
	ep.addPart(c)
	return c, c.send(connOpen, uint64(filled.Window), nil)
}

// awaitOpen waits for the peer's open frame.
func (c *Conn) awaitOpen(ctx context.Context) error {
	wait, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	c.mu.Lock()
	if !c.opened && c.failure == nil && !c.closed {
		c.opening.arm(c.w)
		c.mu.Unlock()
		err := c.w.drv.await(wait, &c.opening.req, 1)
		c.mu.Lock()
		c.opening.on = false
		if err != nil && !c.opened && c.failure == nil {
			c.mu.Unlock()
			return fmt.Errorf("ucx: no net.Conn at the peer in time; the peer must listen with "+
				"Worker.ListenConn or call NewConn: %w", err)
		}
	}
	defer c.mu.Unlock()
	if c.opened {
		return nil // if the peer has closed meanwhile, Read reports it after the data
	}
	return c.failure
}

// Endpoint returns the underlying endpoint, for example to query its transports.
func (c *Conn) Endpoint() *Endpoint { return c.ep }

// LocalAddr returns the local socket address of the lifeline.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the peer's socket address of the lifeline.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// buffered returns how many bytes have arrived and have not been read.
func (c *Conn) buffered() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.in.queue.n + c.in.earlyBytes
}

// end is called when the endpoint has ended; it implements endpointPart. The token may be held.
func (c *Conn) end(reason error) {
	c.mu.Lock()
	c.fail(reason)
	c.mu.Unlock()
}

// discard does nothing: received data is in Go memory and can be read after the endpoint has ended.
func (c *Conn) discard() {}

// fail records why the connection broke and wakes all waiters. mu is held.
func (c *Conn) fail(reason error) {
	if c.failure == nil {
		c.failure = reason
	}
	c.in.wait.wake()
	c.out.wait.wake()
	c.opening.wake()
	c.ending.wake()
}

// violation ends a connection whose peer violates the protocol. mu is held.
func (c *Conn) violation(format string, args ...any) {
	err := fmt.Errorf("ucx: protocol violation by the peer:  "+format, args...)
	c.fail(err)
	go c.ep.abort(err) // needs the token, which the caller may hold
}

// socketError converts the cause of a failure into the error that programs expect from a socket. mu is held.
func (c *Conn) socketError(op string) error {
	c.reported = true
	var s Status
	switch {
	case errors.Is(c.failure, ErrPeerClosed) && op == "write":
		return os.NewSyscallError(op, syscall.EPIPE)
	case errors.Is(c.failure, ErrPeerClosed):
		return os.NewSyscallError(op, syscall.ECONNRESET)
	case !errors.As(c.failure, &s):
		return c.failure
	case s == ErrConnectionReset, s == errNotConnected, s == errEndpointTimeout:
		return os.NewSyscallError(op, syscall.ECONNRESET)
	}
	return fmt.Errorf("%s: %w: %w", op, syscall.ECONNRESET, c.failure)
}

func (c *Conn) opError(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return &net.OpError{Op: op, Net: "ucx", Source: c.local, Addr: c.remote, Err: err}
}

// connWaiter waits for an event that an arriving frame, a deadline or a failure signals. Waiting drives progress as for
// any other operation. Its request is reused: it is completed once per wait, under the connection's mu.
type connWaiter struct {
	req Request
	on  bool // a wait is in progress; guarded by Conn.mu
}

// arm prepares a wait. Conn.mu is held.
func (x *connWaiter) arm(w *Worker) {
	r := &x.req
	r.mu.Lock() // the previous waker may still hold it
	r.w, r.op, r.done = w, ucp.OpAMRecv, nil
	r.state.Store(reqPending)
	r.mu.Unlock()
	x.on = true
}

// wake ends a wait. Conn.mu is held.
func (x *connWaiter) wake() {
	if x.on {
		x.on = false
		x.req.finish()
	}
}

// park waits until woken. Conn.mu is held on entry and on return, and not between.
func (c *Conn) park(x *connWaiter) {
	x.arm(c.w)
	c.mu.Unlock()
	_ = c.w.drv.await(background, &x.req, 1)
	c.mu.Lock()
}

// connDeadline is a deadline that can be changed during a wait. Guarded by Conn.mu.
type connDeadline struct {
	timer   *time.Timer
	serial  uint64 // distinguishes the current timer from one that lost the race with a change
	expired bool
}

func (d *connDeadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.serial++
}

// setDeadline changes a deadline. Conn.mu is held.
func (c *Conn) setDeadline(d *connDeadline, x *connWaiter, t time.Time) {
	d.stop()
	d.expired = false
	if t.IsZero() {
		return
	}
	left := time.Until(t)
	if left <= 0 {
		d.expired = true
		x.wake()
		return
	}
	serial := d.serial
	d.timer = time.AfterFunc(left, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if d.serial == serial {
			d.expired = true
			x.wake()
		}
	})
}

// SetDeadline sets both deadlines, see [net.Conn]. When a deadline passes, blocked calls return
// [os.ErrDeadlineExceeded]; the connection stays usable.
func (c *Conn) SetDeadline(t time.Time) error { return c.setDeadlines(t, true, true) }

// SetReadDeadline sets the deadline of Read; the zero time means none.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.setDeadlines(t, true, false) }

// SetWriteDeadline sets the deadline of Write; the zero time means none. A Write that timed out may have sent some of
// the data, as reported by its count.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.setDeadlines(t, false, true) }

func (c *Conn) setDeadlines(t time.Time, read, write bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.opError("set", net.ErrClosed)
	}
	if read {
		c.setDeadline(&c.in.deadline, &c.in.wait, t)
	}
	if write {
		c.setDeadline(&c.out.deadline, &c.out.wait, t)
	}
	return nil
}

// DialConn connects to a listener of [Worker.ListenConn] of another worker and returns a byte stream. addr is as in
// [Worker.Dial]; cfg may be nil. For use as a dial function, see [Worker.DialContext].
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
		ep.abort(errCanceled)
		_ = ep.Close()
		return nil, err
	}
	return c, nil
}

// DialContext is DialConn with the signature of a dial function, such as http.Transport's DialContext. network is "tcp"
// (or "tcp4", "tcp6"), "unix", or "ucx" for an address as in [Worker.Dial]; it only selects the socket on which the
// peers connect. For gRPC's WithContextDialer wrap it: func(ctx, addr) { return w.DialContext(ctx, "ucx", addr) }.
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

// connListener is a [net.Listener] whose connections are byte streams over UCX.
type connListener struct {
	l     *Listener
	cfg   ConnConfig
	queue chan *Conn
	done  chan struct{} // closed when no more connections come
}

// connBacklog bounds connections that are ready and have not been accepted.
const connBacklog = 128

// ListenConn listens for [Worker.DialConn] at an address as in [Worker.Dial]; cfg applies to accepted connections,
// which are of type *[Conn], and may be nil. "host:0" picks a port; see Addr. Closing the listener resets connections
// that were not accepted.
func (w *Worker) ListenConn(ctx context.Context, addr string, cfg *ConnConfig) (net.Listener, error) {
	l, err := w.Listen(ctx, addr)
	if err != nil {
		return nil, err
	}
	c, err := l.conns(cfg)
	if err != nil {
		return nil, err // not a nil *connListener in a non-nil interface
	}
	return c, nil
}

// conns converts the listener into a [net.Listener] and takes ownership: Accept must not be called afterwards. On
// failure the listener is closed.
func (l *Listener) conns(cfg *ConnConfig) (*connListener, error) {
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
	c := &connListener{l: l, cfg: filled, queue: make(chan *Conn, connBacklog), done: make(chan struct{})}
	go c.serve()
	return c, nil
}

// serve makes connections as soon as endpoints are available, so that a client may write before Accept is called, as
// with a kernel socket.
func (l *connListener) serve() {
	defer l.drain()
	defer close(l.done)
	for {
		ep, err := l.l.Accept(background)
		if err != nil {
			return
		}
		c, err := l.l.w.adoptConn(ep, &l.cfg)
		if err != nil { // the peer has disconnected
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

// drain resets connections that were not accepted.
func (l *connListener) drain() {
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
func (l *connListener) Accept() (net.Conn, error) {
	c, err := l.acceptContext(background)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// acceptContext waits for the next connection until ctx ends.
func (l *connListener) acceptContext(ctx context.Context) (*Conn, error) {
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

func (l *connListener) opError(err error) error {
	return &net.OpError{Op: "accept", Net: "ucx", Addr: l.Addr(), Err: err}
}

// Addr returns the bound address.
func (l *connListener) Addr() net.Addr { return l.l.Addr() }

// Close stops listening. Accepted connections stay open; others are reset.
func (l *connListener) Close() error {
	err := l.l.Close()
	<-l.done
	return err
}
