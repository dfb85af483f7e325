// Package closed makes the sentinel errors for the use of closed things. All of them match net.ErrClosed with
// errors.Is, so that callers can treat every layer alike. The package does not import net: memory and device packages
// stay free of it, and programs that use only those link neither resolver nor sockets.
package closed

// text is what net.ErrClosed says. Go keeps it as it is, because programs compare it.
const text = "use of closed network connection"

// Error is the text of a sentinel, "package: what is closed".
type Error string

// New returns a sentinel with the text. Sentinels with different texts do not match each other.
func New(text string) error { return Error(text) }

// Error returns the text.
func (e Error) Error() string { return string(e) }

// Is reports whether target is net.ErrClosed.
func (e Error) Is(target error) bool { return target != nil && target.Error() == text }
