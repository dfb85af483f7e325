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

// A lifeline is the Unix or TCP connection over which two Millstream workers found
// each other. It stays open as long as their endpoints: its end reports the peer's
// death at once (UCX's own keepalive takes 20 s, and never notices on shared memory
// while a large send is pending), and it carries the notices below. Payload never
// goes over it.
type lifeline struct {
	conn   net.Conn
	ep     *Endpoint
	local  uint64 // this end's number; the peer's control messages carry it
	remote uint64 // the peer's

	features uint32 // that both sides have
	stream   *Conn  // net.Conn over the endpoint; guarded by Worker.mu

	mu      sync.Mutex // serialises writes; held across a write with a deadline only
	acked   chan struct{}
	over    chan struct{} // closed by the reader at its end
	ended   atomic.Bool   // the peer has hung up
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
	noticeAck   = 'K' // the in-band farewell has arrived: everything before it has, too
	noticeAbort = 'A' // the sender force-closed its endpoint
)

// writeTimeout bounds a notice: a peer that does not read 64 one-byte notices is as good as dead.
const writeTimeout = time.Second

// Features a side announces in its handshake.
const (
	featureFarewell = 1 // answers an in-band farewell (active messages are on)
	featureFrames   = 2 // takes messages of frames
	featureKinds    = 4 // takes the ids that tell of the memory of a message
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
		l.ep.on(epstate.LineEnded, ErrConnectionReset)
		_ = l.conn.Close()
		l.ep.w.peers.dropLine(l)
		close(l.over)
		return
	}
}

func (l *lifeline) notice(c byte) {
	switch c {
	case noticeBye:
		l.ep.on(epstate.PeerFarewell, nil)
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

// farewell makes sure that what was sent on the endpoint has arrived: an in-band
// message behind everything else is acknowledged by the peer's worker. Without it a
// closing socket could discard what the peer has not read yet.
func (l *lifeline) farewell(ctx context.Context, ep *Endpoint) error {
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

// close ends the lifeline of an endpoint that was closed here, or whose peer failed.
func (l *lifeline) close() { _ = l.conn.Close() }

// hangupWait is how long a side that aborts waits for the other to hang up.
const hangupWait = 100 * time.Millisecond

// abort notifies a live peer, which would wait for ever otherwise, and leaves the line to
// its reader until the peer hangs up: from then on the peer reads no memory of ours.
func (l *lifeline) abort() {
	_ = l.write(noticeAbort)
	if c, ok := l.conn.(interface{ CloseWrite() error }); ok && c.CloseWrite() == nil {
		_ = l.conn.SetReadDeadline(time.Now().Add(hangupWait))
		return
	}
	_ = l.conn.Close()
}

// awaitHangup waits for the end of an aborted line. A peer that is stopped does not
// hang up; it does not read memory either.
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
		if l, ep := t.line(binary.LittleEndian.Uint64(m.Header[1:])); ep != nil {
			ep.on(epstate.PeerFarewell, nil)
			go l.write(noticeAck)
		}
	}
	if m.event != nil {
		go m.Release()
	}
}

// UCX pairs the endpoints that two workers make from each other's addresses by the
// order of their creation: the third that A makes to B belongs to the third that B
// makes to A, whatever they were made for. Messages that name the sender's endpoint
// and lanes that connect endpoints (tcp among them) then depend on the other one of
// the pair: handshakes that run side by side and end up crosswise lose messages when
// one of them is closed. So two workers take turns: for each lifeline both ends are
// made before the next lifeline's are.
//
// The worker with the smaller number leads. It announces how many endpoints it has made
// so far, the other one makes its own and answers with its count before that, and the
// leader follows. A side that is behind, since a handshake broke off or an endpoint
// was made on one side only, catches up with unused endpoints.
type pairing struct {
	turn chan struct{} // capacity 1: empty while someone makes endpoints
	made uint64        // endpoints made so far; owner: who has the turn
}

// maxCatchUp bounds what a peer's count can make this side create.
const maxCatchUp = 1024

// owner returns the number of the worker that an address belongs to, which UCX puts
// behind the first byte of every kind of address; 0 if it is too short to be one.
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

// makeOne runs create and counts. The turn is taken.
func (p *pairing) makeOne(create func() (*Endpoint, error)) (*Endpoint, error) {
	ep, err := create()
	switch {
	case err == nil:
		p.made++
	case errors.Is(err, ErrExceedsLimit):
		err = fmt.Errorf("%w: UCX lets two workers make 65535 endpoints with each other in their lives while streams "+
			"are on; make a new worker, or leave Stream out of Config.Features", err)
	}
	return ep, err
}

// catchUp makes unused endpoints until n have been made. They stay until
// the worker is closed: closing one would disturb what it is paired with.
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

// paired makes this side's endpoint of a handshake when it is its turn.
func (w *Worker) paired(ctx context.Context, conn net.Conn, mine, theirs *hello, addr WorkerAddress,
	create func() (*Endpoint, error)) (*Endpoint, error) {
	me, other := mine.contact.Address.owner(), theirs.contact.Address.owner()
	if me == other {
		return create() // UCX connects an endpoint to the own worker with itself
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
