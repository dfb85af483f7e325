package ucxmux

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"go.millstream.dev/ucx"
)

// amConn is the id of the active messages of conns. A message's header is a kind and the number of the receiving conn;
// a connection request has the secret and the number of the new conn.
const amConn = 0x4c0

const (
	kindConnect = 'K' // secret, number of the dialing end; data: its invitation
	kindAccept  = 'A' // number of the dialing end; data: the number of the other end
	kindRefuse  = 'R' // number of the dialing end: no listener
	kindData    = 'D' // number of the receiving end; data
	kindEnd     = 'E' // number of the receiving end
	kindQuit    = 'Q' // number of the worker that is closed
)

// maxRequests bounds connection requests that are being answered.
const maxRequests = 256

// quitTime bounds the notification of peers at Close.
const quitTime = 200 * time.Millisecond

// Mux is a worker's side of all conns. It is safe for concurrent use.
type Mux struct {
	w          *ucx.Worker
	invitation Invitation // without a secret
	ctx        context.Context
	cancel     context.CancelFunc
	tasks      sync.WaitGroup
	requests   chan struct{} // capacity maxRequests: full while that many are being answered

	mu        sync.Mutex
	closed    bool                             // guarded by mu, like all below
	peers     map[string]*peer                 // by the bytes of their addresses
	conns     map[uint64]*Conn                 // by the number of this end
	dialed    map[uint64]*call                 // unanswered connection requests of this side, by the number of this end
	listeners map[[secretSize]byte]func(*Conn) // accept functions by secret
}

// call is a connection request of this side.
type call struct {
	peer   *peer
	answer chan *Conn // capacity 1: nil for a rejection; closed when the peer has gone
}

// Open returns the mux of a worker, which needs active messages. Close it before the worker.
func Open(w *ucx.Worker) (*Mux, error) {
	contact, err := w.Contact()
	if err != nil {
		return nil, err
	}
	if err := w.OpenAM(amConn); err != nil {
		return nil, err
	}
	host, _ := os.Hostname()
	d := &Mux{
		w: w, invitation: Invitation{Version: invitationVersion, Contact: contact, Process: self(),
			Host: host[:min(len(host), maxName)]},
		requests: make(chan struct{}, maxRequests),
		peers:    map[string]*peer{}, conns: map[uint64]*Conn{}, dialed: map[uint64]*call{},
		listeners: map[[secretSize]byte]func(*Conn){},
	}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.tasks.Go(d.receive)
	return d, nil
}

// Listen calls accept for each conn of a process that has the invitation, on a separate goroutine, until stop is
// called.
func (d *Mux) Listen(accept func(*Conn)) (invitation Invitation, stop func()) {
	invitation = d.invitation
	invitation.Secret = newSecret()
	secret, _ := invitation.secret()
	d.mu.Lock()
	d.listeners[secret] = accept
	d.mu.Unlock()
	return invitation, func() {
		d.mu.Lock()
		delete(d.listeners, secret)
		d.mu.Unlock()
	}
}

// Dial connects to the mux of an invitation. name is the name of this side.
func (d *Mux) Dial(ctx context.Context, invitation Invitation, name string) (*Conn, error) {
	secret, err := invitation.secret()
	if err != nil {
		return nil, err
	}
	if err := invitation.Process.alive(); err != nil {
		return nil, err
	}
	p, err := d.peer(invitation)
	if err != nil {
		return nil, err
	}
	mine := d.invitation
	mine.Name = name
	text, err := json.Marshal(&mine)
	if err != nil {
		return nil, err
	}
	c := &call{peer: p, answer: make(chan *Conn, 1)}
	number, err := d.enter(c)
	if err != nil {
		return nil, err
	}
	header := binary.LittleEndian.AppendUint64(append([]byte{kindConnect}, secret[:]...), number)
	if err := p.post(ctx, header, text); err != nil {
		d.leave(number, c)
		return nil, err
	}
	select {
	case l, ok := <-c.answer:
		switch {
		case !ok:
			return nil, fmt.Errorf("%s: %w", p.name(), errPeerGone)
		case l == nil:
			return nil, errors.New("no listener at this address")
		}
		return l, nil
	case <-ctx.Done():
		d.leave(number, c)
		return nil, fmt.Errorf("no answer from %s: %w", p.name(), context.Cause(ctx))
	}
}

var errPeerGone = errors.New("the peer's process has ended")

// begin registers and starts a conn; it returns nil if the peer has gone. d.mu is held: the next message of the peer
// finds the conn.
func (d *Mux) begin(p *peer, local, remote uint64, name string) *Conn {
	if d.closed || p.gone {
		return nil
	}
	l := newLine(d, p, local, remote, name)
	d.conns[local] = l
	l.start()
	return l
}

// enter assigns a number to a connection request.
func (d *Mux) enter(c *call) (uint64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || c.peer.gone {
		return 0, errPeerGone
	}
	n := number()
	d.dialed[n] = c
	return n, nil
}

// leave cancels a connection request, whose answer may have arrived at the same time.
func (d *Mux) leave(n uint64, c *call) {
	d.mu.Lock()
	delete(d.dialed, n)
	d.mu.Unlock()
	select {
	case l := <-c.answer:
		if l != nil {
			_ = l.Close()
		}
	default:
	}
}

// number returns a random number other than 0.
func number() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:]) | 1
}

// forget removes a conn that has ended on this side.
func (d *Mux) forget(l *Conn) {
	d.mu.Lock()
	delete(d.conns, l.local)
	d.mu.Unlock()
}

// receive processes messages until the mux is closed.
func (d *Mux) receive() {
	for {
		m, err := d.w.RecvAM(d.ctx, amConn)
		if err != nil {
			return
		}
		d.take(m)
	}
}

// take handles a message of an untrusted peer. It does not block.
func (d *Mux) take(m *ucx.AM) {
	h := m.Header
	if len(h) < 1 {
		m.Release()
		return
	}
	if h[0] == kindConnect {
		d.admit(m)
		return
	}
	if len(h) != 9 || m.Len > chunk {
		m.Release()
		return
	}
	b, err := m.Bytes(d.ctx, chunk)
	if err != nil {
		m.Release()
		return
	}
	n := binary.LittleEndian.Uint64(h[1:])
	d.mu.Lock()
	l, c := d.conns[n], d.dialed[n]
	d.mu.Unlock()
	switch kind := h[0]; {
	case kind == kindAccept && c != nil && len(b) == 8:
		d.answer(n, binary.LittleEndian.Uint64(b)|1)
	case kind == kindRefuse && c != nil:
		d.answer(n, 0)
	case kind == kindData && l != nil:
		l.arrive(b)
	case kind == kindEnd && l != nil:
		l.end()
	case kind == kindQuit:
		d.quit(n)
	}
}

// answer completes a connection request of this side, the first time; remote 0 is a rejection.
func (d *Mux) answer(n, remote uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.dialed[n]
	if c == nil {
		return
	}
	delete(d.dialed, n)
	var l *Conn
	if remote != 0 {
		if l = d.begin(c.peer, n, remote, c.peer.name()); l == nil {
			close(c.answer)
			return
		}
	}
	c.answer <- l
}

// admit answers a connection request of a peer.
func (d *Mux) admit(m *ucx.AM) {
	h := m.Header
	if len(h) != 1+secretSize+8 || m.Len > maxInvitation {
		m.Release()
		return
	}
	remote := binary.LittleEndian.Uint64(h[1+secretSize:])
	d.mu.Lock()
	accept, closed := d.listeners[[secretSize]byte(h[1:])], d.closed
	d.mu.Unlock()
	select {
	case d.requests <- struct{}{}:
	default:
		closed = true // dialers retry
	}
	if closed {
		m.Release()
		return
	}
	d.tasks.Go(func() {
		defer func() { <-d.requests }()
		text, err := m.Bytes(d.ctx, maxInvitation)
		if err != nil {
			m.Release()
			return
		}
		invitation, err := ParseInvitation(text)
		if err != nil {
			return
		}
		d.connect(invitation, remote, accept)
	})
}

// connect makes the conn of a connection request. The address of a peer without the secret is not passed to UCX, which
// does not validate it.
func (d *Mux) connect(invitation Invitation, remote uint64, accept func(*Conn)) {
	if accept == nil {
		d.mu.Lock()
		p := d.peers[string(invitation.Contact.Address)]
		d.mu.Unlock()
		if p != nil {
			_ = p.send(d.ctx, kindRefuse, remote, nil)
		}
		return
	}
	p, err := d.peer(invitation)
	if err != nil {
		return // the dialer times out
	}
	local := number()
	d.mu.Lock()
	l := d.begin(p, local, remote, invitation.Name)
	d.mu.Unlock()
	if l == nil {
		return
	}
	if err := p.send(d.ctx, kindAccept, remote, binary.LittleEndian.AppendUint64(nil, local)); err != nil {
		_ = l.Close()
		return
	}
	accept(l)
}

// quit handles the close of a peer's mux.
func (d *Mux) quit(mark uint64) {
	d.mu.Lock()
	var gone *peer
	for _, p := range d.peers {
		if p.invitation.mark() == mark {
			gone = p
		}
	}
	d.mu.Unlock()
	if gone != nil {
		go d.lost(gone) // blocks in UCX
	}
}

// Close ends all conns and notifies the peers.
func (d *Mux) Close() {
	d.mu.Lock()
	d.closed = true
	peers := make([]*peer, 0, len(d.peers))
	for _, p := range d.peers {
		peers = append(peers, p)
	}
	conns := make([]*Conn, 0, len(d.conns))
	for _, l := range d.conns {
		conns = append(conns, l)
	}
	d.mu.Unlock()
	for _, l := range conns {
		_ = l.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), quitTime)
	defer cancel()
	for _, p := range peers {
		_ = p.notifyClose(ctx) // a peer that is not notified has gone, or sees this process end
		d.lost(p)
	}
	d.cancel()
	d.tasks.Wait()
}
