package expr

import (
	"fmt"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// heap allocates all results.
var heap = memory.NewGoAllocator()

func releaseColumns(columns []arrow.Array) {
	for _, c := range columns {
		if c != nil {
			c.Release()
		}
	}
}

// Take returns the rows of a batch with these ascending numbers. The caller releases the result.
func Take(b arrow.RecordBatch, rows []int32) (arrow.RecordBatch, error) {
	if len(rows) == 0 {
		empty := array.NewRecordBuilder(heap, b.Schema())
		defer empty.Release()
		return empty.NewRecordBatch(), nil
	}
	runs := runsOf(rows)
	columns := make([]arrow.Array, b.NumCols())
	defer func() { releaseColumns(columns) }()
	for i := range columns {
		var err error
		if columns[i], err = takeColumn(b.Column(i), rows, runs); err != nil {
			return nil, fmt.Errorf("expr: column %q: %w", b.ColumnName(i), err)
		}
	}
	return array.NewRecordBatch(b.Schema(), columns, int64(len(rows))), nil
}

// run is a range of consecutive rows.
type run struct{ from, to int64 }

func runsOf(rows []int32) []run {
	var runs []run
	for _, r := range rows {
		if n := len(runs); n > 0 && runs[n-1].to == int64(r) {
			runs[n-1].to++
		} else {
			runs = append(runs, run{int64(r), int64(r) + 1})
		}
	}
	return runs
}

// takeColumn copies values of fixed width one by one, and other types as slices.
func takeColumn(c arrow.Array, rows []int32, runs []run) (arrow.Array, error) {
	if w, ok := c.DataType().(arrow.FixedWidthDataType); ok && len(runs) > len(rows)/16 {
		switch c.DataType().ID() {
		case arrow.DICTIONARY, arrow.FIXED_SIZE_LIST, arrow.FIXED_SIZE_BINARY, arrow.BOOL, arrow.EXTENSION:
		default:
			switch w.BitWidth() {
			case 8:
				return takeFixed[uint8](c, rows), nil
			case 16:
				return takeFixed[uint16](c, rows), nil
			case 32:
				return takeFixed[uint32](c, rows), nil
			case 64:
				return takeFixed[uint64](c, rows), nil
			}
		}
	}
	parts := make([]arrow.Array, len(runs))
	defer releaseColumns(parts)
	for i, r := range runs {
		parts[i] = array.NewSlice(c, r.from, r.to)
	}
	return array.Concatenate(parts, heap)
}

// takeFixed copies values by their width, independent of their type.
func takeFixed[T uint8 | uint16 | uint32 | uint64](c arrow.Array, rows []int32) arrow.Array {
	d := c.Data()
	width := arrow.FixedWidthDataType.BitWidth(c.DataType().(arrow.FixedWidthDataType)) / 8
	var from []T
	if buf := d.Buffers()[1]; buf != nil {
		from = castTo[T](buf.Bytes())[d.Offset() : d.Offset()+d.Len()]
	}
	data := make([]byte, len(rows)*width)
	to := castTo[T](data)
	for i, r := range rows {
		to[i] = from[r]
	}
	buffers := []*memory.Buffer{nil, memory.NewBufferBytes(data)}
	nulls := 0
	if c.NullN() > 0 {
		bits := make([]byte, bitutil.BytesForBits(int64(len(rows))))
		for i, r := range rows {
			if c.IsValid(int(r)) {
				bitutil.SetBit(bits, i)
			} else {
				nulls++
			}
		}
		buffers[0] = memory.NewBufferBytes(bits)
	}
	out := array.NewData(c.DataType(), len(rows), buffers, nil, nulls, 0)
	defer out.Release()
	return array.MakeFromData(out)
}

// castTo returns bytes of an Arrow buffer as numbers. Bytes that are not aligned, as in a message, are copied.
func castTo[T uint8 | uint16 | uint32 | uint64](b []byte) []T {
	var zero T
	size := int(unsafe.Sizeof(zero))
	n := len(b) / size
	if n == 0 {
		return nil
	}
	p := unsafe.Pointer(unsafe.SliceData(b))
	if uintptr(p)%uintptr(size) != 0 {
		out := make([]T, n)
		copy(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(out))), n*size), b)
		return out
	}
	return unsafe.Slice((*T)(p), n)
}
