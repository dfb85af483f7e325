package join

import (
	"fmt"
	"math"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"go.millstream.dev/frame/internal/vec"
)

// Table is the right side of joins: its rows and an index of their keys. It does not change and may be used by several
// goroutines at a time, each with a Prober of its own.
type Table struct {
	schema  *arrow.Schema
	batches []arrow.RecordBatch
	rows    int
	keys    []int
	nullKey bool // a row has a null key

	index  index
	list   []int32 // of the index
	packer *packer // nil: the index has hashes of keys
	hashed *hashed
	all    bool // without keys: all rows are one group

	mu      sync.Mutex
	columns []arrow.Array // in one array each, nil until needed
}

// hashFunc writes the hashes of rows; see vec.Hash.
type hashFunc func(cols []arrow.Array, out []uint64) error

// Build returns the Table of the rows of batches, which have the schema, with an index of key columns, given by their
// numbers. Without keys, all rows match. It takes references to the batches, which Release drops.
func Build(schema *arrow.Schema, batches []arrow.RecordBatch, keys []int) (*Table, error) {
	return build(schema, batches, keys, vec.Hash)
}

func build(schema *arrow.Schema, batches []arrow.RecordBatch, keys []int, hash hashFunc) (_ *Table, err error) {
	defer recoverError(&err)
	t := &Table{schema: schema, keys: keys, columns: make([]arrow.Array, schema.NumFields())}
	var words []wordColumn
	plain := true
	for i, k := range keys {
		if k < 0 || k >= schema.NumFields() {
			return nil, fmt.Errorf("join: key %d is column %d of %d", i, k, schema.NumFields())
		}
		f, n := familyOf(schema.Field(k).Type)
		if f == noFamily {
			return nil, fmt.Errorf("join: column %q of type %v cannot be a key; cast it", schema.Field(k).Name,
				schema.Field(k).Type)
		}
		plain = plain && n > 0
		for part := range n {
			words = append(words, wordColumn{i, part})
		}
	}
	var keyed [][]arrow.Array
	var rows int64
	for i, b := range batches {
		if err := checkBatch(b, schema); err != nil {
			return nil, fmt.Errorf("join: batch %d of the right side: %w", i, err)
		}
		if b.NumRows() > 0 {
			t.batches = append(t.batches, b)
			rows += b.NumRows()
			keyed = append(keyed, columnsOf(b, keys))
		}
	}
	if rows > math.MaxInt32-1 {
		return nil, fmt.Errorf("join: %d rows on the right side, but a table has at most %d; use more partitions", rows,
			math.MaxInt32-1)
	}
	t.rows = int(rows)
	skip := nullRows(keyed, t.rows)
	t.nullKey = skip != nil
	var packed bool
	if plain && len(keys) > 0 {
		t.packer, packed = newPacker(words, keyed)
	}
	switch {
	case len(keys) == 0:
		t.all = true
	case packed:
		t.index = newIndex(t.packKeys(keyed), skip, t.packer.most)
	default:
		t.packer = nil
		if err := t.indexHashes(keyed, words, skip, hash); err != nil {
			return nil, err
		}
	}
	if t.index != nil {
		t.list = t.index.list()
	}
	if t.hashed != nil {
		t.hashed.findCollisions(t)
	}
	for _, b := range t.batches {
		b.Retain()
	}
	return t, nil
}

// packKeys returns the packed keys of all rows.
func (t *Table) packKeys(keyed [][]arrow.Array) []uint64 {
	keys := make([]uint64, t.rows)
	var scratch [2 * chunkRows]uint64
	at := 0
	for _, columns := range keyed {
		n := columns[0].Len()
		for lo := 0; lo < n; lo += chunkRows {
			t.packer.pack(columns, lo, keys[at+lo:at+min(lo+chunkRows, n)], scratch[:])
		}
		at += n
	}
	return keys
}

// nullRows returns the rows with a null among their keys, or nil if there are none.
func nullRows(keyed [][]arrow.Array, rows int) rowSet {
	var set rowSet
	at := 0
	for _, columns := range keyed {
		if !hasNulls(columns) {
			if len(columns) > 0 {
				at += columns[0].Len()
			}
			continue
		}
		if set == nil {
			set = newRowSet(rows)
		}
		for _, c := range columns {
			eachNull(c, 0, c.Len(), func(row int) { set.add(at + row) })
		}
		at += columns[0].Len()
	}
	return set
}

// NumRows returns the number of rows of the table.
func (t *Table) NumRows() int { return t.rows }

// Bytes returns the size of the table in memory: its rows and the index.
func (t *Table) Bytes() int64 {
	var n int64
	for _, b := range t.batches {
		n += vec.Bytes(b)
	}
	if t.index != nil {
		n += t.index.bytes()
	}
	if t.hashed != nil {
		n += t.hashed.bytes()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.batches) > 1 {
		for _, c := range t.columns {
			if c != nil {
				n += vec.ArrayBytes(c)
			}
		}
	}
	return n
}

// Release drops the references to the batches. The table must not be used any more.
func (t *Table) Release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	vec.ReleaseBatches(t.batches)
	vec.Release(t.columns)
	t.batches, t.columns, t.index = nil, nil, nil
}

// column returns a column of all rows in one array, which belongs to the table.
func (t *Table) column(i int) (arrow.Array, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.columns[i] != nil {
		return t.columns[i], nil
	}
	if len(t.batches) == 0 {
		empty := vec.Empty(arrow.NewSchema([]arrow.Field{t.schema.Field(i)}, nil))
		defer empty.Release()
		t.columns[i] = empty.Column(0)
		t.columns[i].Retain()
		return t.columns[i], nil
	}
	chunks := make([]arrow.Array, len(t.batches))
	for j, b := range t.batches {
		chunks[j] = b.Column(i)
	}
	c, err := vec.ConcatArrays(chunks)
	if err != nil {
		return nil, fmt.Errorf("join: column %q of the right side: %w; use more partitions",
			t.schema.Field(i).Name, err)
	}
	t.columns[i] = c
	return c, nil
}

// batch returns columns of all rows, by number, in one batch, which the caller releases.
func (t *Table) batch(columns []int) (arrow.RecordBatch, error) {
	arrays := make([]arrow.Array, len(columns))
	fields := make([]arrow.Field, len(columns))
	for i, c := range columns {
		var err error
		if arrays[i], err = t.column(c); err != nil {
			return nil, err
		}
		fields[i] = t.schema.Field(c)
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), arrays, int64(t.rows)), nil
}

// columnsOf returns columns of a batch by number.
func columnsOf(b arrow.RecordBatch, numbers []int) []arrow.Array {
	out := make([]arrow.Array, len(numbers))
	for i, n := range numbers {
		out[i] = b.Column(n)
	}
	return out
}

// checkBatch returns an error if a batch does not have the columns of a schema.
func checkBatch(b arrow.RecordBatch, s *arrow.Schema) error {
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

// recoverError converts a panic of the Arrow library, or an index out of range, to an error: both are the effect of
// invalid data.
func recoverError(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("join: invalid data: %v", p)
	}
}
