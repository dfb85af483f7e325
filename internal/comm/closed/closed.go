// Package closed creates the sentinel errors for the use of closed objects. All of them match net.ErrClosed with
// errors.Is, so that callers can treat every layer alike. The package does not import net: memory and device packages
// do not depend on it, and programs that use only those link neither resolver nor sockets.
package closed

// text is the text of net.ErrClosed, which Go keeps because programs compare it.
const text = "use of closed network connection"

// Error is the text of a sentinel, "package: what is closed".
type Error string

// New returns a sentinel with the text. Sentinels with different texts do not match each other.
func New(text string) error { return Error(text) }

// Error returns the text.
func (e Error) Error() string { return string(e) }

// Is reports whether target is net.ErrClosed.
func (e Error) Is(target error) bool { return target != nil && target.Error() == text }
