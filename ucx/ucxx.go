package ucx

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"go.millstream.dev/internal/wire/ucxxwire"
)

// UCXXEndpoint is a connection with the protocol of the Python library UCXX (version 0.52): its handshake, tags,
// multi-buffer messages and active messages. It is safe for concurrent use.
//
// UCXX closes endpoints by force, even while the peer is sending. This side sees a reset connection, and operations
// report it as an error that matches io.EOF with errors.Is; a peer that died looks the same. See [Endpoint] for
// everything that UCXX does not change.
type UCXXEndpoint struct {
	ep      *Endpoint
	tagged  bool   // made by a handshake
	sendTag uint64 // the tag on which the peer receives
	recvTag uint64

	sending, receiving tagLocks

	received   atomic.Int64
	mu         sync.Mutex
	closeAfter int64 // number of receives after which to close; 0: not set
}

// NewUCXXEndpoint returns a UCXXEndpoint on an endpoint without a handshake: one from a worker address, as made by
// UCXX's create_endpoint_from_worker_address, or one that replies to an active message. It has no tags other than those
// of ForceTag.
func NewUCXXEndpoint(ep *Endpoint) (*UCXXEndpoint, error) {
	if err := ep.w.openUCXXPlain(); err != nil {
		return nil, &OpError{Op: "connect", Peer: ep.peer, Err: inner(err)}
	}
	return &UCXXEndpoint{ep: ep}, nil
}

// DialUCXX connects to a listener of UCXX, or of ListenUCXX, at "host:port" and exchanges peer infos. It takes at most
// ten seconds, or until ctx ends.
//
// UCX connects by socket address only if both ends choose the same transports: set Config.PlainTransports on the
// context, and use the UCX release of the peer (set Config.Library to the libucp.so.0 of its Python environment).
// Compatibility of different releases varies: 1.21 connects to 1.19, but not to 1.18, 1.20 or 1.22.
func (w *Worker) DialUCXX(ctx context.Context, hostport string) (*UCXXEndpoint, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	if err := w.openUCXX(); err != nil {
		return nil, &OpError{Op: "connect", Peer: hostport, Err: inner(err)}
	}
	ep, err := w.DialSocket(ctx, hostport, nil)
	if err != nil {
		return nil, w.ctx.connectHint(err)
	}
	e, err := newTagged(ctx, ep, false)
	if err != nil {
		return nil, w.ctx.connectHint(err)
	}
	return e, nil
}

// connectHint adds the most frequent reason why two UCX programs fail to connect.
func (c *Context) connectHint(err error) error {
	for _, st := range []Status{ErrConnectionReset, ErrUnreachable, ErrRejected, ErrInvalidParam} {
		if !errors.Is(err, st) {
			continue
		}
		hint := fmt.Sprintf("this side uses UCX %s; both sides need compatible releases", c.lib.Version)
		if !c.cfg.PlainTransports {
			hint += ", and needs Config.PlainTransports to reach other programs"
		}
		var oe *OpError
		if errors.As(err, &oe) {
			return &OpError{Op: oe.Op, Peer: oe.Peer, Err: fmt.Errorf("%w (%s)", oe.Err, hint)}
		}
	}
	return err
}

// openUCXX prepares a worker for UCXX's messages, before any can arrive.
func (w *Worker) openUCXX() error {
	if f := w.ctx.cfg.Features; f&Stream == 0 || f&Tag == 0 {
		return fmt.Errorf("ucx: UCXX's protocol needs the features Stream and Tag; add them to Config.Features")
	}
	return w.openUCXXPlain()
}

// openUCXXPlain is openUCXX for endpoints without a handshake, which uses the stream.
func (w *Worker) openUCXXPlain() error {
	f := w.ctx.cfg.Features
	if f&Tag == 0 {
		return fmt.Errorf("ucx: UCXX's messages need the feature Tag; add it to Config.Features")
	}
	if f&ActiveMessages == 0 {
		return nil
	}
	return w.openUCXXMessages()
}

// newTagged performs the handshake on a new connection, which it closes on failure.
func newTagged(ctx context.Context, ep *Endpoint, listener bool) (*UCXXEndpoint, error) {
	e := &UCXXEndpoint{ep: ep, tagged: true}
	if err := e.handshake(ctx, listener); err != nil {
		ep.abort(errCanceled)
		_ = ep.Close()
		return nil, &OpError{Op: "UCXX handshake", Peer: ep.peer, Err: inner(eofOf(err))}
	}
	return e, nil
}

// handshake exchanges peer infos over the stream. The listener sends first.
func (e *UCXXEndpoint) handshake(ctx context.Context, listener bool) error {
	var seed [8]byte
	_, _ = rand.Read(seed[:])
	e.recvTag = binary.NativeEndian.Uint64(seed[:])
	mine := ucxxwire.PeerInfo{Tag: e.recvTag}.Append(nil)
	theirs := make([]byte, ucxxwire.PeerInfoSize)
	if listener {
		if err := e.ep.SendStream(ctx, Bytes(mine)); err != nil {
			return err
		}
	}
	if _, err := e.ep.RecvStream(ctx, Bytes(theirs), true); err != nil {
		return err
	}
	info, err := ucxxwire.DecodePeerInfo(theirs)
	if err != nil {
		return fmt.Errorf("%w (is the peer UCXX? UCX-Py 0.x sends another form)", err)
	}
	e.sendTag = info.Tag
	if listener {
		return nil
	}
	return e.ep.SendStream(ctx, Bytes(mine))
}

// Endpoint returns the underlying endpoint.
func (e *UCXXEndpoint) Endpoint() *Endpoint { return e.ep }

// Tags returns the tags of the handshake: those of messages to the peer and to this side. Both are 0 without a
// handshake.
func (e *UCXXEndpoint) Tags() (send, recv uint64) { return e.sendTag, e.recvTag }

// Done returns a channel that is closed when the endpoint has failed or was closed.
func (e *UCXXEndpoint) Done() <-chan struct{} { return e.ep.Done() }

// Err returns why the endpoint failed: an error that matches io.EOF when the peer closed or died; nil while the
// endpoint is open and after a Close of this side.
func (e *UCXXEndpoint) Err() error { return resetAsEOF(e.ep.Err()) }

// Close flushes sent data, within five seconds, and closes the endpoint. A UCXX peer sees a closed or reset connection.
// UCX does not report when the peer has received flushed data, and a peer that detects the end first may drop it: where
// the last message matters, wait for a reply before closing, as with UCXX.
func (e *UCXXEndpoint) Close() error { return e.ep.Close() }

// Shutdown is Close with the caller's deadline.
func (e *UCXXEndpoint) Shutdown(ctx context.Context) error { return e.ep.Shutdown(ctx) }

// CloseAfter closes the endpoint when n more messages have been received, or n since its creation with fromStart:
// UCXX's close_after_n_recv. It can be set once; n must not be less than the number of received messages. A number
// already reached closes immediately.
func (e *UCXXEndpoint) CloseAfter(n int, fromStart bool) error {
	have := e.received.Load()
	at := int64(n)
	if !fromStart {
		at += have
	}
	e.mu.Lock()
	var err error
	switch {
	case e.closeAfter != 0:
		err = fmt.Errorf("ucx: CloseAfter is already set to %d receives", e.closeAfter)
	case n < 0 || at < have:
		err = fmt.Errorf("ucx: cannot close after %d receives: %d messages have been received", at, have)
	default:
		e.closeAfter = max(at, 1)
	}
	e.mu.Unlock()
	if err != nil {
		return &OpError{Op: "close after receives", Peer: e.ep.peer, Err: err}
	}
	if at <= e.received.Load() {
		return e.Close()
	}
	return nil
}

// count counts a finished receive.
func (e *UCXXEndpoint) count() {
	n := e.received.Add(1)
	e.mu.Lock()
	last := e.closeAfter != 0 && n >= e.closeAfter
	e.mu.Unlock()
	if last {
		_ = e.Close()
	}
}

// resetError is a connection reset that means a closed connection.
type resetError struct{ cause error }

func (e resetError) Error() string { return "ucx: closed by the peer: " + e.cause.Error() }
func (e resetError) Unwrap() error { return e.cause }
func (e resetError) Is(target error) bool {
	return target == io.EOF || target == ErrPeerClosed
}

func resetAsEOF(err error) error {
	if errors.Is(err, ErrConnectionReset) && !errors.Is(err, io.EOF) {
		return resetError{err}
	}
	return err
}

// eofOf is resetAsEOF for the error of an operation.
func eofOf(err error) error {
	if err == nil {
		return nil
	}
	var oe *OpError
	if !errors.As(err, &oe) {
		return resetAsEOF(err)
	}
	return &OpError{Op: oe.Op, Peer: oe.Peer, Err: resetAsEOF(oe.Err)}
}

// tagLocks serialize messages of several parts that share one tag.
type tagLocks struct {
	mu   sync.Mutex
	held map[uint64]*tagLock
}

type tagLock struct {
	ch    chan struct{}
	users int
}

// lock waits for exclusive use of a tag and returns the function that ends it.
func (l *tagLocks) lock(ctx context.Context, tag uint64) (unlock func(), err error) {
	l.mu.Lock()
	t := l.held[tag]
	if t == nil {
		t = &tagLock{ch: make(chan struct{}, 1)}
		if l.held == nil {
			l.held = map[uint64]*tagLock{}
		}
		l.held[tag] = t
	}
	t.users++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		if t.users--; t.users == 0 {
			delete(l.held, tag)
		}
		l.mu.Unlock()
	}
	select {
	case t.ch <- struct{}{}:
		return func() { <-t.ch; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}

// UCXXListener accepts connections of UCXX and of DialUCXX.
type UCXXListener struct {
	l      *Listener
	ctx    context.Context // ends with the listener
	cancel context.CancelFunc
	queue  chan *UCXXEndpoint
	slots  chan struct{} // bounds connections whose handshake is in progress or that wait for Accept
	wg     sync.WaitGroup
}

// ListenUCXX listens on "host:port" (port 0: any) for UCXX's create_endpoint.
func (w *Worker) ListenUCXX(ctx context.Context, hostport string) (*UCXXListener, error) {
	if err := w.openUCXX(); err != nil {
		return nil, &OpError{Op: "listen", Peer: hostport, Err: inner(err)}
	}
	sock, err := w.ListenSocket(ctx, hostport)
	if err != nil {
		return nil, err
	}
	l := &UCXXListener{l: sock, queue: make(chan *UCXXEndpoint), slots: make(chan struct{}, maxHandshakes)}
	l.ctx, l.cancel = context.WithCancel(background)
	l.wg.Add(1)
	go l.serve()
	return l, nil
}

func (l *UCXXListener) serve() {
	defer l.wg.Done()
	defer l.cancel()
	for {
		r, err := l.l.Next(l.ctx)
		if err != nil {
			return
		}
		select {
		case l.slots <- struct{}{}:
			l.wg.Add(1)
			go l.handshake(r)
		case <-l.ctx.Done():
			_ = r.Reject()
			return
		}
	}
}

func (l *UCXXListener) handshake(r *ConnRequest) {
	defer l.wg.Done()
	defer func() { <-l.slots }()
	ctx, cancel := context.WithTimeout(l.ctx, handshakeTimeout)
	defer cancel()
	ep, err := r.Accept(nil)
	if err != nil {
		return
	}
	e, err := newTagged(ctx, ep, true)
	if err != nil {
		if l.ctx.Err() == nil {
			logf("a UCXX client was refused: %v", err)
		}
		return
	}
	select {
	case l.queue <- e:
	case <-l.ctx.Done():
		ep.abort(ErrRejected)
		_ = ep.Close()
	}
}

// Accept waits for the next connection whose handshake is done.
func (l *UCXXListener) Accept(ctx context.Context) (*UCXXEndpoint, error) {
	var err error
	select {
	case e := <-l.queue:
		return e, nil
	case <-l.ctx.Done():
		err = ErrClosed
	case <-ctx.Done():
		err = ctx.Err()
	}
	return nil, &OpError{Op: "accept", Peer: l.Addr().String(), Err: err}
}

// Addr returns the bound address.
func (l *UCXXListener) Addr() net.Addr { return l.l.Addr() }

// Close stops listening and ends handshakes in progress. Accepted endpoints stay open.
func (l *UCXXListener) Close() error {
	l.cancel()
	err := l.l.Close()
	l.wg.Wait()
	return err
}
