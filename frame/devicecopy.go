package frame

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
)

// Copies between batches in host memory and on a device. The device is a task.Device: that of the worker that runs the
// task.

// copyBatchToDevice returns a copy of a batch in the memory of the GPU of the worker that runs the task of ctx. The
// caller's task returns it as its result. Ready events of the buffers report when the copy is complete.
func copyBatchToDevice(ctx context.Context, b arrow.RecordBatch) (*DeviceBatch, error) {
	d, err := task.CurrentDevice(ctx)
	if err != nil {
		return nil, err
	}
	return copyToDevice(ctx, d, b)
}

func copyToDevice(ctx context.Context, d *task.Device, b arrow.RecordBatch) (_ *DeviceBatch, err error) {
	out := &DeviceBatch{schema: b.Schema(), rows: int(b.NumRows()), columns: make([]column, b.NumCols())}
	defer func() {
		if err != nil {
			out.release()
		}
	}()
	for i := range out.columns {
		f := out.schema.Field(i)
		l, ok := layoutOf(f.Type)
		if !ok {
			return nil, unsupportedType(f)
		}
		if err := l.upload(ctx, d, b.Column(i).Data(), &out.columns[i]); err != nil {
			return nil, fmt.Errorf("frame: column %q to device %d: %w", f.Name, d.Ordinal, err)
		}
	}
	return out, nil
}

// release releases the arrays of a batch that has no other owner.
func (b *DeviceBatch) release() {
	for i := range b.columns {
		for _, a := range b.columns[i].arrays() {
			if *a != nil {
				(*a).Release()
			}
		}
	}
}

// upload copies a column to the device. Arrow arrays may be slices of others: on the device they begin at their first
// row.
func (l layout) upload(ctx context.Context, d *task.Device, a arrow.ArrayData, c *column) (err error) {
	n, off, bufs := a.Len(), a.Offset(), a.Buffers()
	part := func(i, from, to int) []byte {
		if i >= len(bufs) || bufs[i] == nil || from == to {
			return nil
		}
		return bufs[i].Bytes()[from:to]
	}
	// The null count of a slice may be unknown.
	if valid := part(0, 0, bits(off+n)); a.NullN() != 0 && valid != nil && bitutil.CountSetBits(valid, off, n) < n {
		if c.Validity, err = deviceArray(ctx, d, wire.Uint8, bitsOf(valid, off, n)); err != nil {
			return err
		}
	}
	switch {
	case l.ragged:
		offsets, text := rebase(part(1, 4*off, 4*(off+n+1)), part, n)
		if c.Offsets, err = deviceArray(ctx, d, wire.Int32, offsets); err != nil {
			return err
		}
		c.Values, err = deviceArray(ctx, d, l.dtype, text)
	case l.width == 0:
		c.Values, err = deviceArray(ctx, d, l.dtype, bitsOf(part(1, 0, bits(off+n)), off, n))
	default:
		c.Values, err = deviceArray(ctx, d, l.dtype, part(1, off*l.width, (off+n)*l.width))
	}
	return err
}

// bitsOf returns n bits from an offset, copied if they do not begin at a byte.
func bitsOf(b []byte, off, n int) []byte {
	if off%8 == 0 {
		return b[min(off/8, len(b)):]
	}
	out := make([]byte, bits(n))
	bitutil.CopyBitmap(b, off, n, out, 0)
	return out
}

// rebase returns offsets that begin at 0, and the text to which they refer.
func rebase(offsets []byte, part func(i, from, to int) []byte, n int) (out, text []byte) {
	out = make([]byte, 4*(n+1))
	if len(offsets) == 0 { // allowed by Arrow if there are no rows
		return out, nil
	}
	at := func(i int) uint32 { return binary.LittleEndian.Uint32(offsets[4*i:]) }
	for i := range n + 1 {
		binary.LittleEndian.PutUint32(out[4*i:], at(i)-at(0))
	}
	return out, part(2, int(at(0)), int(at(n)))
}

// deviceArray returns an array of a type on a device with a copy of b.
func deviceArray(ctx context.Context, d *task.Device, dtype wire.DType, b []byte) (*wire.DeviceArray, error) {
	buf, err := d.Memory.Alloc(ctx, len(b))
	if err != nil {
		return nil, err
	}
	if len(b) > 0 {
		if err := cuda.CopyFromHost(ctx, buf, b); err != nil {
			buf.Release()
			return nil, err
		}
	}
	return &wire.DeviceArray{DType: dtype, Shape: []int{len(b) / dtype.ItemSize()},
		Frame: wire.BufferFrame(buf).WithCUDA()}, nil
}

// CopyToHost returns a copy of the batch on the Go heap. The caller releases it.
func (b *DeviceBatch) CopyToHost(ctx context.Context) (_ arrow.RecordBatch, err error) {
	columns := make([]arrow.Array, len(b.columns))
	defer func() { releaseColumns(columns) }()
	for i, c := range b.columns {
		f := b.schema.Field(i)
		l, _ := layoutOf(f.Type)
		if columns[i], err = l.download(ctx, f.Type, c, b.rows); err != nil {
			return nil, fmt.Errorf("frame: column %q: %w", f.Name, err)
		}
	}
	return array.NewRecordBatch(b.schema, columns, int64(b.rows)), nil
}

// throughHost runs a function on a copy of the batch in host memory and returns its result on the device of the task: b
// itself if the function returns its argument.
func (b *DeviceBatch) throughHost(ctx context.Context,
	f func(arrow.RecordBatch) (arrow.RecordBatch, error)) (*DeviceBatch, error) {
	host, err := b.CopyToHost(ctx)
	if err != nil {
		return nil, err
	}
	defer host.Release()
	out, err := f(host)
	if err != nil {
		return nil, err
	}
	defer out.Release()
	if out == host {
		return b, nil
	}
	return copyBatchToDevice(ctx, out)
}

func (l layout) download(ctx context.Context, t arrow.DataType, c column, rows int) (_ arrow.Array, err error) {
	defer recoverError(&err)
	bufs := []*memory.Buffer{nil}
	nulls := 0
	if c.Validity != nil {
		b, err := hostBytes(ctx, c.Validity, bits(rows))
		if err != nil {
			return nil, err
		}
		bufs[0], nulls = memory.NewBufferBytes(b), rows-bitutil.CountSetBits(b, 0, rows)
	}
	n := rows * l.width
	switch {
	case l.ragged:
		b, err := hostBytes(ctx, c.Offsets, 4*(rows+1))
		if err != nil {
			return nil, err
		}
		if n, err = checkOffsets(b, c.Values.Frame.Len()); err != nil {
			return nil, err
		}
		bufs = append(bufs, memory.NewBufferBytes(b))
	case l.width == 0:
		n = bits(rows)
	}
	b, err := hostBytes(ctx, c.Values, n)
	if err != nil {
		return nil, err
	}
	d := array.NewData(t, rows, append(bufs, memory.NewBufferBytes(b)), nil, nulls, 0)
	defer d.Release()
	return array.MakeFromData(d), nil
}

// Nulls returns the number of null rows. It copies the validity to the host.
func (c DeviceColumn) Nulls(ctx context.Context, rows int) (int, error) {
	if c.Validity == nil {
		return 0, nil
	}
	b := make([]byte, bits(rows))
	if err := copyToHost(ctx, b, c.Validity); err != nil {
		return 0, err
	}
	return rows - bitutil.CountSetBits(b, 0, rows), nil
}

// checkOffsets returns the last offset, or an error unless the offsets begin at 0 and are ascending within n bytes:
// they may come from any peer.
func checkOffsets(b []byte, n int) (int, error) {
	last := int32(0)
	for i := 0; i < len(b); i += 4 {
		at := int32(binary.LittleEndian.Uint32(b[i:]))
		if at < last || int(at) > n || i == 0 && at != 0 {
			return 0, schemaErrorf(-1, "offset %d of row %d is out of order, or beyond the text of %d bytes", at,
				i/4, n)
		}
		last = at
	}
	return int(last), nil
}

// hostBytes returns a copy of the first n bytes of an array.
func hostBytes(ctx context.Context, a *wire.DeviceArray, n int) ([]byte, error) {
	out := make([]byte, n)
	if n == 0 {
		return out, nil
	}
	buf := a.Buffer()
	if buf == nil {
		copy(out, a.Frame.Bytes())
		return out, nil
	}
	return out, copyToHost(ctx, out, buf)
}

// copyToHost copies the beginning of a buffer.
func copyToHost(ctx context.Context, to []byte, from *mem.Buffer) error {
	if len(to) == 0 {
		return nil
	}
	v := from.Slice(0, len(to))
	defer v.Release()
	return cuda.CopyToHost(ctx, to, v)
}

// copyMissing copies arrays that are not on the device to it, and returns the copies.
func (b *DeviceBatch) copyMissing(ctx context.Context, d *task.Device) (made []*wire.DeviceArray, err error) {
	for i := range b.columns {
		for _, at := range b.columns[i].arrays() {
			a := *at
			if buf := a.Buffer(); buf != nil && buf.Kind() == d.Memory.Kind() &&
				(buf.Device() == d.Ordinal || buf.Kind() == mem.Host) {
				continue
			}
			host, err := hostBytes(ctx, a, a.Frame.Len())
			if err == nil {
				*at, err = deviceArray(ctx, d, a.DType, host)
			}
			if err != nil {
				*at = a
				return made, fmt.Errorf("frame: column %q to device %d: %w", b.schema.Field(i).Name, d.Ordinal, err)
			}
			made = append(made, *at)
		}
	}
	return made, nil
}
