package collective

import (
	"context"
	"fmt"
)

// Do runs a call and waits for it; with device memory, until the ready event of the result is set.
//
// If ctx ends before a Send is done, the group is aborted, as for a collective; if it ends while a Recv waits for its
// message, the group remains usable.
func (g *Group) Do(ctx context.Context, c Call) error {
	switch c.Code {
	case Send:
		return g.startSend(ctx, c.To, c.SendTag, c.Send)()
	case Recv:
		return c.setReceived(g.startRecv(ctx, c.From, c.RecvTag, c.Recv)())
	case SendRecv:
		return c.setReceived(g.startSendRecv(ctx, &c)())
	}
	if err := g.place(&c); err != nil {
		return err
	}
	return g.run(ctx, c, g.turns.enqueue())
}

// Start starts a call and returns immediately. Its memory must not be used until the request is done. Collectives, and
// messages with the same tag, run in the order of the calls of Start and Do.
func (g *Group) Start(ctx context.Context, c Call) *Request {
	switch c.Code {
	case Send:
		wait := g.startSend(ctx, c.To, c.SendTag, c.Send)
		return background(func() (int, error) { return 0, wait() })
	case Recv:
		return c.background(g.startRecv(ctx, c.From, c.RecvTag, c.Recv))
	case SendRecv:
		return c.background(g.startSendRecv(ctx, &c))
	}
	if err := g.place(&c); err != nil {
		return FailedRequest(err)
	}
	r := newRequest()
	place, placed := g.turns.enqueue(), c // here, so that collectives run in the order of calls
	go func() { r.finish(0, g.run(ctx, placed, place)) }()
	return r
}

// startSendRecv starts both messages of a call and returns a function that waits for them.
func (g *Group) startSendRecv(ctx context.Context, c *Call) (wait func() (int, error)) {
	if err := g.checkSend(c.To, c.Send); err != nil { // before a receive starts that would not end
		return func() (int, error) { return 0, err }
	}
	received := g.startRecv(ctx, c.From, c.RecvTag, c.Recv)
	sent := g.startSend(ctx, c.To, c.SendTag, c.Send)
	return func() (int, error) {
		r := background(received)
		sendErr := sent()
		<-r.done
		if sendErr != nil {
			return 0, sendErr
		}
		return r.n, r.err
	}
}

// elements returns the number of elements in n bytes.
func (c *Call) elements(n int) int { return n / max(c.Kind.Size(), 1) }

// setReceived sets N after a message of n bytes.
func (c *Call) setReceived(n int, err error) error {
	if c.N != nil {
		*c.N = c.elements(n)
	}
	return err
}

// background waits for a message of the call in a goroutine.
func (c *Call) background(wait func() (int, error)) *Request {
	call := *c
	return background(func() (int, error) {
		n, err := wait()
		return call.elements(n), call.setReceived(n, err)
	})
}

func background(f func() (int, error)) *Request {
	r := newRequest()
	go func() { r.finish(f()) }()
	return r
}

// checkSend returns why a message cannot be sent, as far as that is known in advance.
func (g *Group) checkSend(to int, m Memory) error {
	err := g.checkPeer(to)
	if err == nil && isDevice(m.Buffer) && g.carrier == nil {
		err = fmt.Errorf("collective: Send: %w", ErrNoCarrier)
	}
	return err
}

func (g *Group) checkPeer(rank int) error {
	if rank < 0 || rank >= len(g.ranks) {
		return fmt.Errorf("collective: no rank %d in a group of %d ranks", rank, len(g.ranks))
	}
	return g.Err()
}
