package benchpeer

import "fmt"

// MissingError is returned if a peer program is not installed.
type MissingError struct {
	// Peer is the name of the peer for --peers.
	Peer string
	// Reason says what was not found.
	Reason string
	// Fix is the command that installs it.
	Fix string
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("peer %s is missing: %s; run `%s`", e.Peer, e.Reason, e.Fix)
}
