package transport

import (
	"fmt"

	"go.millstream.dev/internal/comm/closed"
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

	left bool // see Left
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

// LeftError returns the error of a rank that has left the group in peace.
func LeftError(rank int) *RankError {
	return &RankError{Rank: rank, Reason: "has left the group", left: true}
}

// Left reports whether the rank has left in peace: only who still needs it has lost something.
func Left(e *RankError) bool { return e.left }
