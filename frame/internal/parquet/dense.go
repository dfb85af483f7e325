package parquet

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
)

// dense is the values of a column that are not null, in the form of a file.
type dense struct {
	n     int
	width int    // of fixed values, 0 for texts
	fixed []byte // n·width bytes; one byte for each bool
	ends  []int  // of texts: n+1
	bytes []byte
}

// value returns value i as bytes.
func (d *dense) value(i int) []byte {
	if d.width > 0 {
		return d.fixed[i*d.width : (i+1)*d.width]
	}
	return d.bytes[d.ends[i]:d.ends[i+1]]
}

// size returns the bytes of the values from and to with PLAIN encoding.
func (d *dense) size(from, to int) int {
	if d.width > 0 {
		return (to - from) * d.width
	}
	return d.ends[to] - d.ends[from] + 4*(to-from)
}

// denseOf returns the values of an array that are not null.
func (l *writeLeaf) denseOf(a arrow.Array) (d dense, err error) {
	if dict, ok := a.(*array.Dictionary); ok {
		return l.denseDictionary(dict)
	}
	d.n = a.Len() - a.NullN()
	switch l.physical {
	case typeBytes:
		return d, d.texts(a)
	case typeBool:
		d.width = 1
		b, ok := a.(*array.Boolean)
		if !ok {
			return d, fmt.Errorf("array of %v, want bool", a.DataType())
		}
		for i := range b.Len() {
			if b.IsValid(i) {
				v := byte(0)
				if b.Value(i) {
					v = 1
				}
				d.fixed = append(d.fixed, v)
			}
		}
		return d, nil
	case typeFixed:
		d.width = int(l.length)
	case typeInt32, typeFloat:
		d.width = 4
	default:
		d.width = 8
	}
	return d, l.fixedValues(&d, a)
}

// fixedValues takes the values of an array of a type with a fixed width.
func (l *writeLeaf) fixedValues(d *dense, a arrow.Array) error {
	t, ok := l.dt.(arrow.FixedWidthDataType)
	if !ok || !arrow.TypeEqual(a.DataType(), l.dt) {
		return fmt.Errorf("array of %v, want %v", a.DataType(), l.dt)
	}
	w := t.BitWidth() / 8
	data := a.Data()
	raw := data.Buffers()[1].Bytes()[data.Offset()*w : (data.Offset()+a.Len())*w]
	if a.NullN() > 0 {
		raw = compact(raw, w, a)
	}
	isDecimal := t.ID() == arrow.DECIMAL128 || t.ID() == arrow.DECIMAL256
	if w == d.width && !isDecimal && l.seconds() == 1 {
		d.fixed = raw
		return nil
	}
	d.fixed = make([]byte, d.n*d.width)
	for i := range d.n {
		in, out := raw[i*w:(i+1)*w], d.fixed[i*d.width:(i+1)*d.width]
		switch {
		case isDecimal:
			if err := l.putDecimal(out, in); err != nil {
				return err
			}
		case l.seconds() != 1:
			v := int64(0)
			if w == 4 {
				v = int64(int32(binary.LittleEndian.Uint32(in)))
			} else {
				v = int64(binary.LittleEndian.Uint64(in))
			}
			v, err := times(v, l.seconds())
			if err != nil {
				return err
			}
			if w == 4 {
				binary.LittleEndian.PutUint32(out, uint32(v))
			} else {
				binary.LittleEndian.PutUint64(out, uint64(v))
			}
		default: // integers of one and two bytes
			copy(out, in)
			if l.logical.signed && int8(in[w-1]) < 0 {
				for j := w; j < d.width; j++ {
					out[j] = 0xff
				}
			}
		}
	}
	return nil
}

// putDecimal writes a little-endian decimal as an integer, or as big-endian bytes.
func (l *writeLeaf) putDecimal(out, in []byte) error {
	if l.physical == typeFixed {
		copy(out, in)
		slices.Reverse(out)
		return nil
	}
	n := copy(out, in)
	fill := byte(int8(out[n-1]) >> 7)
	for _, c := range in[n:] {
		if c != fill {
			return fmt.Errorf("decimal has more than %d digits", l.logical.precision)
		}
	}
	return nil
}

// compact returns the values of an array that are not null.
func compact(raw []byte, w int, a arrow.Array) []byte {
	out := make([]byte, 0, (a.Len()-a.NullN())*w)
	valid, offset := a.NullBitmapBytes(), a.Data().Offset()
	for i := 0; i < a.Len(); {
		if !bitutil.BitIsSet(valid, offset+i) {
			i++
			continue
		}
		from := i
		for i < a.Len() && bitutil.BitIsSet(valid, offset+i) {
			i++
		}
		out = append(out, raw[from*w:i*w]...)
	}
	return out
}

// texts takes the values of an array of texts or bytes.
func (d *dense) texts(a arrow.Array) error {
	switch a := a.(type) {
	case *array.String:
		return takeTexts(d, a, a.ValueOffsets(), a.ValueBytes())
	case *array.Binary:
		return takeTexts(d, a, a.ValueOffsets(), a.ValueBytes())
	case *array.LargeString:
		return takeTexts(d, a, a.ValueOffsets(), a.ValueBytes())
	case *array.LargeBinary:
		return takeTexts(d, a, a.ValueOffsets(), a.ValueBytes())
	}
	return fmt.Errorf("array of %v, want texts", a.DataType())
}

// takeTexts takes texts with their offsets; bytes begins with the first.
func takeTexts[T int32 | int64](d *dense, a arrow.Array, offsets []T, bytes []byte) error {
	d.ends = append(make([]int, 0, d.n+1), 0)
	if a.Len() == 0 {
		return nil
	}
	first := offsets[0]
	if a.NullN() == 0 {
		d.bytes = bytes
		for _, o := range offsets[1 : a.Len()+1] {
			d.ends = append(d.ends, int(o-first))
		}
	} else {
		for i := range a.Len() {
			if a.IsValid(i) {
				d.bytes = append(d.bytes, bytes[offsets[i]-first:offsets[i+1]-first]...)
				d.ends = append(d.ends, len(d.bytes))
			}
		}
	}
	for i := range d.n {
		if n := d.ends[i+1] - d.ends[i]; n > maxPage/2 {
			return fmt.Errorf("text of %d bytes is too long for Parquet files", n)
		}
	}
	return nil
}

// denseDictionary takes the values of an array of a dictionary type.
func (l *writeLeaf) denseDictionary(a *array.Dictionary) (d dense, err error) {
	values := a.Dictionary()
	dict, err := l.denseOf(values)
	if err != nil {
		return d, err
	}
	at := make([]int, values.Len()) // of each value in dict, -1 for null
	n := 0
	for i := range at {
		if at[i] = -1; values.IsValid(i) {
			at[i] = n
			n++
		}
	}
	d.width = dict.width
	if d.width == 0 {
		d.ends = []int{0}
	}
	for i := range a.Len() {
		if a.IsNull(i) {
			continue
		}
		x := a.GetValueIndex(i)
		if x < 0 || x >= len(at) {
			return d, fmt.Errorf("index %d of a dictionary of %d values", x, len(at))
		}
		if at[x] < 0 {
			return d, fmt.Errorf("dictionaries with nulls are not supported in Parquet files")
		}
		v := dict.value(at[x])
		d.n++
		if d.width > 0 {
			d.fixed = append(d.fixed, v...)
		} else {
			d.bytes = append(d.bytes, v...)
			d.ends = append(d.ends, len(d.bytes))
		}
	}
	return d, nil
}
