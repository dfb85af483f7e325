package comm

import "fmt"

// ClosedError is returned by operations on a comm that has ended. It matches ErrClosed and its cause with errors.Is.
type ClosedError struct {
	// Local and Peer are the addresses of the two ends.
	Local, Peer string
	// Cause is the reason why the comm ended.
	Cause error
}

// Error returns the addresses and the cause.
func (e *ClosedError) Error() string {
	return fmt.Sprintf("comm from %s to %s is closed: %v", e.Local, e.Peer, e.Cause)
}

// Unwrap returns ErrClosed and the cause for errors.Is and errors.As.
func (e *ClosedError) Unwrap() []error { return []error{ErrClosed, e.Cause} }

// HandshakeError is returned for a handshake that cannot succeed by a retry.
type HandshakeError struct {
	// Reason describes what the peer did wrong.
	Reason string
}

// Error returns the reason.
func (e *HandshakeError) Error() string { return "comm: handshake: " + e.Reason }
