// Package transport moves bytes between the ranks of a group, over comms or over UCX.
package transport

import "context"

// Transport moves bytes between the ranks of a group. Messages from one rank to another on one channel arrive in the
// order in which they were started; channels are independent. Channels are numbers below 2⁵² that the group assigns.
//
// A transport belongs to a group and its sub-groups; the last one closes it. It is safe for concurrent use.
type Transport interface {
	// Name returns "ucx", "tcp", "tls" or "inproc".
	Name() string
	// Rank and Size return the number of this rank, 0 to Size-1, and the number of ranks.
	Rank() int
	Size() int
	// Send waits until b may be used again; it may wait until the other rank receives.
	Send(ctx context.Context, to int, channel uint64, b []byte) error
	// Recv receives the next message into b and returns its length. A message that is longer than b is lost, with an
	// error. After an error b is no longer written to. If ctx ends before a message has arrived, no message is lost.
	Recv(ctx context.Context, from int, channel uint64, b []byte) (int, error)
	// StartSend and StartRecv start an operation and return immediately; b must not be used until Wait has returned.
	StartSend(to int, channel uint64, b []byte) Pending
	StartRecv(from int, channel uint64, b []byte) Pending
	// Failures returns a channel with the ranks that were lost, closed or aborted, in the order in which that was
	// detected. The group reads it. Close closes it.
	Failures() <-chan *RankError
	// Abort fails all operations, in flight and later ones, with err, and notifies the other ranks as far as that is
	// possible without waiting. Only the first call has an effect.
	Abort(err *RankError)
	// Close notifies the other ranks that this one has left and frees all resources. It may be called twice.
	Close() error
}

// Pending is an operation of a Transport in flight. Wait must be called once. If ctx ends before the operation does,
// Wait cancels the operation, so that its memory can be reused when Wait returns.
type Pending interface {
	Wait(ctx context.Context) (int, error)
}

// MaxRanks bounds the size of groups; a rank has 12 of the 64 bits of a UCX tag.
const MaxRanks = 1 << 12

// Ended is a canceled context: Wait with it cancels an operation.
var Ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()
