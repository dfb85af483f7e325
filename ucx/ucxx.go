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

// UCXXEndpoint is a connection that speaks Python UCXX's protocol (version 0.52): its
// handshake, tags, multi-buffer messages and active messages. It is safe for any
// number of goroutines.
//
// UCXX closes endpoints by force, even while the peer is sending. On this side that looks
// like a reset connection, and operations report it as io.EOF for errors.Is; a peer
// that died looks the same. See [Endpoint] for everything that UCXX adds nothing to.
type UCXXEndpoint struct {
	ep      *Endpoint
	tagged  bool   // made by a handshake
	sendTag uint64 // on which the peer receives
	recvTag uint64

	sending, receiving tagLocks

	received   atomic.Int64
	mu         sync.Mutex
	closeAfter int64 // number of receives after which to close; 0: not set
}

// NewUCXXEndpoint speaks UCXX's protocol on an endpoint that made no handshake: one
// from a worker address, as UCXX's create_endpoint_from_worker_address makes them, or
// one that answers an active message. There are no tags then but those of ForceTag.
func NewUCXXEndpoint(ep *Endpoint) (*UCXXEndpoint, error) {
	if err := ep.w.openUCXXPlain(); err != nil {
		return nil, &OpError{Op: "connect", Peer: ep.peer, Err: inner(err)}
	}
	return &UCXXEndpoint{ep: ep}, nil
}

// DialUCXX connects to a listener of UCXX, or of ListenUCXX, at "host:port"
// and exchanges peer infos. It takes ten seconds at most, or what ctx allows.
//
// UCX connects by socket address only where both ends choose the same lanes: make the
// context with Config.PlainLanes, and use the release of UCX that the peer uses (give
// Config.Library the libucp.so.0 of its Python environment). Releases that differ
// meet or not: 1.21 meets 1.19, but neither 1.20 nor 1.22 nor 1.18.
func (w *Worker) DialUCXX(ctx context.Context, hostport string) (*UCXXEndpoint, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	if err := w.openUCXX(); err != nil {
		return nil, &OpError{Op: "connect", Peer: hostport, Err: inner(err)}
	}
	ep, err := w.DialSocket(ctx, hostport, nil)
	if err != nil {
		return nil, w.ctx.lanesHint(err)
	}
	e, err := newTagged(ctx, ep, false)
	if err != nil {
		return nil, w.ctx.lanesHint(err)
	}
	return e, nil
}

// lanesHint adds what most often keeps two UCX programs apart.
func (c *Context) lanesHint(err error) error {
	for _, st := range []Status{ErrConnectionReset, ErrUnreachable, ErrRejected, ErrInvalidParam} {
		if !errors.Is(err, st) {
			continue
		}
		hint := fmt.Sprintf("this side uses UCX %s; UCX connects only like releases", c.lib.Version)
		if !c.cfg.PlainLanes {
			hint += ", and needs Config.PlainLanes to reach other programs"
		}
		var oe *OpError
		if errors.As(err, &oe) {
			return &OpError{Op: oe.Op, Peer: oe.Peer, Err: fmt.Errorf("%w (%s)", oe.Err, hint)}
		}
	}
	return err
}

// openUCXX makes a worker ready for UCXX's messages, before any can come.
func (w *Worker) openUCXX() error {
	if f := w.ctx.cfg.Features; f&Stream == 0 || f&Tag == 0 {
		return fmt.Errorf("ucx: UCXX's protocol needs the features Stream and Tag (Config.Features)")
	}
	return w.openUCXXPlain()
}

// openUCXXPlain is openUCXX for endpoints without a handshake, which goes over the stream.
func (w *Worker) openUCXXPlain() error {
	f := w.ctx.cfg.Features
	if f&Tag == 0 {
		return fmt.Errorf("ucx: UCXX's messages need the feature Tag (Config.Features)")
	}
	if f&ActiveMessages == 0 {
		return nil
	}
	return w.openUCXXMessages()
}

// newTagged makes the handshake on a new connection, which it closes on failure.
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

// Endpoint returns the endpoint underneath.
func (e *UCXXEndpoint) Endpoint() *Endpoint { return e.ep }

// Tags returns the tags of the handshake: those with which messages to the peer and
// to this side are sent. Both are 0 without a handshake.
func (e *UCXXEndpoint) Tags() (send, recv uint64) { return e.sendTag, e.recvTag }

// Done returns a channel that is closed when the endpoint has failed or was closed.
func (e *UCXXEndpoint) Done() <-chan struct{} { return e.ep.Done() }

// Err returns why the endpoint failed: io.EOF for errors.Is when the peer closed or
// died; nil while it is alive and after a Close of this side.
func (e *UCXXEndpoint) Err() error { return resetAsEOF(e.ep.Err()) }

// Close flushes what was sent, within five seconds, and closes the endpoint. UCXX's
// side learns of it as of a closed or reset connection. UCX does not say when the peer
// has taken in what was flushed, and a peer that hears of the end first may drop it:
// where the last message matters, wait for an answer before closing, as with UCXX.
func (e *UCXXEndpoint) Close() error { return e.ep.Close() }

// Shutdown is Close with the caller's deadline.
func (e *UCXXEndpoint) Shutdown(ctx context.Context) error { return e.ep.Shutdown(ctx) }

// CloseAfter closes the endpoint when n more messages have been received, or n since
// its beginning with fromStart: UCXX's close_after_n_recv. It can be set once; n
// must not be less than what was received. A number already reached closes at once.
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
		err = fmt.Errorf("ucx: the endpoint closes already after %d receives", e.closeAfter)
	case n < 0 || at < have:
		err = fmt.Errorf("ucx: cannot close after %d receives, %d have happened", at, have)
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

// count notes a finished receive.
func (e *UCXXEndpoint) count() {
	n := e.received.Add(1)
	e.mu.Lock()
	last := e.closeAfter != 0 && n >= e.closeAfter
	e.mu.Unlock()
	if last {
		_ = e.Close()
	}
}

// resetError is a reset connection that means a closed one.
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

// tagLocks serialise messages of several parts that share one tag.
type tagLocks struct {
	mu   sync.Mutex
	held map[uint64]*tagLock
}

type tagLock struct {
	ch    chan struct{}
	users int
}

// lock waits for a tag's turn and returns how to end it.
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

// Close stops listening and ends handshakes in progress. Accepted endpoints live on.
func (l *UCXXListener) Close() error {
	l.cancel()
	err := l.l.Close()
	l.wg.Wait()
	return err
}
