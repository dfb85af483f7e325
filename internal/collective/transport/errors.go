package transport

import (
	"fmt"

	"go.millstream.dev/internal/comm/closed"
)

// ErrClosed is returned by operations on a group that was closed on this rank. It matches net.ErrClosed with errors.Is.
// It is clique.ErrClosed, hence the text.
var ErrClosed = closed.New("clique: rank is closed")

// RankError is returned by all operations on a group, on every rank, after a rank was lost, closed or aborted.
type RankError struct {
	// Rank is the rank that failed.
	Rank int
	// Name is the name of the rank, usually the address of its worker; it may be empty.
	Name string
	// Reason is the reason, as text of the rank that detected the failure.
	Reason string
	// Err is the cause if it occurred in this process, nil if it is from another rank.
	Err error

	left bool // see Left
}

// Error returns the rank and the reason.
func (e *RankError) Error() string {
	if e.Name != "" {
		return fmt.Sprintf("collective: rank %d (%s): %s", e.Rank, e.Name, e.Reason)
	}
	return fmt.Sprintf("collective: rank %d: %s", e.Rank, e.Reason)
}

// Unwrap returns the cause.
func (e *RankError) Unwrap() error { return e.Err }

// LeftError returns the error for a rank that has closed its group.
func LeftError(rank int) *RankError {
	return &RankError{Rank: rank, Reason: "has left the group", left: true}
}

// Left reports whether the rank has closed its group: only operations that need the rank fail.
func Left(e *RankError) bool { return e.left }
