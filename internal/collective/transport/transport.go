// Package transport carries bytes between the ranks of a group: over comms, and over UCX next to them.
package transport

import "context"

// Transport carries bytes between the ranks of a group. Messages from one rank to another on one channel
// arrive in the order in which they were started; channels do not wait for each other. Channels are
// numbers below 2⁵² that the group gives out.
//
// A transport belongs to the group that was made of it, and the group's sub-groups; the last of them to be
// closed closes it. All methods are safe for any number of goroutines.
type Transport interface {
	// Name is what carries the data: "ucx", "tcp", "tls", "inproc".
	Name() string
	// Rank and Size say who this is, 0 … Size-1.
	Rank() int
	Size() int
	// Send returns when b may be used again; a message of any size to a rank that does not receive may wait.
	Send(ctx context.Context, to int, channel uint64, b []byte) error
	// Recv takes the next message into b and returns its length. One that is longer is lost and an error.
	// After an error nothing is written to b any more. When ctx ends while nothing has arrived nothing is
	// lost.
	Recv(ctx context.Context, from int, channel uint64, b []byte) (int, error)
	// StartSend and StartRecv begin and return at once; b is borrowed until Wait has returned.
	StartSend(to int, channel uint64, b []byte) Pending
	StartRecv(from int, channel uint64, b []byte) Pending
	// Failures tells of the end of ranks, and of ranks that gave up, in the order in which that became known.
	// The group reads it. It is closed by Close.
	Failures() <-chan *RankError
	// Abort ends every operation that is under way, and all later ones, with err, and tells the other ranks,
	// as far as they can be reached without waiting. The first call counts.
	Abort(err *RankError)
	// Close tells the others that this rank has left and frees everything. It is idempotent.
	Close() error
}

// Pending is an operation of a Transport under way. Wait must be called, once. When ctx ends before the
// operation does, Wait gives the operation up, so that its memory is the caller's when it returns.
type Pending interface {
	Wait(ctx context.Context) (int, error)
}

// MaxRanks bounds groups; a rank has 12 of the 64 bits of UCX's tags.
const MaxRanks = 1 << 12

// Ended is a context that has ended: waiting with it gives an operation up.
var Ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()
