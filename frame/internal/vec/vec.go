// Package vec has the operations on Arrow arrays and batches that the operators of queries share: hashes of rows, rows
// by number, concatenation, division into buckets, and sizes. They are functions of their arguments and run on one
// goroutine. All memory that they allocate is on the Go heap.
package vec

import (
	"fmt"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

var heap = memory.NewGoAllocator()

// Cast returns the bytes of an Arrow buffer as values of a fixed width. Bytes that are not aligned, as in a message,
// are copied.
func Cast[T any](b []byte) []T {
	var zero T
	size, align := int(unsafe.Sizeof(zero)), unsafe.Alignof(zero)
	n := len(b) / size
	if n == 0 {
		return nil
	}
	p := unsafe.Pointer(unsafe.SliceData(b))
	if uintptr(p)%align != 0 {
		out := make([]T, n)
		copy(bytesOf(out), b)
		return out
	}
	return unsafe.Slice((*T)(p), n)
}

// bytesOf returns the memory of values of a fixed width.
func bytesOf[T any](v []T) []byte {
	if len(v) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*int(unsafe.Sizeof(v[0])))
}

// Buffer returns an Arrow buffer of the memory of values of a fixed width.
func Buffer[T any](v []T) *memory.Buffer { return memory.NewBufferBytes(bytesOf(v)) }

// Values returns the values of an array of fixed width, whose type T must have that width. Values of nulls are
// undefined. Arrow allows null arrays without memory for values: those are zero.
func Values[T any](a arrow.Array) []T {
	d := a.Data()
	n := d.Len()
	if n == 0 {
		return nil
	}
	if bufs := d.Buffers(); len(bufs) > 1 && bufs[1] != nil {
		return Cast[T](bufs[1].Bytes())[d.Offset() : d.Offset()+n]
	}
	return make([]T, n)
}

// Validity returns the bitmap of an array and the position of its first row in it, or nil if the array has no nulls.
func Validity(a arrow.Array) (bits []byte, offset int) {
	d := a.Data()
	if a.NullN() == 0 || len(d.Buffers()) == 0 || d.Buffers()[0] == nil {
		return nil, 0
	}
	return d.Buffers()[0].Bytes(), d.Offset()
}

// isSet reports whether a bit of a bitmap is set.
func isSet(bits []byte, i int) bool { return bits[uint(i)>>3]>>(uint(i)&7)&1 != 0 }

// Offsets returns the offsets of an array of lists or of bytes, one more than it has rows, which are 32 or 64 bits
// wide. Arrow allows empty arrays without memory for offsets: those have the offset 0.
func Offsets[T int32 | int64](a arrow.Array) []T {
	d := a.Data()
	if bufs := d.Buffers(); len(bufs) > 1 && bufs[1] != nil && bufs[1].Len() > 0 {
		return Cast[T](bufs[1].Bytes())[d.Offset() : d.Offset()+d.Len()+1]
	}
	return make([]T, d.Len()+1)
}

// Data returns the bytes of an array of bytes, to which its offsets point.
func Data(a arrow.Array) []byte {
	if bufs := a.Data().Buffers(); len(bufs) > 2 && bufs[2] != nil {
		return bufs[2].Bytes()
	}
	return nil
}

// Make returns an array of these buffers and children, of which it takes no reference.
func Make(t arrow.DataType, n int, nulls int, buffers []*memory.Buffer, children ...arrow.Array) arrow.Array {
	var data []arrow.ArrayData
	for _, c := range children {
		data = append(data, c.Data())
	}
	d := array.NewData(t, n, buffers, data, nulls, 0)
	defer d.Release()
	return array.MakeFromData(d)
}

// Release releases the arrays that are not nil.
func Release(arrays []arrow.Array) {
	for _, a := range arrays {
		if a != nil {
			a.Release()
		}
	}
}

// ReleaseBatches releases the batches that are not nil.
func ReleaseBatches(batches []arrow.RecordBatch) {
	for _, b := range batches {
		if b != nil {
			b.Release()
		}
	}
}

// Empty returns a batch with a schema and no rows.
func Empty(s *arrow.Schema) arrow.RecordBatch {
	b := array.NewRecordBuilder(heap, s)
	defer b.Release()
	return b.NewRecordBatch()
}

// recoverError converts a panic of the Arrow library, or an index out of range, to an error: both are the effect of
// invalid data.
func recoverError(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("vec: invalid data: %v", p)
	}
}
