package clique

import (
	"context"
	"fmt"
	"sync/atomic"

	"go.millstream.dev/internal/collective"
	"go.millstream.dev/mem"
	"go.millstream.dev/nccl"
)

// ncclCarrier moves the device memory of one round or sub-clique with NCCL. It leases a communicator for its first
// collective. Point-to-point messages use another carrier, because NCCL has no tags and its messages wait for each
// other.
type ncclCarrier struct {
	collective.Carrier // for Send and Recv
	p                  *ncclPool
	g                  *collective.Group
	sub                bool
	lease              atomic.Pointer[ncclComm] // nil before the first collective, which leases it
}

// Name returns "nccl".
func (n *ncclCarrier) Name() string { return string(NCCL) }

var ncclTypes = map[Kind]nccl.DataType{collective.Int8: nccl.Int8, collective.Uint8: nccl.Uint8,
	collective.Int32: nccl.Int32, collective.Uint32: nccl.Uint32, collective.Int64: nccl.Int64,
	collective.Uint64:  nccl.Uint64,
	collective.Float16: nccl.Float16, collective.BFloat16: nccl.BFloat16, collective.Float32: nccl.Float32,
	collective.Float64: nccl.Float64}

var ncclOps = map[Op]nccl.Op{Sum: nccl.Sum, Prod: nccl.Prod, Min: nccl.Min, Max: nccl.Max, Avg: nccl.Avg}

// Check returns why NCCL cannot run a call, such as a buffer on another GPU; "" if it can.
func (n *ncclCarrier) Check(c *collective.Call) string {
	switch c.Code {
	case collective.AllReduce, collective.Reduce, collective.ReduceScatter:
		if _, ok := ncclTypes[c.Kind]; !ok {
			return fmt.Sprintf("NCCL cannot reduce elements of %v; use another type, or a clique with "+
				"Backend ucx", c.Kind)
		}
	}
	for _, b := range []*mem.Buffer{c.Send.Buffer, c.Recv.Buffer} {
		if b != nil && b.Device() != n.p.device {
			return fmt.Sprintf("buffer on device %d, but the GPU of the rank is device %d", b.Device(), n.p.device)
		}
	}
	return ""
}

// Run enqueues a collective.
func (n *ncclCarrier) Run(ctx context.Context, c *collective.Call) error {
	if err := n.begin(ctx); err != nil {
		return err
	}
	k := n.lease.Load()
	w, err := n.enqueue(ctx, k, c)
	if w == nil || err != nil {
		return err
	}
	if n.writes(c) {
		return k.track(w, c.Busy, c.Recv.Buffer)
	}
	return k.track(w, c.Busy)
}

// begin leases a communicator, once. The ranks use a separate group for that, because this one is in use.
func (n *ncclCarrier) begin(ctx context.Context) (err error) {
	if n.lease.Load() != nil {
		return nil
	}
	side, err := n.g.Dup(leaseGroup)
	if err != nil {
		return err
	}
	defer side.Close()
	var c *ncclComm
	if n.sub {
		c, err = n.p.add(ctx, side)
	} else {
		c, err = n.p.lease(ctx, side)
	}
	n.lease.Store(c)
	return err
}

// writes reports whether this rank gets a result.
func (n *ncclCarrier) writes(c *collective.Call) bool {
	switch c.Code {
	case collective.Reduce, collective.Gather, collective.GatherV:
		return c.Root == n.g.Rank()
	}
	return true
}

// enqueue enqueues a collective; it returns nil if there is nothing to do.
func (n *ncclCarrier) enqueue(ctx context.Context, by *ncclComm, c *collective.Call) (*nccl.Work, error) {
	if length(c.Send.Buffer) == 0 && length(c.Recv.Buffer) == 0 {
		return nil, nil
	}
	k, s := by.c, by.stream
	bytes := nccl.Uint8 // for data that is only moved
	switch c.Code {
	case collective.AllReduce, collective.Reduce, collective.ReduceScatter:
		t := ncclTypes[c.Kind]
		op, free, err := operation(ctx, k, c.Op, t)
		if err != nil {
			return nil, err
		}
		defer free()
		switch c.Code {
		case collective.AllReduce:
			return k.AllReduce(ctx, s, c.Send.Buffer, c.Recv.Buffer, t, op)
		case collective.Reduce:
			return k.Reduce(ctx, s, c.Send.Buffer, c.Recv.Buffer, t, op, c.Root)
		}
		return k.ReduceScatter(ctx, s, c.Send.Buffer, c.Recv.Buffer, t, op)
	case collective.Broadcast:
		return k.Broadcast(ctx, s, c.Send.Buffer, c.Recv.Buffer, bytes, c.Root)
	case collective.AllGather:
		return k.AllGather(ctx, s, c.Send.Buffer, c.Recv.Buffer, bytes)
	}
	m := n.moves(c)
	defer m.release()
	return m.run(ctx, by)
}

// operation returns the NCCL operation for op, and a function that frees it.
func operation(ctx context.Context, k *nccl.Comm, op Op, t nccl.DataType) (nccl.Op, func(), error) {
	_, element, ok := op.Scale()
	if !ok {
		return ncclOps[op], func() {}, nil
	}
	o, err := k.PreMulSumOf(ctx, t, element)
	if err != nil {
		return 0, nil, err
	}
	return o, func() { _ = k.FreeOp(ctx, o) }, nil // NCCL has read the scale by then
}

// Flush waits for the enqueued operations.
func (n *ncclCarrier) Flush(ctx context.Context) error {
	if c := n.lease.Load(); c != nil {
		return c.flush(ctx)
	}
	return nil
}

// Close releases the communicator for other rounds; that of a sub-clique is closed.
func (n *ncclCarrier) Close() error {
	if c := n.lease.Load(); c != nil && n.sub {
		n.p.drop(c)
	} else if c != nil {
		n.p.release(c)
	}
	return n.Carrier.Close()
}

func length(b *mem.Buffer) int {
	if b == nil {
		return 0
	}
	return b.Len()
}
