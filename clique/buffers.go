package clique

import (
	"context"

	"go.millstream.dev/internal/collective"
	"go.millstream.dev/mem"
)

// Collectives on buffers of package mem: the methods of Rank. They are those on slices, with
// the kind of the elements as an argument. A buffer that only root looks at may be nil
// elsewhere. Buffers are retained while the operation runs.
//
// On memory of a GPU everything is ordered by streams: an operation waits, on the device, for
// the ready events of its buffers, and has set the ready event of its result when it returns,
// or its Request is done. The data comes later: give the buffer to whatever waits for its event,
// or call its WaitReady, which also tells if the clique failed meanwhile. The context then
// bounds what happens until the operation is on its way.

// held are the buffers of an operation.
type held []*mem.Buffer

// hold retains buffers and waits until what was written last to those that the host reaches is
// there.
func hold(ctx context.Context, bufs ...*mem.Buffer) (held, error) {
	var out held
	for _, b := range bufs {
		if b != nil {
			out = append(out, b.Retain())
		}
	}
	for _, b := range out {
		if !b.Kind().HostAccessible() {
			continue
		}
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

// do carries a collective out on whatever memory it has.
func (r *Rank) do(ctx context.Context, c collective.DeviceCall) error {
	h, err := hold(ctx, c.Send, c.Recv)
	if err != nil {
		return err
	}
	defer h.release()
	return r.g.Do(ctx, c)
}

// start is do as a Request.
func (r *Rank) start(ctx context.Context, c collective.DeviceCall) (*Request, error) {
	h, err := hold(ctx, c.Send, c.Recv)
	if err != nil {
		return nil, err
	}
	return h.after(r.g.StartDo(ctx, c)), nil
}

// AllReduce is the function AllReduce on buffers.
func (r *Rank) AllReduce(ctx context.Context, send, recv *mem.Buffer, k Kind, op Op) error {
	return r.do(ctx, collective.DeviceCall{Code: collective.AllReduceCode, Kind: k, Op: op, Send: send, Recv: recv})
}

// StartAllReduce is the function StartAllReduce on buffers.
func (r *Rank) StartAllReduce(ctx context.Context, send, recv *mem.Buffer, k Kind, op Op) (*Request, error) {
	return r.start(ctx, collective.DeviceCall{Code: collective.AllReduceCode, Kind: k, Op: op, Send: send, Recv: recv})
}

// Reduce is the function Reduce on buffers.
func (r *Rank) Reduce(ctx context.Context, send, recv *mem.Buffer, k Kind, op Op, root int) error {
	return r.do(ctx, collective.DeviceCall{Code: collective.ReduceCode, Kind: k, Op: op, Root: root, Send: send, Recv: recv})
}

// StartReduce is the function StartReduce on buffers.
func (r *Rank) StartReduce(ctx context.Context, send, recv *mem.Buffer, k Kind, op Op, root int) (*Request, error) {
	return r.start(ctx, collective.DeviceCall{Code: collective.ReduceCode, Kind: k, Op: op, Root: root, Send: send, Recv: recv})
}

// Broadcast is the function Broadcast on buffers.
func (r *Rank) Broadcast(ctx context.Context, buf *mem.Buffer, k Kind, root int) error {
	return r.do(ctx, collective.DeviceCall{Code: collective.BroadcastCode, Kind: k, Root: root, Send: buf, Recv: buf})
}

// StartBroadcast is the function StartBroadcast on buffers.
func (r *Rank) StartBroadcast(ctx context.Context, buf *mem.Buffer, k Kind, root int) (*Request, error) {
	return r.start(ctx, collective.DeviceCall{Code: collective.BroadcastCode, Kind: k, Root: root, Send: buf, Recv: buf})
}

// AllGather is the function AllGather on buffers.
func (r *Rank) AllGather(ctx context.Context, send, recv *mem.Buffer, k Kind) error {
	return r.do(ctx, collective.DeviceCall{Code: collective.AllGatherCode, Kind: k, Send: send, Recv: recv})
}

// StartAllGather is the function StartAllGather on buffers.
func (r *Rank) StartAllGather(ctx context.Context, send, recv *mem.Buffer, k Kind) (*Request, error) {
	return r.start(ctx, collective.DeviceCall{Code: collective.AllGatherCode, Kind: k, Send: send, Recv: recv})
}

// AllGatherV is the function AllGatherV on buffers.
func (r *Rank) AllGatherV(ctx context.Context, send, recv *mem.Buffer, k Kind, counts []int) error {
	return r.do(ctx, collective.DeviceCall{Code: collective.AllGatherVCode, Kind: k, Send: send, Recv: recv, Counts: counts})
}

// StartAllGatherV is the function StartAllGatherV on buffers.
func (r *Rank) StartAllGatherV(ctx context.Context, send, recv *mem.Buffer, k Kind, counts []int) (*Request, error) {
	return r.start(ctx, collective.DeviceCall{Code: collective.AllGatherVCode, Kind: k, Send: send, Recv: recv, Counts: counts})
}

// Gather is the function Gather on buffers.
func (r *Rank) Gather(ctx context.Context, send, recv *mem.Buffer, k Kind, root int) error {
	return r.do(ctx, collective.DeviceCall{Code: collective.GatherCode, Kind: k, Root: root, Send: send, Recv: recv})
}

// StartGather is the function StartGather on buffers.
func (r *Rank) StartGather(ctx context.Context, send, recv *mem.Buffer, k Kind, root int) (*Request, error) {
	return r.start(ctx, collective.DeviceCall{Code: collective.GatherCode, Kind: k, Root: root, Send: send, Recv: recv})
}

// GatherV is the function GatherV on buffers.
func (r *Rank) GatherV(ctx context.Context, send, recv *mem.Buffer, k Kind, counts []int, root int) error {
	return r.do(ctx, collective.DeviceCall{Code: collective.GatherVCode, Kind: k, Root: root, Send: send, Recv: recv, Counts: counts})
}

// StartGatherV is the function StartGatherV on buffers.
func (r *Rank) StartGatherV(ctx context.Context, send, recv *mem.Buffer, k Kind, counts []int, root int) (*Request, error) {
	return r.start(ctx, collective.DeviceCall{Code: collective.GatherVCode, Kind: k, Root: root, Send: send, Recv: recv, Counts: counts})
}

// Scatter is the function Scatter on buffers.
func (r *Rank) Scatter(ctx context.Context, send, recv *mem.Buffer, k Kind, root int) error {
	return r.do(ctx, collective.DeviceCall{Code: collective.ScatterCode, Kind: k, Root: root, Send: send, Recv: recv})
}

// StartScatter is the function StartScatter on buffers.
func (r *Rank) StartScatter(ctx context.Context, send, recv *mem.Buffer, k Kind, root int) (*Request, error) {
	return r.start(ctx, collective.DeviceCall{Code: collective.ScatterCode, Kind: k, Root: root, Send: send, Recv: recv})
}

// ScatterV is the function ScatterV on buffers.
func (r *Rank) ScatterV(ctx context.Context, send, recv *mem.Buffer, k Kind, counts []int, root int) error {
	return r.do(ctx, collective.DeviceCall{Code: collective.ScatterVCode, Kind: k, Root: root, Send: send, Recv: recv, Counts: counts})
}

// StartScatterV is the function StartScatterV on buffers.
func (r *Rank) StartScatterV(ctx context.Context, send, recv *mem.Buffer, k Kind, counts []int, root int) (*Request, error) {
	return r.start(ctx, collective.DeviceCall{Code: collective.ScatterVCode, Kind: k, Root: root, Send: send, Recv: recv, Counts: counts})
}

// ReduceScatter is the function ReduceScatter on buffers.
func (r *Rank) ReduceScatter(ctx context.Context, send, recv *mem.Buffer, k Kind, op Op) error {
	return r.do(ctx, collective.DeviceCall{Code: collective.ReduceScatterCode, Kind: k, Op: op, Send: send, Recv: recv})
}

// StartReduceScatter is the function StartReduceScatter on buffers.
func (r *Rank) StartReduceScatter(ctx context.Context, send, recv *mem.Buffer, k Kind, op Op) (*Request, error) {
	return r.start(ctx, collective.DeviceCall{Code: collective.ReduceScatterCode, Kind: k, Op: op, Send: send, Recv: recv})
}

// AllToAll is the function AllToAll on buffers.
func (r *Rank) AllToAll(ctx context.Context, send, recv *mem.Buffer, k Kind) error {
	return r.do(ctx, collective.DeviceCall{Code: collective.AllToAllCode, Kind: k, Send: send, Recv: recv})
}

// StartAllToAll is the function StartAllToAll on buffers.
func (r *Rank) StartAllToAll(ctx context.Context, send, recv *mem.Buffer, k Kind) (*Request, error) {
	return r.start(ctx, collective.DeviceCall{Code: collective.AllToAllCode, Kind: k, Send: send, Recv: recv})
}

// AllToAllV is the function AllToAllV on buffers.
func (r *Rank) AllToAllV(ctx context.Context, send *mem.Buffer, sendCounts []int, recv *mem.Buffer, recvCounts []int, k Kind) error {
	return r.do(ctx, collective.DeviceCall{Code: collective.AllToAllVCode, Kind: k, Send: send, Recv: recv, Counts: sendCounts, RecvCounts: recvCounts})
}

// StartAllToAllV is the function StartAllToAllV on buffers.
func (r *Rank) StartAllToAllV(ctx context.Context, send *mem.Buffer, sendCounts []int, recv *mem.Buffer, recvCounts []int, k Kind) (*Request, error) {
	return r.start(ctx, collective.DeviceCall{Code: collective.AllToAllVCode, Kind: k, Send: send, Recv: recv, Counts: sendCounts, RecvCounts: recvCounts})
}
