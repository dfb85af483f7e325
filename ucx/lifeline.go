package ucx

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"go.millstream.dev/ucx/internal/epstate"
	"go.millstream.dev/ucx/internal/wire"
)

// A lifeline is the Unix or TCP connection over which two Millstream workers made their handshake. It stays open as
// long as their endpoints: its end reports the peer's death immediately (UCX's own keepalive takes 20 s, and never
// detects it on shared memory while a large send is pending), and it carries the notices below. It carries no payload.
type lifeline struct {
	conn   net.Conn
	ep     *Endpoint
	local  uint64 // this end's number; the peer's control messages carry it
	remote uint64 // the peer's

	features uint32 // supported by both sides
	stream   *Conn  // net.Conn over the endpoint; guarded by Worker.mu

	mu      sync.Mutex // serializes writes; held across a write with a deadline only
	acked   chan struct{}
	over    chan struct{} // closed by the reader at its end
	ended   atomic.Bool   // the peer has closed the lifeline
	ackOnce sync.Once
}

// ErrPeerClosed is returned by operations on an endpoint that its peer closed cleanly. It
// matches [net.ErrClosed] and [io.EOF] with errors.Is.
var ErrPeerClosed error = peerClosedError{}

type peerClosedError struct{}

func (peerClosedError) Error() string { return "ucx: closed by the peer" }
func (peerClosedError) Is(target error) bool {
	return target == net.ErrClosed || target == io.EOF
}

// Notices, one byte each.
const (
	noticeBye   = 'B' // the sender closes cleanly
	noticeAck   = 'K' // the in-band close message has arrived, and everything before it
	noticeAbort = 'A' // the sender force-closed its endpoint
)

// writeTimeout bounds the write of a notice: a peer that does not read 64 one-byte notices is considered dead.
const writeTimeout = time.Second

// Features that a side announces in its handshake.
const (
	featureFarewell = 1 // acknowledges in-band close messages (active messages are enabled)
	featureFrames   = 2 // accepts messages of frames
	featureKinds    = 4 // accepts the ids that carry the kind of memory
)

// run reads notices until the connection ends.
func (l *lifeline) run() {
	var b [64]byte
	for {
		n, err := l.conn.Read(b[:])
		for _, c := range b[:n] {
			l.notice(c)
		}
		if err == nil {
			continue
		}
		l.ackOnce.Do(func() { close(l.acked) })
		l.ended.Store(true)
		l.ep.on(epstate.LifelineEnded, ErrConnectionReset)
		_ = l.conn.Close()
		l.ep.w.peers.dropLine(l)
		close(l.over)
		return
	}
}

func (l *lifeline) notice(c byte) {
	switch c {
	case noticeBye:
		l.ep.on(epstate.PeerClose, nil)
	case noticeAck:
		l.ackOnce.Do(func() { close(l.acked) })
	case noticeAbort:
		l.ep.abort(ErrConnectionReset)
	}
}

func (l *lifeline) write(c byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	_, err := l.conn.Write([]byte{c})
	return err
}

// confirmDelivery makes sure that everything sent on the endpoint has arrived: an in-band message behind all others is
// acknowledged by the peer's worker. Without it a closing socket could discard data that the peer has not read yet.
func (l *lifeline) confirmDelivery(ctx context.Context, ep *Endpoint) error {
	if l.remote != 0 {
		if err := ep.sendAM(ctx, amControl, controlHeader(controlBye, l.remote), AMOptions{Eager: true},
			nil); err != nil {
			return err
		}
		select {
		case <-l.acked:
		case <-ep.done:
		case <-ctx.Done():
			return &OpError{Op: "endpoint close", Peer: ep.peer, Err: ctx.Err()}
		}
	}
	_ = l.write(noticeBye)
	return nil
}

// close closes the lifeline of an endpoint that was closed here, or whose peer failed.
func (l *lifeline) close() { _ = l.conn.Close() }

// hangupWait is how long a side that aborts waits for the other to close the connection.
const hangupWait = 100 * time.Millisecond

// abort notifies a live peer, which would otherwise wait forever, and leaves the lifeline to its reader until the peer
// closes it: from then on the peer reads no memory of this process.
func (l *lifeline) abort() {
	_ = l.write(noticeAbort)
	if c, ok := l.conn.(interface{ CloseWrite() error }); ok && c.CloseWrite() == nil {
		_ = l.conn.SetReadDeadline(time.Now().Add(hangupWait))
		return
	}
	_ = l.conn.Close()
}

// awaitHangup waits for the end of an aborted lifeline. A stopped peer does not close it, but does not read memory
// either.
func (l *lifeline) awaitHangup() {
	t := time.NewTimer(2 * hangupWait)
	defer t.Stop()
	select {
	case <-l.over:
	case <-t.C:
	}
}

// Control messages: kind (1 byte), receiver's number (8 bytes).
const (
	controlBye  = 1
	controlSize = 9
)

func controlHeader(kind byte, number uint64) []byte {
	b := make([]byte, 1, controlSize)
	b[0] = kind
	return binary.LittleEndian.AppendUint64(b, number)
}

// control handles an arrived control message. The token is held.
func (t *endpointTable) control(m *AM) {
	if len(m.Header) == controlSize && m.Header[0] == controlBye {
		if l, ep := t.lifeline(binary.LittleEndian.Uint64(m.Header[1:])); ep != nil {
			ep.on(epstate.PeerClose, nil)
			go l.write(noticeAck)
		}
	}
	if m.event != nil {
		go m.Release()
	}
}

// UCX pairs the endpoints that two workers make from each other's addresses by the order of their creation: the third
// that A makes to B belongs to the third that B makes to A, whatever their purpose. Messages that name the sender's
// endpoint and transports that connect endpoints (tcp among them) then depend on the other endpoint of the pair: if
// concurrent handshakes are paired crosswise, messages are lost when one endpoint is closed. So two workers take turns:
// for each lifeline both ends are made before the next lifeline's are.
//
// The worker with the smaller number leads. It announces how many endpoints it has made so far, the other one makes its
// own and answers with its previous count, and the leader follows. A side that is behind, because a handshake failed or
// an endpoint was made on one side only, catches up with unused endpoints.
type pairing struct {
	turn chan struct{} // capacity 1: empty while endpoints are being made
	made uint64        // endpoints made so far; owner: the goroutine that has the turn
}

// maxCatchUp bounds the endpoints that a peer's count can make this side create.
const maxCatchUp = 1024

// owner returns the number of the worker that an address belongs to, which UCX stores after the first byte of every
// kind of address; 0 if the address is too short.
func (a WorkerAddress) owner() uint64 {
	if len(a) < 9 {
		return 0
	}
	return binary.NativeEndian.Uint64([]byte(a[1:9]))
}

func (p *pairing) take(ctx context.Context) error {
	select {
	case <-p.turn:
		return nil
	case <-ctx.Done():
		return contextError(ctx)
	}
}

func (p *pairing) give() { p.turn <- struct{}{} }

// makeOne runs create and counts. The caller has the turn.
func (p *pairing) makeOne(create func() (*Endpoint, error)) (*Endpoint, error) {
	ep, err := create()
	switch {
	case err == nil:
		p.made++
	case errors.Is(err, ErrExceedsLimit):
		err = fmt.Errorf("%w: UCX limits two workers to 65535 endpoints with each other when streams "+
			"are enabled; create a new worker, or leave Stream out of Config.Features", err)
	}
	return ep, err
}

// catchUp makes unused endpoints until n have been made. They are kept until the worker is closed: closing one would
// disturb the endpoint that it is paired with.
func (p *pairing) catchUp(w *Worker, n uint64, addr WorkerAddress) error {
	if n > p.made+maxCatchUp {
		return fmt.Errorf("ucx: the peer has made %d endpoints to this worker, which has made %d to the peer", n,
			p.made)
	}
	for p.made < n {
		_, err := p.makeOne(func() (*Endpoint, error) {
			return w.peers.connect(addr, "unused endpoint", false, nil)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// createPaired creates this side's endpoint of a handshake in its turn.
func (w *Worker) createPaired(ctx context.Context, conn net.Conn, mine, theirs *hello, addr WorkerAddress,
	create func() (*Endpoint, error)) (*Endpoint, error) {
	me, other := mine.contact.Address.owner(), theirs.contact.Address.owner()
	if me == other {
		return create() // UCX connects an endpoint to its own worker with itself
	}
	p := w.peers.pairing(other)
	defer deadline(ctx, conn)()
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	side := p.follow
	if me < other {
		side = p.lead
	}
	ep, err := side(ctx, w, conn, addr, create)
	return ep, handshakeError(ctx, err)
}

func (p *pairing) lead(ctx context.Context, w *Worker, conn net.Conn, addr WorkerAddress,
	create func() (*Endpoint, error)) (*Endpoint, error) {
	if err := p.take(ctx); err != nil {
		return nil, err
	}
	defer p.give()
	if err := wire.WriteCount(conn, 'G', p.made); err != nil {
		return nil, err
	}
	n, err := wire.ReadCount(conn, 'P')
	if err != nil {
		return nil, err
	}
	if err := p.catchUp(w, n, addr); err != nil {
		return nil, err
	}
	return p.makeOne(create)
}

func (p *pairing) follow(ctx context.Context, w *Worker, conn net.Conn, addr WorkerAddress,
	create func() (*Endpoint, error)) (*Endpoint, error) {
	n, err := wire.ReadCount(conn, 'G')
	if err != nil {
		return nil, err
	}
	if err := p.take(ctx); err != nil {
		return nil, err
	}
	defer p.give()
	if err := p.catchUp(w, n, addr); err != nil {
		return nil, err
	}
	before := p.made
	ep, err := p.makeOne(create)
	if err != nil {
		return nil, err
	}
	if err := wire.WriteCount(conn, 'P', before); err != nil {
		ep.abort(errCanceled)
		_ = ep.Close()
		return nil, err
	}
	return ep, nil
}
