package clique

import (
	"context"
	"fmt"

	"go.millstream.dev/mem"
)

// Collectives on buffers of package mem: the methods of Rank. They are those on slices, with
// the kind of the elements as an argument. A buffer that only root looks at may be nil
// elsewhere. Buffers are retained while the operation runs.

// held are the buffers of an operation.
type held []*mem.Buffer

// hold retains buffers and waits until what was written to them last is there.
func hold(ctx context.Context, bufs ...*mem.Buffer) (held, error) {
	for _, b := range bufs {
		if b == nil {
			continue
		}
		if !b.Kind().HostAccessible() {
			return nil, fmt.Errorf("clique: a buffer of %s memory: this release's collectives work on memory that the host reaches; copy it first", b.Kind())
		}
	}
	var out held
	for _, b := range bufs {
		if b != nil {
			out = append(out, b.Retain())
		}
	}
	for _, b := range out {
		if err := b.WaitReady(ctx); err != nil {
			out.release()
			return nil, err
		}
	}
	return out, nil
}

func (h held) release() {
	for _, b := range h {
		b.Release()
	}
}

// after releases the buffers when a request is done.
func (h held) after(q *Request) *Request {
	go func() {
		<-q.Done()
		h.release()
	}()
	return q
}

// bytesOf is the memory of a buffer, nothing of none.
func bytesOf(b *mem.Buffer) []byte {
	if b == nil {
		return nil
	}
	return b.Bytes()
}

// AllReduce is the function AllReduce on buffers.
func (r *Rank) AllReduce(ctx context.Context, send, recv *mem.Buffer, k Kind, op Op) error {
	h, err := hold(ctx, send, recv)
	if err != nil {
		return err
	}
	defer h.release()
	return r.g.AllReduce(ctx, bytesOf(send), bytesOf(recv), k, op)
}

// StartAllReduce is the function StartAllReduce on buffers.
func (r *Rank) StartAllReduce(ctx context.Context, send, recv *mem.Buffer, k Kind, op Op) (*Request, error) {
	h, err := hold(ctx, send, recv)
	if err != nil {
		return nil, err
	}
	return h.after(r.g.StartAllReduce(ctx, bytesOf(send), bytesOf(recv), k, op)), nil
}

// Reduce is the function Reduce on buffers.
func (r *Rank) Reduce(ctx context.Context, send, recv *mem.Buffer, k Kind, op Op, root int) error {
	h, err := hold(ctx, send, recv)
	if err != nil {
		return err
	}
	defer h.release()
	return r.g.Reduce(ctx, bytesOf(send), bytesOf(recv), k, op, root)
}

// StartReduce is the function StartReduce on buffers.
func (r *Rank) StartReduce(ctx context.Context, send, recv *mem.Buffer, k Kind, op Op, root int) (*Request, error) {
	h, err := hold(ctx, send, recv)
	if err != nil {
		return nil, err
	}
	return h.after(r.g.StartReduce(ctx, bytesOf(send), bytesOf(recv), k, op, root)), nil
}

// Broadcast is the function Broadcast on buffers.
func (r *Rank) Broadcast(ctx context.Context, buf *mem.Buffer, k Kind, root int) error {
	h, err := hold(ctx, buf)
	if err != nil {
		return err
	}
	defer h.release()
	return r.g.Broadcast(ctx, bytesOf(buf), k, root)
}

// StartBroadcast is the function StartBroadcast on buffers.
func (r *Rank) StartBroadcast(ctx context.Context, buf *mem.Buffer, k Kind, root int) (*Request, error) {
	h, err := hold(ctx, buf)
	if err != nil {
		return nil, err
	}
	return h.after(r.g.StartBroadcast(ctx, bytesOf(buf), k, root)), nil
}

// AllGather is the function AllGather on buffers.
func (r *Rank) AllGather(ctx context.Context, send, recv *mem.Buffer, k Kind) error {
	h, err := hold(ctx, send, recv)
	if err != nil {
		return err
	}
	defer h.release()
	return r.g.AllGather(ctx, bytesOf(send), bytesOf(recv), k)
}

// StartAllGather is the function StartAllGather on buffers.
func (r *Rank) StartAllGather(ctx context.Context, send, recv *mem.Buffer, k Kind) (*Request, error) {
	h, err := hold(ctx, send, recv)
	if err != nil {
		return nil, err
	}
	return h.after(r.g.StartAllGather(ctx, bytesOf(send), bytesOf(recv), k)), nil
}

// AllGatherV is the function AllGatherV on buffers.
func (r *Rank) AllGatherV(ctx context.Context, send, recv *mem.Buffer, k Kind, counts []int) error {
	h, err := hold(ctx, send, recv)
	if err != nil {
		return err
	}
	defer h.release()
	return r.g.AllGatherV(ctx, bytesOf(send), bytesOf(recv), counts, k)
}

// StartAllGatherV is the function StartAllGatherV on buffers.
func (r *Rank) StartAllGatherV(ctx context.Context, send, recv *mem.Buffer, k Kind, counts []int) (*Request, error) {
	h, err := hold(ctx, send, recv)
	if err != nil {
		return nil, err
	}
	return h.after(r.g.StartAllGatherV(ctx, bytesOf(send), bytesOf(recv), counts, k)), nil
}

// Gather is the function Gather on buffers.
func (r *Rank) Gather(ctx context.Context, send, recv *mem.Buffer, k Kind, root int) error {
	h, err := hold(ctx, send, recv)
	if err != nil {
		return err
	}
	defer h.release()
	return r.g.Gather(ctx, bytesOf(send), bytesOf(recv), k, root)
}

// StartGather is the function StartGather on buffers.
func (r *Rank) StartGather(ctx context.Context, send, recv *mem.Buffer, k Kind, root int) (*Request, error) {
	h, err := hold(ctx, send, recv)
	if err != nil {
		return nil, err
	}
	return h.after(r.g.StartGather(ctx, bytesOf(send), bytesOf(recv), k, root)), nil
}

// GatherV is the function GatherV on buffers.
func (r *Rank) GatherV(ctx context.Context, send, recv *mem.Buffer, k Kind, counts []int, root int) error {
	h, err := hold(ctx, send, recv)
	if err != nil {
		return err
	}
	defer h.release()
	return r.g.GatherV(ctx, bytesOf(send), bytesOf(recv), counts, k, root)
}

// StartGatherV is the function StartGatherV on buffers.
func (r *Rank) StartGatherV(ctx context.Context, send, recv *mem.Buffer, k Kind, counts []int, root int) (*Request, error) {
	h, err := hold(ctx, send, recv)
	if err != nil {
		return nil, err
	}
	return h.after(r.g.StartGatherV(ctx, bytesOf(send), bytesOf(recv), counts, k, root)), nil
}

// Scatter is the function Scatter on buffers.
func (r *Rank) Scatter(ctx context.Context, send, recv *mem.Buffer, k Kind, root int) error {
	h, err := hold(ctx, send, recv)
	if err != nil {
		return err
	}
	defer h.release()
	return r.g.Scatter(ctx, bytesOf(send), bytesOf(recv), k, root)
}

// StartScatter is the function StartScatter on buffers.
func (r *Rank) StartScatter(ctx context.Context, send, recv *mem.Buffer, k Kind, root int) (*Request, error) {
	h, err := hold(ctx, send, recv)
	if err != nil {
		return nil, err
	}
	return h.after(r.g.StartScatter(ctx, bytesOf(send), bytesOf(recv), k, root)), nil
}

// ScatterV is the function ScatterV on buffers.
func (r *Rank) ScatterV(ctx context.Context, send, recv *mem.Buffer, k Kind, counts []int, root int) error {
	h, err := hold(ctx, send, recv)
	if err != nil {
		return err
	}
	defer h.release()
	return r.g.ScatterV(ctx, bytesOf(send), bytesOf(recv), counts, k, root)
}

// StartScatterV is the function StartScatterV on buffers.
func (r *Rank) StartScatterV(ctx context.Context, send, recv *mem.Buffer, k Kind, counts []int, root int) (*Request, error) {
	h, err := hold(ctx, send, recv)
	if err != nil {
		return nil, err
	}
	return h.after(r.g.StartScatterV(ctx, bytesOf(send), bytesOf(recv), counts, k, root)), nil
}

// ReduceScatter is the function ReduceScatter on buffers.
func (r *Rank) ReduceScatter(ctx context.Context, send, recv *mem.Buffer, k Kind, op Op) error {
	h, err := hold(ctx, send, recv)
	if err != nil {
		return err
	}
	defer h.release()
	return r.g.ReduceScatter(ctx, bytesOf(send), bytesOf(recv), k, op)
}

// StartReduceScatter is the function StartReduceScatter on buffers.
func (r *Rank) StartReduceScatter(ctx context.Context, send, recv *mem.Buffer, k Kind, op Op) (*Request, error) {
	h, err := hold(ctx, send, recv)
	if err != nil {
		return nil, err
	}
	return h.after(r.g.StartReduceScatter(ctx, bytesOf(send), bytesOf(recv), k, op)), nil
}

// AllToAll is the function AllToAll on buffers.
func (r *Rank) AllToAll(ctx context.Context, send, recv *mem.Buffer, k Kind) error {
	h, err := hold(ctx, send, recv)
	if err != nil {
		return err
	}
	defer h.release()
	return r.g.AllToAll(ctx, bytesOf(send), bytesOf(recv), k)
}

// StartAllToAll is the function StartAllToAll on buffers.
func (r *Rank) StartAllToAll(ctx context.Context, send, recv *mem.Buffer, k Kind) (*Request, error) {
	h, err := hold(ctx, send, recv)
	if err != nil {
		return nil, err
	}
	return h.after(r.g.StartAllToAll(ctx, bytesOf(send), bytesOf(recv), k)), nil
}

// AllToAllV is the function AllToAllV on buffers.
func (r *Rank) AllToAllV(ctx context.Context, send *mem.Buffer, sendCounts []int, recv *mem.Buffer, recvCounts []int, k Kind) error {
	h, err := hold(ctx, send, recv)
	if err != nil {
		return err
	}
	defer h.release()
	return r.g.AllToAllV(ctx, bytesOf(send), sendCounts, bytesOf(recv), recvCounts, k)
}

// StartAllToAllV is the function StartAllToAllV on buffers.
func (r *Rank) StartAllToAllV(ctx context.Context, send *mem.Buffer, sendCounts []int, recv *mem.Buffer, recvCounts []int, k Kind) (*Request, error) {
	h, err := hold(ctx, send, recv)
	if err != nil {
		return nil, err
	}
	return h.after(r.g.StartAllToAllV(ctx, bytesOf(send), sendCounts, bytesOf(recv), recvCounts, k)), nil
}
