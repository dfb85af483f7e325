package ucx

import (
	"errors"
	"maps"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"go.millstream.dev/ucx/internal/epstate"
	"go.millstream.dev/ucx/internal/ucp"
)

// endpointTable knows the endpoints of a worker, by UCX's handles and by the numbers that travel in messages.
type endpointTable struct {
	w *Worker

	mu       sync.Mutex // guards the fields below; never held across a C call
	eps      map[uint64]*Endpoint
	handles  map[unsafe.Pointer]*Endpoint // by ucp_ep_h, for reply endpoints
	dead     []*ucp.EP                    // C halves of endpoints that have gone, to be freed
	lines    map[uint64]*lifeline         // by this end's number
	pairings map[uint64]*pairing          // by the other worker's number
	nextID   uint64
	closed   bool
}

func (t *endpointTable) init(w *Worker) {
	t.w = w
	t.eps, t.handles = map[uint64]*Endpoint{}, map[unsafe.Pointer]*Endpoint{}
	t.lines, t.pairings = map[uint64]*lifeline{}, map[uint64]*pairing{}
}

// shut lets no more endpoints in, and returns those there are.
func (t *endpointTable) shut() []*Endpoint {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	return slices.Collect(maps.Values(t.eps))
}

// discard gives back what arrived for endpoints and was never taken.
func (t *endpointTable) discard() {
	t.mu.Lock()
	eps := slices.Collect(maps.Values(t.eps))
	eps = slices.AppendSeq(eps, maps.Values(t.handles)) // among them those that only UCX made
	t.mu.Unlock()
	for _, ep := range eps {
		ep.discardParts()
	}
}

// byID returns an endpoint by its number, or nil.
func (t *endpointTable) byID(id uint64) *Endpoint {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.eps[id]
}

// byHandle returns an endpoint by UCX's handle, or nil.
func (t *endpointTable) byHandle(h unsafe.Pointer) *Endpoint {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.handles[h]
}

// count returns how many endpoints are open.
func (t *endpointTable) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.eps)
}

// addLine makes a lifeline known, before the peer can send anything that names it.
func (t *endpointTable) addLine(l *lifeline) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return ErrClosed
	}
	t.lines[l.local] = l
	return nil
}

func (t *endpointTable) dropLine(l *lifeline) {
	t.mu.Lock()
	delete(t.lines, l.local)
	t.mu.Unlock()
}

// line returns a lifeline and its endpoint by this end's number, or nil.
func (t *endpointTable) line(number uint64) (*lifeline, *Endpoint) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.lines[number]; l != nil {
		return l, l.ep
	}
	return nil, nil
}

// conn returns the connection that belongs to a lifeline, made at the first
// mention: frames may arrive before the user has asked for it.
func (t *endpointTable) conn(number uint64) *Conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.lines[number]
	if l == nil || l.ep == nil {
		return nil
	}
	if l.stream == nil {
		c := &Conn{w: t.w, ep: l.ep, line: l, local: l.conn.LocalAddr(), remote: l.conn.RemoteAddr()}
		c.onSent, c.onDataSent = c.sent, c.dataSent
		l.stream = c
	}
	return l.stream
}

func (t *endpointTable) pairing(owner uint64) *pairing {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.pairings[owner]
	if p == nil {
		p = &pairing{turn: make(chan struct{}, 1)}
		p.turn <- struct{}{}
		t.pairings[owner] = p
	}
	return p
}

func (t *endpointTable) connect(addr WorkerAddress, cfg *EndpointConfig, line *lifeline) (*Endpoint, error) {
	if err := addr.check(); err != nil {
		return nil, &OpError{Op: "connect", Err: err}
	}
	name := "worker address " + addr.short()
	if cfg != nil && cfg.Name != "" {
		name = cfg.Name
	}
	// UCX reads the address without a length; a padded copy keeps a cut-off one from
	// being read past its end.
	buf := ucp.Malloc(len(addr) + addressPadding)
	defer ucp.FreeMemory(buf)
	b := unsafe.Slice((*byte)(buf), len(addr)+addressPadding)
	clear(b[copy(b, addr):])
	return t.create(byAddress, name, cfg.mode(t.w), line, func(s *ucp.Slot) { s.Buf, s.Arg[0] = uintptr(buf), 0 })
}

const addressPadding = 4096

// create makes the UCX endpoint and enters it.
func (t *endpointTable) create(kind endpointKind, peer string, mode ErrorMode, line *lifeline,
	set func(*ucp.Slot)) (*Endpoint, error) {
	t.freeDead()
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return nil, &OpError{Op: "connect", Peer: peer, Err: ErrClosed}
	}
	t.nextID++
	ep := &Endpoint{w: t.w, id: t.nextID, peer: peer, kind: kind, line: line, done: make(chan struct{})}
	if line != nil {
		line.ep = ep
	}
	t.eps[ep.id] = ep // before creation: its error event may come first
	t.mu.Unlock()
	var c *ucp.EP
	var h unsafe.Pointer
	err := t.w.drv.call("connect", ucp.CallEPCreate, func(s *ucp.Slot) {
		s.Tag = ep.id
		if mode == ErrorPeer {
			s.Arg[1] = 1
		}
		set(s)
	}, func(s *ucp.Slot) { c, h = (*ucp.EP)(foreign(uintptr(s.RTag))), foreign(uintptr(s.RLen)) })
	if err != nil {
		t.forget(ep)
		return nil, &OpError{Op: "connect", Peer: peer, Err: errors.Unwrap(err)}
	}
	runtime.AddCleanup(ep, t.bury, c)
	ep.mu.Lock()
	ep.c = c
	ep.mu.Unlock()
	ep.on(epstate.Create, ErrCanceled) // the worker's Close or the peer's may have ended it while it was made
	t.mu.Lock()
	closed := t.closed
	ep.h = h
	t.handles[h] = ep
	t.mu.Unlock()
	if ep.reason() != nil {
		t.dropHandle(ep)
	}
	if closed {
		ep.abort(ErrClosed) // Close may have passed before it was entered
		return nil, &OpError{Op: "connect", Peer: peer, Err: ErrClosed}
	}
	// A peer that came, sent and left again gets an endpoint all the same, which says
	// so: what it sent is there to be received.
	if f := t.w.ctx.cfg.Events.EndpointOpened; f != nil {
		f(describe(ep))
	}
	return ep, nil
}

func (t *endpointTable) forget(ep *Endpoint) {
	t.mu.Lock()
	delete(t.eps, ep.id)
	t.dropHandleLocked(ep)
	t.mu.Unlock()
}

// dropHandle makes sure that a message with UCX's handle of a dead endpoint, which UCX
// gives to others, is not taken for this one's.
func (t *endpointTable) dropHandle(ep *Endpoint) {
	t.mu.Lock()
	t.dropHandleLocked(ep)
	t.mu.Unlock()
}

func (t *endpointTable) dropHandleLocked(ep *Endpoint) {
	if t.handles[ep.h] == ep {
		delete(t.handles, ep.h)
	}
}

// bury takes the C half of an endpoint that no goroutine and no operation can
// name any more. It is freed with the next endpoint's creation or with the worker.
func (t *endpointTable) bury(c *ucp.EP) {
	t.mu.Lock()
	t.dead = append(t.dead, c)
	t.mu.Unlock()
}

func (t *endpointTable) freeDead() {
	t.mu.Lock()
	dead := t.dead
	t.dead = nil
	t.mu.Unlock()
	for _, c := range dead {
		_ = t.w.drv.internalCall("endpoint free", ucp.CallEPFree,
			func(s *ucp.Slot) { s.Buf = uintptr(unsafe.Pointer(c)) },
			nil)
	}
}

// reply finds the endpoint behind a handle that is not entered: one that is just
// being made, or one of UCX's own. The token is held.
func (t *endpointTable) reply(h unsafe.Pointer) *Endpoint {
	if id := ucp.EPNumber(t.w.drv.c, h); id != 0 {
		if ep := t.byID(id); ep != nil {
			return ep
		}
	}
	return t.borrow(h)
}

// borrow wraps a reply endpoint that UCX made for a peer Millstream has no endpoint
// for. UCX keeps it as long as the worker, so it is remembered. The token is held.
func (t *endpointTable) borrow(h unsafe.Pointer) *Endpoint {
	ep := &Endpoint{w: t.w, c: ucp.BorrowEP(t.w.drv.c, h), peer: "sender of an active message", kind: borrowed,
		state: epstate.Open, done: make(chan struct{})}
	runtime.AddCleanup(ep, t.bury, ep.c)
	t.mu.Lock()
	ep.h = h
	t.handles[h] = ep
	t.mu.Unlock()
	return ep
}
