package collective

import "go.millstream.dev/internal/collective/elem"

// finishSmall computes the result from data that was sent with the headers. All reductions proceed from rank 0 upward.
func (g *Group) finishSmall(c *Call) {
	size, es := len(g.ranks), c.Kind.Size()
	root := c.rooted() && c.Root == g.rank
	switch c.Code {
	case AllReduce:
		g.foldParts(c, 0, len(c.Recv.Bytes))
	case Reduce:
		if root {
			g.foldParts(c, 0, len(c.Recv.Bytes))
		}
	case ReduceScatter:
		g.foldParts(c, g.rank*len(c.Recv.Bytes), len(c.Recv.Bytes))
	case Broadcast:
		if !root {
			copy(c.Recv.Bytes, g.parts[c.Root].inline)
		}
	case AllGather, AllGatherV:
		g.joinParts(c)
	case Gather, GatherV:
		if root {
			g.joinParts(c)
		}
	case Scatter:
		copy(c.Recv.Bytes, g.parts[c.Root].inline[g.rank*len(c.Recv.Bytes):])
	case ScatterV:
		p, at := &g.parts[c.Root], 0
		for r := range g.rank {
			at += p.at(r) * es
		}
		copy(c.Recv.Bytes, p.inline[at:])
	case AllToAll:
		n := len(c.Send.Bytes) / size
		for r := range g.parts {
			copy(c.Recv.Bytes[r*n:(r+1)*n], g.parts[r].inline[g.rank*n:])
		}
	case AllToAllV:
		to := 0
		for r := range g.parts {
			p, at := &g.parts[r], 0
			for q := range g.rank {
				at += p.at(q) * es
			}
			to += copy(c.Recv.Bytes[to:to+p.at(g.rank)*es], p.inline[at:])
		}
	}
}

func (g *Group) foldParts(c *Call, at, n int) {
	if n == 0 {
		return
	}
	g.sources = g.sources[:0]
	for r := range g.parts {
		g.sources = append(g.sources, g.parts[r].inline[at:at+n])
	}
	elem.FoldAll(c.Recv.Bytes[:n], g.sources, c.Kind, elem.CodeOf(c.Op))
	elem.Conclude(c.Recv.Bytes[:n], c.Kind, elem.CodeOf(c.Op), len(g.ranks))
}

func (g *Group) joinParts(c *Call) {
	at := 0
	for r := range g.parts {
		at += copy(c.Recv.Bytes[at:], g.parts[r].inline)
	}
}
