package ucx

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"go.millstream.dev/ucx/internal/wire"
)

// Network dials and listens with one context and one worker, created on first use. The zero value is ready to use; do
// not change or copy a Network after its first use. It is safe for concurrent use.
//
// A Network is sufficient for programs with one worker; those with several, or with memory to register, use
// [NewContext] and [Context.NewWorker].
type Network struct {
	// Config configures the context.
	Config Config
	// WorkerConfig configures the worker.
	WorkerConfig WorkerConfig

	mu     sync.Mutex // guards the fields below; never held across a C call
	worker *Worker
	making chan struct{} // set while the worker is made, closed after it; nil otherwise
}

// Default is the Network of [Dial] and [Listen]. Programs that need other settings replace it before the first call, or
// use a Network of their own.
var Default = &Network{}

// Dial connects to a [Listener] of another worker with the worker of [Default]. addr is as in [Worker.Dial].
func Dial(ctx context.Context, addr string) (*Endpoint, error) { return Default.Dial(ctx, addr) }

// Listen listens for other Millstream workers with the worker of [Default]. addr is as in [Worker.Dial].
func Listen(ctx context.Context, addr string) (*Listener, error) { return Default.Listen(ctx, addr) }

// Dial connects to a [Listener] of another worker; see [Worker.Dial].
func (n *Network) Dial(ctx context.Context, addr string) (*Endpoint, error) {
	w, err := n.Worker()
	if err != nil {
		return nil, &OpError{Op: "connect", Peer: addr, Err: err}
	}
	return w.Dial(ctx, addr)
}

// Listen listens for other Millstream workers; see [Worker.Listen].
func (n *Network) Listen(ctx context.Context, addr string) (*Listener, error) {
	w, err := n.Worker()
	if err != nil {
		return nil, &OpError{Op: "listen", Peer: addr, Err: err}
	}
	return w.Listen(ctx, addr)
}

// Worker returns the worker and creates it if there is none. Failures are not cached: the next call tries again.
// [Worker.Context] is the context. Close the Network, not the worker.
func (n *Network) Worker() (*Worker, error) {
	for {
		w, turn, making := n.claim()
		if w != nil {
			return w, nil
		}
		if making != nil {
			<-making
			continue
		}
		w, err := n.make()
		n.mu.Lock()
		n.worker, n.making = w, nil
		n.mu.Unlock()
		close(turn)
		return w, err
	}
}

// claim returns the worker, or the right to create it, or a channel that is closed when another caller has finished
// creating it. The lock is not held during creation, which is slow and calls into C.
func (n *Network) claim() (w *Worker, turn, making chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.worker != nil || n.making != nil {
		return n.worker, nil, n.making
	}
	n.making = make(chan struct{})
	return nil, n.making, nil
}

func (n *Network) make() (*Worker, error) {
	c, err := NewContext(n.Config)
	if err != nil {
		return nil, err
	}
	w, err := c.NewWorker(n.WorkerConfig)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return w, nil
}

// Close closes the worker, with its endpoints and listeners, and the context. Until then the worker is kept, idle, so
// that the next Dial is fast; an idle worker uses no CPU. A Network can be used again after Close.
func (n *Network) Close() error {
	n.mu.Lock()
	for n.making != nil {
		making := n.making
		n.mu.Unlock()
		<-making
		n.mu.Lock()
	}
	w := n.worker
	n.worker = nil
	n.mu.Unlock()
	if w == nil {
		return nil
	}
	return errors.Join(w.Close(), w.Context().Close())
}

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

// Dial connects to a [Listener] of another Millstream worker at "unix:///path", "unix:@abstract-name",
// "tcp://host:port" or "host:port". The socket is only used for the handshake and as the lifeline; data is sent over
// the fastest transports that UCX finds, shared memory on one host. The endpoint is connected when Dial returns.
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
	if err := ep.Flush(ctx); err != nil { // sets up the transports
		ep.abort(errCanceled)
		_ = ep.Close()
		return nil, &OpError{Op: "connect", Peer: addr, Err: err}
	}
	return ep, nil
}

// Attach makes an endpoint with the Millstream worker at the other end of a connection, which becomes the lifeline;
// both sides call it. The connection is closed with the endpoint, or when Attach fails. peer names the other side in
// errors.
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
	if err := w.peers.addLifeline(l); err != nil {
		return nil, err
	}
	addr := w.Route(theirs.contact)
	ep, err := w.createPaired(ctx, conn, mine, theirs, addr, func() (*Endpoint, error) {
		return w.peers.connect(addr, peer, true, l)
	})
	if err != nil {
		w.peers.dropLine(l)
		return nil, err
	}
	if err := barrier(ctx, conn); err != nil {
		if reason := ep.reason(); reason != nil {
			err = reason // the worker was closed meanwhile, which closed conn
		}
		w.peers.dropLine(l)
		ep.abort(errCanceled)
		_ = ep.Close()
		return nil, err
	}
	go l.run()
	return ep, nil
}

// hello is a side of a handshake.
type hello struct {
	features uint32
	number   uint64
	name     string
	contact  Contact
}

func (h *hello) append() ([]byte, error) {
	addr, err := h.contact.Address.MarshalBinary()
	if err != nil {
		return nil, err
	}
	var netAddr []byte
	if len(h.contact.Net) > 0 {
		if netAddr, err = h.contact.Net.MarshalBinary(); err != nil {
			return nil, err
		}
	}
	return (&wire.Hello{
		Version: wire.HandshakeVersion, Min: wire.HandshakeMinVersion, Features: h.features, Number: h.number,
		Name:  h.name,
		Major: h.contact.Major, Minor: h.contact.Minor, Home: h.contact.Home, Address: addr, Net: netAddr,
	}).Append(nil), nil
}

func readHello(r io.Reader) (*hello, error) {
	x, err := wire.ReadHello(r, maxWorkerAddress+8)
	if err != nil {
		return nil, err
	}
	h := &hello{features: x.Features, number: x.Number, name: x.Name}
	h.contact.Major, h.contact.Minor, h.contact.Home = x.Major, x.Minor, x.Home
	if len(x.Net) > 0 {
		if err := h.contact.Net.UnmarshalBinary(x.Net); err != nil {
			return nil, err
		}
	}
	return h, h.contact.Address.UnmarshalBinary(x.Address)
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
	h := &hello{number: l.local, name: w.name(), contact: contact}
	if w.ctx.cfg.Features&ActiveMessages != 0 {
		if _, err := w.ams.open(amControl, w.peers.control); err != nil {
			return nil, err
		}
		if err := w.openConns(); err != nil { // the peer's open frame may arrive before NewConn is called
			return nil, err
		}
		if _, err := w.ams.open(amMulti, w.receiveFrames); err != nil {
			return nil, err
		}
		h.features |= featureFarewell | featureFrames | featureKinds
	}
	return h, nil
}

// exchange sends one handshake and reads the other. Both sides write first, so the write runs concurrently with the
// read: not every connection has a buffer that can hold it.
func exchange(ctx context.Context, conn net.Conn, mine *hello) (*hello, error) {
	defer deadline(ctx, conn)()
	b, err := mine.append()
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

// barrier waits until both sides have made their endpoints, so that neither receives UCX messages of the other before
// it is ready.
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
		return fmt.Errorf("ucx: connection closed during the handshake: %w", handshakeError(ctx, err))
	}
	if b[0] != 'R' {
		return fmt.Errorf("ucx: unexpected byte %q in the handshake", b[0])
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
			<-ended // otherwise it could set the deadline of a connection already in use
		}
		_ = conn.SetDeadline(time.Time{})
	}
}
