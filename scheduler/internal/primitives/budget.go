package primitives

import (
	"fmt"

	"go.millstream.dev/internal/rpc"
)

// Budget counts the bytes of what clients leave in the scheduler, in primitives and elsewhere. The loop owns it.
type Budget struct {
	bytes int64
	limit int64
}

// Bytes returns what is kept at present.
func (b *Budget) Bytes() int64 { return b.bytes }

// SetLimit bounds the bytes; 0 is no bound, as while the journal is read.
func (b *Budget) SetLimit(limit int64) { b.limit = limit }

// Reserve returns an error for a change that would exceed the limit. It counts nothing.
func (b *Budget) Reserve(what string, more int64) error {
	if b.limit <= 0 || more <= 0 || b.bytes+more <= b.limit {
		return nil
	}
	return &rpc.Exception{Type: "MemoryError", Message: fmt.Sprintf(
		"%s: variables, queues, datasets, locks and metadata have %d bytes, %d more are above the limit of %d "+
			"(millstream.scheduler.primitives)", what, b.bytes, more, b.limit)}
}

// Add counts what is kept from now on; it is negative for what was released.
func (b *Budget) Add(more int64) { b.bytes += more }
