package gpu

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/cuda"
	"go.millstream.dev/mem"
)

// Upload returns a copy of a batch on the device.
func (e *Engine) Upload(ctx context.Context, b arrow.RecordBatch) (_ *Table, err error) {
	rows := int(b.NumRows())
	t, err := e.newTableOf(ctx, "upload", b.Schema(), rows, func(i int) bool { return b.Column(i).NullN() > 0 },
		e.allocNow)
	if err != nil || rows == 0 {
		return t, err
	}
	defer func() {
		if err != nil {
			t.Release()
		}
	}()
	for i, c := range t.Columns {
		data := b.Column(i).Data()
		if c.Valid != nil {
			if err = e.uploadBits(ctx, c.Valid, data, 0, rows); err != nil {
				return nil, err
			}
		}
		if c.Type.ID() == arrow.BOOL {
			err = e.uploadBits(ctx, c.Data, data, 1, rows)
		} else {
			w := c.kind().width()
			err = cuda.CopyFromHost(ctx, c.Data, data.Buffers()[1].Bytes()[data.Offset()*w:(data.Offset()+rows)*w])
		}
		if err != nil {
			return nil, fmt.Errorf("gpu: column %q to the device: %w", b.Schema().Field(i).Name, err)
		}
	}
	return t, nil
}

// uploadBits sets a byte on the device for each bit of a buffer of an array.
func (e *Engine) uploadBits(ctx context.Context, to *mem.Buffer, data arrow.ArrayData, buffer, rows int) error {
	bits := make([]byte, bitutil.BytesForBits(int64(rows)))
	bitutil.CopyBitmap(data.Buffers()[buffer].Bytes(), data.Offset(), rows, bits, 0)
	b, err := e.allocNow(ctx, "upload", len(bits))
	if err != nil {
		return err
	}
	defer b.Release()
	if err := cuda.CopyFromHost(ctx, b, bits); err != nil {
		return err
	}
	return e.launch("table_rows", "rows_unpack", rows, cuda.In(b), cuda.Val(uint64(rows)), cuda.Out(to))
}

// Download returns a copy of a table on the Go heap. The caller releases it.
func (e *Engine) Download(ctx context.Context, t *Table) (arrow.RecordBatch, error) {
	columns := make([]arrow.Array, 0, len(t.Columns))
	defer func() {
		for _, c := range columns {
			c.Release()
		}
	}()
	for i, c := range t.Columns {
		a, err := e.downloadColumn(ctx, c, t.Rows)
		if err != nil {
			return nil, fmt.Errorf("gpu: column %q to the host: %w", t.Schema.Field(i).Name, err)
		}
		columns = append(columns, a)
	}
	return array.NewRecordBatch(t.Schema, columns, int64(t.Rows)), nil
}

func (e *Engine) downloadColumn(ctx context.Context, c Column, rows int) (arrow.Array, error) {
	buffers := []*memory.Buffer{nil, nil}
	nulls := 0
	if c.Valid != nil {
		bits, err := e.downloadBits(ctx, c.Valid, rows)
		if err != nil {
			return nil, err
		}
		if nulls = rows - bitutil.CountSetBits(bits, 0, rows); nulls > 0 {
			buffers[0] = memory.NewBufferBytes(bits)
		}
	}
	var values []byte
	var err error
	if c.Type.ID() == arrow.BOOL {
		values, err = e.downloadBits(ctx, c.Data, rows)
	} else if values = make([]byte, rows*c.kind().width()); rows > 0 {
		from := c.Data.Slice(0, len(values))
		err = cuda.CopyToHost(ctx, values, from)
		from.Release()
	}
	if err != nil {
		return nil, err
	}
	buffers[1] = memory.NewBufferBytes(values)
	d := array.NewData(c.Type, rows, buffers, nil, nulls, 0)
	defer d.Release()
	return array.MakeFromData(d), nil
}

func (e *Engine) downloadBits(ctx context.Context, from *mem.Buffer, rows int) ([]byte, error) {
	bits := make([]byte, bitutil.BytesForBits(int64(rows)))
	if rows == 0 {
		return bits, nil
	}
	b, err := e.packed(ctx, from, rows)
	if err != nil {
		return nil, err
	}
	defer b.Release()
	return bits, cuda.CopyToHost(ctx, bits, b)
}
