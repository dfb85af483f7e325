package ucxmux

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/fnv"

	"go.millstream.dev/ucx"
)

// peer is another worker with a mux, and the only endpoint to it.
type peer struct {
	mux        *Mux
	invitation Invitation
	made       chan struct{} // closed when ep or err is set
	ep         *ucx.Endpoint
	err        error
	gone       bool // guarded by Mux.mu
	stop       context.CancelFunc
}

// peer returns the peer of an invitation, with its endpoint.
func (d *Mux) peer(invitation Invitation) (*peer, error) {
	key := string(invitation.Contact.Address)
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil, errPeerGone
	}
	p := d.peers[key]
	first := p == nil
	if first {
		p = &peer{mux: d, invitation: invitation, made: make(chan struct{})}
		d.peers[key] = p
	}
	d.mu.Unlock()
	if first {
		p.connect()
	}
	<-p.made
	return p, p.err
}

// connect makes the endpoint and starts watching the process at its other end.
func (p *peer) connect() {
	d := p.mux
	p.ep, p.err = d.w.Connect(d.w.Route(p.invitation.Contact), &ucx.EndpointConfig{Name: p.name()})
	ctx, cancel := context.WithCancel(d.ctx)
	p.stop = cancel
	close(p.made)
	if p.err != nil {
		d.lost(p)
		return
	}
	p.invitation.Process.whenGone(ctx, func() { d.lost(p) })
	go func() {
		<-p.ep.Done()
		d.lost(p)
	}()
}

// name returns the name of the peer in errors.
func (p *peer) name() string {
	if p.invitation.Name != "" {
		return p.invitation.Name
	}
	return "the UCX worker on " + p.invitation.Host
}

// mark returns a hash of a worker's address, which would be too long for a header.
func (c *Invitation) mark() uint64 {
	h := fnv.New64a()
	_, _ = h.Write(c.Contact.Address)
	return h.Sum64()
}

// send sends a message and waits until it is sent. A context that ends only ends the wait: the endpoint is shared.
func (p *peer) send(ctx context.Context, kind byte, number uint64, data []byte) error {
	return p.post(ctx, binary.LittleEndian.AppendUint64([]byte{kind}, number), data)
}

func (p *peer) post(ctx context.Context, header, data []byte) error {
	return p.ep.StartSendAM(amConn, header, ucx.AMOptions{Eager: true}, ucx.Bytes(data)).Wait(ctx)
}

// lost ends everything with a peer. It may be called more than once.
func (d *Mux) lost(p *peer) {
	d.mu.Lock()
	if p.gone {
		d.mu.Unlock()
		return
	}
	p.gone = true
	if key := string(p.invitation.Contact.Address); d.peers[key] == p {
		delete(d.peers, key)
	}
	for n, c := range d.dialed {
		if c.peer == p {
			delete(d.dialed, n)
			close(c.answer)
		}
	}
	var conns []*Conn
	for _, l := range d.conns {
		if l.peer == p {
			conns = append(conns, l)
		}
	}
	d.mu.Unlock()
	for _, l := range conns {
		l.end()
	}
	<-p.made
	p.stop()
	if p.ep != nil {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = p.ep.Shutdown(ctx) // by force: the peer has gone
	}
}

// notifyClose notifies the peer that this mux is closed.
func (p *peer) notifyClose(ctx context.Context) error {
	<-p.made
	if p.err != nil {
		return p.err
	}
	return errors.Join(p.send(ctx, kindQuit, p.mux.invitation.mark(), nil), p.ep.StartFlush().Wait(ctx))
}
