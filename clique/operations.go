package clique

import (
	"go.millstream.dev/internal/collective"
	"go.millstream.dev/internal/collective/elem"
	"go.millstream.dev/mem"
)

// Call is an operation with its arguments, for Rank.Do and Rank.Start. It may be used any number of times.
type Call struct{ c collective.Call }

// WithCounts returns the call with parts of different lengths: counts[r] is the length of the part of rank r, in
// elements.
//
//	AllGather       all ranks pass the same counts
//	Gather          only root uses counts; the parts of the other ranks are as long as their send
//	Scatter         only root uses counts; the parts of the other ranks are as long as their recv
//	AllToAll        counts[r] elements of send go to rank r, recvCounts[r] elements of recv come from it
//
// All ranks must call it; those without counts pass nil. recvCounts is used by AllToAll only.
func (c Call) WithCounts(counts, recvCounts []int) Call {
	switch c.c.Code {
	case collective.AllGather, collective.Gather, collective.Scatter, collective.AllToAll:
		c.c.Code++ // the V form
	}
	c.c.Counts, c.c.RecvCounts = counts, recvCounts
	return c
}

// WithLen returns the call with a Recv or SendRecv that sets *n to the number of received elements.
func (c Call) WithLen(n *int) Call {
	c.c.N = n
	return c
}

// WithEvent returns the call with an operation on device memory that sets *e to the event after which the GPU no longer
// uses the memory of the call, for callers that enqueue further work on other streams. *e stays nil if that is the
// ready event of the result. It is valid when the operation has returned or its Request is done.
func (c Call) WithEvent(e *mem.Event) Call {
	c.c.Busy = e
	return c
}

// Invalid returns a collective whose arguments are invalid on this rank, for callers that check arguments which the
// types do not, such as those of another language. Every rank gets a *MismatchError with the reason, nothing is
// transferred, and the clique remains usable. Not calling the collective at all would leave the other ranks waiting.
func (c Call) Invalid(reason string) Call {
	c.c.Invalid = reason
	return c
}

func newCall[T Number](code collective.Code, send, recv View[T]) Call {
	return Call{collective.Call{Code: code, Kind: KindOf[T](), Send: send.m, Recv: recv.m}}
}

func (c Call) by(op Op) Call    { c.c.Op = op; return c }
func (c Call) at(root int) Call { c.c.Root = root; return c }

// Op specifies how elements of the ranks are combined.
type Op = collective.Op

// Operations.
var (
	Sum  = collective.Sum
	Prod = collective.Prod
	Min  = collective.Min
	Max  = collective.Max
	// Avg is the sum divided by the number of ranks, truncated toward zero for integers.
	Avg = collective.Avg
)

// PreMulSum returns an operation that multiplies the elements of this rank by scale before they are summed. Each rank
// may use a different scale.
func PreMulSum[T Number](scale T) Op { return elem.PreMulSum(scale) }

// Barrier waits until every rank has called it.
func Barrier() Call {
	return Call{collective.Call{Code: collective.Barrier, Kind: collective.Uint8}}
}

// AllReduce combines the elements of send of all ranks with op and stores the result in recv of every rank. recv has
// the same length and may be send itself.
func AllReduce[T Number](send, recv View[T], op Op) Call {
	return newCall(collective.AllReduce, send, recv).by(op)
}

// Reduce is AllReduce with the result on root only. The other ranks ignore recv.
func Reduce[T Number](send, recv View[T], op Op, root int) Call {
	return newCall(collective.Reduce, send, recv).by(op).at(root)
}

// Broadcast copies the view of root to that of every other rank.
func Broadcast[T Number](v View[T], root int) Call {
	return newCall(collective.Broadcast, v, v).at(root)
}

// AllGather concatenates send of all ranks, which have the same length, into recv of every rank. send may be the part
// of this rank in recv. See Call.WithCounts for parts of different lengths.
func AllGather[T Number](send, recv View[T]) Call {
	return newCall(collective.AllGather, send, recv)
}

// Gather is AllGather with the result on root only. The other ranks ignore recv.
func Gather[T Number](send, recv View[T], root int) Call {
	return newCall(collective.Gather, send, recv).at(root)
}

// Scatter sends each rank its part of send on root, which is as long as recv of all ranks together. The other ranks
// ignore send. See Call.WithCounts for parts of different lengths.
func Scatter[T Number](send, recv View[T], root int) Call {
	return newCall(collective.Scatter, send, recv).at(root)
}

// ReduceScatter combines the elements of send of all ranks with op and gives each rank its part of the result. send is
// as long as recv of all ranks together; all recv have the same length.
func ReduceScatter[T Number](send, recv View[T], op Op) Call {
	return newCall(collective.ReduceScatter, send, recv).by(op)
}

// AllToAll divides send into parts of equal length, one for each rank, and stores the parts that the ranks send to this
// one in recv, in the order of ranks. send and recv must not overlap. See Call.WithCounts for parts of different
// lengths.
func AllToAll[T Number](send, recv View[T]) Call {
	return newCall(collective.AllToAll, send, recv)
}

// Send sends v to a rank, which receives it with the same tag. All 64 bits of the tag are compared. Messages with the
// same tag arrive in order. Send is done when v may be used again. The other rank may receive into another kind of
// memory.
func Send[T Number](to int, tag uint64, v View[T]) Call {
	c := newCall(collective.Send, v, View[T]{})
	c.c.To, c.c.SendTag = to, tag
	return c
}

// Recv receives the next message from a rank with a tag. The message may be shorter than v: see Call.WithLen and
// Request.Len. A longer message is lost, with a *TruncatedError on both sides.
func Recv[T Number](from int, tag uint64, v View[T]) Call {
	c := newCall(collective.Recv, View[T]{}, v)
	c.c.From, c.c.RecvTag = from, tag
	return c
}

// SendRecv sends to one rank and receives from another or the same rank concurrently, so that neither waits for the
// other.
func SendRecv[T Number](to int, sendTag uint64, send View[T], from int, recvTag uint64, recv View[T]) Call {
	c := newCall(collective.SendRecv, send, recv)
	c.c.To, c.c.SendTag, c.c.From, c.c.RecvTag = to, sendTag, from, recvTag
	return c
}
