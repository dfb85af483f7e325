package pickle

import (
	"errors"
	"fmt"
)

// Limits bound what one pickle may cost. A zero field means its default, so the zero Limits
// are good for bytes from anyone.
type Limits struct {
	// Nodes is the most values that are pushed on the stack, which is the number of nodes
	// and of references to them. Default 16,777,216.
	Nodes int
	// Depth is the most levels of the result, and of open marks. Default 2,048: Python's
	// own pickler ends at about 1,000.
	Depth int
	// Memo is the most entries of the memo. Default 16,777,216.
	Memo int
	// IntBytes is the most bytes of one int. Default 65,536.
	IntBytes int
	// StringBytes is the most bytes of all str together, which are copied. Default 1 GiB.
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

// limitText says which limit was exceeded. It stands inside an Error, which has the name of the package.
type limitText string

func (e limitText) Error() string        { return "beyond the limit" + string(e) }
func (e limitText) Is(target error) bool { return target == ErrLimit }

// limitError names a limit and what would lift it.
func limitError(field string, limit int) error {
	return limitText(fmt.Sprintf(" of %d (Limits.%s)", limit, field))
}

// Error is what is wrong with a pickle, and where.
type Error struct {
	// Op is the opcode's name, as pickletools has it; "" for an error of no opcode.
	Op string
	// Offset is the opcode's place in bytes from the start.
	Offset int
	// Err is what is wrong: it wraps io.ErrUnexpectedEOF where bytes are missing, ErrLimit
	// where there is too much.
	Err error
}

func (e *Error) Error() string {
	if e.Op == "" {
		return fmt.Sprintf("pickle: at byte %d: %v", e.Offset, e.Err)
	}
	return fmt.Sprintf("pickle: %s at byte %d: %v", e.Op, e.Offset, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }
