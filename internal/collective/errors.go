package collective

import (
	"fmt"

	"go.millstream.dev/internal/collective/transport"
)

// RankError and ErrClosed are those of package transport.
type RankError = transport.RankError

// ErrClosed is returned by operations on a group that was closed on this rank. It matches net.ErrClosed with errors.Is.
var ErrClosed = transport.ErrClosed

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
	return fmt.Sprintf("collective: rank %d sends %d bytes with tag %d, rank %d has room for %d: give both the same "+
		"length", e.From, e.Want, e.Tag, e.To, e.Have)
}
