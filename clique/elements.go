package clique

import (
	"context"

	"go.millstream.dev/internal/collective"
)

// Kind is the type of elements where it is known at run time only.
type Kind = collective.Kind

// The kinds.
const (
	Int8     = collective.Int8
	Int16    = collective.Int16
	Int32    = collective.Int32
	Int64    = collective.Int64
	Uint8    = collective.Uint8
	Uint16   = collective.Uint16
	Uint32   = collective.Uint32
	Uint64   = collective.Uint64
	Float16  = collective.Float16
	BFloat16 = collective.BFloat16
	Float32  = collective.Float32
	Float64  = collective.Float64
)

// F16 is an IEEE 754 number of 16 bits, as its bits.
type F16 = collective.F16

// BF16 is the upper half of a float32, as its bits.
type BF16 = collective.BF16

// Number is what slices of elements may hold, F16 and BF16 among them.
type Number = collective.Number

// KindOf is the kind of a Go type.
func KindOf[T Number]() Kind { return collective.KindOf[T]() }

// Op says how the elements of the ranks are put together.
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

// PreMulSum multiplies this rank's elements by scale before they are summed up. Each rank may
// have a scale of its own.
func PreMulSum[T Number](scale T) Op { return collective.PreMulSum(scale) }

// Request is an operation under way.
type Request = collective.Request

// Barrier returns when every rank has called it.
func Barrier(ctx context.Context, r *Rank) error { return r.g.Barrier(ctx) }

// StartBarrier is Barrier as a Request.
func StartBarrier(ctx context.Context, r *Rank) *Request { return r.g.StartBarrier(ctx) }

// Send sends to a rank, which receives with the same tag; all 64 bits of it count. Messages
// with the same tag arrive in order. It returns when s may be used again.
func Send[T Number](ctx context.Context, r *Rank, to int, tag uint64, s []T) error {
	return r.g.Send(ctx, to, tag, view(s))
}

// StartSend is Send as a Request.
func StartSend[T Number](ctx context.Context, r *Rank, to int, tag uint64, s []T) *Request {
	return r.g.StartSend(ctx, to, tag, view(s))
}

// Recv receives the next message that a rank has sent with a tag, and returns how many elements
// came. One that is longer than s is lost, with a *TruncatedError on both sides.
func Recv[T Number](ctx context.Context, r *Rank, from int, tag uint64, s []T) (int, error) {
	n, err := r.g.Recv(ctx, from, tag, view(s))
	return n / KindOf[T]().Size(), err
}

// StartRecv is Recv as a Request, whose Len is in bytes.
func StartRecv[T Number](ctx context.Context, r *Rank, from int, tag uint64, s []T) *Request {
	return r.g.StartRecv(ctx, from, tag, view(s))
}

// SendRecv sends to one rank and receives from another, or the same, at once, so that neither
// waits for the other. It returns how many elements came.
func SendRecv[T Number](ctx context.Context, r *Rank, to int, sendTag uint64, send []T, from int, recvTag uint64, recv []T) (int, error) {
	n, err := r.g.SendRecv(ctx, to, sendTag, view(send), from, recvTag, view(recv))
	return n / KindOf[T]().Size(), err
}

// StartSendRecv is SendRecv as a Request, whose Len is in bytes.
func StartSendRecv[T Number](ctx context.Context, r *Rank, to int, sendTag uint64, send []T, from int, recvTag uint64, recv []T) *Request {
	return r.g.StartSendRecv(ctx, to, sendTag, view(send), from, recvTag, view(recv))
}
