package collective

import (
	"context"

	"go.millstream.dev/internal/collective/elem"
)

// collect runs one collective in shared memory. The headers of all ranks are in their slots after one stage; large data
// passes through in and out in rounds, the first of which is written before the headers are read.
func (s *segment) collect(ctx context.Context, g *Group, c *Call) error {
	half := int(s.calls & 1)
	s.calls++
	slot := s.slotOf(half, s.rank)
	g.announce(slot, c, sharedInline)
	flows := slot[3] == 0 && c.flows()
	if flows {
		s.feed(c, 0)
	}
	if err := s.wait(ctx, g, s.publish()); err != nil {
		return err
	}
	if err := s.read(g, half); err != nil {
		return err
	}
	if err := agree(g.parts); err != nil {
		return err
	}
	switch {
	case c.OnDevice:
		return g.carrier.Run(ctx, c)
	case allInline(g.parts):
		g.finishSmall(c)
		return nil
	case flows || c.flows():
		return s.flow(ctx, g, c)
	}
	return g.large(ctx, c)
}

// flows reports whether large data of this collective passes through shared memory.
func (c *Call) flows() bool {
	if c.OnDevice {
		return false
	}
	switch c.Code {
	case AllReduce, Reduce, ReduceScatter, Broadcast, AllGather:
		return true
	}
	return false
}

// read decodes the headers of all ranks. Counts are copied, because another process could change them later.
func (s *segment) read(g *Group, half int) error {
	at := 0
	for r := range s.size {
		slot := s.slotOf(half, r)
		p := &g.parts[r]
		if _, err := parsePart(slot, p); err != nil {
			return &opError{g.ranks[r], err}
		}
		if p.vec > 0 {
			n := copy(g.headers[at:], p.counts)
			p.counts = g.headers[at : at+n]
			at += n
		}
	}
	return validate(g.parts)
}

// Large data passes through shared memory in rounds. The data of one round:
//
//	AllReduce, Reduce   in: a range of send          out: the same range of the result; rank p computes part p
//	ReduceScatter       in: a range of each part     out: the same range of the parts of the result
//	AllGather                                        out: a range of send of each rank
//	Broadcast                                        out: a range of the memory of root

// rounds returns the number of rounds of a call.
func (s *segment) rounds(c *Call) int {
	n, step := len(c.Send.Bytes), s.round
	switch c.Code {
	case ReduceScatter:
		n, step = len(c.Recv.Bytes), s.piece()
	case AllGather:
		step = s.piece()
	}
	return (n + step - 1) / step
}

// piece returns the share of each rank in a full round.
func (s *segment) piece() int { return s.round / s.size }

// stretch returns the range of n bytes that round i covers, with step bytes in each round.
func stretch(n, step, i int) (lo, hi int) { return min(i*step, n), min((i+1)*step, n) }

// share returns the part of rank r in a round of n bytes, in whole cache lines.
func (s *segment) share(n, r int) (lo, hi int) {
	each := ((n+s.size-1)/s.size + 63) &^ 63
	return min(r*each, n), min((r+1)*each, n)
}

// feed writes the data of this rank for a round.
func (s *segment) feed(c *Call, i int) {
	half := (s.half + i) & 1
	switch c.Code {
	case AllReduce, Reduce:
		lo, hi := stretch(len(c.Send.Bytes), s.round, i)
		src, dst := c.Send.Bytes[lo:hi], s.in(half, s.rank)
		if elem.CodeOf(c.Op) == elem.OpPreMulSum {
			elem.Prepare(dst[:len(src)], src, c.Kind, c.Op)
			return
		}
		lo, hi = s.share(len(src), s.rank) // this rank reads its own share from its buffer
		copy(dst, src[:lo])
		copy(dst[hi:], src[hi:])
	case ReduceScatter:
		lo, hi := stretch(len(c.Recv.Bytes), s.piece(), i)
		dst := s.in(half, s.rank)
		for r := range s.size {
			at := r * len(c.Recv.Bytes)
			elem.Prepare(dst[r*s.piece():r*s.piece()+hi-lo], c.Send.Bytes[at+lo:at+hi], c.Kind, c.Op)
		}
	case AllGather:
		lo, hi := stretch(len(c.Send.Bytes), s.piece(), i)
		copy(s.out(half)[s.rank*s.piece():], c.Send.Bytes[lo:hi])
	case Broadcast:
		if s.rank == c.Root {
			lo, hi := stretch(len(c.Send.Bytes), s.round, i)
			copy(s.out(half), c.Send.Bytes[lo:hi])
		}
	}
}

// flow runs all rounds. The first one was fed, and every rank has passed that stage.
func (s *segment) flow(ctx context.Context, g *Group, c *Call) error {
	rounds := s.rounds(c)
	defer func() { s.half = (s.half + rounds) & 1 }()
	if !c.reduces() {
		return s.flowOut(ctx, g, c, rounds)
	}
	fed := s.stage
	for i := range rounds {
		if err := s.wait(ctx, g, fed); err != nil {
			return err
		}
		s.reduce(g, c, i)
		made := s.publish()
		if i+1 < rounds {
			s.feed(c, i+1)
			fed = s.publish()
		}
		if err := s.wait(ctx, g, made); err != nil {
			return err
		}
		if c.Code == AllReduce || c.Code == Reduce && c.Root == s.rank {
			lo, hi := stretch(len(c.Send.Bytes), s.round, i)
			out, dst := s.out((s.half+i)&1), c.Recv.Bytes[lo:hi]
			lo, hi = s.share(len(dst), s.rank)
			copy(dst[:lo], out)
			copy(dst[hi:], out[hi:])
		}
	}
	return nil
}

// flowNow feeds the first round and calls flow.
func (s *segment) flowNow(ctx context.Context, g *Group, c *Call) error {
	s.feed(c, 0)
	if err := s.wait(ctx, g, s.publish()); err != nil {
		return err
	}
	return s.flow(ctx, g, c)
}

// reduce computes the share of this rank in the result of a round, from rank 0 upward.
func (s *segment) reduce(g *Group, c *Call, i int) {
	half := (s.half + i) & 1
	var lo, hi, at int // the share in the round, and its offset in recv
	var own []byte     // operand of this rank if it is not in the segment
	if c.Code == ReduceScatter {
		l, h := stretch(len(c.Recv.Bytes), s.piece(), i)
		lo, hi, at = s.rank*s.piece(), s.rank*s.piece()+h-l, l
	} else {
		l, h := stretch(len(c.Send.Bytes), s.round, i)
		lo, hi = s.share(h-l, s.rank)
		at = l + lo
		if elem.CodeOf(c.Op) != elem.OpPreMulSum {
			own = c.Send.Bytes[at : l+hi]
		}
	}
	if lo == hi {
		return
	}
	g.sources = g.sources[:0]
	for r := range s.size {
		if r == s.rank && own != nil {
			g.sources = append(g.sources, own)
			continue
		}
		g.sources = append(g.sources, s.in(half, r)[lo:hi])
	}
	out := s.out(half)[lo:hi]
	elem.FoldAll(out, g.sources, c.Kind, elem.CodeOf(c.Op))
	elem.Conclude(out, c.Kind, elem.CodeOf(c.Op), s.size)
	if c.Code != Reduce || c.Root == s.rank {
		copy(c.Recv.Bytes[at:], out)
	}
}

// flowOut runs the rounds of a call that only copies data.
func (s *segment) flowOut(ctx context.Context, g *Group, c *Call, rounds int) error {
	for i := range rounds {
		if i > 0 {
			s.feed(c, i)
			if err := s.wait(ctx, g, s.publish()); err != nil {
				return err
			}
		}
		out := s.out((s.half + i) & 1)
		if c.Code == Broadcast {
			if s.rank != c.Root {
				lo, hi := stretch(len(c.Recv.Bytes), s.round, i)
				copy(c.Recv.Bytes[lo:hi], out)
			}
			continue
		}
		n := len(c.Send.Bytes)
		lo, hi := stretch(n, s.piece(), i)
		for r := range s.size {
			copy(c.Recv.Bytes[r*n+lo:r*n+hi], out[r*s.piece():])
		}
	}
	return nil
}
