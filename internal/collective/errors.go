package collective

import (
	"fmt"

	"go.millstream.dev/internal/closed"
)

// ErrClosed is returned by operations on a group that was closed on this rank. It matches net.ErrClosed with errors.Is.
// Users see it as that of package clique.
var ErrClosed = closed.New("clique: rank is closed")

// RankError is why a group has ended: one rank has died, left or given up. It is the error of every
// operation on the group from then on, on every rank.
type RankError struct {
	// Rank is whose failure it is.
	Rank int
	// Name is how the group's maker calls the rank, normally its worker's address; may be empty.
	Name string
	// Reason says what happened, in words that travelled from the rank that saw it.
	Reason string
	// Err is the cause where it is of this process; nil if it came from another rank.
	Err error

	left bool // in peace: only who still needs the rank has lost something
}

// Error names the rank and the reason.
func (e *RankError) Error() string {
	if e.Name != "" {
		return fmt.Sprintf("collective: rank %d (%s): %s", e.Rank, e.Name, e.Reason)
	}
	return fmt.Sprintf("collective: rank %d: %s", e.Rank, e.Reason)
}

// Unwrap gives the cause to errors.Is.
func (e *RankError) Unwrap() error { return e.Err }

// MismatchError says that the ranks did not call the same collective with the same arguments, or that one
// of them called it with bad ones. Every rank gets the same one. Nothing was transferred, and the group can
// be used further.
type MismatchError struct {
	// Rank is the first rank whose call is wrong or differs from that of rank 0.
	Rank int
	// Reason names the arguments that differ, with both values.
	Reason string
}

// Error says who differs and in what.
func (e *MismatchError) Error() string { return "collective: " + e.Reason }

// TruncatedError is a Recv into less memory than the message needs. The sender gets one, too.
type TruncatedError struct {
	From, To int
	Tag      uint64
	// Have is the length of the receiver's buffer, Want that of the message, in bytes.
	Have, Want int
}

// Error has both lengths.
func (e *TruncatedError) Error() string {
	return fmt.Sprintf("collective: rank %d sends %d bytes with tag %d, rank %d has room for %d: give both the same length", e.From, e.Want, e.Tag, e.To, e.Have)
}
