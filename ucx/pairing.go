package ucx

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
)

// UCX pairs the endpoints that two workers make from each other's addresses by the
// order of their creation: the third that A makes to B belongs to the third that B
// makes to A, whatever they were made for. Messages that name the sender's endpoint
// and lanes that connect endpoints (tcp among them) then depend on the other one of
// the pair: handshakes that run side by side and end up crosswise lose messages when
// one of them is closed. So two workers take turns: for each lifeline both ends are
// made before the next lifeline's are.
//
// The worker with the smaller number leads. It tells how many endpoints it has made
// so far, the other one makes its own and answers with its count before that, and the
// leader follows. A side that is behind, since a handshake broke off or an endpoint
// was made on one side only, catches up with endpoints that nobody uses.
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

func (w *Worker) pairingWith(owner uint64) *pairing {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.pairings[owner]
	if p == nil {
		p = &pairing{turn: make(chan struct{}, 1)}
		p.turn <- struct{}{}
		w.pairings[owner] = p
	}
	return p
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
		err = fmt.Errorf("%w: UCX lets two workers make 65535 endpoints with each other in their lives while streams are on; make a new worker, or leave Stream out of Config.Features", err)
	}
	return ep, err
}

// catchUp makes endpoints that nobody uses until n have been made. They stay until
// the worker is closed: closing one would disturb what it is paired with.
func (p *pairing) catchUp(w *Worker, n uint64, addr WorkerAddress) error {
	if n > p.made+maxCatchUp {
		return fmt.Errorf("ucx: the peer has made %d endpoints to this worker, which has made %d to the peer", n, p.made)
	}
	none := ErrorNone
	for p.made < n {
		_, err := p.makeOne(func() (*Endpoint, error) {
			return w.connect(addr, &EndpointConfig{Name: "nobody (keeps the count)", Errors: &none}, nil)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// paired makes this side's endpoint of a handshake when it is its turn.
func (w *Worker) paired(ctx context.Context, conn net.Conn, mine, theirs *hello, addr WorkerAddress, create func() (*Endpoint, error)) (*Endpoint, error) {
	me, other := mine.contact.Address.owner(), theirs.contact.Address.owner()
	if me == other {
		return create() // UCX connects an endpoint to the own worker with itself
	}
	p := w.pairingWith(other)
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

func (p *pairing) lead(ctx context.Context, w *Worker, conn net.Conn, addr WorkerAddress, create func() (*Endpoint, error)) (*Endpoint, error) {
	if err := p.take(ctx); err != nil {
		return nil, err
	}
	defer p.give()
	if err := writeCount(conn, 'G', p.made); err != nil {
		return nil, err
	}
	n, err := readCount(conn, 'P')
	if err != nil {
		return nil, err
	}
	if err := p.catchUp(w, n, addr); err != nil {
		return nil, err
	}
	return p.makeOne(create)
}

func (p *pairing) follow(ctx context.Context, w *Worker, conn net.Conn, addr WorkerAddress, create func() (*Endpoint, error)) (*Endpoint, error) {
	n, err := readCount(conn, 'G')
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
	if err := writeCount(conn, 'P', before); err != nil {
		ep.abort(ErrCanceled)
		_ = ep.Close()
		return nil, err
	}
	return ep, nil
}

func writeCount(conn net.Conn, kind byte, n uint64) error {
	_, err := conn.Write(binary.LittleEndian.AppendUint64([]byte{kind}, n))
	return err
}

func readCount(conn net.Conn, kind byte) (uint64, error) {
	var b [9]byte
	if _, err := io.ReadFull(conn, b[:]); err != nil {
		return 0, fmt.Errorf("ucx: the peer hung up during the handshake: %w", err)
	}
	if b[0] != kind {
		return 0, fmt.Errorf("ucx: the peer broke the handshake with %q", b[0])
	}
	return binary.LittleEndian.Uint64(b[1:]), nil
}
