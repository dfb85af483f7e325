package nccl

import (
	"context"
	"fmt"

	"go.millstream.dev/cuda"
	"go.millstream.dev/mem"
	"go.millstream.dev/nccl/internal/ncclapi"
)

// count returns how many elements of a type a buffer holds.
func count(op string, b *mem.Buffer, t DataType) (uint64, error) {
	size := t.Size()
	if size == 0 {
		return 0, fmt.Errorf("nccl: %s: invalid data type %d", op, int32(t))
	}
	if b == nil {
		return 0, fmt.Errorf("nccl: %s: nil buffer", op)
	}
	if b.Len()%size != 0 {
		return 0, fmt.Errorf("nccl: %s: %d bytes are not a multiple of the size of %v", op, b.Len(), t)
	}
	return uint64(b.Len() / size), nil
}

// pair checks that recv is times as long as send (or, if negative, send -times as long as recv) and returns the
// elements of the shorter.
func pair(op string, send, recv *mem.Buffer, t DataType, times int) (uint64, error) {
	n, err := count(op, send, t)
	if err != nil {
		return 0, err
	}
	m, err := count(op, recv, t)
	if err != nil {
		return 0, err
	}
	switch {
	case times > 0 && m == n*uint64(times):
		return n, nil
	case times < 0 && n == m*uint64(-times):
		return m, nil
	case times < 0:
		return 0, fmt.Errorf("nccl: %s: %d elements to send, %d to receive: want %d times as many to send",
			op, n, m, -times)
	}
	return 0, fmt.Errorf("nccl: %s: %d elements to send, %d to receive: want %d times as many to receive", op, n,
		m, times)
}

func (c *Comm) checkRank(op, what string, rank int) error {
	if rank < 0 || rank >= c.size {
		return fmt.Errorf("nccl: %s: %s %d: ranks are 0 to %d", op, what, rank, c.size-1)
	}
	return nil
}

func addr(b *mem.Buffer) uint64 {
	if b == nil {
		return 0
	}
	return uint64(b.Addr())
}

// AllReduce reduces the send buffers of all ranks, element by element, into every rank's recv.
func (c *Comm) AllReduce(ctx context.Context, s *cuda.Stream, send, recv *mem.Buffer, t DataType, o Op) (*Work, error) {
	n, err := pair("all-reduce", send, recv, t, 1)
	if err != nil {
		return nil, err
	}
	return c.run(ctx, s, "all-reduce", []ncclapi.Op{{Kind: ncclapi.AllReduce, Type: int32(t), RedOp: int32(o),
		Send: addr(send), Recv: addr(recv), Count: n}}, []*mem.Buffer{send}, []*mem.Buffer{recv})
}

// Reduce reduces the send buffers of all ranks into root's recv; recv of others may be nil.
func (c *Comm) Reduce(ctx context.Context, s *cuda.Stream, send, recv *mem.Buffer, t DataType, o Op, root int) (*Work,
	error) {
	if err := c.checkRank("reduce", "root", root); err != nil {
		return nil, err
	}
	n, err := count("reduce", send, t)
	var writes []*mem.Buffer
	if err == nil && c.rank == root {
		n, err = pair("reduce", send, recv, t, 1)
		writes = []*mem.Buffer{recv}
	} else {
		recv = nil
	}
	if err != nil {
		return nil, err
	}
	return c.run(ctx, s, "reduce", []ncclapi.Op{{Kind: ncclapi.Reduce, Type: int32(t), RedOp: int32(o),
		Peer: int32(root), Send: addr(send), Recv: addr(recv), Count: n}}, []*mem.Buffer{send}, writes)
}

// Broadcast copies root's send buffer into every rank's recv; send of others may be nil.
func (c *Comm) Broadcast(ctx context.Context, s *cuda.Stream, send, recv *mem.Buffer, t DataType, root int) (*Work,
	error) {
	if err := c.checkRank("broadcast", "root", root); err != nil {
		return nil, err
	}
	n, err := count("broadcast", recv, t)
	var reads []*mem.Buffer
	if err == nil && c.rank == root {
		n, err = pair("broadcast", send, recv, t, 1)
		reads = []*mem.Buffer{send}
	} else {
		send = recv // ignored by NCCL
	}
	if err != nil {
		return nil, err
	}
	return c.run(ctx, s, "broadcast", []ncclapi.Op{{Kind: ncclapi.Broadcast, Type: int32(t), Peer: int32(root),
		Send: addr(send), Recv: addr(recv), Count: n}}, reads, []*mem.Buffer{recv})
}

// AllGather concatenates the send buffers of all ranks, in order of ranks, in every rank's recv, which is Size times as
// long.
func (c *Comm) AllGather(ctx context.Context, s *cuda.Stream, send, recv *mem.Buffer, t DataType) (*Work, error) {
	n, err := pair("all-gather", send, recv, t, c.size)
	if err != nil {
		return nil, err
	}
	return c.run(ctx, s, "all-gather", []ncclapi.Op{{Kind: ncclapi.AllGather, Type: int32(t), Send: addr(send),
		Recv: addr(recv), Count: n}}, []*mem.Buffer{send}, []*mem.Buffer{recv})
}

// ReduceScatter reduces the send buffers of all ranks and stores part i of the result in rank i's recv; send is Size
// times as long.
func (c *Comm) ReduceScatter(ctx context.Context, s *cuda.Stream, send, recv *mem.Buffer, t DataType, o Op) (*Work,
	error) {
	n, err := pair("reduce-scatter", send, recv, t, -c.size)
	if err != nil {
		return nil, err
	}
	return c.run(ctx, s, "reduce-scatter", []ncclapi.Op{{Kind: ncclapi.ReduceScatter, Type: int32(t), RedOp: int32(o),
		Send: addr(send), Recv: addr(recv), Count: n}}, []*mem.Buffer{send}, []*mem.Buffer{recv})
}
