package collective

import (
	"context"

	"go.millstream.dev/internal/collective/elem"
)

// collect is one collective in shared memory. The words of all ranks are in their slots after one stage; large data
// flows through in and out, round by round, its first round before the words are read.
func (s *segment) collect(ctx context.Context, g *Group, c *Call) error {
	half := int(s.calls & 1)
	s.calls++
	slot := s.slotOf(half, s.rank)
	g.say(slot, c, sharedInline)
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

// flows reports whether large data of this collective goes through shared memory.
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

// read takes the words of all ranks from their slots. What is relied on is copied: another process could still change
// it.
func (s *segment) read(g *Group, half int) error {
	at := 0
	for r := range s.size {
		slot := s.slotOf(half, r)
		p := &g.parts[r]
		if _, err := parsePart(slot, p); err != nil {
			return &opError{g.ranks[r], err}
		}
		if p.vec > 0 {
			n := copy(g.words[at:], p.counts)
			p.counts = g.words[at : at+n]
			at += n
		}
	}
	return sound(g.parts)
}

// A call's data flows in rounds. What a round of each collective moves:
//
//	AllReduce, Reduce   in: a stretch of send          out: the same stretch of the result, rank p's part made by p
//	ReduceScatter       in: a stretch of each part     out: the same stretch of the result's parts
//	AllGather                                          out: a stretch of each rank's send
//	Broadcast                                          out: a stretch of root's buf

// rounds is how many rounds the call takes.
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

// piece is each rank's share of a full round.
func (s *segment) piece() int { return s.round / s.size }

// stretch is the part of n bytes that round i covers, with step bytes a round.
func stretch(n, step, i int) (lo, hi int) { return min(i*step, n), min((i+1)*step, n) }

// share is rank r's part of a round of n bytes: whole cache lines.
func (s *segment) share(n, r int) (lo, hi int) {
	each := ((n+s.size-1)/s.size + 63) &^ 63
	return min(r*each, n), min((r+1)*each, n)
}

// feed writes this rank's data of a round.
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
		lo, hi = s.share(len(src), s.rank) // its own share it reads where it is
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

// flow does all rounds; the first is fed already, and every rank has passed that stage.
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

// flowNow is flow for a call whose first round is not fed yet.
func (s *segment) flowNow(ctx context.Context, g *Group, c *Call) error {
	s.feed(c, 0)
	if err := s.wait(ctx, g, s.publish()); err != nil {
		return err
	}
	return s.flow(ctx, g, c)
}

// reduce makes this rank's share of a round's result, from rank 0 upwards.
func (s *segment) reduce(g *Group, c *Call, i int) {
	half := (s.half + i) & 1
	var lo, hi, at int // the share within the round, and its place in recv
	var own []byte     // this rank's operand, where it is not in the segment
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

// flowOut is for data that is only copied.
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
