package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"
)

// indexes is the number of indexes of a dictionary that are decoded at a time: they stay in the first-level cache.
const indexes = 1024

var (
	errShort      = errors.New("page has fewer values than its header says")
	errDictionary = errors.New("index outside of the dictionary")
)

// fixedReader decodes values of a fixed width from the pages of a chunk: those of the file, or those of Arrow that
// convert makes of them.
type fixedReader struct {
	physical int // bytes of a value in the file
	width    int // bytes of a value in memory
	// convert converts values of the file to values in memory, nil if they are equal.
	convert  func(dst, src []byte) error
	dict     []byte // values in memory
	encoding int32
	data     []byte // PLAIN values that are left, or the whole page of BYTE_STREAM_SPLIT
	split    int    // BYTE_STREAM_SPLIT: position
	index    rleReader
	delta    deltaReader
	scratch  []byte
	ix       []uint32
}

// dictionary takes the values of a dictionary page.
func (d *fixedReader) dictionary(p *page) error {
	if len(p.data)/d.physical < p.values {
		return errShort
	}
	n := p.values
	d.dict = make([]byte, n*d.width)
	if d.convert != nil {
		return d.convert(d.dict, p.data[:n*d.physical])
	}
	copy(d.dict, p.data)
	return nil
}

// begin takes a data page.
func (d *fixedReader) begin(p *page) error {
	d.encoding = p.encoding
	switch p.encoding {
	case encPlain:
		d.data = p.data
	case encPlainDict, encRLEDict:
		return beginIndexes(&d.index, p)
	case encDelta:
		if d.physical != 4 && d.physical != 8 {
			return fmt.Errorf("encoding %d of values of %d bytes", p.encoding, d.physical)
		}
		return d.delta.reset(p.data)
	case encByteSplit:
		if len(p.data)%d.physical != 0 {
			return errShort
		}
		d.data, d.split = p.data, 0
	default:
		return fmt.Errorf("encoding %d of values of %d bytes is not supported", p.encoding, d.physical)
	}
	return nil
}

// beginIndexes begins with the indexes of a page into the dictionary.
func beginIndexes(r *rleReader, p *page) error {
	if len(p.data) == 0 { // all rows are null
		r.reset(nil, 0, 0)
		return nil
	}
	width := uint(p.data[0])
	if width > 32 {
		return fmt.Errorf("indexes of %d bits", width)
	}
	r.reset(p.data[1:cap(p.data)], len(p.data)-1, width)
	return nil
}

// read fills dst, which has space for n values.
func (d *fixedReader) read(dst []byte, n int) error {
	switch d.encoding {
	case encPlainDict, encRLEDict:
		return d.gather(dst, n)
	}
	src := dst
	if d.convert != nil {
		if cap(d.scratch) < n*d.physical {
			d.scratch = make([]byte, n*d.physical)
		}
		src = d.scratch
	}
	src = src[:n*d.physical]
	switch d.encoding {
	case encPlain:
		if len(d.data) < len(src) {
			return errShort
		}
		if d.convert != nil {
			src, d.data = d.data[:len(src)], d.data[len(src):]
			break
		}
		copy(src, d.data)
		d.data = d.data[len(src):]
	case encDelta:
		if err := d.delta.read(src, d.physical); err != nil {
			return err
		}
	case encByteSplit:
		values := len(d.data) / d.physical
		if values-d.split < n {
			return errShort
		}
		for k := range d.physical {
			stream := d.data[k*values+d.split:][:n]
			for i, c := range stream {
				src[i*d.physical+k] = c
			}
		}
		d.split += n
	}
	if d.convert != nil {
		return d.convert(dst[:n*d.width], src)
	}
	return nil
}

// gather reads indexes and copies the values of the dictionary.
func (d *fixedReader) gather(dst []byte, n int) error {
	if d.ix == nil {
		d.ix = make([]uint32, indexes)
	}
	for at := 0; at < n; at += indexes {
		ix := d.ix[:min(indexes, n-at)]
		if err := d.index.read(ix); err != nil {
			return err
		}
		ok := false
		switch d.width {
		case 4:
			ok = take(cast[uint32](dst)[at:], cast[uint32](d.dict), ix)
		case 8:
			ok = take(cast[uint64](dst)[at:], cast[uint64](d.dict), ix)
		case 16:
			ok = take(cast[[16]byte](dst)[at:], cast[[16]byte](d.dict), ix)
		default:
			ok = d.takeBytes(dst[at*d.width:], ix)
		}
		if !ok {
			return errDictionary
		}
	}
	return nil
}

func (d *fixedReader) takeBytes(dst []byte, ix []uint32) bool {
	w := d.width
	for i, x := range ix {
		from := int(x) * w
		if from+w > len(d.dict) {
			return false
		}
		copy(dst[i*w:i*w+w], d.dict[from:])
	}
	return true
}

// take copies the values of a dictionary by index. It returns false for an index outside.
func take[T any](dst, dict []T, ix []uint32) bool {
	dst = dst[:len(ix)]
	for i, x := range ix {
		if uint(x) >= uint(len(dict)) {
			return false
		}
		dst[i] = dict[x]
	}
	return true
}

// cast returns bytes as values. The memory is that of this package or a buffer of Arrow, which are aligned.
func cast[T any](b []byte) []T {
	var zero T
	if len(b) == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(zero)))
}

// narrow converts integers of 32 bits to smaller ones.
func narrow(width int) func(dst, src []byte) error {
	return func(dst, src []byte) error {
		for i := 0; i < len(src)/4; i++ {
			copy(dst[i*width:(i+1)*width], src[i*4:])
		}
		return nil
	}
}

// int96Nanos converts timestamps of Impala, nanoseconds of a day and a Julian day, to nanoseconds since 1970.
func int96Nanos(dst, src []byte) error {
	const julian = 2440588 // of 1970-01-01
	for i := 0; i < len(src)/12; i++ {
		nanos := int64(binary.LittleEndian.Uint64(src[i*12:]))
		day := int64(binary.LittleEndian.Uint32(src[i*12+8:])) - julian
		binary.LittleEndian.PutUint64(dst[i*8:], uint64(day*86400e9+nanos))
	}
	return nil
}

// widen converts little-endian integers of 4 or 8 bytes to decimals of width bytes.
func widen(from, width int) func(dst, src []byte) error {
	return func(dst, src []byte) error {
		for i := 0; i < len(src)/from; i++ {
			out := dst[i*width : (i+1)*width]
			fill := byte(int8(src[i*from+from-1]) >> 7)
			n := copy(out, src[i*from:(i+1)*from])
			for j := n; j < width; j++ {
				out[j] = fill
			}
		}
		return nil
	}
}

// reverse converts big-endian integers of n bytes to decimals of width bytes.
func reverse(n, width int) func(dst, src []byte) error {
	return func(dst, src []byte) error {
		for i := 0; i < len(src)/n; i++ {
			if err := bigEndian(dst[i*width:(i+1)*width], src[i*n:(i+1)*n]); err != nil {
				return err
			}
		}
		return nil
	}
}

// bigEndian writes a big-endian two's complement integer as a little-endian one of another size.
func bigEndian(dst, src []byte) error {
	fill := byte(0)
	if len(src) > 0 {
		fill = byte(int8(src[0]) >> 7)
	}
	for len(src) > len(dst) {
		if src[0] != fill {
			return errors.New("decimal has more digits than its type")
		}
		src = src[1:]
	}
	if len(src) == len(dst) && byte(int8(src[0])>>7) != fill {
		return errors.New("decimal has more digits than its type")
	}
	for i := range src {
		dst[i] = src[len(src)-1-i]
	}
	for i := len(src); i < len(dst); i++ {
		dst[i] = fill
	}
	return nil
}

// asBytes returns values as bytes.
func asBytes[T int32 | int64 | uint32](v []T) []byte {
	var zero T
	if len(v) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*int(unsafe.Sizeof(zero)))
}
