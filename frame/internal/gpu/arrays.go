package gpu

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/cuda"
	"go.millstream.dev/mem"
)

// Array is a column in device memory in Arrow's layout: booleans and validities are bits.
type Array struct {
	Values   *mem.Buffer
	Validity *mem.Buffer // nil without nulls
}

// Import returns columns on the device as a table, which holds references to their values; bits are converted.
func (e *Engine) Import(ctx context.Context, s *arrow.Schema, rows int, columns []Array) (_ *Table, err error) {
	if err := Supported(s); err != nil {
		return nil, err
	}
	if rows > maxRows || len(columns) != s.NumFields() {
		return nil, fmt.Errorf("gpu: %d columns of %d rows, want %d of at most %d", len(columns), rows, s.NumFields(),
			maxRows)
	}
	t := &Table{Schema: s, Rows: rows, Columns: make([]Column, len(columns))}
	defer func() {
		if err != nil {
			t.Release()
		}
	}()
	for i, a := range columns {
		c := &t.Columns[i]
		c.Type = s.Field(i).Type
		if c.Type.ID() == arrow.BOOL {
			c.Data, err = e.unpacked(ctx, a.Values, rows)
		} else {
			c.Data = a.Values.Slice(0, rows*c.kind().width())
		}
		if err == nil && a.Validity != nil {
			c.Valid, err = e.unpacked(ctx, a.Validity, rows)
		}
		if err != nil {
			return nil, err
		}
	}
	return t, nil
}

// unpacked returns a byte for each bit.
func (e *Engine) unpacked(ctx context.Context, bits *mem.Buffer, rows int) (*mem.Buffer, error) {
	b, err := e.alloc(ctx, "import", rows)
	if err != nil {
		return nil, err
	}
	if err := e.launch("table_rows", "rows_unpack", rows, cuda.In(bits), cuda.Val(uint64(rows)),
		cuda.Out(b)); err != nil {
		b.Release()
		return nil, err
	}
	return b, nil
}

// Export returns the columns of a table in Arrow's layout. The caller releases their buffers.
func (e *Engine) Export(ctx context.Context, t *Table) (out []Array, err error) {
	defer func() {
		if err != nil {
			releaseArrays(out)
			out = nil
		}
	}()
	for _, c := range t.Columns {
		var a Array
		if c.Type.ID() == arrow.BOOL {
			a.Values, err = e.packed(ctx, c.Data, t.Rows)
		} else {
			a.Values = c.Data.Retain()
		}
		if err == nil && c.Valid != nil {
			a.Validity, err = e.packed(ctx, c.Valid, t.Rows)
		}
		out = append(out, a)
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

func releaseArrays(list []Array) {
	for _, a := range list {
		for _, b := range []*mem.Buffer{a.Values, a.Validity} {
			if b != nil {
				b.Release()
			}
		}
	}
}

// packed returns a bit for each byte.
func (e *Engine) packed(ctx context.Context, bytes *mem.Buffer, rows int) (*mem.Buffer, error) {
	n := (rows + 7) / 8
	b, err := e.alloc(ctx, "export", n)
	if err != nil {
		return nil, err
	}
	if err := e.launch("table_rows", "rows_pack", n, cuda.In(bytes), cuda.Val(uint64(rows)), cuda.Out(b)); err != nil {
		b.Release()
		return nil, err
	}
	return b, nil
}

// Concat returns the rows of tables of one schema.
func (e *Engine) Concat(ctx context.Context, s *arrow.Schema, tables []*Table) (*Table, error) {
	return e.concat(ctx, s, tables)
}
