package join

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/float16"

	"go.millstream.dev/frame/internal/vec"
)

// family groups the types whose values can be compared as keys.
type family uint8

const (
	noFamily family = iota
	boolFamily
	intFamily      // all integers; uint64 with unsigned ones only
	floatFamily    // all floats
	decimalFamily  // of equal scale
	bytesFamily    // text and bytes
	temporalFamily // of equal type
)

// familyOf returns the family of a type and how many words of 64 bits a value has: 0 for bytes.
func familyOf(t arrow.DataType) (f family, words int) {
	switch t.ID() {
	case arrow.BOOL:
		return boolFamily, 1
	case arrow.INT8, arrow.INT16, arrow.INT32, arrow.INT64, arrow.UINT8, arrow.UINT16, arrow.UINT32, arrow.UINT64:
		return intFamily, 1
	case arrow.FLOAT16, arrow.FLOAT32, arrow.FLOAT64:
		return floatFamily, 1
	case arrow.DATE32, arrow.DATE64, arrow.TIME32, arrow.TIME64, arrow.TIMESTAMP, arrow.DURATION:
		return temporalFamily, 1
	case arrow.DECIMAL128:
		return decimalFamily, 2
	case arrow.STRING, arrow.BINARY, arrow.LARGE_STRING, arrow.LARGE_BINARY, arrow.FIXED_SIZE_BINARY:
		return bytesFamily, 0
	}
	return noFamily, 0
}

// comparable returns an error unless values of two types can be compared as keys.
func comparable(left, right arrow.DataType) error {
	l, _ := familyOf(left)
	r, _ := familyOf(right)
	ok := l == r && l != noFamily
	if ok {
		switch l {
		case intFamily:
			ok = (left.ID() == arrow.UINT64) == (right.ID() == arrow.UINT64) || arrow.IsUnsignedInteger(left.ID()) &&
				arrow.IsUnsignedInteger(right.ID())
		case decimalFamily:
			ok = left.(arrow.DecimalType).GetScale() == right.(arrow.DecimalType).GetScale()
		case temporalFamily:
			ok = arrow.TypeEqual(left, right)
			if a, isTime := left.(*arrow.TimestampType); isTime && !ok {
				b, same := right.(*arrow.TimestampType)
				ok = same && a.Unit == b.Unit && (a.TimeZone == "") == (b.TimeZone == "")
			}
		}
	}
	if !ok {
		return fmt.Errorf("keys of type %v and %v cannot be compared; cast one of them", left, right)
	}
	return nil
}

// wordColumn is one word of the values of a key column.
type wordColumn struct {
	key  int // number of the key
	part int // word of the value
}

// sign is added to integers, so that words have the order of the numbers.
const sign = 1 << 63

// fillWords writes a word of the rows from lo of a column. Words of nulls are undefined.
func fillWords(a arrow.Array, part, lo int, out []uint64) {
	switch t := a.DataType(); t.ID() {
	case arrow.BOOL:
		b := a.(*array.Boolean)
		for i := range out {
			out[i] = 0
			if b.Value(lo + i) {
				out[i] = 1
			}
		}
	case arrow.INT8:
		fillInts[int8](a, lo, out)
	case arrow.INT16:
		fillInts[int16](a, lo, out)
	case arrow.UINT8:
		fillInts[uint8](a, lo, out)
	case arrow.UINT16:
		fillInts[uint16](a, lo, out)
	case arrow.UINT32:
		fillInts[uint32](a, lo, out)
	case arrow.FLOAT16:
		for i, v := range vec.Values[float16.Num](a)[lo:][:len(out)] {
			out[i] = vec.FloatWord(float64(v.Float32()))
		}
	case arrow.FLOAT32:
		for i, v := range vec.Values[float32](a)[lo:][:len(out)] {
			out[i] = vec.FloatWord(float64(v))
		}
	case arrow.FLOAT64:
		for i, v := range vec.Values[float64](a)[lo:][:len(out)] {
			out[i] = vec.FloatWord(v)
		}
	case arrow.DECIMAL128:
		// With both signs flipped, small numbers of both signs have both words from small ranges.
		for i, v := range vec.Values[[2]uint64](a)[lo:][:len(out)] {
			out[i] = v[part] ^ sign
		}
	default:
		switch t.(arrow.FixedWidthDataType).BitWidth() {
		case 32:
			fillInts[int32](a, lo, out)
		default:
			fillInts[int64](a, lo, out)
		}
	}
}

func fillInts[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32](a arrow.Array, lo int, out []uint64) {
	for i, v := range vec.Values[T](a)[lo:][:len(out)] {
		out[i] = uint64(v) ^ sign
	}
}

// hasNulls reports whether a row of some column is null.
func hasNulls(columns []arrow.Array) bool {
	for _, c := range columns {
		if c.NullN() > 0 {
			return true
		}
	}
	return false
}

// eachNull calls f for the rows from lo to hi of a column that are null.
func eachNull(a arrow.Array, lo, hi int, f func(row int)) {
	valid, off := vec.Validity(a)
	if valid == nil {
		return
	}
	for i := lo; i < hi; i++ {
		if b := off + i; valid[b>>3]>>(b&7)&1 == 0 {
			f(i)
		}
	}
}
