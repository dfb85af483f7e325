package vec

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/float16"
)

// Constants of the hash: odd words with as many ones as zeros.
const (
	seed     = 0x9a5b3c1dd3e4962b
	factor   = 0xd6e8feb86659fd93
	lane1    = 0xa0c6e1f3574b2d99
	lane2    = 0x5e83b9c41f6ad273
	nullWord = 0x3c7a94d10be5f62d
)

// HashSeed is the hash of a row without columns.
const HashSeed = seed

// mix multiplies to 128 bits and folds the halves, so that every bit of the result depends on all bits of a.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// HashWord returns the hash of a row from its hash without the last column, which is HashSeed for the first, and the
// word of the last column: the value of an integer extended to 64 bits, FloatWord of a float, HashBytes of bytes.
func HashWord(h, word uint64) uint64 { return mix(h^word, factor) }

// FloatWord returns the bits of a float as a key: all zeros are equal, all NaNs are equal.
func FloatWord(f float64) uint64 {
	switch {
	case f == 0:
		return 0
	case f != f:
		return 0x7ff8000000000000
	}
	return math.Float64bits(f)
}

// HashBytes returns the word of a value of bytes.
func HashBytes(b []byte) uint64 {
	n := len(b)
	h := uint64(n) ^ lane1
	if n > 16 {
		other := uint64(lane2)
		for ; len(b) > 32; b = b[32:] {
			h = mix(h^binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])^lane2)
			other = mix(other^binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[24:])^factor)
		}
		h ^= bits.RotateLeft64(other, 23)
		if len(b) > 16 {
			h = mix(h^binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])^lane2)
			b = b[len(b)-16:]
		}
	}
	switch n := len(b); {
	case n >= 8:
		return mix(h^binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[n-8:])^lane2)
	case n >= 4:
		w := uint64(binary.LittleEndian.Uint32(b)) | uint64(binary.LittleEndian.Uint32(b[n-4:]))<<32
		return mix(h^w, lane2)
	case n > 0:
		return mix(h^(uint64(b[0])|uint64(b[n>>1])<<8|uint64(b[n-1])<<16), lane2)
	}
	return mix(h, lane2)
}

// Hashable reports whether Hash accepts a type: it does not accept nested types.
func Hashable(t arrow.DataType) bool {
	switch t.ID() {
	case arrow.NULL, arrow.STRING, arrow.BINARY, arrow.LARGE_STRING, arrow.LARGE_BINARY, arrow.STRING_VIEW,
		arrow.BINARY_VIEW:
		return true
	case arrow.DICTIONARY:
		return Hashable(t.(*arrow.DictionaryType).ValueType)
	case arrow.EXTENSION:
		return Hashable(t.(arrow.ExtensionType).StorageType())
	case arrow.FIXED_SIZE_LIST:
		return false
	}
	_, ok := t.(arrow.FixedWidthDataType)
	return ok
}

// Hash writes the hash of the rows of columns, which have len(out) rows. It is the same in every process. Null has a
// hash of its own; integers of all widths and signs hash by value, as do floats of all widths (0 as -0, all NaNs the
// same), bytes and text, and values in dictionaries. All 64 bits depend on all columns: Partition uses the upper bits,
// so a hash table should use the lower.
func Hash(cols []arrow.Array, out []uint64) (err error) {
	defer recoverError(&err)
	for i, c := range cols {
		if c.Len() != len(out) {
			return fmt.Errorf("vec: Hash: column %d has %d rows, not %d", i, c.Len(), len(out))
		}
	}
	if len(cols) == 0 {
		for i := range out {
			out[i] = seed
		}
		return nil
	}
	if err := words(cols[0], out); err != nil {
		return err
	}
	for i, w := range out {
		out[i] = mix(w^seed, factor)
	}
	if len(cols) == 1 {
		return nil
	}
	scratch := scratchPool.Get().(*[]uint64)
	defer scratchPool.Put(scratch)
	if cap(*scratch) < len(out) {
		*scratch = make([]uint64, len(out))
	}
	next := (*scratch)[:len(out)]
	for _, c := range cols[1:] {
		if err := words(c, next); err != nil {
			return err
		}
		for i, w := range next {
			out[i] = mix(w^out[i], factor)
		}
	}
	return nil
}

var scratchPool = sync.Pool{New: func() any { return new([]uint64) }}

// words writes the word of each row of a column.
func words(c arrow.Array, out []uint64) error {
	if len(out) == 0 {
		return nil
	}
	if err := plainWords(c, out); err != nil {
		return err
	}
	if _, ok := c.(*array.Dictionary); ok {
		return nil // has nulls of two kinds, which are set
	}
	if valid, off := Validity(c); valid != nil {
		for i := range out {
			if !isSet(valid, off+i) {
				out[i] = nullWord
			}
		}
	}
	return nil
}

// plainWords writes the words of rows that are not null, and anything for other rows.
func plainWords(c arrow.Array, out []uint64) error {
	switch c := c.(type) {
	case *array.Null:
		for i := range out {
			out[i] = nullWord
		}
		return nil
	case *array.Dictionary:
		return dictionaryWords(c, out)
	case array.ExtensionArray:
		return plainWords(c.Storage(), out)
	case *array.Boolean:
		for i := range out {
			out[i] = 0
			if c.Value(i) {
				out[i] = 1
			}
		}
		return nil
	case *array.Float16:
		for i, v := range Values[float16.Num](c)[:len(out)] {
			out[i] = FloatWord(float64(v.Float32()))
		}
		return nil
	case *array.StringView:
		for i := range out {
			if c.IsValid(i) {
				out[i] = HashBytes([]byte(c.Value(i)))
			}
		}
		return nil
	case *array.BinaryView:
		for i := range out {
			if c.IsValid(i) {
				out[i] = HashBytes(c.Value(i))
			}
		}
		return nil
	}
	t := c.DataType()
	switch t.ID() {
	case arrow.STRING, arrow.BINARY:
		byteWords[int32](c, out)
	case arrow.LARGE_STRING, arrow.LARGE_BINARY:
		byteWords[int64](c, out)
	case arrow.UINT8:
		intWords[uint8](c, out)
	case arrow.UINT16:
		intWords[uint16](c, out)
	case arrow.UINT32:
		intWords[uint32](c, out)
	case arrow.FLOAT32:
		floatWords[float32](c, out)
	case arrow.FLOAT64:
		floatWords[float64](c, out)
	case arrow.DECIMAL128:
		for i, v := range Values[[2]uint64](c)[:len(out)] {
			out[i] = v[0] ^ mix(v[1]^lane1, lane2)
		}
	default:
		if !Hashable(t) {
			return fmt.Errorf("vec: type %v cannot be a key; use columns of plain types", t)
		}
		fixedWords(c, t.(arrow.FixedWidthDataType).BitWidth(), out)
	}
	return nil
}

// fixedWords writes the words of integers, and of other values with a width in bits as those of bytes.
func fixedWords(c arrow.Array, width int, out []uint64) {
	switch _, bytes := c.(*array.FixedSizeBinary); {
	case width == 8 && !bytes:
		intWords[int8](c, out)
	case width == 16 && !bytes:
		intWords[int16](c, out)
	case width == 32 && !bytes:
		intWords[int32](c, out)
	case width == 64 && !bytes:
		intWords[int64](c, out)
	default:
		all, w := fixedBytes(c, width/8), width/8
		for i := range out {
			out[i] = HashBytes(all[i*w : (i+1)*w])
		}
	}
}

// fixedBytes returns the memory of values with a width in bytes.
func fixedBytes(c arrow.Array, width int) []byte {
	d := c.Data()
	if bufs := d.Buffers(); len(bufs) > 1 && bufs[1] != nil && d.Len() > 0 {
		return bufs[1].Bytes()[d.Offset()*width : (d.Offset()+d.Len())*width]
	}
	return make([]byte, d.Len()*width)
}

func intWords[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32](c arrow.Array, out []uint64) {
	for i, v := range Values[T](c)[:len(out)] {
		out[i] = uint64(v)
	}
}

func floatWords[T float32 | float64](c arrow.Array, out []uint64) {
	for i, v := range Values[T](c)[:len(out)] {
		out[i] = FloatWord(float64(v))
	}
}

func byteWords[T int32 | int64](c arrow.Array, out []uint64) {
	offsets, data := Offsets[T](c)[:len(out)+1], Data(c)
	from := offsets[0]
	for i := range out {
		to := offsets[i+1]
		out[i] = HashBytes(data[from:to])
		from = to
	}
}

// dictionaryWords computes the words of the values of the dictionary once.
func dictionaryWords(c *array.Dictionary, out []uint64) error {
	dict := make([]uint64, c.Dictionary().Len())
	if err := words(c.Dictionary(), dict); err != nil {
		return err
	}
	for i := range out {
		out[i] = nullWord
		if c.IsValid(i) {
			out[i] = dict[c.GetValueIndex(i)]
		}
	}
	return nil
}
