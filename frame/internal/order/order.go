// Package order sorts Arrow batches: whole, the first rows only, merged from sorted runs, and divided into ranges. It
// also computes functions of the order, those of SQL windows. All are functions of their arguments on one goroutine.
//
// Sorts are stable. Numbers have their order, with -0 equal to 0 and NaN above all others; text and bytes have that of
// their bytes; false is before true. Nulls are equal to each other, and last unless a key says otherwise.
package order

import (
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
)

// SortKey is a column that rows are sorted by.
type SortKey struct {
	Col        int  // number of the column
	Desc       bool // greatest first; it does not apply to nulls
	NullsFirst bool // default: nulls last, for both directions
}

// Emit receives a batch of a result and releases it. An error ends the operation and is returned by it.
type Emit func(arrow.RecordBatch) error

const defaultRows = 1 << 16

// form is how values of a type are compared.
type form uint8

const (
	noForm   form = iota
	wordForm      // one word of 64 bits
	wideForm      // two words
	textForm      // bytes
)

func formOf(t arrow.DataType) form {
	switch t.ID() {
	case arrow.BOOL, arrow.INT8, arrow.INT16, arrow.INT32, arrow.INT64, arrow.UINT8, arrow.UINT16, arrow.UINT32,
		arrow.UINT64, arrow.FLOAT16, arrow.FLOAT32, arrow.FLOAT64, arrow.DATE32, arrow.DATE64, arrow.TIME32,
		arrow.TIME64, arrow.TIMESTAMP, arrow.DURATION:
		return wordForm
	case arrow.DECIMAL128:
		return wideForm
	case arrow.STRING, arrow.BINARY, arrow.LARGE_STRING, arrow.LARGE_BINARY, arrow.FIXED_SIZE_BINARY:
		return textForm
	}
	return noForm
}

// checkKeys returns an error if rows of the schema cannot be sorted by the keys.
func checkKeys(s *arrow.Schema, keys []SortKey) error {
	for i, k := range keys {
		if k.Col < 0 || k.Col >= s.NumFields() {
			return fmt.Errorf("order: key %d is column %d of %d", i, k.Col, s.NumFields())
		}
		if f := s.Field(k.Col); formOf(f.Type) == noForm {
			return fmt.Errorf("order: rows cannot be sorted by column %q of type %v; cast it", f.Name, f.Type)
		}
	}
	return nil
}

// checkRows returns an error if a batch has more rows than can be numbered.
func checkRows(n int64) error {
	if n > math.MaxInt32 {
		return fmt.Errorf("order: %d rows, but at most %d are sorted at a time; use more partitions", n, math.MaxInt32)
	}
	return nil
}

// recoverError converts a panic of the Arrow library, or an index out of range, to an error: both are the effect of
// invalid data.
func recoverError(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("order: invalid data: %v", p)
	}
}
