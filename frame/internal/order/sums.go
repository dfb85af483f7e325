package order

import (
	"math"
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/frame/internal/vec"
)

// int192 is a signed integer of three words, the lowest first: sums of two-word integers fit.
type int192 [3]uint64

func wideInt(v int64) int192 { return int192{uint64(v), uint64(v >> 63), uint64(v >> 63)} }

func (a int192) add(b int192) int192 {
	var c uint64
	a[0], c = bits.Add64(a[0], b[0], 0)
	a[1], c = bits.Add64(a[1], b[1], c)
	a[2], _ = bits.Add64(a[2], b[2], c)
	return a
}

func (a int192) subtract(b int192) int192 {
	var c uint64
	a[0], c = bits.Sub64(a[0], b[0], 0)
	a[1], c = bits.Sub64(a[1], b[1], c)
	a[2], _ = bits.Sub64(a[2], b[2], c)
	return a
}

// float returns the nearest float, or one next to it.
func (a int192) float() float64 {
	if int64(a[2]) < 0 {
		return -int192{}.subtract(a).float()
	}
	return math.Ldexp(float64(a[2]), 128) + math.Ldexp(float64(a[1]), 64) + float64(a[0])
}

// maxDecimal is the greatest number of 38 digits.
var maxDecimal = decimal128.GetMaxValue(38)

// fits reports whether a sum is a value of the type of sums.
func (a int192) fits(t arrow.DataType) bool {
	switch t.ID() {
	case arrow.INT64:
		s := uint64(int64(a[0]) >> 63)
		return a[1] == s && a[2] == s
	case arrow.UINT64:
		return a[1] == 0 && a[2] == 0
	}
	if a[2] != uint64(int64(a[1])>>63) {
		return false
	}
	d := decimal128.New(int64(a[1]), a[0])
	return !maxDecimal.Less(d) && !d.Less(maxDecimal.Negate())
}

// integersOf returns the values of an array of integers or decimals.
func integersOf(a arrow.Array) func(row int32) int192 {
	switch a.DataType().ID() {
	case arrow.INT8:
		return signed[int8](a)
	case arrow.INT16:
		return signed[int16](a)
	case arrow.INT32:
		return signed[int32](a)
	case arrow.INT64:
		return signed[int64](a)
	case arrow.UINT8:
		return unsigned[uint8](a)
	case arrow.UINT16:
		return unsigned[uint16](a)
	case arrow.UINT32:
		return unsigned[uint32](a)
	case arrow.UINT64:
		return unsigned[uint64](a)
	}
	values := vec.Values[[2]uint64](a)
	return func(row int32) int192 {
		v := values[row]
		return int192{v[0], v[1], uint64(int64(v[1]) >> 63)}
	}
}

func signed[T int8 | int16 | int32 | int64](a arrow.Array) func(int32) int192 {
	values := vec.Values[T](a)
	return func(row int32) int192 { return wideInt(int64(values[row])) }
}

func unsigned[T uint8 | uint16 | uint32 | uint64](a arrow.Array) func(int32) int192 {
	values := vec.Values[T](a)
	return func(row int32) int192 { return int192{uint64(values[row])} }
}

// floatsOf returns the values of an array of floats, or nil for other arrays.
func floatsOf(a arrow.Array) func(row int32) float64 {
	switch a.DataType().ID() {
	case arrow.FLOAT32:
		values := vec.Values[float32](a)
		return func(row int32) float64 { return float64(values[row]) }
	case arrow.FLOAT64:
		values := vec.Values[float64](a)
		return func(row int32) float64 { return values[row] }
	}
	return nil
}

// fixed is an array of words that is being written.
type fixed struct {
	words []uint64
	valid []byte
	nulls int
}

func newFixed(n int) *fixed {
	return &fixed{words: make([]uint64, n), valid: make([]byte, bitutil.BytesForBits(int64(n)))}
}

// set sets a value, or null if it is not ok.
func (f *fixed) set(i int, word uint64, ok bool) {
	if !ok {
		f.nulls++
		return
	}
	f.words[i] = word
	f.valid[i>>3] |= 1 << (i & 7)
}

// fixedArray returns an array of values of fixed width.
func fixedArray[T any](t arrow.DataType, values []T, valid []byte, nulls int) arrow.Array {
	var bitmap *memory.Buffer
	if nulls > 0 {
		bitmap = memory.NewBufferBytes(valid)
	}
	return vec.Make(t, len(values), nulls, []*memory.Buffer{bitmap, vec.Buffer(values)})
}

// batchOf returns a batch of one column, which the caller releases.
func batchOf(s *arrow.Schema, a arrow.Array) arrow.RecordBatch {
	return array.NewRecordBatch(s, []arrow.Array{a}, int64(a.Len()))
}
