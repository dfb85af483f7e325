package collective

import (
	"context"
	"sync"

	"go.millstream.dev/internal/collective/transport"
)

// p2p matches the Sends and Recvs of one rank. A goroutine for each rank that was ever sent to or received from takes
// that rank's envelopes.
type p2p struct {
	g      *Group
	ctx    context.Context
	cancel context.CancelFunc
	mu     sync.Mutex // guards peers, and what is in them
	peers  []*pen
	closed bool
	wg     sync.WaitGroup
}

// pen is what is known of one other rank.
type pen struct {
	rank    int
	arrived map[uint64][]envelope
	posted  map[uint64][]*post
	free    chan uint8 // slots for large messages to it
	answers [slots]chan envelope
	err     error
}

// post is a Recv that waits. Who takes it out of posted finishes it.
type post struct {
	buf  memory
	done chan struct{}
	n    int
	err  error
}

func (p *post) finish(n int, err error) {
	p.n, p.err = n, err
	close(p.done)
}

func (m *p2p) init(g *Group) {
	m.g = g
	m.peers = make([]*pen, len(g.ranks))
	m.ctx, m.cancel = context.WithCancel(context.Background())
}

// close ends all readers and what waits.
func (m *p2p) close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.cancel()
	m.wg.Wait()
	for _, p := range m.peers {
		if p != nil {
			m.fail(p, ErrClosed)
		}
	}
}

// peer returns what is known of a rank, and starts its reader the first time.
func (m *p2p) peer(rank int) (*pen, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	p := m.peers[rank]
	if p == nil {
		p = &pen{rank: rank, arrived: map[uint64][]envelope{}, posted: map[uint64][]*post{},
			free: make(chan uint8, slots)}
		for i := range slots {
			p.free <- uint8(i)
			p.answers[i] = make(chan envelope, 1)
		}
		m.peers[rank] = p
		m.wg.Add(1)
		go m.read(p)
	}
	return p, nil
}

// read takes the envelopes of one rank until the group ends.
func (m *p2p) read(p *pen) {
	defer m.wg.Done()
	t, from := m.g.hub.t, m.g.ranks[p.rank]
	buf := make([]byte, envelopeLen+eagerMax)
	for {
		n, err := t.Recv(m.ctx, from, m.g.channel(forEnvelopes), buf)
		if err == nil {
			var e envelope
			if e, err = parseEnvelope(buf[:n]); err == nil {
				m.take(p, e)
				continue
			}
			m.g.hub.fail(&RankError{Rank: from, Reason: "sent what is no message: " + err.Error(), Err: err})
		}
		m.fail(p, m.g.hub.receiveError(err))
		return
	}
}

// take handles one envelope. Its data is read's buffer.
func (m *p2p) take(p *pen, e envelope) {
	if e.kind == envGo || e.kind == envNo {
		select {
		case p.answers[e.slot] <- e:
		default: // an answer that nobody waits for
		}
		return
	}
	m.mu.Lock()
	waiting := p.posted[e.tag]
	if len(waiting) == 0 {
		e.data = append([]byte(nil), e.data...)
		p.arrived[e.tag] = append(p.arrived[e.tag], e)
		m.mu.Unlock()
		return
	}
	w := waiting[0]
	if len(waiting) == 1 {
		delete(p.posted, e.tag)
	} else {
		p.posted[e.tag] = waiting[1:]
	}
	if e.kind == envAsk {
		m.wg.Add(1)
	}
	m.mu.Unlock()
	if e.kind == envEager {
		w.finish(m.open(p, e, w.buf))
		return
	}
	go func() { // the reader must go on
		defer m.wg.Done()
		w.finish(m.open(p, e, w.buf))
	}()
}

// open puts the message of an envelope into memory, fetching it if need be.
func (m *p2p) open(p *pen, e envelope, buf memory) (int, error) {
	var short error
	if e.length > uint64(buf.len()) {
		short = &TruncatedError{From: p.rank, To: m.g.rank, Tag: e.tag, Have: buf.len(), Want: int(e.length)}
	}
	if e.kind == envEager {
		if short != nil {
			return 0, short
		}
		return buf.put(m.ctx, e.data)
	}
	t, from := m.g.hub.t, m.g.ranks[p.rank]
	answer := envelope{kind: envGo, slot: e.slot, tag: e.tag, length: e.length}
	if short != nil {
		answer.kind, answer.length = envNo, uint64(buf.len())
	}
	var got transport.Pending
	if short == nil {
		got = buf.startRecv(m.ctx, t, from, m.g.channel(forPayload|uint64(e.slot)), int(e.length))
	}
	if err := t.Send(m.ctx, from, m.g.channel(forEnvelopes), answer.append(nil)); err != nil {
		if got != nil {
			_, _ = got.Wait(transport.Ended)
		}
		return 0, m.broken(from, err)
	}
	if short != nil {
		return 0, short
	}
	n, err := got.Wait(m.ctx)
	if err != nil {
		return 0, m.broken(from, err)
	}
	return n, nil
}

// broken is a transfer between two ranks that failed in the middle: the end of the group, unless it is closed.
func (m *p2p) broken(rank int, err error) error {
	if m.ctx.Err() != nil {
		return ErrClosed
	}
	return m.g.hub.explain(context.Background(), &opError{rank, err})
}

// fail ends all receives of a rank, now and later.
func (m *p2p) fail(p *pen, err error) {
	if m.ctx.Err() != nil && m.g.hub.err() == nil {
		err = ErrClosed
	}
	m.mu.Lock()
	if p.err == nil {
		p.err = err
	}
	posted := p.posted
	p.posted = map[uint64][]*post{}
	m.mu.Unlock()
	for _, list := range posted {
		for _, w := range list {
			w.finish(0, err)
		}
	}
}

// recv posts a receive and returns how to wait for it.
func (m *p2p) recv(ctx context.Context, from int, tag uint64, buf memory) func() (int, error) {
	failed := func(err error) func() (int, error) { return func() (int, error) { return 0, err } }
	if err := m.g.checkPeer(from); err != nil {
		return failed(err)
	}
	p, err := m.peer(from)
	if err != nil {
		return failed(err)
	}
	w := &post{buf: buf, done: make(chan struct{})}
	m.mu.Lock()
	switch list := p.arrived[tag]; {
	case len(list) > 0:
		e := list[0]
		if len(list) == 1 {
			delete(p.arrived, tag)
		} else {
			p.arrived[tag] = list[1:]
		}
		if m.closed {
			m.mu.Unlock()
			return failed(ErrClosed)
		}
		m.wg.Add(1)
		m.mu.Unlock()
		go func() { // so that a context that ends can be heeded
			defer m.wg.Done()
			w.finish(m.open(p, e, buf))
		}()
	case p.err != nil:
		err := p.err
		m.mu.Unlock()
		return failed(err)
	default:
		p.posted[tag] = append(p.posted[tag], w)
		m.mu.Unlock()
	}
	return func() (int, error) { return m.await(ctx, p, tag, w) }
}

// await waits for a receive. One that nothing has come for is taken back when ctx ends; otherwise it ends with the
// group.
func (m *p2p) await(ctx context.Context, p *pen, tag uint64, w *post) (int, error) {
	select {
	case <-w.done:
		return w.n, w.err
	case <-ctx.Done():
	}
	m.mu.Lock()
	for i, q := range p.posted[tag] {
		if q == w {
			p.posted[tag] = append(p.posted[tag][:i:i], p.posted[tag][i+1:]...)
			m.mu.Unlock()
			return 0, context.Cause(ctx)
		}
	}
	m.mu.Unlock()
	select {
	case <-w.done:
		return w.n, w.err
	default:
	}
	err := m.g.hub.explain(ctx, context.Cause(ctx))
	<-w.done // nobody writes to its memory any more
	return 0, err
}

// send begins a message and returns how to wait for its end.
func (m *p2p) send(ctx context.Context, to int, tag uint64, b memory) func() error {
	failed := func(err error) func() error { return func() error { return err } }
	if err := m.g.checkPeer(to); err != nil {
		return failed(err)
	}
	t, rank, ch := m.g.hub.t, m.g.ranks[to], m.g.channel(forEnvelopes)
	e := envelope{kind: envEager, tag: tag, length: uint64(b.len())}
	if b.len() <= eagerMax {
		var err error
		if e.data, err = b.get(ctx); err != nil {
			return failed(err)
		}
		sent := t.StartSend(rank, ch, e.append(make([]byte, 0, envelopeLen+b.len())))
		return func() error { return m.sent(ctx, rank, sent) }
	}
	p, err := m.peer(to)
	if err != nil {
		return failed(err)
	}
	select {
	case e.slot = <-p.free:
	case <-ctx.Done():
		return failed(context.Cause(ctx))
	case <-m.g.hub.done:
		return failed(m.g.hub.err())
	case <-m.ctx.Done():
		return failed(ErrClosed)
	}
	e.kind = envAsk
	asked := t.StartSend(rank, ch, e.append(nil))
	return func() error {
		if err := m.sent(ctx, rank, asked); err != nil {
			return err
		}
		select {
		case a := <-p.answers[e.slot]:
			defer func() { p.free <- e.slot }()
			if a.kind == envNo {
				return &TruncatedError{From: m.g.rank, To: to, Tag: tag, Have: int(a.length), Want: b.len()}
			}
			return m.sent(ctx, rank, b.startSend(ctx, t, rank, m.g.channel(forPayload|uint64(e.slot))))
		case <-ctx.Done():
			return m.g.hub.explain(ctx, context.Cause(ctx))
		case <-m.g.hub.done:
			return m.g.hub.err()
		case <-m.ctx.Done():
			return ErrClosed
		}
	}
}

func (m *p2p) sent(ctx context.Context, rank int, s transport.Pending) error {
	if _, err := s.Wait(ctx); err != nil {
		return m.g.hub.explain(ctx, &opError{rank, err})
	}
	return nil
}
