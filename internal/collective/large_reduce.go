package collective

import (
	"context"

	"go.millstream.dev/internal/collective/elem"
)

// largeAllReduce uses recursive doubling for short data and a ring for long data. In deterministic mode the ranks
// exchange parts directly instead, so that each part is reduced from rank 0 upward.
func (g *Group) largeAllReduce(ctx context.Context, c *Call) error {
	if !g.upwards(c) && len(c.Send.Bytes) <= doublingMax {
		return g.doubling(ctx, c)
	}
	own, err := g.reduceScatter(ctx, c, len(c.Send.Bytes))
	if err != nil {
		return err
	}
	cuts := g.cuts(len(c.Recv.Bytes), c.Kind.Size())
	copy(c.Recv.Bytes[cuts[g.rank]:cuts[g.rank+1]], own)
	return g.ringGather(ctx, c.Recv.Bytes, cuts)
}

// upwards reports whether a reduction must proceed from rank 0 upward.
func (g *Group) upwards(c *Call) bool { return g.cfg.Deterministic || c.upwards }

func (g *Group) largeReduce(ctx context.Context, c *Call) error {
	if !g.upwards(c) && len(c.Send.Bytes) <= treeMax {
		return g.treeReduce(ctx, c)
	}
	own, err := g.reduceScatter(ctx, c, len(c.Send.Bytes))
	if err != nil {
		return err
	}
	if g.rank != c.Root {
		return g.send(ctx, c.Root, own)
	}
	cuts := g.cuts(len(c.Recv.Bytes), c.Kind.Size())
	copy(c.Recv.Bytes[cuts[g.rank]:cuts[g.rank+1]], own)
	return g.recvParts(ctx, c.Recv.Bytes, cuts)
}

// doubling implements recursive doubling: in round k a rank has the result of the 2ᵏ ranks of its block, and exchanges
// it with that of the neighboring block. Ranks beyond the last power of two send their data to a partner first and get
// the result in the end.
func (g *Group) doubling(ctx context.Context, c *Call) error {
	size, n := len(g.ranks), len(c.Send.Bytes)
	tmp := g.scratch(n)
	acc := c.Recv.Bytes
	elem.Prepare(acc, c.Send.Bytes, c.Kind, c.Op)
	power := 1
	for power*2 <= size {
		power *= 2
	}
	extra := size - power // the first 2·extra ranks form pairs
	v := g.rank - extra
	switch {
	case g.rank < 2*extra && g.rank%2 == 1:
		if err := g.send(ctx, g.rank-1, acc); err != nil {
			return err
		}
		v = -1
	case g.rank < 2*extra:
		if err := g.recv(ctx, g.rank+1, tmp); err != nil {
			return err
		}
		elem.Fold(acc, acc, tmp, c.Kind, elem.CodeOf(c.Op))
		v = g.rank / 2
	}
	for mask := 1; v >= 0 && mask < power; mask <<= 1 {
		w := v ^ mask
		peer := w + extra
		if w < extra {
			peer = 2 * w
		}
		if _, err := g.swap(ctx, peer, acc, peer, tmp, forData); err != nil {
			return err
		}
		if v < w { // the block of lower ranks is the left operand on both sides
			elem.Fold(acc, acc, tmp, c.Kind, elem.CodeOf(c.Op))
		} else {
			elem.Fold(acc, tmp, acc, c.Kind, elem.CodeOf(c.Op))
		}
	}
	if g.rank < 2*extra {
		if v < 0 {
			return g.recv(ctx, g.rank-1, acc)
		}
		elem.Conclude(acc, c.Kind, elem.CodeOf(c.Op), size)
		return g.send(ctx, g.rank+1, acc)
	}
	elem.Conclude(acc, c.Kind, elem.CodeOf(c.Op), size)
	return nil
}

// treeReduce reduces blocks along a binomial tree whose leaves are in the order of ranks, starting with root.
func (g *Group) treeReduce(ctx context.Context, c *Call) error {
	size, n := len(g.ranks), len(c.Send.Bytes)
	buf := g.scratch(2 * n)
	acc, tmp := buf[:n], buf[n:]
	elem.Prepare(acc, c.Send.Bytes, c.Kind, c.Op)
	v := (g.rank - c.Root + size) % size
	for mask := 1; mask < size; mask <<= 1 {
		if v&mask != 0 {
			return g.send(ctx, (v-mask+c.Root)%size, acc)
		}
		if v+mask < size {
			if err := g.recv(ctx, (v+mask+c.Root)%size, tmp); err != nil {
				return err
			}
			elem.Fold(acc, acc, tmp, c.Kind, elem.CodeOf(c.Op))
		}
	}
	elem.Conclude(acc, c.Kind, elem.CodeOf(c.Op), size)
	copy(c.Recv.Bytes, acc)
	return nil
}

// reduceScatter returns the part of this rank of the reduction of n bytes of c.Send.Bytes of every rank. The result is
// scratch memory.
func (g *Group) reduceScatter(ctx context.Context, c *Call, n int) ([]byte, error) {
	cuts := g.cuts(n, c.Kind.Size())
	if g.upwards(c) {
		return g.directReduceScatter(ctx, c, cuts)
	}
	return g.ringReduceScatter(ctx, c, cuts)
}

// ringReduceScatter sends part p from rank p+1 around the ring to rank p; each rank adds its own data. The result is
// ((x[p+1] ∘ x[p+2]) ∘ …) ∘ x[p].
func (g *Group) ringReduceScatter(ctx context.Context, c *Call, cuts []int) ([]byte, error) {
	size := len(g.ranks)
	widest := 0
	for r := range size {
		widest = max(widest, cuts[r+1]-cuts[r])
	}
	buf := g.scratch(3 * widest)
	have, got, own := buf[:widest], buf[widest:2*widest], buf[2*widest:]
	next, prev := (g.rank+1)%size, (g.rank-1+size)%size
	part := func(p int) []byte { // data of this rank for part p, scaled
		s := c.Send.Bytes[cuts[p]:cuts[p+1]]
		if elem.CodeOf(c.Op) == elem.OpPreMulSum {
			elem.Prepare(own[:len(s)], s, c.Kind, c.Op)
			return own[:len(s)]
		}
		return s
	}
	p := (g.rank - 1 + size) % size
	out := part(p)
	copy(have, out)
	have = have[:len(out)]
	for range size - 1 {
		q := (p - 1 + size) % size
		in := got[:cuts[q+1]-cuts[q]]
		if _, err := g.swap(ctx, next, have, prev, in, forData); err != nil {
			return nil, err
		}
		elem.Fold(in, in, part(q), c.Kind, elem.CodeOf(c.Op))
		have, got = in, have[:widest:widest]
		p = q
	}
	elem.Conclude(have, c.Kind, elem.CodeOf(c.Op), size)
	return have, nil
}

// directReduceScatter sends each rank its part and reduces the own part from rank 0 upward. It moves as many bytes as
// the ring, but needs memory for the data of all ranks.
func (g *Group) directReduceScatter(ctx context.Context, c *Call, cuts []int) ([]byte, error) {
	size := len(g.ranks)
	n := cuts[g.rank+1] - cuts[g.rank]
	src := c.Send.Bytes
	extra := 0
	if elem.CodeOf(c.Op) == elem.OpPreMulSum {
		extra = len(src)
	}
	buf := g.scratch(size*n + extra)
	if extra > 0 {
		elem.Prepare(buf[size*n:], src, c.Kind, c.Op)
		src = buf[size*n:]
	}
	for step := 1; step < size; step++ {
		to, from := (g.rank+step)%size, (g.rank-step+size)%size
		if _, err := g.swap(ctx, to, src[cuts[to]:cuts[to+1]], from, buf[from*n:(from+1)*n], forData); err != nil {
			return nil, err
		}
	}
	copy(buf[g.rank*n:], src[cuts[g.rank]:cuts[g.rank+1]])
	g.sources = g.sources[:0]
	for r := range size {
		g.sources = append(g.sources, buf[r*n:(r+1)*n])
	}
	own := buf[:n]
	if n > 0 {
		elem.FoldAll(own, g.sources, c.Kind, elem.CodeOf(c.Op))
	}
	elem.Conclude(own, c.Kind, elem.CodeOf(c.Op), size)
	return own, nil
}
