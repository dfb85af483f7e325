package clique

import (
	"context"

	"go.millstream.dev/internal/collective"
	"go.millstream.dev/mem"
	"go.millstream.dev/nccl"
)

// moves is a collective that only moves memory, as messages between pairs of ranks in one NCCL group. It holds views of
// the buffers until release.
type moves struct {
	sends, recvs []move
}

// move is a message to or from a rank.
type move struct {
	peer int
	b    *mem.Buffer
}

// moves returns the moves of a call on this rank.
func (n *ncclCarrier) moves(c *collective.Call) *moves { return movesOf(c, n.g.Rank(), n.g.Size()) }

// movesOf returns the moves of a call on one of size ranks.
func movesOf(c *collective.Call, rank, size int) *moves {
	m := &moves{}
	es := c.Kind.Size()
	root := c.Root == rank
	switch c.Code {
	case collective.AllGatherV:
		for r := range size {
			m.send(r, c.Send.Buffer, 0, length(c.Send.Buffer))
		}
		m.recvs = cutUp(c.Recv.Buffer, c.Counts, es)
	case collective.Gather, collective.GatherV:
		m.send(c.Root, c.Send.Buffer, 0, length(c.Send.Buffer))
		if root {
			m.recvs = cutUp(c.Recv.Buffer, c.Counts, es, length(c.Send.Buffer), size)
		}
	case collective.Scatter, collective.ScatterV:
		if length(c.Recv.Buffer) > 0 {
			m.recvs = append(m.recvs, move{c.Root, c.Recv.Buffer.Slice(0, c.Recv.Buffer.Len())})
		}
		if root {
			m.sends = cutUp(c.Send.Buffer, c.Counts, es, length(c.Recv.Buffer), size)
		}
	case collective.AllToAll:
		part := length(c.Send.Buffer) / size
		m.sends = cutUp(c.Send.Buffer, nil, es, part, size)
		m.recvs = cutUp(c.Recv.Buffer, nil, es, part, size)
	case collective.AllToAllV:
		m.sends = cutUp(c.Send.Buffer, c.Counts, es)
		m.recvs = cutUp(c.Recv.Buffer, c.RecvCounts, es)
	}
	m.dropSelf(rank)
	return m
}

func (m *moves) send(to int, b *mem.Buffer, at, n int) {
	if n > 0 {
		m.sends = append(m.sends, move{to, b.Slice(at, n)})
	}
}

// cutUp divides a buffer into parts for the ranks, by their counts in elements. Without counts, equal has the length of
// each part in bytes and their number. Empty parts are left out.
func cutUp(b *mem.Buffer, counts []int, es int, equal ...int) []move {
	var out []move
	at := 0
	add := func(r, n int) {
		if n > 0 {
			out = append(out, move{r, b.Slice(at, n)})
		}
		at += n
	}
	if counts == nil {
		for r := range equal[1] {
			add(r, equal[0])
		}
		return out
	}
	for r, n := range counts {
		add(r, n*es)
	}
	return out
}

// dropSelf removes the message of a rank to itself if the data is already in place.
func (m *moves) dropSelf(rank int) {
	for i, s := range m.sends {
		for j, r := range m.recvs {
			if s.peer == rank && r.peer == rank && s.b.Addr() == r.b.Addr() {
				s.b.Release()
				r.b.Release()
				m.sends = append(m.sends[:i], m.sends[i+1:]...)
				m.recvs = append(m.recvs[:j], m.recvs[j+1:]...)
				return
			}
		}
	}
}

// run enqueues the messages as one group; it returns nil if there are none.
func (m *moves) run(ctx context.Context, c *ncclComm) (*nccl.Work, error) {
	if len(m.sends)+len(m.recvs) == 0 {
		return nil, nil
	}
	g := c.c.Group()
	for _, s := range m.sends {
		g.Send(s.b, nccl.Uint8, s.peer)
	}
	for _, r := range m.recvs {
		g.Recv(r.b, nccl.Uint8, r.peer)
	}
	return g.Run(ctx, c.stream)
}

func (m *moves) release() {
	for _, list := range [2][]move{m.sends, m.recvs} {
		for _, x := range list {
			x.b.Release()
		}
	}
}
