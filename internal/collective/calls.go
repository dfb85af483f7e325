package collective

import "context"

// AllReduce puts the elements of all ranks' send together by op and gives every rank the result in recv,
// which has the same length and may be send itself.
func (g *Group) AllReduce(ctx context.Context, send, recv []byte, k Kind, op Op) error {
	return g.do(ctx, call{code: callAllReduce, kind: k, op: op, send: send, recv: recv})
}

// StartAllReduce is AllReduce as a Request.
func (g *Group) StartAllReduce(ctx context.Context, send, recv []byte, k Kind, op Op) *Request {
	return g.start(ctx, call{code: callAllReduce, kind: k, op: op, send: send, recv: recv})
}

// Reduce is AllReduce whose result only root gets. recv is not looked at elsewhere.
func (g *Group) Reduce(ctx context.Context, send, recv []byte, k Kind, op Op, root int) error {
	return g.do(ctx, call{code: callReduce, kind: k, op: op, root: root, send: send, recv: recv})
}

// StartReduce is Reduce as a Request.
func (g *Group) StartReduce(ctx context.Context, send, recv []byte, k Kind, op Op, root int) *Request {
	return g.start(ctx, call{code: callReduce, kind: k, op: op, root: root, send: send, recv: recv})
}

// Broadcast copies root's buf to buf of every other rank.
func (g *Group) Broadcast(ctx context.Context, buf []byte, k Kind, root int) error {
	return g.do(ctx, call{code: callBroadcast, kind: k, root: root, send: buf, recv: buf})
}

// StartBroadcast is Broadcast as a Request.
func (g *Group) StartBroadcast(ctx context.Context, buf []byte, k Kind, root int) *Request {
	return g.start(ctx, call{code: callBroadcast, kind: k, root: root, send: buf, recv: buf})
}

// AllGather puts the ranks' send, all of one length, one behind the other into every rank's recv. send may
// be this rank's place in recv.
func (g *Group) AllGather(ctx context.Context, send, recv []byte, k Kind) error {
	return g.do(ctx, call{code: callAllGather, kind: k, send: send, recv: recv})
}

// StartAllGather is AllGather as a Request.
func (g *Group) StartAllGather(ctx context.Context, send, recv []byte, k Kind) *Request {
	return g.start(ctx, call{code: callAllGather, kind: k, send: send, recv: recv})
}

// AllGatherV is AllGather of parts that differ in length: counts has the number of elements of each rank, the
// same on every rank.
func (g *Group) AllGatherV(ctx context.Context, send, recv []byte, counts []int, k Kind) error {
	return g.do(ctx, call{code: callAllGatherV, kind: k, send: send, recv: recv, counts: counts})
}

// StartAllGatherV is AllGatherV as a Request.
func (g *Group) StartAllGatherV(ctx context.Context, send, recv []byte, counts []int, k Kind) *Request {
	return g.start(ctx, call{code: callAllGatherV, kind: k, send: send, recv: recv, counts: counts})
}

// Gather is AllGather whose result only root gets. recv is not looked at elsewhere.
func (g *Group) Gather(ctx context.Context, send, recv []byte, k Kind, root int) error {
	return g.do(ctx, call{code: callGather, kind: k, root: root, send: send, recv: recv})
}

// StartGather is Gather as a Request.
func (g *Group) StartGather(ctx context.Context, send, recv []byte, k Kind, root int) *Request {
	return g.start(ctx, call{code: callGather, kind: k, root: root, send: send, recv: recv})
}

// GatherV is Gather of parts that differ in length. counts, in elements, is looked at on root only; the other
// ranks say what they have by the length of send.
func (g *Group) GatherV(ctx context.Context, send, recv []byte, counts []int, k Kind, root int) error {
	return g.do(ctx, call{code: callGatherV, kind: k, root: root, send: send, recv: recv, counts: counts})
}

// StartGatherV is GatherV as a Request.
func (g *Group) StartGatherV(ctx context.Context, send, recv []byte, counts []int, k Kind, root int) *Request {
	return g.start(ctx, call{code: callGatherV, kind: k, root: root, send: send, recv: recv, counts: counts})
}

// Scatter gives each rank its part of root's send, which is as long as all ranks' recv together. send is
// not looked at elsewhere.
func (g *Group) Scatter(ctx context.Context, send, recv []byte, k Kind, root int) error {
	return g.do(ctx, call{code: callScatter, kind: k, root: root, send: send, recv: recv})
}

// StartScatter is Scatter as a Request.
func (g *Group) StartScatter(ctx context.Context, send, recv []byte, k Kind, root int) *Request {
	return g.start(ctx, call{code: callScatter, kind: k, root: root, send: send, recv: recv})
}

// ScatterV is Scatter of parts that differ in length. counts, in elements, is looked at on root only; the
// other ranks say what they expect by the length of recv.
func (g *Group) ScatterV(ctx context.Context, send, recv []byte, counts []int, k Kind, root int) error {
	return g.do(ctx, call{code: callScatterV, kind: k, root: root, send: send, recv: recv, counts: counts})
}

// StartScatterV is ScatterV as a Request.
func (g *Group) StartScatterV(ctx context.Context, send, recv []byte, counts []int, k Kind, root int) *Request {
	return g.start(ctx, call{code: callScatterV, kind: k, root: root, send: send, recv: recv, counts: counts})
}

// ReduceScatter puts the elements of all ranks' send together by op and gives each rank its part of the
// result: send is as long as all ranks' recv together, all of which have one length.
func (g *Group) ReduceScatter(ctx context.Context, send, recv []byte, k Kind, op Op) error {
	return g.do(ctx, call{code: callReduceScatter, kind: k, op: op, send: send, recv: recv})
}

// StartReduceScatter is ReduceScatter as a Request.
func (g *Group) StartReduceScatter(ctx context.Context, send, recv []byte, k Kind, op Op) *Request {
	return g.start(ctx, call{code: callReduceScatter, kind: k, op: op, send: send, recv: recv})
}

// AllToAll cuts send into one part for each rank, all of one length, and puts what the ranks have for this
// one into recv, in the order of ranks. send and recv must not overlap.
func (g *Group) AllToAll(ctx context.Context, send, recv []byte, k Kind) error {
	return g.do(ctx, call{code: callAllToAll, kind: k, send: send, recv: recv})
}

// StartAllToAll is AllToAll as a Request.
func (g *Group) StartAllToAll(ctx context.Context, send, recv []byte, k Kind) *Request {
	return g.start(ctx, call{code: callAllToAll, kind: k, send: send, recv: recv})
}

// AllToAllV is AllToAll of parts that differ in length, in elements: sendCounts[r] go to rank r,
// recvCounts[r] come from it.
func (g *Group) AllToAllV(ctx context.Context, send []byte, sendCounts []int, recv []byte, recvCounts []int, k Kind) error {
	return g.do(ctx, call{code: callAllToAllV, kind: k, send: send, recv: recv, counts: sendCounts, counts2: recvCounts})
}

// StartAllToAllV is AllToAllV as a Request.
func (g *Group) StartAllToAllV(ctx context.Context, send []byte, sendCounts []int, recv []byte, recvCounts []int, k Kind) *Request {
	return g.start(ctx, call{code: callAllToAllV, kind: k, send: send, recv: recv, counts: sendCounts, counts2: recvCounts})
}

// Barrier returns when every rank has called it.
func (g *Group) Barrier(ctx context.Context) error {
	return g.do(ctx, call{code: callBarrier, kind: Uint8})
}

// StartBarrier is Barrier as a Request.
func (g *Group) StartBarrier(ctx context.Context) *Request {
	return g.start(ctx, call{code: callBarrier, kind: Uint8})
}
