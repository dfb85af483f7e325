package primitives

import (
	"fmt"

	"go.millstream.dev/internal/rpc"
)

// Budget counts the bytes that clients store in the scheduler, in primitives and elsewhere. The loop owns it.
type Budget struct {
	bytes int64
	limit int64
}

// Bytes returns the number of bytes in use.
func (b *Budget) Bytes() int64 { return b.bytes }

// SetLimit sets the maximum number of bytes; 0 is no limit, as while the journal is read.
func (b *Budget) SetLimit(limit int64) { b.limit = limit }

// Reserve returns an error for a change that would exceed the limit. It counts nothing.
func (b *Budget) Reserve(what string, more int64) error {
	if b.limit <= 0 || more <= 0 || b.bytes+more <= b.limit {
		return nil
	}
	return &rpc.Exception{Type: "MemoryError", Message: fmt.Sprintf(
		"%s: variables, queues, datasets, locks and metadata have %d bytes, %d more exceed the limit of %d "+
			"(millstream.scheduler.primitives)", what, b.bytes, more, b.limit)}
}

// Add counts bytes that are kept from now on; it is negative for released ones.
func (b *Budget) Add(more int64) { b.bytes += more }
