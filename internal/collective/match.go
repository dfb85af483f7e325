package collective

import (
	"context"
	"sync"

	"go.millstream.dev/internal/collective/transport"
)

// p2p matches the Sends and Recvs of one rank. A goroutine for each other rank in use reads its envelopes.
type p2p struct {
	g      *Group
	ctx    context.Context
	cancel context.CancelFunc
	mu     sync.Mutex // guards peers and their fields
	peers  []*peerState
	closed bool
	wg     sync.WaitGroup
}

// peerState is the state of the messages with one other rank.
type peerState struct {
	rank    int
	arrived map[uint64][]envelope
	posted  map[uint64][]*post
	free    chan uint8 // slots for large messages to the rank
	replies [slots]chan envelope
	err     error
}

// post is a waiting Recv. The goroutine that removes it from posted finishes it.
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
	m.peers = make([]*peerState, len(g.ranks))
	m.ctx, m.cancel = context.WithCancel(context.Background())
}

// close stops all readers and fails all waiting receives.
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

// peer returns the state of a rank, and starts its reader the first time.
func (m *p2p) peer(rank int) (*peerState, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	p := m.peers[rank]
	if p == nil {
		p = &peerState{rank: rank, arrived: map[uint64][]envelope{}, posted: map[uint64][]*post{},
			free: make(chan uint8, slots)}
		for i := range slots {
			p.free <- uint8(i)
			p.replies[i] = make(chan envelope, 1)
		}
		m.peers[rank] = p
		m.wg.Add(1)
		go m.read(p)
	}
	return p, nil
}

// read reads the envelopes of one rank until the group ends.
func (m *p2p) read(p *peerState) {
	defer m.wg.Done()
	t, from := m.g.hub.t, m.g.ranks[p.rank]
	buf := make([]byte, envelopeLen+eagerMax)
	for {
		n, err := t.Recv(m.ctx, from, m.g.channel(forEnvelopes), buf)
		if err == nil {
			var e envelope
			if e, err = parseEnvelope(buf[:n]); err == nil {
				m.handle(p, e)
				continue
			}
			m.g.hub.fail(&RankError{Rank: from, Reason: "invalid message: " + err.Error(), Err: err})
		}
		m.fail(p, m.g.hub.receiveError(err))
		return
	}
}

// handle processes one envelope, whose data is in the buffer of read.
func (m *p2p) handle(p *peerState, e envelope) {
	if e.kind == envAccept || e.kind == envReject {
		select {
		case p.replies[e.slot] <- e:
		default: // the sender no longer waits
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
	if e.kind == envRequest {
		m.wg.Add(1)
	}
	m.mu.Unlock()
	if e.kind == envEager {
		w.finish(m.open(p, e, w.buf))
		return
	}
	go func() { // the reader must not block
		defer m.wg.Done()
		w.finish(m.open(p, e, w.buf))
	}()
}

// open copies the message of an envelope into memory, and receives it first if it is large.
func (m *p2p) open(p *peerState, e envelope, buf memory) (int, error) {
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
	reply := envelope{kind: envAccept, slot: e.slot, tag: e.tag, length: e.length}
	if short != nil {
		reply.kind, reply.length = envReject, uint64(buf.len())
	}
	var got transport.Pending
	if short == nil {
		got = buf.startRecv(m.ctx, t, from, m.g.channel(forPayload|uint64(e.slot)), int(e.length))
	}
	if err := t.Send(m.ctx, from, m.g.channel(forEnvelopes), reply.append(nil)); err != nil {
		if got != nil {
			_, _ = got.Wait(transport.Ended)
		}
		return 0, m.transferError(from, err)
	}
	if short != nil {
		return 0, short
	}
	n, err := got.Wait(m.ctx)
	if err != nil {
		return 0, m.transferError(from, err)
	}
	return n, nil
}

// transferError fails the group after a transfer between two ranks has failed, unless it is closed.
func (m *p2p) transferError(rank int, err error) error {
	if m.ctx.Err() != nil {
		return ErrClosed
	}
	return m.g.hub.explain(context.Background(), &opError{rank, err})
}

// fail fails all receives from a rank, waiting and future ones.
func (m *p2p) fail(p *peerState, err error) {
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

// recv posts a receive and returns a function that waits for it.
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
		go func() { // so that the caller can wait for its context
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

// await waits for a receive. If ctx ends, a receive without a message is withdrawn; otherwise the group fails.
func (m *p2p) await(ctx context.Context, p *peerState, tag uint64, w *post) (int, error) {
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
	<-w.done // its memory is no longer written to
	return 0, err
}

// send starts a message and returns a function that waits for it.
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
		return func() error { return m.waitSent(ctx, rank, sent) }
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
	e.kind = envRequest
	request := t.StartSend(rank, ch, e.append(nil))
	return func() error {
		if err := m.waitSent(ctx, rank, request); err != nil {
			return err
		}
		select {
		case a := <-p.replies[e.slot]:
			defer func() { p.free <- e.slot }()
			if a.kind == envReject {
				return &TruncatedError{From: m.g.rank, To: to, Tag: tag, Have: int(a.length), Want: b.len()}
			}
			return m.waitSent(ctx, rank, b.startSend(ctx, t, rank, m.g.channel(forPayload|uint64(e.slot))))
		case <-ctx.Done():
			return m.g.hub.explain(ctx, context.Cause(ctx))
		case <-m.g.hub.done:
			return m.g.hub.err()
		case <-m.ctx.Done():
			return ErrClosed
		}
	}
}

func (m *p2p) waitSent(ctx context.Context, rank int, s transport.Pending) error {
	if _, err := s.Wait(ctx); err != nil {
		return m.g.hub.explain(ctx, &opError{rank, err})
	}
	return nil
}
