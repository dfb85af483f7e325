package collective

import (
	"fmt"

	"go.millstream.dev/internal/collective/transport"
)

// RankError is transport.RankError.
type RankError = transport.RankError

// ErrClosed is returned by operations on a group that was closed on this rank. It matches net.ErrClosed with errors.Is.
var ErrClosed = transport.ErrClosed

// MismatchError is returned when ranks call different collectives or use different arguments, or when an argument is
// invalid. Every rank gets the same error. Nothing was transferred, and the group remains usable.
type MismatchError struct {
	// Rank is the first rank whose call is invalid or differs from that of rank 0.
	Rank int
	// Reason names the arguments that differ, with both values.
	Reason string
}

// Error returns the reason.
func (e *MismatchError) Error() string { return "collective: " + e.Reason }

// TruncatedError is returned when a message is longer than the memory of its Recv. The sender gets it, too.
type TruncatedError struct {
	From, To int
	Tag      uint64
	// Have is the length of the buffer of the receiver, Want that of the message, in bytes.
	Have, Want int
}

// Error returns the ranks and both lengths.
func (e *TruncatedError) Error() string {
	return fmt.Sprintf("collective: rank %d sent %d bytes with tag %d, but rank %d has a buffer of %d; use the same "+
		"length", e.From, e.Want, e.Tag, e.To, e.Have)
}
