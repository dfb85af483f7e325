package frame

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
)

// deviceOfBytes returns an array of zeros of a type.
func deviceOfBytes(dtype wire.DType, n int) *wire.DeviceArray {
	return &wire.DeviceArray{DType: dtype, Shape: []int{n / dtype.ItemSize()}, Frame: wire.HeapFrame(make([]byte, n))}
}

// A column needs at least the bytes of its rows.
func TestLayouts(t *testing.T) {
	for _, c := range []struct {
		dt     arrow.DataType
		dtype  wire.DType
		values func(rows int) int // bytes
		ragged bool
	}{
		{arrow.FixedWidthTypes.Boolean, wire.Uint8, func(n int) int { return (n + 7) / 8 }, false},
		{arrow.PrimitiveTypes.Int8, wire.Int8, func(n int) int { return n }, false},
		{arrow.PrimitiveTypes.Uint8, wire.Uint8, func(n int) int { return n }, false},
		{arrow.PrimitiveTypes.Int16, wire.Int16, func(n int) int { return 2 * n }, false},
		{arrow.PrimitiveTypes.Uint16, wire.Uint16, func(n int) int { return 2 * n }, false},
		{arrow.FixedWidthTypes.Float16, "<f2", func(n int) int { return 2 * n }, false},
		{arrow.PrimitiveTypes.Int32, wire.Int32, func(n int) int { return 4 * n }, false},
		{arrow.PrimitiveTypes.Uint32, wire.Uint32, func(n int) int { return 4 * n }, false},
		{arrow.PrimitiveTypes.Float32, wire.Float32, func(n int) int { return 4 * n }, false},
		{arrow.FixedWidthTypes.Date32, wire.Int32, func(n int) int { return 4 * n }, false},
		{arrow.FixedWidthTypes.Time32s, wire.Int32, func(n int) int { return 4 * n }, false},
		{arrow.PrimitiveTypes.Int64, wire.Int64, func(n int) int { return 8 * n }, false},
		{arrow.PrimitiveTypes.Uint64, wire.Uint64, func(n int) int { return 8 * n }, false},
		{arrow.PrimitiveTypes.Float64, wire.Float64, func(n int) int { return 8 * n }, false},
		{arrow.FixedWidthTypes.Date64, wire.Int64, func(n int) int { return 8 * n }, false},
		{arrow.FixedWidthTypes.Time64us, wire.Int64, func(n int) int { return 8 * n }, false},
		{arrow.FixedWidthTypes.Timestamp_ns, wire.Int64, func(n int) int { return 8 * n }, false},
		{arrow.FixedWidthTypes.Duration_s, wire.Int64, func(n int) int { return 8 * n }, false},
		{arrow.BinaryTypes.String, wire.Uint8, func(int) int { return 0 }, true},
		{arrow.BinaryTypes.Binary, wire.Uint8, func(int) int { return 0 }, true},
	} {
		l, ok := layoutOf(c.dt)
		if !ok || l.dtype != c.dtype || l.ragged != c.ragged {
			t.Errorf("%v: got %+v, %v, want %s", c.dt, l, ok, c.dtype)
			continue
		}
		for _, rows := range []int{0, 1, 7, 8, 9, 64, 65} {
			good := column{Values: deviceOfBytes(c.dtype, c.values(rows))}
			if c.ragged {
				good.Offsets = deviceOfBytes(wire.Int32, 4*(rows+1))
			}
			valid := good
			valid.Validity = deviceOfBytes(wire.Uint8, (rows+7)/8)
			for what, x := range map[string]struct {
				change func(*column)
				want   string
			}{
				"good":         {func(*column) {}, ""},
				"no values":    {func(c *column) { c.Values = nil }, "no values"},
				"other values": {func(c *column) { c.Values = deviceOfBytes("<c16", 16*rows) }, "want "},
				"other validity": {func(c *column) { c.Validity = deviceOfBytes(wire.Int8, rows) },
					"validity have type"},
				"short frame":    {func(x *column) { cutFrame(x.Values) }, "values have"},
				"short validity": {func(x *column) { cutFrame(x.Validity) }, "validity have"},
				"short offsets":  {func(x *column) { cutFrame(x.Offsets) }, "offsets have"},
				"needless offsets": {func(x *column) { x.Offsets = deviceOfBytes(wire.Int32, 4*(rows+1)) },
					"unexpected offsets"},
				"missing offsets": {func(x *column) { x.Offsets = nil }, "no offsets"},
			} {
				col := valid
				for _, a := range []**wire.DeviceArray{&col.Values, &col.Validity, &col.Offsets} {
					if *a != nil { // copy it
						a2 := **a
						a2.Shape = append([]int(nil), a2.Shape...)
						*a = &a2
					}
				}
				applies := true
				switch what {
				case "short frame":
					applies = col.Values.Frame.Len() > 0
				case "short validity":
					applies = rows > 0
				case "short offsets", "missing offsets":
					applies = c.ragged
				case "needless offsets":
					applies = !c.ragged
				}
				if !applies {
					continue
				}
				x.change(&col)
				err := l.check(col, rows)
				want, _, _ := strings.Cut(x.want, "|")
				if what == "short frame" {
					want = "values have"
				}
				if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("%v, %d rows, %s: got %v, want %q", c.dt, rows, what, err, want)
				}
			}
			if err := l.check(good, rows); err != nil {
				t.Errorf("%v, %d rows without nulls: %v", c.dt, rows, err)
			}
		}
	}
	for _, dt := range []arrow.DataType{arrow.ListOf(arrow.PrimitiveTypes.Int8), arrow.Null,
		arrow.BinaryTypes.LargeString,
		&arrow.Decimal128Type{Precision: 3}, &arrow.FixedSizeBinaryType{ByteWidth: 3}} {
		if l, ok := layoutOf(dt); ok {
			t.Errorf("%v: got %+v, want none", dt, l)
		}
	}
}

// cutFrame removes a byte from the memory of an array.
func cutFrame(a *wire.DeviceArray) { a.Frame = wire.HeapFrame(make([]byte, a.Frame.Len()-1)) }

func TestCheckOffsets(t *testing.T) {
	for _, c := range []struct {
		offsets []int32
		n, want int // -1 for an error
	}{
		{[]int32{0}, 0, 0}, {[]int32{0, 0, 0}, 0, 0}, {[]int32{0, 3, 3, 5}, 5, 5}, {[]int32{0, 3}, 9, 3}, {[]int32{0,
			6}, 5, -1},
		{[]int32{1, 3}, 5, -1}, {[]int32{0, 3, 2}, 5, -1}, {[]int32{0, -1}, 5, -1}, {[]int32{0, 5, 5}, 5, 5}, {nil, 5,
			0},
	} {
		var b []byte
		for _, at := range c.offsets {
			b = binary.LittleEndian.AppendUint32(b, uint32(at))
		}
		got, err := checkOffsets(b, c.n)
		if (err == nil) != (c.want >= 0) || err == nil && got != c.want {
			t.Errorf("%v in %d bytes: got %d, %v, want %d", c.offsets, c.n, got, err, c.want)
		}
	}
}

// bitsOf returns the bits from any offset, at the beginning of a byte.
func TestBitsOf(t *testing.T) {
	bytes := []byte{0b10110010, 0b01011101, 0b11110000, 0b00001111}
	bit := func(b []byte, i int) byte { return b[i/8] >> (i % 8) & 1 }
	for off := range 30 {
		for n := range 32 - off {
			got := bitsOf(bytes[:bits(off+n)], off, n)
			if len(got) < bits(n) {
				t.Fatalf("%d bits from %d: got %d bytes, want %d", n, off, len(got), bits(n))
			}
			for i := range n {
				if bit(got, i) != bit(bytes, off+i) {
					t.Fatalf("%d bits from %d: bit %d is %d", n, off, i, bit(got, i))
				}
			}
		}
	}
	for rows, want := range map[int]int{0: 0, 1: 1, 7: 1, 8: 1, 9: 2, 64: 8, 65: 9} {
		if got := bits(rows); got != want {
			t.Errorf("%d rows: got %d bytes of bits, want %d", rows, got, want)
		}
	}
}

// Columns keep their original arrays; new buffers become arrays of the type.
func TestColumnArrays(t *testing.T) {
	ctx, dev := onFake(t)
	b, err := copyBatchToDevice(ctx, mixedOf(9))
	if err != nil {
		t.Fatal(err)
	}
	for i := range b.columns {
		l, _ := layoutOf(b.schema.Field(i).Type)
		if got := b.Column(i).arrays(l); got != b.columns[i] {
			t.Errorf("column %d: got %+v, want the arrays of the batch", i, got)
		}
	}
	score, err := b.Named("score")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := score.Nulls(ctx, b.NumRows()); n != 2 || err != nil {
		t.Errorf("got %d nulls, %v, want 2", n, err)
	}
	if n, err := b.Column(0).Nulls(ctx, b.NumRows()); n != 0 || err != nil {
		t.Errorf("a column without nulls: got %d, %v", n, err)
	}
	made := DeviceColumn{Values: mem.FromBytes(make([]byte, 24))}
	l, _ := layoutOf(arrow.PrimitiveTypes.Int64)
	if got := made.arrays(l); got.Values.DType != wire.Int64 || fmt.Sprint(got.Values.Shape) != "[3]" ||
		got.Validity != nil {
		t.Errorf("got %+v, want three int64", got.Values)
	}
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Int64}}, nil)
	for _, c := range []struct {
		rows    int
		columns []DeviceColumn
		ok      bool
	}{{3, []DeviceColumn{made}, true}, {2, []DeviceColumn{made}, true}, {4, []DeviceColumn{made}, false}, {-1,
		[]DeviceColumn{made}, false},
		{3, nil, false}, {3, []DeviceColumn{made, made}, false}, {3, []DeviceColumn{{}}, false}} {
		if _, err := NewDeviceBatch(schema, c.rows, c.columns); (err == nil) != c.ok {
			t.Errorf("%d rows, %d columns: got %v, want it accepted: %v", c.rows, len(c.columns), err, c.ok)
		}
	}
	if _, err := b.Named("none"); err == nil {
		t.Error("Named with an unknown name: got no error")
	}
	if _, err := b.Project("id", "none"); err == nil {
		t.Error("Project with an unknown name: got no error")
	}
	b.release()
	if n := dev.out.Load(); n != 0 {
		t.Errorf("got %d buffers not freed, want 0", n)
	}
}
