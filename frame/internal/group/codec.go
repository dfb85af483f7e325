package group

import (
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/frame/internal/vec"
)

// codec converts values of a fixed width of at most 64 bits to words of 64 bits and back. Equal keys have equal words.
type codec interface {
	// bind sets the array whose rows the other methods read.
	bind(a arrow.Array)
	// load writes the words of rows.
	load(from int, out []uint64)
	// offset adds the code word-base+1 of each row, shifted, to the words of a block. It returns the union of the
	// bits of word-base and word-base+1 of all rows, which shows whether a code needs more bits than there are.
	offset(from int, words []uint64, shift uint, base uint64) uint64
	// span returns the least and greatest word of rows that are valid, in the order of the type.
	span(from, to int, valid []byte, off int) (lo, hi uint64, ok bool)
	// less reports whether a word is less than another in the order of the type.
	less(a, b uint64) bool
	// least returns the least word of the type.
	least() uint64
	// build returns an array of words.
	build(t arrow.DataType, words []uint64, valid *memory.Buffer, nulls int) arrow.Array
}

type integer interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

// intCodec is for integers and for types that are stored as such.
type intCodec[T integer] struct{ v []T }

func (c *intCodec[T]) bind(a arrow.Array) { c.v = vec.Values[T](a) }

func (c *intCodec[T]) load(from int, out []uint64) {
	for i, v := range c.v[from:][:len(out)] {
		out[i] = uint64(v)
	}
}

func (c *intCodec[T]) offset(from int, words []uint64, shift uint, base uint64) uint64 {
	var union uint64
	v := c.v[from:][:len(words)]
	shift &= 63
	for i, w := range words {
		code := uint64(v[i]) - base
		union |= code | (code + 1)
		words[i] = w | (code+1)<<shift
	}
	return union
}

func (c *intCodec[T]) span(from, to int, valid []byte, off int) (lo, hi uint64, ok bool) {
	v := c.v[from:to]
	if valid == nil && len(v) > 0 {
		low, high := v[0], v[0]
		for _, x := range v {
			low, high = min(low, x), max(high, x)
		}
		return uint64(low), uint64(high), true
	}
	var low, high T
	for i, x := range v {
		if !isSet(valid, off+from+i) {
			continue
		}
		if !ok {
			low, high, ok = x, x, true
		}
		low, high = min(low, x), max(high, x)
	}
	return uint64(low), uint64(high), ok
}

func (c *intCodec[T]) less(a, b uint64) bool { return T(a) < T(b) }

func (c *intCodec[T]) least() uint64 {
	if ^T(0) > 0 {
		return 0
	}
	var one T = 1
	bits := 0
	for x := one; x != 0; x <<= 1 {
		bits++
	}
	return uint64(one << (bits - 1)) // the sign
}

func (c *intCodec[T]) build(t arrow.DataType, words []uint64, valid *memory.Buffer, nulls int) arrow.Array {
	out := make([]T, len(words))
	for i, w := range words {
		out[i] = T(w)
	}
	return vec.Make(t, len(words), nulls, []*memory.Buffer{valid, vec.Buffer(out)})
}

// floatCodec is for floats, whose words have no useful order.
type floatCodec[T float32 | float64] struct{ v []T }

func (c *floatCodec[T]) bind(a arrow.Array) { c.v = vec.Values[T](a) }

func (c *floatCodec[T]) load(from int, out []uint64) {
	for i, v := range c.v[from:][:len(out)] {
		out[i] = vec.FloatWord(float64(v))
	}
}

func (c *floatCodec[T]) offset(int, []uint64, uint, uint64) uint64 { return ^uint64(0) }

func (c *floatCodec[T]) span(int, int, []byte, int) (lo, hi uint64, ok bool) {
	return 0, ^uint64(0), true
}

func (c *floatCodec[T]) less(a, b uint64) bool { return a < b }

func (c *floatCodec[T]) least() uint64 { return 0 }

func (c *floatCodec[T]) build(t arrow.DataType, words []uint64, valid *memory.Buffer, nulls int) arrow.Array {
	out := make([]T, len(words))
	for i, w := range words {
		out[i] = T(math.Float64frombits(w))
	}
	return vec.Make(t, len(words), nulls, []*memory.Buffer{valid, vec.Buffer(out)})
}

// boolCodec reads the bits of an array as bytes.
type boolCodec struct{ intCodec[uint8] }

func (c *boolCodec) bind(a arrow.Array) { c.v = boolBytes(a.(*array.Boolean)) }

func (c *boolCodec) build(t arrow.DataType, words []uint64, valid *memory.Buffer, nulls int) arrow.Array {
	return vec.Make(t, len(words), nulls, []*memory.Buffer{valid,
		memory.NewBufferBytes(pack(len(words), func(i int) bool { return words[i] != 0 }))})
}

// boolBytes returns booleans as 0 and 1.
func boolBytes(a *array.Boolean) []uint8 {
	out := make([]uint8, a.Len())
	d := a.Data()
	if d.Buffers()[1] == nil {
		return out
	}
	bits, off := d.Buffers()[1].Bytes(), d.Offset()
	for i := range out {
		out[i] = bits[uint(off+i)>>3] >> (uint(off+i) & 7) & 1
	}
	return out
}

// pack returns a bitmap of n bits.
func pack(n int, bit func(i int) bool) []byte {
	out := make([]byte, (n+7)/8)
	for i := range n {
		if bit(i) {
			out[i>>3] |= 1 << (i & 7)
		}
	}
	return out
}

// isSet reports whether a bit of a bitmap is set; a missing bitmap has all bits set.
func isSet(bits []byte, i int) bool { return bits == nil || bits[uint(i)>>3]>>(uint(i)&7)&1 != 0 }

// newCodec returns the codec for a type, or nil.
func newCodec(t arrow.DataType) codec {
	switch t.ID() {
	case arrow.BOOL:
		return &boolCodec{}
	case arrow.UINT8:
		return &intCodec[uint8]{}
	case arrow.UINT16:
		return &intCodec[uint16]{}
	case arrow.UINT32:
		return &intCodec[uint32]{}
	case arrow.UINT64:
		return &intCodec[uint64]{}
	case arrow.FLOAT32:
		return &floatCodec[float32]{}
	case arrow.FLOAT64:
		return &floatCodec[float64]{}
	case arrow.INT8:
		return &intCodec[int8]{}
	case arrow.INT16:
		return &intCodec[int16]{}
	case arrow.INT32, arrow.DATE32, arrow.TIME32, arrow.DECIMAL32, arrow.INTERVAL_MONTHS:
		return &intCodec[int32]{}
	case arrow.INT64, arrow.DATE64, arrow.TIME64, arrow.TIMESTAMP, arrow.DURATION, arrow.DECIMAL64:
		return &intCodec[int64]{}
	}
	return nil
}
