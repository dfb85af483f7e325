package frame

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
)

// DeviceBatch is a record batch in memory of a GPU: Arrow's layout, with each buffer an array on
// the device. Functions on frames on devices get and return them. A function borrows
// what it is given, columns it may put into its result as they are; buffers that it makes it
// gives away with its result.
type DeviceBatch struct {
	schema  *arrow.Schema
	rows    int
	columns []column
}

// column has the arrays of a column, as the cluster carries them.
type column struct{ Values, Validity, Offsets *wire.DeviceArray }

// DeviceColumn is a column of a DeviceBatch.
type DeviceColumn struct {
	// Values are those of a type of fixed width, one for each row; bits, eight to a byte and the
	// lowest first, for booleans; the text of all rows for strings and bytes.
	Values *mem.Buffer
	// Validity has a bit for each row, 1 where there is a value, in the order of booleans. It is
	// nil where no row is null.
	Validity *mem.Buffer
	// Offsets are where each row of strings or bytes begins in Values, int32, and where the last
	// ends. It is nil for other types.
	Offsets *mem.Buffer

	of column // the arrays that the buffers are of, if it is a batch's
}

// public is the column with its buffers.
func (c column) public() DeviceColumn {
	buffer := func(a *wire.DeviceArray) *mem.Buffer {
		if a == nil {
			return nil
		}
		return a.Buffer()
	}
	return DeviceColumn{Values: buffer(c.Values), Validity: buffer(c.Validity), Offsets: buffer(c.Offsets), of: c}
}

// arrays are the buffers of a column of a layout as arrays: those that they came from, or new ones.
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

// NewDeviceBatch returns a batch of columns, which it checks: their number, types and lengths.
// What they point to stays as it is and is not looked at. The batch takes over the buffers of columns that are not
// another batch's.
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
		return nil, schemaErrorf(-1, "a batch of %d rows has %d columns, its schema %d", rows, len(columns),
			schema.NumFields())
	}
	for i, c := range columns {
		f := schema.Field(i)
		l, ok := layoutOf(f.Type)
		if !ok {
			return nil, unfit(f)
		}
		if err := l.check(c, rows); err != nil {
			return nil, schemaErrorf(-1, "column %q (%v): %v", f.Name, f.Type, err)
		}
	}
	return &DeviceBatch{schema: schema, rows: rows, columns: columns}, nil
}

// Schema returns that of the batch.
func (b *DeviceBatch) Schema() *arrow.Schema { return b.schema }

// NumRows returns the number of rows.
func (b *DeviceBatch) NumRows() int { return b.rows }

// Column returns a column by its place in the schema.
func (b *DeviceBatch) Column(i int) DeviceColumn { return b.columns[i].public() }

// Named returns a column by its name, which one column must have.
func (b *DeviceBatch) Named(name string) (DeviceColumn, error) {
	i, err := columnIndex(b.schema, name)
	if err != nil {
		return DeviceColumn{}, err
	}
	return b.columns[i].public(), nil
}

// Project returns the columns of these names, which it shares with b.
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

// retain keeps those arrays of the batch that are among some.
func (b *DeviceBatch) retain(some []*wire.DeviceArray) {
	for i := range b.columns {
		for _, a := range b.columns[i].arrays() {
			if slices.Contains(some, *a) {
				*a = (*a).Retain()
			}
		}
	}
}

// arrays are all that a column has.
func (c *column) arrays() []**wire.DeviceArray {
	out := []**wire.DeviceArray{&c.Values}
	for _, a := range []**wire.DeviceArray{&c.Validity, &c.Offsets} {
		if *a != nil {
			out = append(out, a)
		}
	}
	return out
}

// layout is how a type lies in memory.
type layout struct {
	dtype  wire.DType // of values
	width  int        // in bytes; 0: bits
	ragged bool       // with offsets
}

// layoutOf is the layout of a type, and whether frames on a device have it: all whose buffers
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

func unfit(f arrow.Field) error {
	return schemaErrorf(-1, "column %q is %v, which frames on a device do not have: they have numbers, booleans, "+
		"times, strings and bytes (Project leaves columns out)", f.Name, f.Type)
}

// bits is how many bytes hold a bit for each row.
func bits(rows int) int { return (rows + 7) / 8 }

// check tells what is wrong with a column's arrays.
func (l layout) check(c column, rows int) error {
	want := rows * l.width
	switch {
	case c.Values == nil:
		return fmt.Errorf("it has no values")
	case l.ragged:
		want = 0
		if c.Offsets == nil {
			return fmt.Errorf("it has no offsets")
		}
		if err := atLeast("offsets", c.Offsets, wire.Int32, 4*(rows+1)); err != nil {
			return err
		}
	case c.Offsets != nil:
		return fmt.Errorf("it has offsets")
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
		return fmt.Errorf("its %s are of type %s and should be %s", what, a.DType, dtype)
	}
	if len(a.Shape) != 1 {
		return fmt.Errorf("its %s have %d dimensions", what, len(a.Shape))
	}
	if n := a.Shape[0] * dtype.ItemSize(); n < bytes || a.Frame.Len() < bytes {
		return fmt.Errorf("its %s have %d bytes, and %d are needed", what, min(n, a.Frame.Len()), bytes)
	}
	return nil
}

// Keys of a device batch as a value of the cluster: a flat dict, so that Dask sends every array
// in a frame of its own, from device to device where it can. Python's millstream.frame has the
// same.
const (
	deviceKey  = "millstream.frame" // version
	rowsKey    = "rows"
	schemaKey  = "schema" // an Arrow IPC stream without batches
	version    = 1
	valuesKey  = "values."
	validKey   = "validity."
	offsetsKey = "offsets."
)

// value is the batch as the cluster carries it.
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

// deviceBatch reads what value made, or Python.
func deviceBatch(d wire.Dict) (*DeviceBatch, error) {
	v, err := integer(d, deviceKey)
	if err != nil {
		return nil, err
	}
	if v != version {
		return nil, schemaErrorf(-1, "a batch on a device is of version %d, and this program knows %d: use the same "+
			"release of Millstream everywhere", v, version)
	}
	rows, err := integer(d, rowsKey)
	if err != nil {
		return nil, err
	}
	x, _ := d.Get(schemaKey)
	encoded, ok := x.([]byte)
	if !ok {
		return nil, schemaErrorf(-1, "a batch on a device has no schema")
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
				return nil, schemaErrorf(-1, "column %q: its %s%s is a %T and no array of a device",
					schema.Field(i).Name, key, n, x)
			}
		}
	}
	return newDeviceBatch(schema, int(rows), columns)
}

// maxRows bounds the rows of a batch, so that lengths in bytes can be computed.
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
		return 0, schemaErrorf(-1, "the value is no batch on a device: it has no number %q (frames on a device are "+
			"made by ToDevice, and by millstream.frame of Python)", key)
	}
	if n < 0 || n > maxRows {
		return 0, schemaErrorf(-1, "a batch on a device has %q %d", key, n)
	}
	return n, nil
}
