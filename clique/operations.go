package clique

import (
	"go.millstream.dev/internal/collective"
	"go.millstream.dev/internal/collective/elem"
)

// Call is an operation with its arguments, for Rank.Do and Rank.Start. A call may be used any number of times.
type Call struct{ c collective.Call }

// WithCounts returns the call on parts that differ in length, in elements: counts[r] is the length of rank r's part.
//
//	AllGather       all ranks give the same counts
//	Gather          counts are looked at on root only, and the others have parts as long as their send
//	Scatter         counts are looked at on root only, and the others have parts as long as their recv
//	AllToAll        counts[r] elements of send go to rank r, recvCounts[r] of recv come from it
//
// All ranks must call it, those that have no counts to give with nil. recvCounts is AllToAll's only.
func (c Call) WithCounts(counts, recvCounts []int) Call {
	switch c.c.Code {
	case collective.AllGather, collective.Gather, collective.Scatter, collective.AllToAll:
		c.c.Code++ // the V form
	}
	c.c.Counts, c.c.RecvCounts = counts, recvCounts
	return c
}

// WithLen returns the call of Recv or SendRecv that sets *n to the number of elements received.
func (c Call) WithLen(n *int) Call {
	c.c.N = n
	return c
}

func newCall[T Number](code collective.Code, send, recv View[T]) Call {
	return Call{collective.Call{Code: code, Kind: KindOf[T](), Send: send.m, Recv: recv.m}}
}

func (c Call) by(op Op) Call    { c.c.Op = op; return c }
func (c Call) at(root int) Call { c.c.Root = root; return c }

// Op specifies how the elements of the ranks are put together.
type Op = collective.Op

// The operations.
var (
	Sum  = collective.Sum
	Prod = collective.Prod
	Min  = collective.Min
	Max  = collective.Max
	// Avg is the sum divided by the number of ranks; that of integers is cut off towards zero.
	Avg = collective.Avg
)

// PreMulSum returns the operation that multiplies this rank's elements by scale before they are summed up. Each rank
// may have a scale of its own.
func PreMulSum[T Number](scale T) Op { return elem.PreMulSum(scale) }

// Barrier returns when every rank has called it.
func Barrier() Call {
	return Call{collective.Call{Code: collective.Barrier, Kind: collective.Uint8}}
}

// AllReduce puts the elements of all ranks' send together by op and gives every rank the result in recv, which is as
// long and may be send itself.
func AllReduce[T Number](send, recv View[T], op Op) Call {
	return newCall(collective.AllReduce, send, recv).by(op)
}

// Reduce is AllReduce whose result only root gets. recv is not looked at elsewhere.
func Reduce[T Number](send, recv View[T], op Op, root int) Call {
	return newCall(collective.Reduce, send, recv).by(op).at(root)
}

// Broadcast copies root's view to that of every other rank.
func Broadcast[T Number](v View[T], root int) Call {
	return newCall(collective.Broadcast, v, v).at(root)
}

// AllGather puts the ranks' send, all of one length, one behind the other into every rank's recv. send may be this
// rank's place in recv. See Call.WithCounts for parts that differ in length.
func AllGather[T Number](send, recv View[T]) Call {
	return newCall(collective.AllGather, send, recv)
}

// Gather is AllGather whose result only root gets. recv is not looked at elsewhere.
func Gather[T Number](send, recv View[T], root int) Call {
	return newCall(collective.Gather, send, recv).at(root)
}

// Scatter gives each rank its part of root's send, which is as long as all ranks' recv together. send is not looked at
// elsewhere. See Call.WithCounts for parts that differ in length.
func Scatter[T Number](send, recv View[T], root int) Call {
	return newCall(collective.Scatter, send, recv).at(root)
}

// ReduceScatter puts the elements of all ranks' send together by op and gives each rank its part of the result: send is
// as long as all ranks' recv together, all of which have one length.
func ReduceScatter[T Number](send, recv View[T], op Op) Call {
	return newCall(collective.ReduceScatter, send, recv).by(op)
}

// AllToAll cuts send into one part for each rank, all of one length, and puts what the ranks have for this one into
// recv, in the order of ranks. They must not overlap. See Call.WithCounts for parts that differ in length.
func AllToAll[T Number](send, recv View[T]) Call {
	return newCall(collective.AllToAll, send, recv)
}

// Send sends v to a rank, which receives it with the same tag; all 64 bits of it count. Messages with the same tag
// arrive in order. It is done when v may be used again. The other rank may receive into memory of another kind.
func Send[T Number](to int, tag uint64, v View[T]) Call {
	c := newCall(collective.Send, v, View[T]{})
	c.c.To, c.c.SendTag = to, tag
	return c
}

// Recv receives the next message that a rank has sent with a tag. The message may be shorter than v: see Call.WithLen
// and Request.Len. One that is longer is lost, with a *TruncatedError on both sides.
func Recv[T Number](from int, tag uint64, v View[T]) Call {
	c := newCall(collective.Recv, View[T]{}, v)
	c.c.From, c.c.RecvTag = from, tag
	return c
}

// SendRecv sends to one rank and receives from another, or the same, at once, so that neither waits for the other.
func SendRecv[T Number](to int, sendTag uint64, send View[T], from int, recvTag uint64, recv View[T]) Call {
	c := newCall(collective.SendRecv, send, recv)
	c.c.To, c.c.SendTag, c.c.From, c.c.RecvTag = to, sendTag, from, recvTag
	return c
}
