package benchpeer

import "fmt"

// MissingError says that a peer program is not installed and how to get it.
type MissingError struct {
	// Peer is the name as given to --peers.
	Peer string
	// Reason is what was looked for and not found.
	Reason string
	// Fix is the command that installs it.
	Fix string
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("peer %s is missing: %s; run `%s`", e.Peer, e.Reason, e.Fix)
}
