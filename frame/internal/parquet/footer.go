package parquet

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
)

// createdBy identifies the writer; readers decide by it whether statistics are trusted.
const createdBy = "millstream version 1.0.0"

// encodeArrowSchema returns a schema in the form of the key ARROW:schema.
func encodeArrowSchema(s *arrow.Schema) ([]byte, error) {
	var out bytes.Buffer
	w := ipc.NewWriter(&out, ipc.WithSchema(s))
	if err := w.Close(); err != nil {
		return nil, err
	}
	// The stream ends with a marker, which is not part of the message.
	return bytes.TrimSuffix(out.Bytes(), []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}), nil
}

// footer returns the metadata of the file.
func (w *Writer) footer(arrowSchema string) []byte {
	t := &thriftWriter{}
	t.begin()
	t.int32(1, 2)
	t.list(2, tStruct, len(w.leaves)+1)
	t.begin()
	t.text(4, "schema")
	t.int32(5, int32(len(w.leaves)))
	t.end()
	for i := range w.leaves {
		w.leaves[i].write(t)
	}
	t.int64(3, w.rows)
	t.list(4, tStruct, len(w.groups))
	for i := range w.groups {
		w.writeGroupMeta(t, &w.groups[i])
	}
	t.list(5, tStruct, 1)
	t.begin()
	t.text(1, arrowKey)
	t.text(2, arrowSchema)
	t.end()
	t.text(6, createdBy)
	t.list(7, tStruct, len(w.leaves))
	for range w.leaves { // the order of each column is that of its type
		t.begin()
		t.structure(1, func() {})
		t.end()
	}
	t.end()
	return t.b
}

// write writes the element of the schema.
func (l *writeLeaf) write(t *thriftWriter) {
	t.begin()
	t.int32(1, l.physical)
	if l.physical == typeFixed {
		t.int32(2, l.length)
	}
	repetition := int32(required)
	if l.nullable {
		repetition = optional
	}
	t.int32(3, repetition)
	t.text(4, l.name)
	if c := l.logical.converted(); c >= 0 {
		t.int32(6, c)
	}
	if l.logical.kind == logicalDecimal {
		t.int32(7, l.logical.scale)
		t.int32(8, l.logical.precision)
	}
	if l.logical.kind != logicalNone {
		t.structure(10, func() { t.structure(l.logical.kind, func() { l.logical.write(t) }) })
	}
	t.end()
}

func (l logical) write(t *thriftWriter) {
	switch l.kind {
	case logicalDecimal:
		t.int32(1, l.scale)
		t.int32(2, l.precision)
	case logicalTime, logicalTimestamp:
		t.bool(1, l.utc)
		t.structure(2, func() { t.structure(l.unit, func() {}) })
	case logicalInteger:
		t.field(1, tByte)
		t.b = append(t.b, byte(l.bits))
		t.bool(2, l.signed)
	}
}

// converted returns the type of early versions, -1 if there is none with the same meaning.
func (l logical) converted() int32 {
	switch l.kind {
	case logicalString:
		return 0
	case logicalDecimal:
		return 5
	case logicalDate:
		return 6
	case logicalTime, logicalTimestamp:
		if !l.utc || l.unit == 3 {
			return -1
		}
		if l.kind == logicalTime {
			return 6 + int32(l.unit)
		}
		return 8 + int32(l.unit)
	case logicalInteger:
		first := int32(11)
		if l.signed {
			first = 15
		}
		return first + int32(math.Log2(float64(uint8(l.bits)/8)))
	}
	return -1
}

func (w *Writer) writeGroupMeta(t *thriftWriter, g *rowGroup) {
	t.begin()
	t.list(1, tStruct, len(g.columns))
	var compressed int64
	for i := range g.columns {
		c := &g.columns[i]
		compressed += c.compressed
		t.begin()
		t.int64(2, c.start())
		t.structure(3, func() { w.writeChunkMeta(t, c, w.leaves[i].name) })
		t.end()
	}
	t.int64(2, g.bytes)
	t.int64(3, g.rows)
	t.int64(5, g.columns0())
	t.int64(6, compressed)
	t.end()
}

// columns0 returns the offset of the first column.
func (g *rowGroup) columns0() int64 {
	if len(g.columns) == 0 {
		return 4
	}
	return g.columns[0].start()
}

func (w *Writer) writeChunkMeta(t *thriftWriter, c *columnChunk, name string) {
	t.int32(1, c.physical)
	encodings := []int32{encPlain, encRLE}
	if c.dictOffset > 0 {
		encodings = append(encodings, encRLEDict)
	}
	t.list(2, tI32, len(encodings))
	for _, e := range encodings {
		t.varint(int64(e))
	}
	t.list(3, tBinary, 1)
	t.element(name)
	t.int32(4, c.codec)
	t.int64(5, c.values)
	t.int64(6, c.uncompressed)
	t.int64(7, c.compressed)
	t.int64(9, c.dataOffset)
	if c.dictOffset > 0 {
		t.int64(11, c.dictOffset)
	}
	t.structure(12, func() {
		t.int64(3, c.stats.nulls)
		if c.stats.max != nil {
			t.text(5, string(c.stats.max))
		}
		if c.stats.min != nil {
			t.text(6, string(c.stats.min))
		}
	})
}

// statistics returns the bounds of values. Those of long texts are shortened.
func (l *writeLeaf) statistics(d *dense, rows int) statistics {
	s := statistics{nulls: int64(rows - d.n)}
	less := l.less()
	if less == nil {
		return s
	}
	low, high := -1, -1
	for i := range d.n {
		v := d.value(i)
		if l.isNaN(v) {
			continue
		}
		if low < 0 {
			low, high = i, i
			continue
		}
		if less(v, d.value(low)) {
			low = i
		}
		if less(d.value(high), v) {
			high = i
		}
	}
	if low < 0 {
		return s
	}
	s.min, s.max = bytes.Clone(d.value(low)), bytes.Clone(d.value(high))
	switch l.physical {
	case typeFloat, typeDouble: // readers may distinguish zeros: the bounds include both
		n := len(s.min)
		if isZero(s.min) {
			s.min[n-1] |= 0x80
		}
		if isZero(s.max) {
			s.max[n-1] &^= 0x80
		}
	case typeBytes:
		s.min = s.min[:min(len(s.min), statBytes)]
		s.max = upper(s.max)
	}
	return s
}

// statBytes is the length of bounds of texts.
const statBytes = 64

// upper returns a short upper bound of a text, nil if there is none.
func upper(v []byte) []byte {
	if len(v) <= statBytes {
		return v
	}
	v = v[:statBytes]
	for i := len(v) - 1; i >= 0; i-- {
		if v[i] < 0x7f { // stays valid UTF-8
			v[i]++
			return v[:i+1]
		}
	}
	return nil
}

// isZero reports whether a float is 0 or -0.
func isZero(b []byte) bool {
	for _, c := range b[:len(b)-1] {
		if c != 0 {
			return false
		}
	}
	return b[len(b)-1]&0x7f == 0
}

func (l *writeLeaf) isNaN(b []byte) bool {
	switch l.physical {
	case typeFloat:
		v := math.Float32frombits(binary.LittleEndian.Uint32(b))
		return v != v
	case typeDouble:
		return math.IsNaN(math.Float64frombits(binary.LittleEndian.Uint64(b)))
	}
	return false
}

// less returns the order of the values of a column, nil if it has none.
func (l *writeLeaf) less() func(a, b []byte) bool {
	unsigned := l.logical.kind == logicalInteger && !l.logical.signed
	u32 := binary.LittleEndian.Uint32
	u64 := binary.LittleEndian.Uint64
	switch l.physical {
	case typeBool:
		return func(a, b []byte) bool { return a[0] < b[0] }
	case typeInt32:
		if unsigned {
			return func(a, b []byte) bool { return u32(a) < u32(b) }
		}
		return func(a, b []byte) bool { return int32(u32(a)) < int32(u32(b)) }
	case typeInt64:
		if unsigned {
			return func(a, b []byte) bool { return u64(a) < u64(b) }
		}
		return func(a, b []byte) bool { return int64(u64(a)) < int64(u64(b)) }
	case typeFloat:
		return func(a, b []byte) bool { return math.Float32frombits(u32(a)) < math.Float32frombits(u32(b)) }
	case typeDouble:
		return func(a, b []byte) bool { return math.Float64frombits(u64(a)) < math.Float64frombits(u64(b)) }
	case typeBytes:
		return func(a, b []byte) bool { return bytes.Compare(a, b) < 0 }
	}
	switch l.logical.kind {
	case logicalDecimal: // big-endian two's complement
		return func(a, b []byte) bool {
			if x, y := int8(a[0]), int8(b[0]); x != y {
				return x < y
			}
			return bytes.Compare(a[1:], b[1:]) < 0
		}
	case logicalNone:
		return func(a, b []byte) bool { return bytes.Compare(a, b) < 0 }
	}
	return nil
}
