package vec

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Concat returns the rows of all batches, whose columns must have the types of the schema, in one batch. The caller
// releases the result; a single batch is returned as it is, with one more reference.
func Concat(s *arrow.Schema, batches []arrow.RecordBatch) (_ arrow.RecordBatch, err error) {
	defer recoverError(&err)
	var rows int64
	var full []arrow.RecordBatch // with rows
	for i, b := range batches {
		if err := checkTypes(s, b); err != nil {
			return nil, fmt.Errorf("vec: concatenate batches: batch %d: %w", i, err)
		}
		if b.NumRows() > 0 {
			full = append(full, b)
			rows += b.NumRows()
		}
	}
	if len(full) == 0 {
		return Empty(s), nil
	}
	if len(full) == 1 && full[0].Schema().Equal(s) {
		full[0].Retain()
		return full[0], nil
	}
	columns := make([]arrow.Array, s.NumFields())
	defer func() { Release(columns) }()
	chunks := make([]arrow.Array, len(full))
	for i := range columns {
		for j, b := range full {
			chunks[j] = b.Column(i)
		}
		if columns[i], err = ConcatArrays(chunks); err != nil {
			return nil, fmt.Errorf("vec: concatenate column %q: %w; use smaller batches", s.Field(i).Name, err)
		}
	}
	return array.NewRecordBatch(s, columns, rows), nil
}

// ConcatArrays returns the values of arrays of one type, at least one, in one array, which the caller releases.
func ConcatArrays(chunks []arrow.Array) (_ arrow.Array, err error) {
	defer recoverError(&err)
	// The Arrow library does not accept empty arrays of some types.
	full := slices.DeleteFunc(slices.Clone(chunks), func(a arrow.Array) bool { return a.Len() == 0 })
	switch len(full) {
	case 0:
		chunks[0].Retain()
		return chunks[0], nil
	case 1:
		full[0].Retain()
		return full[0], nil
	}
	if out := concatFixed(full); out != nil {
		return out, nil
	}
	return array.Concatenate(full, heap)
}

// concatFixed is ConcatArrays for values of whole bytes without nulls; it returns nil for others.
func concatFixed(chunks []arrow.Array) arrow.Array {
	t, ok := chunks[0].DataType().(arrow.FixedWidthDataType)
	if !ok || t.BitWidth()%8 != 0 || t.ID() == arrow.DICTIONARY || t.ID() == arrow.EXTENSION {
		return nil
	}
	if _, nested := t.(arrow.NestedType); nested {
		return nil
	}
	width, rows := t.BitWidth()/8, 0
	for _, c := range chunks {
		if valid, _ := Validity(c); valid != nil || !arrow.TypeEqual(c.DataType(), t) {
			return nil
		}
		rows += c.Len()
	}
	to := raw[byte](rows * width)
	at := 0
	for _, c := range chunks {
		at += copy(to[at:], fixedBytes(c, width))
	}
	return Make(t, rows, 0, []*memory.Buffer{nil, memory.NewBufferBytes(to)})
}

// checkTypes returns an error if a batch does not have the columns of a schema.
func checkTypes(s *arrow.Schema, b arrow.RecordBatch) error {
	if int(b.NumCols()) != s.NumFields() {
		return fmt.Errorf("%d columns, not %d", b.NumCols(), s.NumFields())
	}
	for i, f := range s.Fields() {
		if t := b.Column(i).DataType(); !arrow.TypeEqual(t, f.Type) {
			return fmt.Errorf("column %q has type %v, not %v", f.Name, t, f.Type)
		}
	}
	return nil
}

// Detach returns a batch that holds no more memory than its rows need: the batch itself with one more reference, or a
// copy if it is a slice of a larger one.
func Detach(b arrow.RecordBatch) (arrow.RecordBatch, error) {
	if held := Held(b); held <= 2*Bytes(b)+1<<10 {
		b.Retain()
		return b, nil
	}
	rows := make([]int32, b.NumRows())
	for i := range rows {
		rows[i] = int32(i)
	}
	return Take(b, rows)
}
