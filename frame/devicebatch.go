package frame

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
)

// DeviceBatch is a record batch in GPU memory: the Arrow layout, with each buffer an array on the device. Functions on
// frames on devices take and return DeviceBatches. A function borrows its arguments, and may use their columns in its
// result; it transfers the ownership of buffers that it allocates with its result.
type DeviceBatch struct {
	schema  *arrow.Schema
	rows    int
	columns []column
}

// column has the arrays of a column, as they are sent in the cluster.
type column struct{ Values, Validity, Offsets *wire.DeviceArray }

// DeviceColumn is a column of a DeviceBatch.
type DeviceColumn struct {
	// Values are the values: one for each row of a fixed-width type; bits, eight to a byte and the lowest first, for
	// booleans; the concatenated texts of all rows for strings and bytes.
	Values *mem.Buffer
	// Validity has a bit for each row, 1 for a value, in the order of booleans. It is nil if no row is null.
	Validity *mem.Buffer
	// Offsets are the int32 offsets of each row of strings or bytes in Values, and of the end of the last. It is nil
	// for other types.
	Offsets *mem.Buffer

	of column // the arrays of the buffers, if the column is part of a batch
}

// public returns the column with its buffers.
func (c column) public() DeviceColumn {
	buffer := func(a *wire.DeviceArray) *mem.Buffer {
		if a == nil {
			return nil
		}
		return a.Buffer()
	}
	return DeviceColumn{Values: buffer(c.Values), Validity: buffer(c.Validity), Offsets: buffer(c.Offsets), of: c}
}

// arrays returns the buffers of a column as arrays: the original ones, or new ones.
func (c DeviceColumn) arrays(l layout) column {
	array := func(b *mem.Buffer, from *wire.DeviceArray, dtype wire.DType) *wire.DeviceArray {
		if b == nil || from != nil && from.Buffer() == b {
			return from
		}
		frame := wire.BufferFrame(b).WithCUDA()
		return &wire.DeviceArray{DType: dtype, Shape: []int{b.Len() / dtype.ItemSize()}, Frame: frame}
	}
	return column{array(c.Values, c.of.Values, l.dtype), array(c.Validity, c.of.Validity, wire.Uint8),
		array(c.Offsets, c.of.Offsets, wire.Int32)}
}

// NewDeviceBatch returns a batch of columns. It checks their number, types and lengths, but not their content. The
// batch takes over the buffers of columns that do not belong to another batch.
func NewDeviceBatch(schema *arrow.Schema, rows int, columns []DeviceColumn) (*DeviceBatch, error) {
	list := make([]column, len(columns))
	for i, c := range columns {
		if i < schema.NumFields() {
			l, _ := layoutOf(schema.Field(i).Type)
			list[i] = c.arrays(l)
		}
	}
	return newDeviceBatch(schema, rows, list)
}

func newDeviceBatch(schema *arrow.Schema, rows int, columns []column) (*DeviceBatch, error) {
	if len(columns) != schema.NumFields() || rows < 0 {
		return nil, schemaErrorf(-1, "batch of %d rows has %d columns, its schema %d", rows, len(columns),
			schema.NumFields())
	}
	for i, c := range columns {
		f := schema.Field(i)
		l, ok := layoutOf(f.Type)
		if !ok {
			return nil, unsupportedType(f)
		}
		if err := l.check(c, rows); err != nil {
			return nil, schemaErrorf(-1, "column %q (%v): %v", f.Name, f.Type, err)
		}
	}
	return &DeviceBatch{schema: schema, rows: rows, columns: columns}, nil
}

// Schema returns the schema of the batch.
func (b *DeviceBatch) Schema() *arrow.Schema { return b.schema }

// NumRows returns the number of rows.
func (b *DeviceBatch) NumRows() int { return b.rows }

// Column returns the column with an index in the schema.
func (b *DeviceBatch) Column(i int) DeviceColumn { return b.columns[i].public() }

// Named returns the column with a name, which must be unique.
func (b *DeviceBatch) Named(name string) (DeviceColumn, error) {
	i, err := columnIndex(b.schema, name)
	if err != nil {
		return DeviceColumn{}, err
	}
	return b.columns[i].public(), nil
}

// Project returns a batch of the named columns, which it shares with b.
func (b *DeviceBatch) Project(names ...string) (*DeviceBatch, error) {
	schema, at, err := projectSchema(b.schema, names)
	if err != nil {
		return nil, err
	}
	out := &DeviceBatch{schema: schema, rows: b.rows}
	for _, i := range at {
		out.columns = append(out.columns, b.columns[i])
	}
	return out, nil
}

// retain adds references to those arrays of the batch that are in some.
func (b *DeviceBatch) retain(some []*wire.DeviceArray) {
	for i := range b.columns {
		for _, a := range b.columns[i].arrays() {
			if slices.Contains(some, *a) {
				*a = (*a).Retain()
			}
		}
	}
}

// arrays returns all arrays of a column.
func (c *column) arrays() []**wire.DeviceArray {
	out := []**wire.DeviceArray{&c.Values}
	for _, a := range []**wire.DeviceArray{&c.Validity, &c.Offsets} {
		if *a != nil {
			out = append(out, a)
		}
	}
	return out
}

// layout describes the memory layout of a type.
type layout struct {
	dtype  wire.DType // of values
	width  int        // in bytes; 0 for bits
	ragged bool       // with offsets
}

// layoutOf returns the layout of a type, and whether frames on devices support it: they support all types whose buffers
// are numbers.
func layoutOf(t arrow.DataType) (layout, bool) {
	switch t.ID() {
	case arrow.BOOL:
		return layout{dtype: wire.Uint8}, true
	case arrow.INT8:
		return layout{dtype: wire.Int8, width: 1}, true
	case arrow.UINT8:
		return layout{dtype: wire.Uint8, width: 1}, true
	case arrow.INT16:
		return layout{dtype: wire.Int16, width: 2}, true
	case arrow.UINT16:
		return layout{dtype: wire.Uint16, width: 2}, true
	case arrow.FLOAT16:
		return layout{dtype: "<f2", width: 2}, true
	case arrow.INT32, arrow.DATE32, arrow.TIME32:
		return layout{dtype: wire.Int32, width: 4}, true
	case arrow.UINT32:
		return layout{dtype: wire.Uint32, width: 4}, true
	case arrow.FLOAT32:
		return layout{dtype: wire.Float32, width: 4}, true
	case arrow.INT64, arrow.DATE64, arrow.TIME64, arrow.TIMESTAMP, arrow.DURATION:
		return layout{dtype: wire.Int64, width: 8}, true
	case arrow.UINT64:
		return layout{dtype: wire.Uint64, width: 8}, true
	case arrow.FLOAT64:
		return layout{dtype: wire.Float64, width: 8}, true
	case arrow.STRING, arrow.BINARY:
		return layout{dtype: wire.Uint8, width: 1, ragged: true}, true
	}
	return layout{}, false
}

// unsupportedType returns the error for a column of a type that frames on devices do not support.
func unsupportedType(f arrow.Field) error {
	return schemaErrorf(-1, "column %q: type %v is not supported on devices, only numbers, booleans, "+
		"times, strings and bytes; leave the column out with Project", f.Name, f.Type)
}

// bits returns the number of bytes that hold a bit for each row.
func bits(rows int) int { return (rows + 7) / 8 }

// check returns an error if the arrays of a column are invalid.
func (l layout) check(c column, rows int) error {
	want := rows * l.width
	switch {
	case c.Values == nil:
		return errors.New("no values")
	case l.ragged:
		want = 0
		if c.Offsets == nil {
			return errors.New("no offsets")
		}
		if err := atLeast("offsets", c.Offsets, wire.Int32, 4*(rows+1)); err != nil {
			return err
		}
	case c.Offsets != nil:
		return errors.New("unexpected offsets")
	case l.width == 0:
		want = bits(rows)
	}
	if err := atLeast("values", c.Values, l.dtype, want); err != nil {
		return err
	}
	if c.Validity == nil {
		return nil
	}
	return atLeast("validity", c.Validity, wire.Uint8, bits(rows))
}

func atLeast(what string, a *wire.DeviceArray, dtype wire.DType, bytes int) error {
	if a.DType != dtype {
		return fmt.Errorf("%s have type %s, want %s", what, a.DType, dtype)
	}
	if len(a.Shape) != 1 {
		return fmt.Errorf("%s have %d dimensions, want 1", what, len(a.Shape))
	}
	if n := a.Shape[0] * dtype.ItemSize(); n < bytes || a.Frame.Len() < bytes {
		return fmt.Errorf("%s have %d bytes, want at least %d", what, min(n, a.Frame.Len()), bytes)
	}
	return nil
}

// Keys of a device batch as a value of the cluster: a flat dict, so that Dask sends every array in a frame of its own,
// from device to device if possible. Python's millstream.frame uses the same keys.
const (
	deviceKey  = "millstream.frame" // version
	rowsKey    = "rows"
	schemaKey  = "schema" // an Arrow IPC stream without batches
	version    = 1
	valuesKey  = "values."
	validKey   = "validity."
	offsetsKey = "offsets."
)

// value returns the batch in the form in which it is sent.
func (b *DeviceBatch) value() (wire.Dict, error) {
	schema, err := encodeSchema(b.schema)
	if err != nil {
		return nil, err
	}
	d := wire.NewDict(deviceKey, int64(version), rowsKey, int64(b.rows), schemaKey, schema)
	for i, c := range b.columns {
		n := strconv.Itoa(i)
		d.Set(valuesKey+n, c.Values)
		if c.Validity != nil {
			d.Set(validKey+n, c.Validity)
		}
		if c.Offsets != nil {
			d.Set(offsetsKey+n, c.Offsets)
		}
	}
	return d, nil
}

// deviceBatch decodes a value of value, or of Python.
func deviceBatch(d wire.Dict) (*DeviceBatch, error) {
	v, err := integer(d, deviceKey)
	if err != nil {
		return nil, err
	}
	if v != version {
		return nil, schemaErrorf(-1, "device batch has version %d, this program reads %d; use the same "+
			"release of Millstream everywhere", v, version)
	}
	rows, err := integer(d, rowsKey)
	if err != nil {
		return nil, err
	}
	x, _ := d.Get(schemaKey)
	encoded, ok := x.([]byte)
	if !ok {
		return nil, schemaErrorf(-1, "device batch has no schema")
	}
	schema, err := decodeSchema(encoded)
	if err != nil {
		return nil, err
	}
	columns := make([]column, schema.NumFields())
	for i := range columns {
		n := strconv.Itoa(i)
		for key, at := range map[string]**wire.DeviceArray{valuesKey: &columns[i].Values,
			validKey: &columns[i].Validity, offsetsKey: &columns[i].Offsets} {
			x, _ := d.Get(key + n)
			if a, ok := x.(*wire.DeviceArray); ok {
				*at = a
			} else if x != nil {
				return nil, schemaErrorf(-1, "column %q: %s%s is a %T, not a device array",
					schema.Field(i).Name, key, n, x)
			}
		}
	}
	return newDeviceBatch(schema, int(rows), columns)
}

// maxRows bounds the rows of a batch, so that lengths in bytes do not overflow.
const maxRows = 1 << 48

func integer(d wire.Dict, key string) (int64, error) {
	x, _ := d.Get(key)
	var n int64
	switch v := x.(type) {
	case int64:
		n = v
	case int:
		n = int64(v)
	case uint64:
		n = int64(min(v, maxRows+1))
	default:
		return 0, schemaErrorf(-1, "value is not a device batch: no number %q (device batches are "+
			"made by ToDevice, and by millstream.frame in Python)", key)
	}
	if n < 0 || n > maxRows {
		return 0, schemaErrorf(-1, "device batch has %q %d", key, n)
	}
	return n, nil
}
