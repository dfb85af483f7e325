package ucxdoor

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

// amLine is the id of the active messages of lines. A message's header is a kind and the number of the line that it is
// for; a knock's has the secret and the number of the line that is to be.
const amLine = 0x4c0

const (
	kindKnock  = 'K' // secret, number of the knocking end; data: its card
	kindAccept = 'A' // number of the knocking end; data: the number of the other end
	kindRefuse = 'R' // number of the knocking end: nobody listens
	kindData   = 'D' // number of the receiving end; data
	kindEnd    = 'E' // number of the receiving end
	kindQuit   = 'Q' // number of the worker that is closed
)

// maxKnocks bounds knocks that are being answered.
const maxKnocks = 256

// quitTime bounds the last words of a door.
const quitTime = 200 * time.Millisecond

// Door is a worker's side of all lines. Any goroutine may use it.
type Door struct {
	w      *ucx.Worker
	card   Card // without a secret
	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup
	knocks chan struct{} // capacity maxKnocks: full while so many are being answered

	mu        sync.Mutex
	closed    bool                             // guarded by mu, like all below
	peers     map[string]*peer                 // by the bytes of their addresses
	lines     map[uint64]*Line                 // by the number of this end
	dialled   map[uint64]*call                 // knocks of this side without an answer, by the number of this end
	listeners map[[secretSize]byte]func(*Line) // who takes lines
}

// call is a knock of this side.
type call struct {
	peer   *peer
	answer chan *Line // capacity 1: nil for a refusal; closed when the peer is gone
}

// Open makes the door of a worker, which needs active messages. Close it before the worker.
func Open(w *ucx.Worker) (*Door, error) {
	contact, err := w.Contact()
	if err != nil {
		return nil, err
	}
	if err := w.OpenAM(amLine); err != nil {
		return nil, err
	}
	host, _ := os.Hostname()
	d := &Door{
		w: w, card: Card{Version: cardVersion, Contact: contact, Process: self(), Host: host[:min(len(host), maxName)]},
		knocks: make(chan struct{}, maxKnocks),
		peers:  map[string]*peer{}, lines: map[uint64]*Line{}, dialled: map[uint64]*call{},
		listeners: map[[secretSize]byte]func(*Line){},
	}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.tasks.Go(d.receive)
	return d, nil
}

// Listen gives the lines of those who have the card to accept, each in a goroutine of its own, until stop is called.
func (d *Door) Listen(accept func(*Line)) (card Card, stop func()) {
	card = d.card
	card.Secret = newSecret()
	secret, _ := card.secret()
	d.mu.Lock()
	d.listeners[secret] = accept
	d.mu.Unlock()
	return card, func() {
		d.mu.Lock()
		delete(d.listeners, secret)
		d.mu.Unlock()
	}
}

// Dial knocks at the door that a card is of. name is what this side is called.
func (d *Door) Dial(ctx context.Context, card Card, name string) (*Line, error) {
	secret, err := card.secret()
	if err != nil {
		return nil, err
	}
	if err := card.Process.alive(); err != nil {
		return nil, err
	}
	p, err := d.peer(card)
	if err != nil {
		return nil, err
	}
	mine := d.card
	mine.Name = name
	text, err := json.Marshal(&mine)
	if err != nil {
		return nil, err
	}
	c := &call{peer: p, answer: make(chan *Line, 1)}
	number, err := d.enter(c)
	if err != nil {
		return nil, err
	}
	header := binary.LittleEndian.AppendUint64(append([]byte{kindKnock}, secret[:]...), number)
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
			return nil, errors.New("nobody listens there any more")
		}
		return l, nil
	case <-ctx.Done():
		d.leave(number, c)
		return nil, fmt.Errorf("%s does not answer: %w", p.name(), context.Cause(ctx))
	}
}

var errPeerGone = errors.New("the process at the other end is gone")

// begin enters a line and lets it run; nil if there is nobody for it any more. d.mu is held: what the peer sends next
// finds the line.
func (d *Door) begin(p *peer, local, remote uint64, name string) *Line {
	if d.closed || p.gone {
		return nil
	}
	l := newLine(d, p, local, remote, name)
	d.lines[local] = l
	l.start()
	return l
}

// enter gives a knock its number.
func (d *Door) enter(c *call) (uint64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || c.peer.gone {
		return 0, errPeerGone
	}
	n := number()
	d.dialled[n] = c
	return n, nil
}

// leave gives up a knock, whose answer may have come in the same moment.
func (d *Door) leave(n uint64, c *call) {
	d.mu.Lock()
	delete(d.dialled, n)
	d.mu.Unlock()
	select {
	case l := <-c.answer:
		if l != nil {
			_ = l.Close()
		}
	default:
	}
}

// number is one that nobody guesses, and not 0.
func number() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:]) | 1
}

// forget drops a line that has ended on this side.
func (d *Door) forget(l *Line) {
	d.mu.Lock()
	delete(d.lines, l.local)
	d.mu.Unlock()
}

// receive takes in messages until the door is closed.
func (d *Door) receive() {
	for {
		m, err := d.w.RecvAM(d.ctx, amLine)
		if err != nil {
			return
		}
		d.take(m)
	}
}

// take handles a message, which may come from anybody. It does not wait.
func (d *Door) take(m *ucx.AM) {
	h := m.Header
	if len(h) < 1 {
		m.Release()
		return
	}
	if h[0] == kindKnock {
		d.knock(m)
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
	l, c := d.lines[n], d.dialled[n]
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

// answer ends a knock of this side, the first time; remote 0 is a refusal.
func (d *Door) answer(n, remote uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.dialled[n]
	if c == nil {
		return
	}
	delete(d.dialled, n)
	var l *Line
	if remote != 0 {
		if l = d.begin(c.peer, n, remote, c.peer.name()); l == nil {
			close(c.answer)
			return
		}
	}
	c.answer <- l
}

// knock answers somebody else's knock.
func (d *Door) knock(m *ucx.AM) {
	h := m.Header
	if len(h) != 1+secretSize+8 || m.Len > maxCard {
		m.Release()
		return
	}
	remote := binary.LittleEndian.Uint64(h[1+secretSize:])
	d.mu.Lock()
	accept, closed := d.listeners[[secretSize]byte(h[1:])], d.closed
	d.mu.Unlock()
	select {
	case d.knocks <- struct{}{}:
	default:
		closed = true // those who knock do so again
	}
	if closed {
		m.Release()
		return
	}
	d.tasks.Go(func() {
		defer func() { <-d.knocks }()
		text, err := m.Bytes(d.ctx, maxCard)
		if err != nil {
			m.Release()
			return
		}
		card, err := ParseCard(text)
		if err != nil {
			return
		}
		d.welcome(card, remote, accept)
	})
}

// welcome makes the line of a knock. An address of somebody without the secret is not handed to UCX, which trusts it.
func (d *Door) welcome(card Card, remote uint64, accept func(*Line)) {
	if accept == nil {
		d.mu.Lock()
		p := d.peers[string(card.Contact.Address)]
		d.mu.Unlock()
		if p != nil {
			_ = p.send(d.ctx, kindRefuse, remote, nil)
		}
		return
	}
	p, err := d.peer(card)
	if err != nil {
		return // the other side's time runs out
	}
	local := number()
	d.mu.Lock()
	l := d.begin(p, local, remote, card.Name)
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

// quit is the end of a peer's door.
func (d *Door) quit(mark uint64) {
	d.mu.Lock()
	var gone *peer
	for _, p := range d.peers {
		if p.card.mark() == mark {
			gone = p
		}
	}
	d.mu.Unlock()
	if gone != nil {
		go d.lost(gone) // it waits for UCX
	}
}

// Close ends all lines and tells the peers.
func (d *Door) Close() {
	d.mu.Lock()
	d.closed = true
	peers := make([]*peer, 0, len(d.peers))
	for _, p := range d.peers {
		peers = append(peers, p)
	}
	lines := make([]*Line, 0, len(d.lines))
	for _, l := range d.lines {
		lines = append(lines, l)
	}
	d.mu.Unlock()
	for _, l := range lines {
		_ = l.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), quitTime)
	defer cancel()
	for _, p := range peers {
		_ = p.farewell(ctx) // who does not hear of it has gone, or sees this process end
		d.lost(p)
	}
	d.cancel()
	d.tasks.Wait()
}
