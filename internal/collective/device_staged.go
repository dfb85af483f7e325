package collective

import (
	"context"

	"go.millstream.dev/mem"
)

// stage is pinned memory for staged data: first send, then recv.
type stage struct {
	buf  *mem.Buffer
	busy mem.Event // last copy from it
	in   mem.Event // copy to it, in flight
}

// stagePiece is the size of the pieces of a large buffer: while one piece is sent between ranks, the next is copied
// from the device and the previous one to it.
var stagePiece = 8 << 20

// resize makes the stage at least n bytes long, after its last use has ended.
func (s *stage) resize(ctx context.Context, dev gpu, n int) error {
	if err := waitEvent(ctx, s.busy); err != nil {
		return err
	}
	s.busy = nil
	if s.buf != nil && s.buf.Len() >= n {
		return nil
	}
	s.free()
	var err error
	s.buf, err = dev.pinned(ctx, n)
	return err
}

func (s *stage) free() {
	if s.buf != nil {
		s.buf.Release() // a copy in flight retains it
		s.buf = nil
	}
}

// piece is a part of a staged call: ranges of send and recv.
type piece struct {
	send, recv *mem.Buffer // on the device; nil if this rank has none
}

// runStaged runs a call through pinned memory: copies to the host, the same collective on host memory, and copies back,
// the last of which sets the ready event of the result. count is the size on which the ranks have agreed, in bytes.
func (k *deviceCarrier) runStaged(ctx context.Context, dev gpu, c *Call, count int) error {
	pieces := k.pieces(c, count)
	defer func() {
		for _, p := range pieces {
			p.release()
		}
	}()
	if len(pieces) > 0 {
		if err := k.stages[0].begin(ctx, dev, &pieces[0]); err != nil {
			return err
		}
	}
	for i := range pieces {
		if i+1 < len(pieces) {
			if err := k.stages[(i+1)%2].begin(ctx, dev, &pieces[i+1]); err != nil {
				return err
			}
		}
		if err := k.pass(ctx, dev, c, &k.stages[i%2], &pieces[i]); err != nil {
			return err
		}
	}
	return nil
}

// pieces divides a call, in the same way on all ranks. Only calls whose results at an offset depend on that offset
// alone are divided.
func (k *deviceCarrier) pieces(c *Call, total int) []piece {
	root := c.Root == k.g.rank
	send, recv := c.Send.Buffer, c.Recv.Buffer
	switch c.Code {
	case Reduce, Gather, GatherV:
		if !root {
			recv = nil
		}
	case Broadcast:
		if root {
			recv = nil
		} else {
			send = nil
		}
	case Scatter, ScatterV:
		if !root {
			send = nil
		}
	}
	view := func(b *mem.Buffer, at, n int) *mem.Buffer {
		if b == nil || b.Len() == 0 {
			return nil
		}
		return b.Slice(at, n)
	}
	whole := func(b *mem.Buffer) *mem.Buffer {
		if b == nil {
			return nil
		}
		return view(b, 0, b.Len())
	}
	switch c.Code {
	case AllReduce, Reduce, Broadcast:
		var list []piece
		step := stagePiece / c.Kind.Size() * c.Kind.Size()
		for at := 0; at < total; at += step {
			n := min(step, total-at)
			list = append(list, piece{view(send, at, n), view(recv, at, n)})
		}
		return list
	}
	return []piece{{whole(send), whole(recv)}}
}

func (p *piece) release() {
	for _, b := range [...]*mem.Buffer{p.send, p.recv} {
		if b != nil {
			b.Release()
		}
	}
	p.send, p.recv = nil, nil
}

func lenOf(b *mem.Buffer) int {
	if b == nil {
		return 0
	}
	return b.Len()
}

// recvAt returns the offset of recv in a stage.
func (p *piece) recvAt() int { return (lenOf(p.send) + 255) &^ 255 }

// begin enqueues the copy of a piece to the host.
func (s *stage) begin(ctx context.Context, dev gpu, p *piece) error {
	if err := s.resize(ctx, dev, max(p.recvAt()+lenOf(p.recv), 1)); err != nil {
		return err
	}
	s.in = nil
	if p.send == nil {
		return nil
	}
	to := s.buf.Slice(0, p.send.Len())
	defer to.Release()
	var err error
	s.in, err = dev.copy(to, p.send)
	return err
}

// pass runs the collective of a piece on the host and enqueues the copy of its result.
func (k *deviceCarrier) pass(ctx context.Context, dev gpu, c *Call, s *stage, p *piece) error {
	if err := waitEvent(ctx, s.in); err != nil {
		return err
	}
	s.in = nil
	b := s.buf.Bytes()
	host := Call{Code: c.Code, Kind: c.Kind, Op: c.Op, Root: c.Root, Counts: c.Counts, RecvCounts: c.RecvCounts,
		upwards: true, Send: Memory{Bytes: b[:lenOf(p.send)]},
		Recv: Memory{Bytes: b[p.recvAt() : p.recvAt()+lenOf(p.recv)]}}
	if c.Code == Broadcast { // one buffer, sent by root and received by the others
		if p.recv == nil {
			host.Recv.Bytes = host.Send.Bytes
		} else {
			host.Send.Bytes = host.Recv.Bytes
		}
	}
	if err := k.g.collect(ctx, &host); err != nil {
		return err
	}
	if p.recv == nil {
		return nil
	}
	from := s.buf.Slice(p.recvAt(), p.recv.Len())
	defer from.Release()
	e, err := dev.copy(p.recv, from)
	if err != nil {
		return err
	}
	s.busy = e
	c.Recv.Buffer.SetReady(e) // pieces are in order, so the last event is set in the end
	return nil
}
