package vec

import (
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Take returns the rows of a batch with these numbers, in their order. The number -1 is a row of nulls, whatever the
// schema says. The result has memory of its own, except for dictionaries and the bytes of view types, which it shares.
// The caller releases it.
func Take(b arrow.RecordBatch, rows []int32) (_ arrow.RecordBatch, err error) {
	defer recoverError(&err)
	s, err := newSelection(rows, int(b.NumRows()))
	if err != nil {
		return nil, err
	}
	columns := make([]arrow.Array, b.NumCols())
	defer func() { Release(columns) }()
	for i := range columns {
		if columns[i], err = s.take(b.Column(i)); err != nil {
			return nil, fmt.Errorf("vec: take rows of column %q: %w", b.ColumnName(i), err)
		}
	}
	return array.NewRecordBatch(b.Schema(), columns, int64(len(rows))), nil
}

// TakeArray is Take of one array.
func TakeArray(a arrow.Array, rows []int32) (_ arrow.Array, err error) {
	defer recoverError(&err)
	s, err := newSelection(rows, a.Len())
	if err != nil {
		return nil, err
	}
	return s.take(a)
}

// selection is a list of numbers of rows.
type selection struct {
	rows  []int32
	nulls bool // some numbers are -1
}

// newSelection checks the numbers of rows of a table of n rows.
func newSelection(rows []int32, n int) (selection, error) {
	least, most := int32(0), int32(-1)
	for _, r := range rows {
		least, most = min(least, r), max(most, r)
	}
	if least < -1 || int(most) >= n {
		bad := most
		if least < -1 {
			bad = least
		}
		return selection{}, fmt.Errorf("vec: row %d of a batch of %d rows", bad, n)
	}
	return selection{rows, least < 0}, nil
}

func (s selection) take(a arrow.Array) (arrow.Array, error) {
	t := a.DataType()
	switch a := a.(type) {
	case *array.Null:
		return array.NewNull(len(s.rows)), nil
	case *array.Boolean:
		return s.takeBool(a), nil
	case *array.Dictionary:
		return s.takeDictionary(a)
	case array.ExtensionArray:
		storage, err := s.take(a.Storage())
		if err != nil {
			return nil, err
		}
		defer storage.Release()
		return array.NewExtensionArrayWithStorage(t.(arrow.ExtensionType), storage), nil
	case *array.Struct:
		return s.takeStruct(a)
	case *array.FixedSizeList:
		return s.takeFixedSizeList(a)
	}
	switch t.ID() {
	case arrow.STRING, arrow.BINARY:
		return takeBytes[int32](s, a, math.MaxInt32)
	case arrow.LARGE_STRING, arrow.LARGE_BINARY:
		return takeBytes[int64](s, a, math.MaxInt64)
	case arrow.LIST, arrow.MAP:
		return takeList[int32](s, a)
	case arrow.LARGE_LIST:
		return takeList[int64](s, a)
	case arrow.STRING_VIEW, arrow.BINARY_VIEW:
		return s.takeView(a), nil
	}
	if w, ok := t.(arrow.FixedWidthDataType); ok && w.BitWidth()%8 == 0 {
		return s.takeFixed(a, w.BitWidth()/8), nil
	}
	return s.takeSlices(a)
}

// validity returns the bitmap of the result and its number of nulls; the bitmap is nil if there are none.
func (s selection) validity(a arrow.Array) (*memory.Buffer, int) {
	valid, off := Validity(a)
	if valid == nil && !s.nulls {
		return nil, 0
	}
	bits := make([]byte, bitutil.BytesForBits(int64(len(s.rows))))
	nulls := 0
	for i, r := range s.rows {
		if r >= 0 && (valid == nil || isSet(valid, off+int(r))) {
			bits[i>>3] |= 1 << (i & 7)
		} else {
			nulls++
		}
	}
	if nulls == 0 {
		return nil, 0
	}
	return memory.NewBufferBytes(bits), nulls
}

func (s selection) takeBool(a *array.Boolean) arrow.Array {
	d := a.Data()
	var from []byte
	if d.Buffers()[1] != nil {
		from = d.Buffers()[1].Bytes()
	}
	bits := make([]byte, bitutil.BytesForBits(int64(len(s.rows))))
	if from != nil {
		off := d.Offset()
		for i, r := range s.rows {
			if r >= 0 && isSet(from, off+int(r)) {
				bits[i>>3] |= 1 << (i & 7)
			}
		}
	}
	valid, nulls := s.validity(a)
	return Make(a.DataType(), len(s.rows), nulls, []*memory.Buffer{valid, memory.NewBufferBytes(bits)})
}

// takeFixed copies values by their width in bytes.
func (s selection) takeFixed(a arrow.Array, width int) arrow.Array {
	valid, nulls := s.validity(a)
	var to *memory.Buffer
	switch width {
	case 1:
		to = takeValues[uint8](s, a)
	case 2:
		to = takeValues[uint16](s, a)
	case 4:
		to = takeValues[uint32](s, a)
	case 8:
		to = takeValues[uint64](s, a)
	case 16:
		to = takeValues[[2]uint64](s, a)
	default:
		from, out := fixedBytes(a, width), make([]byte, len(s.rows)*width)
		for i, r := range s.rows {
			if r >= 0 {
				copy(out[i*width:(i+1)*width], from[int(r)*width:])
			}
		}
		to = memory.NewBufferBytes(out)
	}
	return Make(a.DataType(), len(s.rows), nulls, []*memory.Buffer{valid, to})
}

func takeValues[T any](s selection, a arrow.Array) *memory.Buffer {
	from := Values[T](a)
	if s.nulls {
		to := make([]T, len(s.rows))
		for i, r := range s.rows {
			if r >= 0 {
				to[i] = from[r]
			}
		}
		return Buffer(to)
	}
	to := raw[T](len(s.rows))
	for i, r := range s.rows {
		to[i] = from[r]
	}
	return Buffer(to)
}

// takeBytes copies values of text or bytes, which together may have most bytes.
func takeBytes[T int32 | int64](s selection, a arrow.Array, most int64) (arrow.Array, error) {
	offsets, data := Offsets[T](a), Data(a)
	to := raw[T](len(s.rows) + 1)
	to[0] = 0
	var size int64
	valid, nulls := s.validity(a)
	if valid == nil {
		for i, r := range s.rows {
			size += int64(offsets[r+1] - offsets[r])
			to[i+1] = T(size)
		}
	} else {
		bits := valid.Bytes()
		for i, r := range s.rows {
			if isSet(bits, i) {
				size += int64(offsets[r+1] - offsets[r])
			}
			to[i+1] = T(size)
		}
	}
	if size > most {
		return nil, fmt.Errorf("%d bytes of text do not fit into an array of type %v; use smaller batches or "+
			"the large type", size, a.DataType())
	}
	out := raw[byte](int(size))
	for i, r := range s.rows {
		begin, end := to[i], to[i+1]
		if n := end - begin; n > 0 {
			from := data[offsets[r]:][:n]
			if dst := out[begin:end]; n <= 16 && n >= 8 {
				// Two words that may overlap are faster than a call of copy.
				copyShort(dst, from)
			} else {
				copy(dst, from)
			}
		}
	}
	return Make(a.DataType(), len(s.rows), nulls,
		[]*memory.Buffer{valid, Buffer(to), memory.NewBufferBytes(out)}), nil
}
