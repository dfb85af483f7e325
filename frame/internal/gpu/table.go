package gpu

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/cuda"
	"go.millstream.dev/mem"
)

// kind is the type of values for kernels.
type kind uint32

const (
	i8 kind = iota
	i16
	i32
	i64
	u8
	u16
	u32
	u64
	f32
	f64
)

// width returns the size of a value in bytes.
func (k kind) width() int { return [...]int{1, 2, 4, 8, 1, 2, 4, 8, 4, 8}[k] }

func (k kind) float() bool { return k == f32 || k == f64 }

// kindOf returns the kind of an Arrow type. Booleans are bytes on the device.
func kindOf(t arrow.DataType) (kind, bool) {
	switch t.ID() {
	case arrow.INT8:
		return i8, true
	case arrow.INT16:
		return i16, true
	case arrow.INT32, arrow.DATE32, arrow.TIME32:
		return i32, true
	case arrow.INT64, arrow.DATE64, arrow.TIME64, arrow.TIMESTAMP, arrow.DURATION:
		return i64, true
	case arrow.UINT8, arrow.BOOL:
		return u8, true
	case arrow.UINT16:
		return u16, true
	case arrow.UINT32:
		return u32, true
	case arrow.UINT64:
		return u64, true
	case arrow.FLOAT32:
		return f32, true
	case arrow.FLOAT64:
		return f64, true
	}
	return 0, false
}

// Supported returns an error that names the first column of a schema that a Table cannot have.
func Supported(s *arrow.Schema) error {
	for _, f := range s.Fields() {
		if _, ok := kindOf(f.Type); !ok {
			return fmt.Errorf("gpu: column %q has type %v; tables on the device have numbers, dates, times and booleans",
				f.Name, f.Type)
		}
	}
	return nil
}

// Column is a column on the device.
type Column struct {
	Type arrow.DataType
	// Data has the values, booleans as bytes. Valid has a byte for each row, 0 for a null; nil without nulls.
	Data, Valid *mem.Buffer
}

func (c Column) kind() kind {
	k, _ := kindOf(c.Type)
	return k
}

func (c Column) arg() columnArg {
	a := columnArg{data: uint64(c.Data.Addr()), kind: uint32(c.kind())}
	if c.Valid != nil {
		a.valid = uint64(c.Valid.Addr())
	}
	return a
}

// uses declares the buffers of the column for a kernel that reads it.
func (c Column) uses(args []cuda.Arg) []cuda.Arg {
	args = append(args, cuda.AlsoIn(c.Data))
	if c.Valid != nil {
		args = append(args, cuda.AlsoIn(c.Valid))
	}
	return args
}

func (c Column) release() {
	if c.Data != nil {
		c.Data.Release()
	}
	if c.Valid != nil {
		c.Valid.Release()
	}
}

// Table is a table on the device. Its buffers must not be written while a verb uses it.
type Table struct {
	Schema  *arrow.Schema
	Rows    int
	Columns []Column
}

// Release drops the references to the buffers. Work that uses them holds its own.
func (t *Table) Release() {
	for _, c := range t.Columns {
		c.release()
	}
	t.Columns = nil
}

// Bytes returns the size of the table in device memory.
func (t *Table) Bytes() int {
	n := 0
	for _, c := range t.Columns {
		n += c.Data.Len()
		if c.Valid != nil {
			n += c.Valid.Len()
		}
	}
	return n
}

// slice returns rows of the table, with references of its own.
func (t *Table) slice(first, rows int) *Table {
	out := &Table{Schema: t.Schema, Rows: rows, Columns: make([]Column, len(t.Columns))}
	for i, c := range t.Columns {
		w := c.kind().width()
		out.Columns[i] = Column{Type: c.Type, Data: c.Data.Slice(first*w, rows*w)}
		if c.Valid != nil {
			out.Columns[i].Valid = c.Valid.Slice(first, rows)
		}
	}
	return out
}

// newTable allocates a table; nulls reports whether a column may have nulls.
func (e *Engine) newTable(ctx context.Context, what string, s *arrow.Schema, rows int, nulls func(i int) bool) (*Table,
	error) {
	return e.newTableOf(ctx, what, s, rows, nulls, e.alloc)
}

// newTableOf is newTable with another allocator.
func (e *Engine) newTableOf(ctx context.Context, what string, s *arrow.Schema, rows int, nulls func(i int) bool,
	alloc func(ctx context.Context, what string, n int) (*mem.Buffer, error)) (_ *Table, err error) {
	if rows > maxRows {
		return nil, fmt.Errorf("gpu: %s: %d rows, at most %d in a table on the device; use more partitions", what, rows,
			maxRows)
	}
	if err := Supported(s); err != nil {
		return nil, err
	}
	t := &Table{Schema: s, Rows: rows, Columns: make([]Column, s.NumFields())}
	defer func() {
		if err != nil {
			t.Release()
		}
	}()
	for i := range t.Columns {
		c := &t.Columns[i]
		c.Type = s.Field(i).Type
		if c.Data, err = alloc(ctx, what, rows*c.kind().width()); err != nil {
			return nil, err
		}
		if nulls(i) {
			if c.Valid, err = alloc(ctx, what, rows); err != nil {
				return nil, err
			}
		}
	}
	return t, nil
}

// keyColumns returns the key columns of a table for kernels. They are packed into a word if they fit, with room for
// nulls where a column of one of the tables has them; join keys do not need that room.
func keyColumns(what string, t *Table, keys []int, nulls func(i int) bool) (keysArg, error) {
	var k keysArg
	if len(keys) > maxKeys {
		return k, fmt.Errorf("gpu: %s: %d keys, at most %d", what, len(keys), maxKeys)
	}
	k.count, k.packed = uint32(len(keys)), 1
	bits := 0
	for i, n := range keys {
		if n < 0 || n >= len(t.Columns) {
			return k, fmt.Errorf("gpu: %s: no column %d in a table of %d", what, n, len(t.Columns))
		}
		c := t.Columns[n]
		k.columns[i] = c.arg()
		w := 8 * c.kind().width()
		k.shift[i], k.width[i], k.nullBit[i] = uint8(bits), uint8(w), noNullBit
		bits += w
		if nulls(i) {
			k.nullBit[i] = uint8(min(bits, 64))
			bits++
		}
		if bits > 64 {
			k.packed = 0
			bits = 64
		}
	}
	return k, nil
}

// usesKeys declares the key columns for a kernel.
func usesKeys(t *Table, keys []int, args []cuda.Arg) []cuda.Arg {
	for _, n := range keys {
		args = t.Columns[n].uses(args)
	}
	return args
}
