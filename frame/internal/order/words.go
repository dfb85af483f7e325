package order

import (
	"encoding/binary"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/float16"

	"go.millstream.dev/frame/internal/vec"
)

const sign = 1 << 63

// fillWords writes words with the order of the values of a column, which is not of text. Part 0 of wide values is the
// upper word, part 1 the lower. Words of nulls are undefined.
func fillWords(a arrow.Array, part int, out []uint64) {
	if len(out) == 0 {
		return
	}
	switch t := a.DataType(); t.ID() {
	case arrow.BOOL:
		b := a.(*array.Boolean)
		for i := range out {
			out[i] = 0
			if b.Value(i) {
				out[i] = 1
			}
		}
	case arrow.INT8:
		fillInts[int8](a, out)
	case arrow.INT16:
		fillInts[int16](a, out)
	case arrow.UINT8:
		fillUints[uint8](a, out)
	case arrow.UINT16:
		fillUints[uint16](a, out)
	case arrow.UINT32:
		fillUints[uint32](a, out)
	case arrow.UINT64:
		fillUints[uint64](a, out)
	case arrow.FLOAT16:
		for i, v := range vec.Values[float16.Num](a)[:len(out)] {
			out[i] = floatWord(float64(v.Float32()))
		}
	case arrow.FLOAT32:
		for i, v := range vec.Values[float32](a)[:len(out)] {
			out[i] = floatWord(float64(v))
		}
	case arrow.FLOAT64:
		for i, v := range vec.Values[float64](a)[:len(out)] {
			out[i] = floatWord(v)
		}
	case arrow.DECIMAL128:
		// In memory the lower word is first.
		for i, v := range vec.Values[[2]uint64](a)[:len(out)] {
			if out[i] = v[0]; part == 0 {
				out[i] = v[1] ^ sign
			}
		}
	default:
		if t.(arrow.FixedWidthDataType).BitWidth() == 32 {
			fillInts[int32](a, out)
		} else {
			fillInts[int64](a, out)
		}
	}
}

func fillInts[T int8 | int16 | int32 | int64](a arrow.Array, out []uint64) {
	for i, v := range vec.Values[T](a)[:len(out)] {
		out[i] = uint64(v) ^ sign
	}
}

func fillUints[T uint8 | uint16 | uint32 | uint64](a arrow.Array, out []uint64) {
	for i, v := range vec.Values[T](a)[:len(out)] {
		out[i] = uint64(v)
	}
}

// floatWord returns a word with the order of floats.
func floatWord(f float64) uint64 {
	w := vec.FloatWord(f)
	if w&sign != 0 {
		return ^w
	}
	return w | sign
}

// texts has the values of a column of text or bytes.
type texts struct {
	data  []byte
	short []int32 // offsets, or
	long  []int64 // offsets, or
	width int     // of all values
}

func newTexts(a arrow.Array) *texts {
	switch a.DataType().ID() {
	case arrow.STRING, arrow.BINARY:
		return &texts{data: vec.Data(a), short: vec.Offsets[int32](a)}
	case arrow.FIXED_SIZE_BINARY:
		width := a.DataType().(*arrow.FixedSizeBinaryType).ByteWidth
		if b := a.Data().Buffers()[1]; b != nil {
			return &texts{data: b.Bytes()[a.Data().Offset()*width:], width: width}
		}
		return &texts{data: make([]byte, a.Len()*width), width: width}
	}
	return &texts{data: vec.Data(a), long: vec.Offsets[int64](a)}
}

// span returns where the value of a row begins and ends.
func (t *texts) span(row int32) (from, to int) {
	switch {
	case t.short != nil:
		return int(t.short[row]), int(t.short[row+1])
	case t.long != nil:
		return int(t.long[row]), int(t.long[row+1])
	}
	return int(row) * t.width, (int(row) + 1) * t.width
}

func (t *texts) value(row int32) []byte {
	from, to := t.span(row)
	return t.data[from:to]
}

// textStep is how many bytes of text a word has. The last byte of the word is how many there were: 8 if the text goes
// on.
const textStep = 7

// word returns a word with the order of values by the bytes after the first depth.
func (t *texts) word(row int32, depth int) uint64 {
	from, to := t.span(row)
	from = min(from+depth, to)
	left := min(to-from, textStep+1)
	if from+8 <= len(t.data) {
		w := binary.BigEndian.Uint64(t.data[from:])
		if left > textStep {
			return w&^0xff | textStep + 1
		}
		return w&^(math.MaxUint64>>(8*left)) | uint64(left)
	}
	var w uint64
	for i := range min(left, textStep) {
		w |= uint64(t.data[from+i]) << (56 - 8*i)
	}
	return w | uint64(left)
}
