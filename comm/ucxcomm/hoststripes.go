package ucxcomm

import (
	"context"
	"errors"
	"net"
	"runtime"
	"slices"
	"strconv"
	"sync"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/device/staging"
	"go.millstream.dev/ucx"
)

// Two Millstream programs that share no transport but tcp send large frames in host memory over several TCP
// connections (stripes): one connection of UCX, which a single thread drives, moves a third of what the loopback
// interface can (docs/adr/0028). The first such frame makes the sides open them, and is itself sent by UCX, as are all
// others until the stripes exist, and if they cannot be opened.
//
// The dialing side decides. It requests an offer, or gets one from a listening side that has a large frame; the offer
// has a port and a token that admits the stripes of this comm once. All messages about it use the control channel.

const (
	// stripesFeature in a hello announces that its sender supports stripes for frames in host memory.
	stripesFeature = "ucx-stripes-1"
	// manyProcessors is the number of processors from which defaultHostStripes returns eight.
	manyProcessors = 8
)

// defaultHostStripes returns the default number of stripes for a number of processors. Four are faster than one
// connection of UCX on two cores too; eight are twice as fast as four on sixteen.
func defaultHostStripes(processors int) int {
	if processors >= manyProcessors {
		return 8
	}
	return 4
}

// hostStripeCount returns the number of stripes for frames in host memory that this side wants; 1 is none.
func hostStripeCount(s comm.StagedConfig) int {
	if s.Mode != comm.StagedOff && s.Stripes <= 0 {
		return defaultHostStripes(runtime.GOMAXPROCS(0))
	}
	return s.StripeCount()
}

// canStripe reports whether this side may have stripes for frames in host memory.
func (c *conn) canStripe() bool {
	return c.sockets && !c.settings.PlainTransports && hostStripeCount(c.staged) > 1
}

// onlyTCP reports whether tcp is the only transport between two processes.
func onlyTCP(transports []ucx.Transport) bool {
	tcp := false
	for _, t := range transports {
		tcp = tcp || t.Name == "tcp"
		if !slices.Contains([]string{"tcp", "cuda_copy"}, t.Name) {
			return false
		}
	}
	return tcp
}

// stripeState is the state of the stripes of a comm.
type stripeState uint8

const (
	stripesIdle      stripeState = iota // no large frame yet
	stripesRequested                    // an offer was requested, or is being made
	stripesOffered                      // offered by this side
	stripesJoining                      // being dialed by this side
	stripesOpen
	stripesFailed // UCX sends all frames
	stripesEnded  // with the comm
)

// hostStripes are the stripes of a comm for frames in host memory.
type hostStripes struct {
	// send and post send a message about the stripes; post does not block.
	send func(context.Context, stripeMessage) error
	post func(stripeMessage)

	count int             // number to dial
	host  string          // of the peer
	door  *stripeListener // of the listening side; nil on the dialing side

	ctx     context.Context // ends with the comm
	cancel  context.CancelFunc
	running sync.WaitGroup
	ready   chan struct{} // closed when ep is set
	ep      *ucx.Endpoint
	decided chan struct{} // closed in the states open, failed and ended

	mu        sync.Mutex
	state     stripeState
	offer     *staging.Offer
	conns     []net.Conn
	refused   bool          // an offer was declined after this side had failed
	sent      uint64        // striped messages of this side
	delivered uint64        // of these, received by the peer
	acked     chan struct{} // capacity 1: delivered has grown

	received uint64 // striped messages of the peer. Owner: the current reader of the comm
}

func newHostStripes(count int, host string, door *stripeListener) *hostStripes {
	h := &hostStripes{count: count, host: host, door: door, ready: make(chan struct{}), decided: make(chan struct{}),
		acked: make(chan struct{}, 1)}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h
}

// start sets the endpoint of the comm, once it exists.
func (h *hostStripes) start(ep *ucx.Endpoint) {
	if h != nil {
		h.ep = ep
		close(h.ready)
	}
}

// get returns the stripes if they are open. The first call starts opening them.
func (h *hostStripes) get() []net.Conn {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch h.state {
	case stripesOpen:
		return h.conns
	case stripesIdle:
		h.state = stripesRequested
		if h.door != nil {
			h.running.Go(h.makeOffer)
		} else {
			h.running.Go(h.request)
		}
	}
	return nil
}

// isOpen reports whether large frames are sent over the stripes.
func (h *hostStripes) isOpen() bool {
	if h == nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state == stripesOpen
}

// await returns the stripes for a message that was announced over them: the peer may have finished opening them
// earlier than this side.
func (h *hostStripes) await(ctx context.Context) ([]net.Conn, error) {
	h.mu.Lock()
	opening := h.state == stripesOffered || h.state == stripesOpen
	h.mu.Unlock()
	if !opening {
		return nil, errNoStripes
	}
	limit, cancel := context.WithTimeout(ctx, joinTime)
	defer cancel()
	select {
	case <-h.decided:
	case <-limit.Done():
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		return nil, errNoStripes
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state != stripesOpen {
		return nil, errNoStripes
	}
	return h.conns, nil
}

var errNoStripes = errors.New("frames announced over stripes that do not exist")

// end closes the stripes. It is idempotent and does not wait; a nil receiver has none.
func (h *hostStripes) end() {
	if h == nil {
		return
	}
	h.mu.Lock()
	h.decide(stripesEnded)
	offer, conns := h.offer, h.conns
	h.offer = nil
	h.mu.Unlock()
	h.cancel()
	if offer != nil {
		offer.Withdraw()
	}
	for _, c := range conns {
		_ = c.Close()
	}
}

// wait ends the stripes and waits for their goroutines.
func (h *hostStripes) wait() {
	if h != nil {
		h.end()
		h.running.Wait()
	}
}

// decide sets a final state, or the end after one. The caller holds the lock.
func (h *hostStripes) decide(s stripeState) {
	if h.state < stripesOpen {
		close(h.decided)
	}
	if h.state != stripesEnded {
		h.state = s
	}
}

// open sets the stripes, or closes them if the comm has ended meanwhile.
func (h *hostStripes) open(conns []net.Conn) (ok bool) {
	h.mu.Lock()
	if ok = h.state != stripesEnded; ok {
		h.conns, h.offer = conns, nil
		h.decide(stripesOpen)
	}
	h.mu.Unlock()
	if !ok {
		for _, c := range conns {
			_ = c.Close()
		}
	}
	return ok
}

// decline gives up the stripes and notifies the peer.
func (h *hostStripes) decline() {
	h.mu.Lock()
	h.decide(stripesFailed)
	h.mu.Unlock()
	_ = h.send(h.ctx, stripeMessage{kind: stripesDeclined})
}

// eligible reports whether the comm has no better transport. It waits for the endpoint.
func (h *hostStripes) eligible() bool {
	select {
	case <-h.ready:
	case <-h.ctx.Done():
		return false
	}
	transports, err := h.ep.Transports()
	return err == nil && onlyTCP(transports)
}

// request asks the listening side for an offer.
func (h *hostStripes) request() {
	if h.eligible() {
		_ = h.send(h.ctx, stripeMessage{kind: stripesRequest})
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state == stripesRequested { // no offer has arrived meanwhile
		h.decide(stripesFailed)
	}
}

// makeOffer opens the port of the listener and sends the offer.
func (h *hostStripes) makeOffer() {
	if !h.eligible() {
		h.decline()
		return
	}
	door, err := h.door.open(h.ctx)
	if err != nil {
		h.decline()
		return
	}
	offer := door.Offer()
	h.mu.Lock()
	ended := h.state == stripesEnded
	if !ended {
		h.offer, h.state = offer, stripesOffered
	}
	h.mu.Unlock()
	if ended {
		offer.Withdraw()
		return
	}
	m := stripeMessage{kind: stripesOffer, port: uint16(door.Port()), token: [stripeToken]byte(offer.Token())}
	_ = h.send(h.ctx, m)
}

// join dials the stripes of an offer.
func (h *hostStripes) join(m stripeMessage) {
	if !h.eligible() {
		h.decline()
		return
	}
	ctx, cancel := context.WithTimeout(h.ctx, joinTime)
	defer cancel()
	address := net.JoinHostPort(h.host, strconv.Itoa(int(m.port)))
	conns, err := staging.Join(ctx, address, m.token[:], h.count)
	if err != nil {
		h.decline()
		return
	}
	if h.open(conns) {
		_ = h.send(h.ctx, stripeMessage{kind: stripesJoined})
	}
}

// admit takes the stripes that the peer has reported as complete.
func (h *hostStripes) admit(offer *staging.Offer) {
	ctx, cancel := context.WithTimeout(h.ctx, joinTime)
	defer cancel()
	conns, err := offer.Take(ctx)
	if err != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.decide(stripesFailed)
		return
	}
	h.open(conns)
}

// handle processes a message of the peer. It does not block; an error ends the comm.
func (h *hostStripes) handle(m stripeMessage) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	dialer := h.door == nil
	switch {
	case h.state == stripesEnded:
	case m.kind == stripesDelivered:
		if m.count <= h.delivered || m.count > h.sent {
			return errControl
		}
		h.delivered = m.count
		select {
		case h.acked <- struct{}{}:
		default:
		}
	case m.kind == stripesRequest && !dialer:
		if h.state == stripesIdle { // otherwise both sides have large frames, and the offer is on its way
			h.state = stripesRequested
			h.running.Go(h.makeOffer)
		}
	case m.kind == stripesOffer && dialer && h.state <= stripesRequested:
		h.state = stripesJoining
		h.running.Go(func() { h.join(m) })
	case m.kind == stripesOffer && dialer && h.state == stripesFailed && !h.refused:
		h.refused = true // this side has seen a better transport, the peer has not
		h.running.Go(h.decline)
	case m.kind == stripesJoined && !dialer && h.state == stripesOffered && h.offer != nil:
		offer := h.offer
		h.offer = nil
		h.running.Go(func() { h.admit(offer) })
	case m.kind == stripesDeclined && (h.state <= stripesRequested || h.offer != nil):
		if h.offer != nil {
			h.offer.Withdraw()
			h.offer = nil
		}
		h.decide(stripesFailed)
	case m.kind == stripesDeclined && h.state == stripesFailed: // by both sides
	default:
		return errControl
	}
	return nil
}
