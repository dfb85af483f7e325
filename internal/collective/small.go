package collective

// finishSmall makes the result of data that has come along with the ranks' words. Every reduction goes from rank 0
// upwards here.
func (g *Group) finishSmall(c *call) {
	size, es := len(g.ranks), c.kind.Size()
	root := c.rooted() && c.root == g.rank
	switch c.code {
	case callAllReduce:
		g.foldParts(c, 0, len(c.recv))
	case callReduce:
		if root {
			g.foldParts(c, 0, len(c.recv))
		}
	case callReduceScatter:
		g.foldParts(c, g.rank*len(c.recv), len(c.recv))
	case callBroadcast:
		if !root {
			copy(c.recv, g.parts[c.root].inline)
		}
	case callAllGather, callAllGatherV:
		g.joinParts(c)
	case callGather, callGatherV:
		if root {
			g.joinParts(c)
		}
	case callScatter:
		copy(c.recv, g.parts[c.root].inline[g.rank*len(c.recv):])
	case callScatterV:
		p, at := &g.parts[c.root], 0
		for r := range g.rank {
			at += p.at(r) * es
		}
		copy(c.recv, p.inline[at:])
	case callAllToAll:
		n := len(c.send) / size
		for r := range g.parts {
			copy(c.recv[r*n:(r+1)*n], g.parts[r].inline[g.rank*n:])
		}
	case callAllToAllV:
		to := 0
		for r := range g.parts {
			p, at := &g.parts[r], 0
			for q := range g.rank {
				at += p.at(q) * es
			}
			to += copy(c.recv[to:to+p.at(g.rank)*es], p.inline[at:])
		}
	}
}

func (g *Group) foldParts(c *call, at, n int) {
	if n == 0 {
		return
	}
	g.sources = g.sources[:0]
	for r := range g.parts {
		g.sources = append(g.sources, g.parts[r].inline[at:at+n])
	}
	foldAll(c.recv[:n], g.sources, c.kind, c.op.code)
	conclude(c.recv[:n], c.kind, c.op.code, len(g.ranks))
}

func (g *Group) joinParts(c *call) {
	at := 0
	for r := range g.parts {
		at += copy(c.recv[at:], g.parts[r].inline)
	}
}
