package ucxdoor

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/fnv"

	"go.millstream.dev/ucx"
)

// peer is another worker with a door, and the one endpoint to it.
type peer struct {
	door *Door
	card Card
	made chan struct{} // closed when ep or err is set
	ep   *ucx.Endpoint
	err  error
	gone bool // guarded by Door.mu
	stop context.CancelFunc
}

// peer returns the one that a card is of, with its endpoint.
func (d *Door) peer(card Card) (*peer, error) {
	key := string(card.Contact.Address)
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil, errPeerGone
	}
	p := d.peers[key]
	first := p == nil
	if first {
		p = &peer{door: d, card: card, made: make(chan struct{})}
		d.peers[key] = p
	}
	d.mu.Unlock()
	if first {
		p.connect()
	}
	<-p.made
	return p, p.err
}

// connect makes the endpoint and begins to watch the process at its other end.
func (p *peer) connect() {
	d := p.door
	p.ep, p.err = d.w.Connect(d.w.Route(p.card.Contact), &ucx.EndpointConfig{Name: p.name()})
	ctx, cancel := context.WithCancel(d.ctx)
	p.stop = cancel
	close(p.made)
	if p.err != nil {
		d.lost(p)
		return
	}
	p.card.Process.whenGone(ctx, func() { d.lost(p) })
	go func() {
		<-p.ep.Done()
		d.lost(p)
	}()
}

// name is how errors name the peer.
func (p *peer) name() string {
	if p.card.Name != "" {
		return p.card.Name
	}
	return "the UCX worker on " + p.card.Host
}

// mark stands for a worker where its address would be too long.
func (c *Card) mark() uint64 {
	h := fnv.New64a()
	_, _ = h.Write(c.Contact.Address)
	return h.Sum64()
}

// send sends a message and waits until it is out. A context that ends only ends the wait: the endpoint is everybody's.
func (p *peer) send(ctx context.Context, kind byte, number uint64, data []byte) error {
	return p.post(ctx, binary.LittleEndian.AppendUint64([]byte{kind}, number), data)
}

func (p *peer) post(ctx context.Context, header, data []byte) error {
	return p.ep.StartSendAM(amLine, header, ucx.AMOptions{Eager: true}, ucx.Bytes(data)).Wait(ctx)
}

// lost ends everything with a peer. It may be called more than once.
func (d *Door) lost(p *peer) {
	d.mu.Lock()
	if p.gone {
		d.mu.Unlock()
		return
	}
	p.gone = true
	if key := string(p.card.Contact.Address); d.peers[key] == p {
		delete(d.peers, key)
	}
	for n, c := range d.dialled {
		if c.peer == p {
			delete(d.dialled, n)
			close(c.answer)
		}
	}
	var lines []*Line
	for _, l := range d.lines {
		if l.peer == p {
			lines = append(lines, l)
		}
	}
	d.mu.Unlock()
	for _, l := range lines {
		l.end()
	}
	<-p.made
	p.stop()
	if p.ep != nil {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = p.ep.Shutdown(ctx) // by force: nobody is there
	}
}

// farewell tells the peer that this door is closed.
func (p *peer) farewell(ctx context.Context) error {
	<-p.made
	if p.err != nil {
		return p.err
	}
	return errors.Join(p.send(ctx, kindQuit, p.door.card.mark(), nil), p.ep.StartFlush().Wait(ctx))
}
