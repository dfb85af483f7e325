package collective

import (
	"context"

	"go.millstream.dev/internal/collective/transport"
)

// Algorithms for data that is too large to be sent with the header of its call. The ranks have agreed on sizes, types
// and roots, so every message has a matching receive.

// Sizes from which another algorithm is used, in bytes of the buffer of a rank.
const (
	doublingMax = 32 << 10 // AllReduce: recursive doubling up to here, a ring above
	treeMax     = 32 << 10 // Broadcast, Reduce: binomial tree up to here, parts above
)

func (g *Group) large(ctx context.Context, c *Call) error {
	switch c.Code {
	case AllReduce:
		return g.largeAllReduce(ctx, c)
	case Reduce:
		return g.largeReduce(ctx, c)
	case Broadcast:
		if len(c.Send.Bytes) <= treeMax || len(g.ranks) == 2 {
			return g.treeBroadcast(ctx, c)
		}
		return g.splitBroadcast(ctx, c)
	case ReduceScatter:
		own, err := g.reduceScatter(ctx, c, len(c.Send.Bytes))
		copy(c.Recv.Bytes, own)
		return err
	case AllGather, AllGatherV:
		cuts := g.cutsOf(c, &g.parts[0])
		copy(c.Recv.Bytes[cuts[g.rank]:cuts[g.rank+1]], c.Send.Bytes)
		return g.ringGather(ctx, c.Recv.Bytes, cuts)
	case Gather, GatherV:
		return g.gather(ctx, c)
	case Scatter, ScatterV:
		return g.scatter(ctx, c)
	case AllToAll, AllToAllV:
		return g.allToAll(ctx, c)
	}
	return nil
}

func (g *Group) send(ctx context.Context, to int, b []byte) error {
	if err := g.hub.t.Send(ctx, g.ranks[to], g.channel(forData), b); err != nil {
		return &opError{g.ranks[to], err}
	}
	return nil
}

func (g *Group) recv(ctx context.Context, from int, b []byte) error {
	_, err := g.hub.t.Recv(ctx, g.ranks[from], g.channel(forData), b)
	if err != nil {
		return &opError{g.ranks[from], err}
	}
	return nil
}

// cuts divides n bytes of whole elements among the ranks as evenly as possible: part r is cuts[r] to cuts[r+1].
func (g *Group) cuts(n, es int) []int {
	size := len(g.ranks)
	elems := n / es
	cuts := make([]int, size+1)
	for r := range size {
		cuts[r+1] = (elems/size*(r+1) + min(r+1, elems%size)) * es
	}
	return cuts
}

// cutsOf returns the parts of a call that gathers or scatters. counts is the header of the rank that has the counts of
// a V form.
func (g *Group) cutsOf(c *Call, counts *part) []int {
	size, es := len(g.ranks), c.Kind.Size()
	cuts := make([]int, size+1)
	for r := range size {
		n := int(g.parts[0].count)
		if counts.numbers() >= size {
			n = counts.at(r) * es
		}
		cuts[r+1] = cuts[r] + n
	}
	return cuts
}

// scratch returns memory that is valid until the next collective.
func (g *Group) scratch(n int) []byte {
	if cap(g.tmp) < n {
		g.tmp = make([]byte, n)
	}
	return g.tmp[:n]
}

// ringGather completes buf, of which each rank has its own part: each rank sends the part that it received last to the
// next rank.
func (g *Group) ringGather(ctx context.Context, buf []byte, cuts []int) error {
	size := len(g.ranks)
	next, prev := (g.rank+1)%size, (g.rank-1+size)%size
	for step := range size - 1 {
		s, r := (g.rank-step+size)%size, (g.rank-step-1+2*size)%size
		if _, err := g.swap(ctx, next, buf[cuts[s]:cuts[s+1]], prev, buf[cuts[r]:cuts[r+1]], forData); err != nil {
			return err
		}
	}
	return nil
}

// treeBroadcast sends the data along a binomial tree.
func (g *Group) treeBroadcast(ctx context.Context, c *Call) error {
	size := len(g.ranks)
	v := (g.rank - c.Root + size) % size // the root is 0 in the tree
	mask := 1
	for ; mask < size; mask <<= 1 {
		if v&mask != 0 {
			if err := g.recv(ctx, (v-mask+c.Root)%size, c.Recv.Bytes); err != nil {
				return err
			}
			break
		}
	}
	for mask >>= 1; mask > 0; mask >>= 1 {
		if v+mask < size {
			if err := g.send(ctx, (v+mask+c.Root)%size, c.Recv.Bytes); err != nil {
				return err
			}
		}
	}
	return nil
}

// splitBroadcast sends a part to each rank, and the ranks exchange the parts: it takes twice as many steps, but root
// sends each byte once.
func (g *Group) splitBroadcast(ctx context.Context, c *Call) error {
	cuts := g.cuts(len(c.Recv.Bytes), c.Kind.Size())
	if g.rank == c.Root {
		if err := g.sendParts(ctx, c.Send.Bytes, cuts); err != nil {
			return err
		}
	} else if err := g.recv(ctx, c.Root, c.Recv.Bytes[cuts[g.rank]:cuts[g.rank+1]]); err != nil {
		return err
	}
	return g.ringGather(ctx, c.Recv.Bytes, cuts)
}

// sendParts sends each other rank its part, concurrently.
func (g *Group) sendParts(ctx context.Context, buf []byte, cuts []int) error {
	ops := make([]transport.Pending, len(g.ranks))
	for i := 1; i < len(g.ranks); i++ {
		r := (g.rank + i) % len(g.ranks)
		ops[r] = g.hub.t.StartSend(g.ranks[r], g.channel(forData), buf[cuts[r]:cuts[r+1]])
	}
	return g.waitAll(ctx, ops)
}

// recvParts receives the parts of all other ranks.
func (g *Group) recvParts(ctx context.Context, buf []byte, cuts []int) error {
	ops := make([]transport.Pending, len(g.ranks))
	for i := 1; i < len(g.ranks); i++ {
		r := (g.rank + i) % len(g.ranks)
		ops[r] = g.hub.t.StartRecv(g.ranks[r], g.channel(forData), buf[cuts[r]:cuts[r+1]])
	}
	return g.waitAll(ctx, ops)
}

// waitAll waits for one operation with each rank; after a failure it cancels the others.
func (g *Group) waitAll(ctx context.Context, ops []transport.Pending) error {
	var first error
	for r, op := range ops {
		if op == nil {
			continue
		}
		wait := ctx
		if first != nil {
			wait = transport.Ended
		}
		if _, err := op.Wait(wait); err != nil && first == nil {
			first = &opError{g.ranks[r], err}
		}
	}
	return first
}

func (g *Group) gather(ctx context.Context, c *Call) error {
	if g.rank != c.Root {
		return g.send(ctx, c.Root, c.Send.Bytes)
	}
	cuts := g.cutsOf(c, &g.parts[c.Root])
	copy(c.Recv.Bytes[cuts[g.rank]:cuts[g.rank+1]], c.Send.Bytes)
	return g.recvParts(ctx, c.Recv.Bytes, cuts)
}

func (g *Group) scatter(ctx context.Context, c *Call) error {
	if g.rank != c.Root {
		return g.recv(ctx, c.Root, c.Recv.Bytes)
	}
	cuts := g.cutsOf(c, &g.parts[c.Root])
	copy(c.Recv.Bytes, c.Send.Bytes[cuts[g.rank]:cuts[g.rank+1]])
	return g.sendParts(ctx, c.Send.Bytes, cuts)
}

// allToAll exchanges parts with one pair of ranks after the other.
func (g *Group) allToAll(ctx context.Context, c *Call) error {
	size, es := len(g.ranks), c.Kind.Size()
	var out, in []int
	if c.Code == AllToAll {
		out = g.cutsOf(c, &g.parts[0])
		in = out
	} else {
		out, in = sums(c.Counts, es), sums(c.RecvCounts, es)
	}
	copy(c.Recv.Bytes[in[g.rank]:in[g.rank+1]], c.Send.Bytes[out[g.rank]:out[g.rank+1]])
	for step := 1; step < size; step++ {
		to, from := (g.rank+step)%size, (g.rank-step+size)%size
		if _, err := g.swap(ctx, to, c.Send.Bytes[out[to]:out[to+1]], from, c.Recv.Bytes[in[from]:in[from+1]],
			forData); err != nil {
			return err
		}
	}
	return nil
}

func sums(counts []int, es int) []int {
	s := make([]int, len(counts)+1)
	for i, n := range counts {
		s[i+1] = s[i] + n*es
	}
	return s
}
