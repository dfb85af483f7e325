package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Types of fields of the compact protocol of Thrift.
const (
	tStop   = 0
	tTrue   = 1
	tFalse  = 2
	tByte   = 3
	tI16    = 4
	tI32    = 5
	tI64    = 6
	tDouble = 7
	tBinary = 8
	tList   = 9
	tSet    = 10
	tMap    = 11
	tStruct = 12
)

// maxDepth bounds nested values of metadata, which has a few levels.
const maxDepth = 32

var errMetadata = errors.New("invalid metadata")

// thriftReader decodes the compact protocol. After the first error, which err keeps, all values are zero.
type thriftReader struct {
	b     []byte
	at    int
	depth int
	err   error
}

func (r *thriftReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w at byte %d: %s", errMetadata, r.at, fmt.Sprintf(format, args...))
	}
	r.at = len(r.b)
}

func (r *thriftReader) byte() byte {
	if r.at >= len(r.b) {
		r.fail("unexpected end")
		return 0
	}
	c := r.b[r.at]
	r.at++
	return c
}

func (r *thriftReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b[min(r.at, len(r.b)):])
	if n <= 0 {
		r.fail("invalid integer")
		return 0
	}
	r.at += n
	return v
}

func (r *thriftReader) int64() int64 {
	v := r.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

func (r *thriftReader) int32() int32 {
	v := r.int64()
	if v < math.MinInt32 || v > math.MaxInt32 {
		r.fail("integer %d does not fit in 32 bits", v)
		return 0
	}
	return int32(v)
}

// bytes returns a part of the buffer, not a copy.
func (r *thriftReader) bytes() []byte {
	n := r.uvarint()
	if n > uint64(len(r.b)-r.at) {
		r.fail("%d bytes with %d left", n, len(r.b)-r.at)
		return nil
	}
	b := r.b[r.at : r.at+int(n)]
	r.at += int(n)
	return b
}

func (r *thriftReader) string() string { return string(r.bytes()) }

// structure calls field for every field of a struct. It reads the value with one of the methods, or not at all: then
// the value is skipped.
func (r *thriftReader) structure(field func(id int16, kind byte)) {
	if r.depth++; r.depth > maxDepth {
		r.fail("nested too deeply")
	}
	defer func() { r.depth-- }()
	id := int16(0)
	for r.err == nil {
		head := r.byte()
		kind := head & 15
		if kind == tStop {
			return
		}
		if delta := int16(head >> 4); delta != 0 {
			id += delta
		} else {
			id = int16(r.int64())
		}
		at, before := r.at, r.depth
		field(id, kind)
		if r.err == nil && r.at == at && r.depth == before && kind != tTrue && kind != tFalse {
			r.skip(kind)
		}
	}
}

// list calls element for each element of a list whose elements have a kind and at least size bytes. It returns an error
// for more elements than could fit.
func (r *thriftReader) list(kind byte, size int, element func()) {
	n, got := r.listHead()
	if n == 0 {
		return
	}
	if got != kind {
		r.fail("list of type %d, want %d", got, kind)
		return
	}
	if n > (len(r.b)-r.at)/size {
		r.fail("list of %d elements with %d bytes left", n, len(r.b)-r.at)
		return
	}
	for range n {
		if r.err != nil {
			return
		}
		element()
	}
}

func (r *thriftReader) listHead() (n int, kind byte) {
	head := r.byte()
	size := uint64(head >> 4)
	if size == 15 {
		size = r.uvarint()
	}
	if size > uint64(len(r.b)-r.at) {
		r.fail("list of %d elements with %d bytes left", size, len(r.b)-r.at)
		return 0, 0
	}
	return int(size), head & 15
}

// skip skips a value of a field.
func (r *thriftReader) skip(kind byte) {
	if r.depth++; r.depth > maxDepth {
		r.fail("nested too deeply")
	}
	defer func() { r.depth-- }()
	switch kind {
	case tTrue, tFalse:
	case tByte:
		r.byte()
	case tI16, tI32, tI64:
		r.uvarint()
	case tDouble:
		if len(r.b)-r.at < 8 {
			r.fail("unexpected end")
			return
		}
		r.at += 8
	case tBinary:
		r.bytes()
	case tList, tSet:
		n, kind := r.listHead()
		for range n {
			if r.err != nil {
				return
			}
			r.skipElement(kind)
		}
	case tMap:
		n := r.uvarint()
		if n == 0 {
			return
		}
		kinds := r.byte()
		for i := uint64(0); i < n && r.err == nil; i++ {
			r.skipElement(kinds >> 4)
			r.skipElement(kinds & 15)
		}
	case tStruct:
		r.structure(func(int16, byte) {})
	default:
		r.fail("unknown type %d", kind)
	}
}

// skipElement skips an element of a list or map, in which a bool has a byte.
func (r *thriftReader) skipElement(kind byte) {
	if kind == tTrue || kind == tFalse {
		kind = tByte
	}
	r.skip(kind)
}

// thriftWriter encodes the compact protocol.
type thriftWriter struct {
	b    []byte
	last []int16 // field IDs of the open structs
}

func (w *thriftWriter) begin() { w.last = append(w.last, 0) }

func (w *thriftWriter) end() {
	w.b = append(w.b, tStop)
	w.last = w.last[:len(w.last)-1]
}

func (w *thriftWriter) field(id int16, kind byte) {
	last := &w.last[len(w.last)-1]
	if delta := id - *last; delta > 0 && delta < 16 {
		w.b = append(w.b, byte(delta)<<4|kind)
	} else {
		w.b = append(w.b, kind)
		w.varint(int64(id))
	}
	*last = id
}

func (w *thriftWriter) varint(v int64) {
	w.b = binary.AppendUvarint(w.b, uint64(v)<<1^uint64(v>>63))
}

func (w *thriftWriter) int32(id int16, v int32) {
	w.field(id, tI32)
	w.varint(int64(v))
}

func (w *thriftWriter) int64(id int16, v int64) {
	w.field(id, tI64)
	w.varint(v)
}

func (w *thriftWriter) bool(id int16, v bool) {
	kind := byte(tFalse)
	if v {
		kind = tTrue
	}
	w.field(id, kind)
}

func (w *thriftWriter) text(id int16, v string) {
	w.field(id, tBinary)
	w.element(v)
}

// element writes a string as an element of a list.
func (w *thriftWriter) element(v string) {
	w.b = binary.AppendUvarint(w.b, uint64(len(v)))
	w.b = append(w.b, v...)
}

// structure writes a field that is a struct.
func (w *thriftWriter) structure(id int16, fields func()) {
	w.field(id, tStruct)
	w.begin()
	fields()
	w.end()
}

// list writes the head of a list of n elements.
func (w *thriftWriter) list(id int16, kind byte, n int) {
	w.field(id, tList)
	if n < 15 {
		w.b = append(w.b, byte(n)<<4|kind)
		return
	}
	w.b = append(w.b, 15<<4|kind)
	w.b = binary.AppendUvarint(w.b, uint64(n))
}
