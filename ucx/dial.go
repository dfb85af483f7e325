package ucx

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

// splitNetwork reads "unix:///path", "unix:@name", "tcp://host:port" or "host:port".
func splitNetwork(addr string) (network, address string, err error) {
	switch {
	case strings.HasPrefix(addr, "unix://"):
		return "unix", strings.TrimPrefix(addr, "unix://"), nil
	case strings.HasPrefix(addr, "unix:"):
		return "unix", strings.TrimPrefix(addr, "unix:"), nil
	case strings.HasPrefix(addr, "tcp://"):
		return "tcp", strings.TrimPrefix(addr, "tcp://"), nil
	case strings.Contains(addr, "://"):
		return "", "", fmt.Errorf("ucx: address %q: want unix://PATH, tcp://HOST:PORT or HOST:PORT", addr)
	}
	return "tcp", addr, nil
}

// handshakeTimeout bounds a handshake whose context has no deadline.
const handshakeTimeout = 10 * time.Second

// Dial connects to a [Listener] of another Millstream worker at "unix:///path",
// "unix:@abstract-name", "tcp://host:port" or "host:port". The socket is only the
// place to meet and the lifeline; data goes over the fastest lanes UCX finds, shared
// memory on one host. The endpoint is usable, and its lanes are set up, on return.
func (w *Worker) Dial(ctx context.Context, addr string) (*Endpoint, error) {
	network, address, err := splitNetwork(addr)
	if err != nil {
		return nil, &OpError{Op: "connect", Peer: addr, Err: err}
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, &OpError{Op: "connect", Peer: addr, Err: err}
	}
	ep, err := w.Attach(ctx, conn, addr)
	if err != nil {
		return nil, err
	}
	if err := ep.Flush(ctx); err != nil { // sets up the lanes
		ep.abort(ErrCanceled)
		_ = ep.Close()
		return nil, &OpError{Op: "connect", Peer: addr, Err: err}
	}
	return ep, nil
}

// Attach makes an endpoint with the Millstream worker at the other end of a
// connection, which becomes the lifeline; both sides call it. The connection is
// closed with the endpoint, or when Attach fails. peer is how errors name the other.
func (w *Worker) Attach(ctx context.Context, conn net.Conn, peer string) (*Endpoint, error) {
	ep, err := w.attach(ctx, conn, peer)
	if err != nil {
		_ = conn.Close()
		return nil, &OpError{Op: "connect", Peer: peer, Err: err}
	}
	return ep, nil
}

func (w *Worker) attach(ctx context.Context, conn net.Conn, peer string) (*Endpoint, error) {
	l := &lifeline{conn: conn, acked: make(chan struct{}), over: make(chan struct{})}
	mine, err := w.hello(l)
	if err != nil {
		return nil, err
	}
	theirs, err := exchange(ctx, conn, mine)
	if err != nil {
		return nil, err
	}
	l.features = theirs.features & mine.features
	if l.features&featureFarewell != 0 {
		l.remote = theirs.number
	}
	// The line is known before the peer can send anything that names it.
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return nil, ErrClosed
	}
	w.lines[l.local] = l
	w.mu.Unlock()
	mode := ErrorPeer
	addr := w.Route(theirs.contact)
	ep, err := w.paired(ctx, conn, mine, theirs, addr, func() (*Endpoint, error) {
		return w.connect(addr, &EndpointConfig{Name: peer, Errors: &mode}, l)
	})
	if err != nil {
		w.dropLine(l)
		return nil, err
	}
	if err := barrier(ctx, conn); err != nil {
		w.dropLine(l)
		ep.abort(ErrCanceled)
		_ = ep.Close()
		return nil, err
	}
	go l.run()
	return ep, nil
}

// hello describes this side.
func (w *Worker) hello(l *lifeline) (*hello, error) {
	contact, err := w.Contact()
	if err != nil {
		return nil, err
	}
	var n [8]byte
	_, _ = rand.Read(n[:])
	l.local = binary.LittleEndian.Uint64(n[:]) | 1
	h := &hello{version: lineVersion, min: lineMinVersion, number: l.local, name: w.name(), contact: contact}
	if w.ctx.cfg.Features&ActiveMsg != 0 {
		if _, err := w.openInbox(amControl, w.control); err != nil {
			return nil, err
		}
		if err := w.openConns(); err != nil { // a peer's greeting may come before this side asks for a Conn
			return nil, err
		}
		if _, err := w.openInbox(amMulti, w.framesArrived); err != nil {
			return nil, err
		}
		h.features |= featureFarewell | featureFrames
	}
	return h, nil
}

// exchange sends one handshake and reads the other. Both sides write first, so the
// write runs beside the read: not every connection has a buffer that takes it.
func exchange(ctx context.Context, conn net.Conn, mine *hello) (*hello, error) {
	defer deadline(ctx, conn)()
	b, err := mine.append(nil)
	if err != nil {
		return nil, err
	}
	written := writeBeside(conn, b)
	h, err := readHello(conn)
	if err != nil {
		_ = conn.SetDeadline(time.Unix(1, 0)) // ends the write
	}
	if werr := <-written; err == nil {
		err = werr
	}
	return h, handshakeError(ctx, err)
}

// handshakeError returns the context's error in place of that of a connection whose deadline it set: the connection's
// timer may run out a moment before the context's.
func handshakeError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return contextError(ctx)
	}
	if d, ok := ctx.Deadline(); ok && errors.Is(err, os.ErrDeadlineExceeded) && !time.Now().Before(d) {
		return context.DeadlineExceeded
	}
	return err
}

// barrier waits until both sides have made their endpoints, so that neither hears
// of the other through UCX before it is ready.
func barrier(ctx context.Context, conn net.Conn) error {
	defer deadline(ctx, conn)()
	written := writeBeside(conn, []byte{'R'})
	var b [1]byte
	_, err := conn.Read(b[:])
	if err != nil {
		_ = conn.SetDeadline(time.Unix(1, 0))
	}
	if werr := <-written; err == nil {
		err = werr
	}
	if err != nil {
		return fmt.Errorf("ucx: the peer hung up during the handshake: %w", handshakeError(ctx, err))
	}
	if b[0] != 'R' {
		return fmt.Errorf("ucx: the peer broke the handshake with %q", b[0])
	}
	return nil
}

func writeBeside(conn net.Conn, b []byte) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := conn.Write(b)
		done <- err
	}()
	return done
}

// deadline applies ctx to a connection and returns the undo.
func deadline(ctx context.Context, conn net.Conn) (undo func()) {
	d, ok := ctx.Deadline()
	if limit := time.Now().Add(handshakeTimeout); !ok || limit.Before(d) {
		d = limit
	}
	_ = conn.SetDeadline(d)
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = conn.SetDeadline(time.Unix(1, 0))
		close(ended)
	})
	return func() {
		if !stop() {
			<-ended // or it would strike a connection that is already in use
		}
		_ = conn.SetDeadline(time.Time{})
	}
}

// Listener accepts connections of other Millstream workers (see Dial). Any
// net.Listener will do underneath.
type Listener struct {
	w  *Worker
	ln net.Listener

	once   sync.Once
	queue  chan *Endpoint
	done   chan struct{}
	ctx    context.Context // of handshakes: ends with the listener
	cancel context.CancelFunc
	slots  chan struct{} // bounds handshakes under way
}

// maxHandshakes bounds connections that have not finished their handshake.
const maxHandshakes = 256

// Listen listens for other Millstream workers at an address as in Dial. "host:0"
// picks a port; see Addr.
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

// ListenOn serves handshakes on a listener of the caller's, which Close closes.
func (w *Worker) ListenOn(ln net.Listener) (*Listener, error) {
	l := &Listener{w: w, ln: ln, queue: make(chan *Endpoint), done: make(chan struct{}), slots: make(chan struct{}, maxHandshakes)}
	l.ctx, l.cancel = context.WithCancel(background)
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		l.cancel()
		_ = ln.Close()
		return nil, &OpError{Op: "listen", Peer: ln.Addr().String(), Err: ErrClosed}
	}
	w.lifelines[l] = struct{}{}
	w.mu.Unlock()
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

// retry waits after an Accept that failed for want of descriptors or memory, or
// because the peer left at once: the listener is fine then. Others end it.
func (l *Listener) retry(err error) bool {
	for _, passing := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED, syscall.EINTR} {
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
		return // the peer sees the connection end; a stranger's bytes are not worth a log line each
	}
	select {
	case l.queue <- ep:
	case <-l.done:
		ep.abort(ErrRejected)
		_ = ep.Close()
	}
}

// Accept waits for the next connection.
func (l *Listener) Accept(ctx context.Context) (*Endpoint, error) {
	select {
	case ep := <-l.queue:
		return ep, nil
	case <-l.done:
		return nil, &OpError{Op: "accept", Peer: l.ln.Addr().String(), Err: ErrClosed}
	case <-ctx.Done():
		return nil, &OpError{Op: "accept", Peer: l.ln.Addr().String(), Err: contextError(ctx)}
	}
}

// Done returns a channel that is closed when the listener has ended: by Close, by that of its worker, or because the
// socket failed.
func (l *Listener) Done() <-chan struct{} { return l.done }

// Addr returns the bound address.
func (l *Listener) Addr() net.Addr { return l.ln.Addr() }

// Close stops listening. Accepted endpoints live on.
func (l *Listener) Close() error {
	l.once.Do(func() {
		close(l.done)
		l.cancel()
		_ = l.ln.Close()
		l.w.mu.Lock()
		delete(l.w.lifelines, l)
		l.w.mu.Unlock()
	})
	return nil
}
