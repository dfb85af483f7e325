package clique

import (
	"context"

	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/collective"
	"go.millstream.dev/mem"
)

// staged moves device memory through the host's: copied there, sent or reduced by the group's own
// collectives, and copied back. It is right everywhere and fast nowhere: what remains where the
// ranks have neither NCCL nor a UCX that knows GPUs.
type staged struct {
	g    *collective.Group
	side *collective.Group // of the same ranks, as g's turn is taken; nil before it is needed
}

// Name is "host".
func (*staged) Name() string { return "host" }

// down is a buffer's copy on the host; nil of nil.
func down(ctx context.Context, b *mem.Buffer) ([]byte, error) {
	if b == nil {
		return nil, nil
	}
	out := make([]byte, b.Len())
	if b.Len() == 0 {
		return out, nil
	}
	return out, cuda.CopyToHost(ctx, out, b)
}

// Run carries a collective out on copies.
func (s *staged) Run(ctx context.Context, c *collective.DeviceCall) error {
	if s.side == nil {
		side, err := s.g.Lane(stagedLane)
		if err != nil {
			return err
		}
		s.side = side
	}
	h := *c
	var recv []byte
	send, err := down(ctx, c.Send)
	if err != nil {
		return err
	}
	if c.Recv != nil {
		recv = make([]byte, c.Recv.Len())
	}
	if c.Code == collective.BroadcastCode {
		recv = send
	}
	h.Send, h.Recv = heap(send), heap(recv)
	if err := s.side.Do(ctx, h); err != nil {
		return err
	}
	if !s.writes(c) || len(recv) == 0 {
		return nil
	}
	return cuda.CopyFromHost(ctx, c.Recv, recv)
}

func heap(b []byte) *mem.Buffer {
	if b == nil {
		return nil
	}
	return mem.FromBytes(b)
}

func (s *staged) writes(c *collective.DeviceCall) bool {
	switch c.Code {
	case collective.ReduceCode, collective.GatherCode, collective.GatherVCode:
		return c.Root == s.g.Rank()
	}
	return true
}

// Send sends a copy.
func (s *staged) Send(ctx context.Context, to int, tag uint64, b *mem.Buffer) func() error {
	data, err := down(ctx, b)
	if err != nil {
		return func() error { return err }
	}
	q := s.g.StartSend(ctx, to, tag, data)
	return func() error {
		<-q.Done()
		return q.Err()
	}
}

// Recv receives into a copy.
func (s *staged) Recv(ctx context.Context, from int, tag uint64, b *mem.Buffer) func() (int, error) {
	data := make([]byte, length(b))
	q := s.g.StartRecv(ctx, from, tag, data)
	return func() (int, error) {
		<-q.Done()
		if err := q.Err(); err != nil || q.Len() == 0 {
			return 0, err
		}
		part := b.Slice(0, q.Len())
		defer part.Release()
		return q.Len(), cuda.CopyFromHost(ctx, part, data[:q.Len()])
	}
}

// Close ends the lane.
func (s *staged) Close() error {
	if s.side == nil {
		return nil
	}
	return s.side.Close()
}
