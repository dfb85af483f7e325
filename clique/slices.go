package clique

import (
	"context"

	"go.millstream.dev/internal/collective"
)

// Collectives on slices. Each has two forms: X returns when it is done; StartX returns a Request
// at once and borrows the slices until the request is done. The context bounds the operation on
// this rank; when it ends in the middle of a collective the clique ends, as the others could
// wait for ever.

// view is the memory of a slice and the kind of its elements.
func view[T Number](s []T) []byte { return collective.View(s) }

// AllReduce puts the elements of all ranks' send together by op and gives every rank the result in
// recv, which is as long and may be send itself.
func AllReduce[T Number](ctx context.Context, r *Rank, send, recv []T, op Op) error {
	return r.g.AllReduce(ctx, view(send), view(recv), KindOf[T](), op)
}

// StartAllReduce is AllReduce as a Request.
func StartAllReduce[T Number](ctx context.Context, r *Rank, send, recv []T, op Op) *Request {
	return r.g.StartAllReduce(ctx, view(send), view(recv), KindOf[T](), op)
}

// Reduce is AllReduce whose result only root gets. recv is not looked at elsewhere.
func Reduce[T Number](ctx context.Context, r *Rank, send, recv []T, op Op, root int) error {
	return r.g.Reduce(ctx, view(send), view(recv), KindOf[T](), op, root)
}

// StartReduce is Reduce as a Request.
func StartReduce[T Number](ctx context.Context, r *Rank, send, recv []T, op Op, root int) *Request {
	return r.g.StartReduce(ctx, view(send), view(recv), KindOf[T](), op, root)
}

// Broadcast copies root's buf to buf of every other rank.
func Broadcast[T Number](ctx context.Context, r *Rank, buf []T, root int) error {
	return r.g.Broadcast(ctx, view(buf), KindOf[T](), root)
}

// StartBroadcast is Broadcast as a Request.
func StartBroadcast[T Number](ctx context.Context, r *Rank, buf []T, root int) *Request {
	return r.g.StartBroadcast(ctx, view(buf), KindOf[T](), root)
}

// AllGather puts the ranks' send, all of one length, one behind the other into every rank's recv.
// send may be this rank's place in recv.
func AllGather[T Number](ctx context.Context, r *Rank, send, recv []T) error {
	return r.g.AllGather(ctx, view(send), view(recv), KindOf[T]())
}

// StartAllGather is AllGather as a Request.
func StartAllGather[T Number](ctx context.Context, r *Rank, send, recv []T) *Request {
	return r.g.StartAllGather(ctx, view(send), view(recv), KindOf[T]())
}

// AllGatherV is AllGather of parts that differ in length: counts has the number of elements of
// each rank, the same on every rank.
func AllGatherV[T Number](ctx context.Context, r *Rank, send, recv []T, counts []int) error {
	return r.g.AllGatherV(ctx, view(send), view(recv), counts, KindOf[T]())
}

// StartAllGatherV is AllGatherV as a Request.
func StartAllGatherV[T Number](ctx context.Context, r *Rank, send, recv []T, counts []int) *Request {
	return r.g.StartAllGatherV(ctx, view(send), view(recv), counts, KindOf[T]())
}

// Gather is AllGather whose result only root gets. recv is not looked at elsewhere.
func Gather[T Number](ctx context.Context, r *Rank, send, recv []T, root int) error {
	return r.g.Gather(ctx, view(send), view(recv), KindOf[T](), root)
}

// StartGather is Gather as a Request.
func StartGather[T Number](ctx context.Context, r *Rank, send, recv []T, root int) *Request {
	return r.g.StartGather(ctx, view(send), view(recv), KindOf[T](), root)
}

// GatherV is Gather of parts that differ in length. counts, in elements, is looked at on root
// only; the other ranks say what they have by the length of send.
func GatherV[T Number](ctx context.Context, r *Rank, send, recv []T, counts []int, root int) error {
	return r.g.GatherV(ctx, view(send), view(recv), counts, KindOf[T](), root)
}

// StartGatherV is GatherV as a Request.
func StartGatherV[T Number](ctx context.Context, r *Rank, send, recv []T, counts []int, root int) *Request {
	return r.g.StartGatherV(ctx, view(send), view(recv), counts, KindOf[T](), root)
}

// Scatter gives each rank its part of root's send, which is as long as all ranks' recv
// together. send is not looked at elsewhere.
func Scatter[T Number](ctx context.Context, r *Rank, send, recv []T, root int) error {
	return r.g.Scatter(ctx, view(send), view(recv), KindOf[T](), root)
}

// StartScatter is Scatter as a Request.
func StartScatter[T Number](ctx context.Context, r *Rank, send, recv []T, root int) *Request {
	return r.g.StartScatter(ctx, view(send), view(recv), KindOf[T](), root)
}

// ScatterV is Scatter of parts that differ in length. counts, in elements, is looked at on root
// only; the other ranks say what they expect by the length of recv.
func ScatterV[T Number](ctx context.Context, r *Rank, send, recv []T, counts []int, root int) error {
	return r.g.ScatterV(ctx, view(send), view(recv), counts, KindOf[T](), root)
}

// StartScatterV is ScatterV as a Request.
func StartScatterV[T Number](ctx context.Context, r *Rank, send, recv []T, counts []int, root int) *Request {
	return r.g.StartScatterV(ctx, view(send), view(recv), counts, KindOf[T](), root)
}

// ReduceScatter puts the elements of all ranks' send together by op and gives each rank its part
// of the result: send is as long as all ranks' recv together, all of which have one length.
func ReduceScatter[T Number](ctx context.Context, r *Rank, send, recv []T, op Op) error {
	return r.g.ReduceScatter(ctx, view(send), view(recv), KindOf[T](), op)
}

// StartReduceScatter is ReduceScatter as a Request.
func StartReduceScatter[T Number](ctx context.Context, r *Rank, send, recv []T, op Op) *Request {
	return r.g.StartReduceScatter(ctx, view(send), view(recv), KindOf[T](), op)
}

// AllToAll cuts send into one part for each rank, all of one length, and puts what the ranks have
// for this one into recv, in the order of ranks. They must not overlap.
func AllToAll[T Number](ctx context.Context, r *Rank, send, recv []T) error {
	return r.g.AllToAll(ctx, view(send), view(recv), KindOf[T]())
}

// StartAllToAll is AllToAll as a Request.
func StartAllToAll[T Number](ctx context.Context, r *Rank, send, recv []T) *Request {
	return r.g.StartAllToAll(ctx, view(send), view(recv), KindOf[T]())
}

// AllToAllV is AllToAll of parts that differ in length, in elements: sendCounts[r] go to rank r,
// recvCounts[r] come from it.
func AllToAllV[T Number](ctx context.Context, r *Rank, send []T, sendCounts []int, recv []T, recvCounts []int) error {
	return r.g.AllToAllV(ctx, view(send), sendCounts, view(recv), recvCounts, KindOf[T]())
}

// StartAllToAllV is AllToAllV as a Request.
func StartAllToAllV[T Number](ctx context.Context, r *Rank, send []T, sendCounts []int, recv []T, recvCounts []int) *Request {
	return r.g.StartAllToAllV(ctx, view(send), sendCounts, view(recv), recvCounts, KindOf[T]())
}
