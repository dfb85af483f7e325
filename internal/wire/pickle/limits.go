package pickle

import (
	"errors"
	"fmt"
)

// Limits bound the cost of one pickle. A zero field means its default, so the zero Limits are suitable for untrusted
// input.
type Limits struct {
	// Nodes is the maximum number of values pushed on the stack, which is the number of nodes and of references to
	// them. Default 16,777,216.
	Nodes int
	// Depth is the maximum nesting of the result, and of open marks. Default 2,048: Python's own pickler ends at about
	// 1,000.
	Depth int
	// Memo is the maximum number of entries of the memo. Default 16,777,216.
	Memo int
	// IntBytes is the maximum number of bytes of one int. Default 65,536.
	IntBytes int
	// StringBytes is the maximum number of bytes of all str together, which are copied. Default 1 GiB.
	StringBytes int
}

func (l Limits) withDefaults() Limits {
	for _, f := range []struct {
		field *int
		value int
	}{{&l.Nodes, 1 << 24}, {&l.Depth, 2048}, {&l.Memo, 1 << 24}, {&l.IntBytes, 1 << 16}, {&l.StringBytes, 1 << 30}} {
		if *f.field <= 0 {
			*f.field = f.value
		}
	}
	return l
}

// ErrLimit is returned for a pickle beyond its Limits.
var ErrLimit = errors.New("pickle: beyond the limit")

// limitText is the exceeded limit. It is used inside an Error, which has the name of the package.
type limitText string

func (e limitText) Error() string        { return "beyond the limit" + string(e) }
func (e limitText) Is(target error) bool { return target == ErrLimit }

// limitError returns an error with a limit and the field that raises it.
func limitError(field string, limit int) error {
	return limitText(fmt.Sprintf(" of %d (Limits.%s)", limit, field))
}

// Error is returned for an invalid pickle, with the position.
type Error struct {
	// Op is the opcode's name in pickletools; "" for an error without an opcode.
	Op string
	// Offset is the opcode's position in bytes from the start.
	Offset int
	// Err is the cause: it wraps io.ErrUnexpectedEOF for truncated input, ErrLimit for an exceeded limit.
	Err error
}

func (e *Error) Error() string {
	if e.Op == "" {
		return fmt.Sprintf("pickle: at byte %d: %v", e.Offset, e.Err)
	}
	return fmt.Sprintf("pickle: %s at byte %d: %v", e.Op, e.Offset, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }
