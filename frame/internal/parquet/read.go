package parquet

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// ReadOptions specifies what is read of a file.
type ReadOptions struct {
	// Groups are the numbers of the row groups.
	Groups []int
	// Columns are the numbers of the columns of the schema.
	Columns []int
	// Schema is the schema of the batches, with a field for each of Columns.
	Schema *arrow.Schema
	// Rows is the largest number of rows of a batch.
	Rows int
}

// Read calls take with the batches of row groups, until it returns an error. Batches do not cross row groups. The
// function owns the batch.
func (f *File) Read(opts ReadOptions, take func(arrow.RecordBatch) error) error {
	columns := make([]fieldReader, len(opts.Columns))
	for i, n := range opts.Columns {
		var err error
		if columns[i], err = newFieldReader(f.fields[n]); err != nil {
			return fmt.Errorf("column %q: %w", f.fields[n].path(), err)
		}
	}
	for _, g := range opts.Groups {
		if g < 0 || g >= len(f.meta.groups) {
			return fmt.Errorf("row group %d of %d", g, len(f.meta.groups))
		}
		if err := f.readGroup(columns, g, opts, take); err != nil {
			return err
		}
	}
	return nil
}

// fieldReader reads a column of the schema from row groups, one after the other.
type fieldReader interface {
	// begin begins with a row group.
	begin(f *File, g *rowGroup)
	// read returns the next rows, at most n and at least one. The row group has n rows more.
	read(n int) (arrow.Array, error)
}

func newFieldReader(n *node) (fieldReader, error) {
	if n.nest != nil {
		return newNestedReader(n.nest)
	}
	return newColumnReader(n, n.field.Type)
}

func (f *File) readGroup(columns []fieldReader, g int, opts ReadOptions, take func(arrow.RecordBatch) error) error {
	group := &f.meta.groups[g]
	for _, c := range columns {
		c.begin(f, group)
	}
	// Columns may return fewer rows than are wanted; what others have more waits for the next batch.
	pending := make([]arrow.Array, len(columns))
	defer func() { release(pending) }()
	for left := group.rows; left > 0; {
		n := int(min(left, int64(opts.Rows)))
		for i, c := range columns {
			if pending[i] == nil {
				var err error
				if pending[i], err = c.read(n); err != nil {
					return fmt.Errorf("row group %d, column %q: %w", g,
						opts.Schema.Field(i).Name, err)
				}
			}
			n = min(n, pending[i].Len())
		}
		out := make([]arrow.Array, len(columns))
		for i, a := range pending {
			if out[i] = a; a.Len() > n {
				out[i] = array.NewSlice(a, 0, int64(n))
				pending[i] = array.NewSlice(a, int64(n), int64(a.Len()))
				a.Release()
			} else {
				pending[i] = nil
			}
		}
		b := array.NewRecordBatch(opts.Schema, out, int64(n))
		release(out)
		if err := take(b); err != nil {
			return err
		}
		left -= int64(n)
	}
	return nil
}

func release(arrays []arrow.Array) {
	for _, a := range arrays {
		if a != nil {
			a.Release()
		}
	}
}
