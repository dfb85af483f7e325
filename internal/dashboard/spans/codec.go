package spans

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"sync"

	"github.com/klauspost/compress/huff0"
	"github.com/klauspost/compress/zstd"
)

// Encodings of a byte string.
const (
	constBytes uint8 = iota // one byte for all
	rawBytes
	huffBytes
	zstdBytes
)

// errCorrupt is returned by decoders for data that no encoder wrote.
var errCorrupt = errors.New("spans: corrupt data")

// maxPlain bounds a byte string before it is compressed.
const maxPlain = 16 << 20

var zstdEncoder = sync.OnceValue(func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(1<<17), zstd.WithEncoderCRC(false), zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic(err) // constant options
	}
	return e
})

var zstdDecoder = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderMaxMemory(maxPlain),
		zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic(err) // constant options
	}
	return d
})

// encoder appends columns to out.
type encoder struct {
	out   []byte
	plane []byte
	huff  huff0.Scratch
}

func (e *encoder) uvarint(v uint64) { e.out = binary.AppendUvarint(e.out, v) }

// byteString appends bytes of which the decoder knows the number.
func (e *encoder) byteString(p []byte) {
	if len(p) == 0 {
		return
	}
	repeated := 0
	for i := 1; i < len(p); i++ {
		if p[i] == p[i-1] {
			repeated++
		}
	}
	if repeated == len(p)-1 {
		e.out = append(e.out, constBytes, p[0])
		return
	}
	// Entropy coding alone is faster and, for bytes without repetitions, as small.
	if len(p) < huff0.BlockSizeMax && repeated < len(p)/4*3 {
		e.huff.Reuse = huff0.ReusePolicyNone
		if small, _, err := huff0.Compress4X(p, &e.huff); err == nil {
			e.section(huffBytes, small)
			return
		}
		e.section(rawBytes, p)
		return
	}
	e.text(p)
}

// text appends bytes with repetitions, of which the decoder knows the number.
func (e *encoder) text(p []byte) {
	if len(p) == 0 {
		return
	}
	if small := zstdEncoder().EncodeAll(p, nil); len(small) < len(p) {
		e.section(zstdBytes, small)
		return
	}
	e.section(rawBytes, p)
}

func (e *encoder) section(kind uint8, p []byte) {
	e.out = append(e.out, kind)
	e.uvarint(uint64(len(p)))
	e.out = append(e.out, p...)
}

// integer is the type of a column.
type integer interface{ ~int64 | ~uint32 }

// column appends a column: the number of bytes of its largest value, then the lowest bytes of all values, and so on.
// These planes have statistics of their own, so that they are compressed one by one.
func column[T integer](e *encoder, values []T) {
	var all uint64
	for _, v := range values {
		all |= uint64(v)
	}
	width := (bits.Len64(all) + 7) / 8
	e.out = append(e.out, uint8(width))
	if cap(e.plane) < len(values) {
		e.plane = make([]byte, len(values))
	}
	plane := e.plane[:len(values)]
	for i := range width {
		shift := 8 * i
		for j, v := range values {
			plane[j] = byte(uint64(v) >> shift)
		}
		e.byteString(plane)
	}
}

// decoder reads what encoder has written. After the first error all reads return zero values.
type decoder struct {
	in   []byte
	err  error
	huff *huff0.Scratch
}

func (d *decoder) fail() {
	d.err = errCorrupt
	d.in = nil
}

func (d *decoder) uvarint(limit uint64) uint64 {
	v, n := binary.Uvarint(d.in)
	if n <= 0 || v > limit {
		d.fail()
		return 0
	}
	d.in = d.in[n:]
	return v
}

// take returns the next n bytes of the input.
func (d *decoder) take(n int) []byte {
	if n < 0 || n > len(d.in) {
		d.fail()
		return nil
	}
	p := d.in[:n:n]
	d.in = d.in[n:]
	return p
}

func (d *decoder) byte() uint8 {
	if p := d.take(1); d.err == nil {
		return p[0]
	}
	return 0
}

// byteString returns n bytes, nil after an error. They may be a part of the input.
func (d *decoder) byteString(n int) []byte {
	if n == 0 {
		return nil
	}
	if n > maxPlain {
		d.fail()
		return nil
	}
	kind := d.byte()
	if kind == constBytes {
		c := d.byte()
		if d.err != nil {
			return nil
		}
		p := make([]byte, n)
		if c != 0 {
			for i := range p {
				p[i] = c
			}
		}
		return p
	}
	small := d.take(int(d.uvarint(maxPlain)))
	if d.err != nil {
		return nil
	}
	var p []byte
	var err error
	switch kind {
	case rawBytes:
		p = small
	case huffBytes:
		p, err = d.huffman(small, n)
	case zstdBytes:
		p, err = zstdDecoder().DecodeAll(small, make([]byte, 0, n))
	default:
		err = errCorrupt
	}
	if err != nil || len(p) != n {
		d.fail()
		return nil
	}
	return p
}

func (d *decoder) huffman(small []byte, n int) ([]byte, error) {
	if n >= huff0.BlockSizeMax {
		return nil, errCorrupt
	}
	s, rest, err := huff0.ReadTable(small, d.huff)
	d.huff = s
	if err != nil {
		return nil, err
	}
	s.MaxDecodedSize = n
	return s.Decoder().Decompress4X(make([]byte, 0, n), rest)
}

// readColumn reads n values, each at most limit. It returns n values also after an error.
func readColumn[T integer](d *decoder, n int, limit uint64) []T {
	values := make([]T, n)
	width := int(d.byte())
	if width > 8 {
		d.fail()
	}
	for i := range width {
		plane := d.byteString(n)
		if d.err != nil {
			return values
		}
		shift := 8 * i
		for j, b := range plane[:len(values)] {
			values[j] |= T(uint64(b) << shift)
		}
	}
	for i, v := range values {
		if uint64(v) > limit {
			d.fail()
			clear(values[i:])
			break
		}
	}
	return values
}
