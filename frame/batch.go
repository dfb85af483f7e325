package frame

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Helpers for record batches. All memory is on the Go heap.

var heap = memory.NewGoAllocator()

func releaseAll(batches []arrow.RecordBatch) {
	for _, b := range batches {
		if b != nil {
			b.Release()
		}
	}
}

func releaseColumns(columns []arrow.Array) {
	for _, c := range columns {
		if c != nil {
			c.Release()
		}
	}
}

// emptyBatch returns a batch with a schema and no rows.
func emptyBatch(s *arrow.Schema) arrow.RecordBatch {
	b := array.NewRecordBuilder(heap, s)
	defer b.Release()
	return b.NewRecordBatch()
}

// concat returns the rows of all batches, which must have the schema, in one batch. The caller releases the result; the
// batches are not released.
func concat(s *arrow.Schema, batches []arrow.RecordBatch) (_ arrow.RecordBatch, err error) {
	switch len(batches) {
	case 0:
		return emptyBatch(s), nil
	case 1:
		batches[0].Retain()
		return batches[0], nil
	}
	defer recoverError(&err)
	var rows int64
	for i, b := range batches {
		if d := diffSchemas(s, b.Schema()); d != "" {
			return nil, schemaErrorf(i, "%s", d)
		}
		rows += b.NumRows()
	}
	columns := make([]arrow.Array, s.NumFields())
	defer func() { releaseColumns(columns) }()
	chunks := make([]arrow.Array, len(batches))
	for i := range columns {
		for j, b := range batches {
			chunks[j] = b.Column(i)
		}
		if columns[i], err = array.Concatenate(chunks, heap); err != nil {
			return nil, fmt.Errorf("frame: cannot join column %q: %w", s.Field(i).Name, err)
		}
	}
	return array.NewRecordBatch(s, columns, rows), nil
}

// recoverError converts a panic of the Arrow library, which it raises for invalid data, to an error.
func recoverError(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("frame: %v", p)
	}
}
