package vec

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
)

// Bytes returns the size of the rows of a batch in bytes: what a copy of them would need. Dictionaries count in full,
// and the bytes of views as far as they are in this batch.
func Bytes(b arrow.RecordBatch) int64 {
	var n int64
	for _, c := range b.Columns() {
		n += ArrayBytes(c)
	}
	return n
}

// ArrayBytes is Bytes of one array.
func ArrayBytes(a arrow.Array) int64 {
	rows := int64(a.Len())
	if rows == 0 {
		return 0
	}
	var n int64
	if valid, _ := Validity(a); valid != nil {
		n = bitutil.BytesForBits(rows)
	}
	switch a := a.(type) {
	case *array.Null:
		return 0
	case *array.Boolean:
		return n + bitutil.BytesForBits(rows)
	case *array.Dictionary:
		return ArrayBytes(a.Indices()) + ArrayBytes(a.Dictionary())
	case array.ExtensionArray:
		return ArrayBytes(a.Storage())
	case *array.Struct:
		for i := range a.NumField() {
			n += ArrayBytes(a.Field(i))
		}
		return n
	case *array.StringView:
		n += 16 * rows
		for i := range a.Len() {
			if a.IsValid(i) && len(a.Value(i)) > 12 {
				n += int64(len(a.Value(i)))
			}
		}
		return n
	case *array.BinaryView:
		n += 16 * rows
		for i := range a.Len() {
			if a.IsValid(i) && len(a.Value(i)) > 12 {
				n += int64(len(a.Value(i)))
			}
		}
		return n
	}
	switch t := a.DataType(); t.ID() {
	case arrow.STRING, arrow.BINARY:
		return n + offsetBytes[int32](a, 4)
	case arrow.LARGE_STRING, arrow.LARGE_BINARY:
		return n + offsetBytes[int64](a, 8)
	case arrow.LIST, arrow.MAP:
		return n + listBytes[int32](a, 4)
	case arrow.LARGE_LIST:
		return n + listBytes[int64](a, 8)
	case arrow.FIXED_SIZE_LIST:
		from, _ := a.(array.ListLike).ValueOffsets(0)
		_, to := a.(array.ListLike).ValueOffsets(a.Len() - 1)
		return n + sliceBytes(a.(array.ListLike).ListValues(), from, to)
	default:
		if w, ok := t.(arrow.FixedWidthDataType); ok {
			return n + (rows*int64(w.BitWidth())+7)/8
		}
	}
	return n + int64(a.Data().SizeInBytes())
}

func offsetBytes[T int32 | int64](a arrow.Array, width int64) int64 {
	o := Offsets[T](a)
	return int64(len(o))*width + int64(o[a.Len()]-o[0])
}

func listBytes[T int32 | int64](a arrow.Array, width int64) int64 {
	o := Offsets[T](a)
	return int64(len(o))*width + sliceBytes(a.(array.ListLike).ListValues(), int64(o[0]), int64(o[a.Len()]))
}

func sliceBytes(a arrow.Array, from, to int64) int64 {
	s := array.NewSlice(a, from, to)
	defer s.Release()
	return ArrayBytes(s)
}

// Held returns the size in bytes of the memory that a batch keeps alive: its buffers in full, each once.
func Held(b arrow.RecordBatch) int64 {
	seen := make(map[*byte]bool)
	var n int64
	var add func(d arrow.ArrayData)
	add = func(d arrow.ArrayData) {
		for _, buf := range d.Buffers() {
			if buf == nil || buf.Len() == 0 {
				continue
			}
			if p := &buf.Bytes()[0]; !seen[p] {
				seen[p] = true
				n += int64(buf.Cap())
			}
		}
		for _, c := range d.Children() {
			add(c)
		}
		if d.DataType().ID() == arrow.DICTIONARY {
			add(d.Dictionary())
		}
	}
	for _, c := range b.Columns() {
		add(c.Data())
	}
	return n
}
