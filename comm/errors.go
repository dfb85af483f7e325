package comm

import "fmt"

// ClosedError is why a comm has ended. errors.Is finds ErrClosed in it, and its cause.
type ClosedError struct {
	// Local and Peer are the addresses of the two ends.
	Local, Peer string
	// Cause says what ended it.
	Cause error
}

// Error names the comm and the cause.
func (e *ClosedError) Error() string {
	return fmt.Sprintf("comm from %s to %s is closed: %v", e.Local, e.Peer, e.Cause)
}

// Unwrap makes ErrClosed and the cause visible to errors.Is and errors.As.
func (e *ClosedError) Unwrap() []error { return []error{ErrClosed, e.Cause} }

// HandshakeError is a handshake that cannot succeed however often it is tried.
type HandshakeError struct {
	// Reason says what the peer did.
	Reason string
}

// Error says that it was the handshake.
func (e *HandshakeError) Error() string { return "comm: handshake: " + e.Reason }
