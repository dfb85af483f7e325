package collective

import (
	"context"
	"fmt"
)

// Send sends b to a rank, which receives it with the same tag; all 64 bits of it count. Messages with the
// same tag arrive in order. Send returns when b may be used again, which for more than a few KiB means that
// the other rank has it. A rank may send to itself, if it receives meanwhile. When ctx ends before that the
// group is aborted, as for a collective.
func (g *Group) Send(ctx context.Context, to int, tag uint64, b []byte) error {
	return g.p2p.send(ctx, to, tag, memory{bytes: b})()
}

// StartSend is Send as a Request.
func (g *Group) StartSend(ctx context.Context, to int, tag uint64, b []byte) *Request {
	wait := g.p2p.send(ctx, to, tag, memory{bytes: b})
	return background(func() (int, error) { return 0, wait() })
}

// Recv receives the next message that a rank has sent with a tag, and returns its length. One that is longer
// than b is lost, with a *TruncatedError on both sides. When ctx ends before a message has come the group
// lives on.
func (g *Group) Recv(ctx context.Context, from int, tag uint64, b []byte) (int, error) {
	return g.p2p.recv(ctx, from, tag, memory{bytes: b})()
}

// StartRecv is Recv as a Request; its Len is the length. Receives of one tag are served in the order in which
// they were started.
func (g *Group) StartRecv(ctx context.Context, from int, tag uint64, b []byte) *Request {
	return background(g.p2p.recv(ctx, from, tag, memory{bytes: b}))
}

// SendRecv sends to one rank and receives from another, or the same, at once, so that neither waits for the
// other. It returns the length of what was received.
func (g *Group) SendRecv(ctx context.Context, to int, sendTag uint64, send []byte, from int, recvTag uint64, recv []byte) (int, error) {
	received := g.StartRecv(ctx, from, recvTag, recv)
	sendErr := g.Send(ctx, to, sendTag, send)
	<-received.done
	if sendErr != nil {
		return 0, sendErr
	}
	return received.n, received.err
}

// StartSendRecv is SendRecv as a Request; its Len is the length of what was received.
func (g *Group) StartSendRecv(ctx context.Context, to int, sendTag uint64, send []byte, from int, recvTag uint64, recv []byte) *Request {
	received := g.p2p.recv(ctx, from, recvTag, memory{bytes: recv})
	sent := g.p2p.send(ctx, to, sendTag, memory{bytes: send})
	return background(func() (int, error) {
		r := background(received)
		sendErr := sent()
		<-r.done
		if sendErr != nil {
			return 0, sendErr
		}
		return r.n, r.err
	})
}

func background(f func() (int, error)) *Request {
	r := newRequest()
	go func() { r.finish(f()) }()
	return r
}

func (g *Group) checkPeer(rank int) error {
	if rank < 0 || rank >= len(g.ranks) {
		return fmt.Errorf("collective: rank %d is not one of the %d ranks", rank, len(g.ranks))
	}
	return g.Err()
}
