package nccl

import (
	"context"
	"fmt"

	"go.millstream.dev/cuda"
	"go.millstream.dev/mem"
	"go.millstream.dev/nccl/internal/ncclapi"
)

// Group is a list of sends and receives that run as one operation: none waits for another, so that ranks may exchange
// data in any pattern. It is used once.
type Group struct {
	c             *Comm
	ops           []ncclapi.Op
	reads, writes []*mem.Buffer
	err           error
}

// Group returns an empty group.
func (c *Comm) Group() *Group { return &Group{c: c} }

// Send adds sending a buffer to a rank, which must receive as many elements.
func (g *Group) Send(b *mem.Buffer, t DataType, to int) *Group { return g.add(ncclapi.Send, b, t, to) }

// Recv adds receiving into a buffer from a rank.
func (g *Group) Recv(b *mem.Buffer, t DataType, from int) *Group {
	return g.add(ncclapi.Recv, b, t, from)
}

func (g *Group) add(kind int, b *mem.Buffer, t DataType, peer int) *Group {
	op := "send"
	if kind == ncclapi.Recv {
		op = "receive"
	}
	n, err := count(op, b, t)
	if err == nil {
		err = g.c.checkRank(op, "peer", peer)
	}
	if err != nil {
		if g.err == nil {
			g.err = err
		}
		return g
	}
	o := ncclapi.Op{Kind: int32(kind), Type: int32(t), Peer: int32(peer), Count: n}
	if kind == ncclapi.Send {
		o.Send, g.reads = addr(b), append(g.reads, b)
	} else {
		o.Recv, g.writes = addr(b), append(g.writes, b)
	}
	g.ops = append(g.ops, o)
	return g
}

// Run enqueues the group on a stream.
func (g *Group) Run(ctx context.Context, s *cuda.Stream) (*Work, error) {
	if g.err != nil {
		return nil, g.err
	}
	if len(g.ops) == 0 {
		return nil, fmt.Errorf("nccl: group without operations")
	}
	return g.c.run(ctx, s, "group", g.ops, g.reads, g.writes)
}

// Send enqueues sending a buffer to a rank, which must receive at the same time.
func (c *Comm) Send(ctx context.Context, s *cuda.Stream, b *mem.Buffer, t DataType, to int) (*Work, error) {
	return c.Group().Send(b, t, to).Run(ctx, s)
}

// Recv enqueues receiving into a buffer from a rank.
func (c *Comm) Recv(ctx context.Context, s *cuda.Stream, b *mem.Buffer, t DataType, from int) (*Work, error) {
	return c.Group().Recv(b, t, from).Run(ctx, s)
}

// Gather concatenates the send buffers of all ranks in root's recv, which is Size times as long; recv of others may be
// nil.
func (c *Comm) Gather(ctx context.Context, s *cuda.Stream, send, recv *mem.Buffer, t DataType, root int) (*Work,
	error) {
	if err := c.checkRank("gather", "root", root); err != nil {
		return nil, err
	}
	n, err := count("gather", send, t)
	if err == nil && c.rank == root {
		n, err = pair("gather", send, recv, t, c.size)
	}
	if err != nil {
		return nil, err
	}
	if ncclapi.Has(ncclapi.Gather) {
		return c.rooted(ctx, s, "gather", ncclapi.Gather, send, recv, t, n, root)
	}
	g := c.Group().Send(send, t, root)
	if c.rank != root {
		return g.Run(ctx, s)
	}
	parts := cut(recv, c.size)
	defer release(parts)
	for rank, p := range parts {
		g.Recv(p, t, rank)
	}
	return g.runInto(ctx, s, recv)
}

// Scatter copies part i of root's send to rank i's recv; send is Size times as long, that of others may be nil.
func (c *Comm) Scatter(ctx context.Context, s *cuda.Stream, send, recv *mem.Buffer, t DataType, root int) (*Work,
	error) {
	if err := c.checkRank("scatter", "root", root); err != nil {
		return nil, err
	}
	n, err := count("scatter", recv, t)
	if err == nil && c.rank == root {
		n, err = pair("scatter", send, recv, t, -c.size)
	}
	if err != nil {
		return nil, err
	}
	if ncclapi.Has(ncclapi.Scatter) {
		return c.rooted(ctx, s, "scatter", ncclapi.Scatter, send, recv, t, n, root)
	}
	g := c.Group().Recv(recv, t, root)
	if c.rank != root {
		return g.Run(ctx, s)
	}
	parts := cut(send, c.size)
	defer release(parts)
	for rank, p := range parts {
		g.Send(p, t, rank)
	}
	return g.Run(ctx, s)
}

// AllToAll sends part i of send to rank i and receives part j of recv from rank j. Both have equal length.
func (c *Comm) AllToAll(ctx context.Context, s *cuda.Stream, send, recv *mem.Buffer, t DataType) (*Work, error) {
	n, err := pair("all-to-all", send, recv, t, 1)
	if err != nil {
		return nil, err
	}
	if n%uint64(c.size) != 0 {
		return nil, fmt.Errorf("nccl: all-to-all: %d elements are not a multiple of %d ranks", n, c.size)
	}
	if ncclapi.Has(ncclapi.AllToAll) {
		op := ncclapi.Op{Kind: ncclapi.AllToAll, Type: int32(t), Send: addr(send), Recv: addr(recv),
			Count: n / uint64(c.size)}
		return c.run(ctx, s, "all-to-all", []ncclapi.Op{op}, []*mem.Buffer{send}, []*mem.Buffer{recv})
	}
	g, out, in := c.Group(), cut(send, c.size), cut(recv, c.size)
	defer release(out)
	defer release(in)
	for rank := range c.size {
		g.Send(out[rank], t, rank).Recv(in[rank], t, rank)
	}
	return g.runInto(ctx, s, recv)
}

// rooted is NCCL's own gather or scatter of n elements per rank. Buffers that only root uses are left out on other
// ranks.
func (c *Comm) rooted(ctx context.Context, s *cuda.Stream, op string, kind int, send, recv *mem.Buffer, t DataType,
	n uint64, root int) (*Work, error) {
	reads, writes := []*mem.Buffer{send}, []*mem.Buffer{recv}
	if c.rank != root && kind == ncclapi.Gather {
		recv, writes = nil, nil
	} else if c.rank != root {
		send, reads = nil, nil
	}
	return c.run(ctx, s, op, []ncclapi.Op{{Kind: int32(kind), Type: int32(t), Peer: int32(root), Send: addr(send),
		Recv: addr(recv), Count: n}}, reads, writes)
}

// runInto runs a group that receives into views of whole, whose own ready event it sets too.
func (g *Group) runInto(ctx context.Context, s *cuda.Stream, whole *mem.Buffer) (*Work, error) {
	w, err := g.Run(ctx, s)
	if err == nil {
		whole.SetReady(w.event)
	}
	return w, err
}

// cut returns n views of equal length.
func cut(b *mem.Buffer, n int) []*mem.Buffer {
	size := b.Len() / n
	parts := make([]*mem.Buffer, n)
	for i := range parts {
		parts[i] = b.Slice(i*size, size)
	}
	return parts
}

func release(list []*mem.Buffer) {
	for _, b := range list {
		b.Release()
	}
}
