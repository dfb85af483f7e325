package parquet

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow"
)

const (
	// pageBytes is the size of the values of a page, pageRows the number of its rows at most.
	pageBytes = 1 << 20
	pageRows  = 128 << 10
	// dictBytes bounds the size of a dictionary, dictSample is the number of values after which it must pay.
	dictBytes  = 1 << 20
	dictSample = 32 << 10
)

// chunkWriter makes the pages of a column chunk.
type chunkWriter struct {
	leaf   *writeLeaf
	codec  int32
	out    []byte
	chunk  columnChunk
	packed []byte
}

// encode returns the pages of a column and their description. Offsets are from the first page on; that of the
// dictionary is -1 without one.
func (l *writeLeaf) encode(a arrow.Array, codec int32, noDictionary bool) (columnChunk, []byte, error) {
	if a.NullN() > 0 && !l.nullable {
		return columnChunk{}, nil, fmt.Errorf("%d nulls in a column that is not nullable", a.NullN())
	}
	d, err := l.denseOf(a)
	if err != nil {
		return columnChunk{}, nil, err
	}
	w := &chunkWriter{leaf: l, codec: codec}
	w.chunk = columnChunk{physical: l.physical, codec: codec, values: int64(a.Len()), dictOffset: -1,
		stats: l.statistics(&d, a.Len())}
	var dict *dictionary
	if !noDictionary && l.physical != typeBool {
		dict = buildDictionary(&d)
	}
	if dict != nil {
		w.chunk.dictOffset = 0
		if err := w.dictionaryPage(dict); err != nil {
			return columnChunk{}, nil, err
		}
	}
	w.chunk.dataOffset = int64(len(w.out))
	for row, value := 0, 0; row < a.Len() || row == 0; {
		rows, values := w.cut(a, &d, row, value, dict != nil)
		if err := w.dataPage(a, &d, dict, row, rows, value, values); err != nil {
			return columnChunk{}, nil, err
		}
		row, value = row+rows, value+values
		if rows == 0 {
			break
		}
	}
	w.chunk.compressed = int64(len(w.out))
	return w.chunk, w.out, nil
}

// cut returns the rows of the next page, and how many of them have values.
func (w *chunkWriter) cut(a arrow.Array, d *dense, row, value int, dict bool) (rows, values int) {
	bytes := 0
	for row+rows < a.Len() && rows < pageRows {
		if a.NullN() == 0 || a.IsValid(row+rows) {
			if !dict {
				if bytes += d.size(value+values, value+values+1); bytes > pageBytes && rows > 0 {
					break
				}
			}
			values++
		}
		rows++
	}
	return rows, values
}

func (w *chunkWriter) dictionaryPage(dict *dictionary) error {
	b := plain(nil, &dict.values, 0, dict.values.n, w.leaf.physical)
	return w.page(b, func(t *thriftWriter, raw, packed int) {
		t.int32(1, pageDict)
		t.int32(2, int32(raw))
		t.int32(3, int32(packed))
		t.structure(7, func() {
			t.int32(1, int32(dict.values.n))
			t.int32(2, encPlain)
		})
	})
}

func (w *chunkWriter) dataPage(a arrow.Array, d *dense, dict *dictionary, row, rows, value, values int) error {
	var b []byte
	if w.leaf.nullable {
		levels := definitions(a, row, rows)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(levels)))
		b = append(b, levels...)
	}
	encoding := int32(encPlain)
	if dict != nil {
		encoding = encRLEDict
		width := widthOf(max(0, dict.values.n-1))
		b = append(b, byte(width))
		b = appendRLE(b, dict.index[value:value+values], width)
	} else {
		b = plain(b, d, value, value+values, w.leaf.physical)
	}
	return w.page(b, func(t *thriftWriter, raw, packed int) {
		t.int32(1, pageData)
		t.int32(2, int32(raw))
		t.int32(3, int32(packed))
		t.structure(5, func() {
			t.int32(1, int32(rows))
			t.int32(2, encoding)
			t.int32(3, encRLE)
			t.int32(4, encRLE)
		})
	})
}

// page compresses and appends a page with its header.
func (w *chunkWriter) page(b []byte, header func(t *thriftWriter, raw, packed int)) error {
	if len(b) > maxPage {
		return fmt.Errorf("page of %d bytes is too large; values are too long", len(b))
	}
	packed, err := compress(w.codec, w.packed, b)
	if err != nil {
		return err
	}
	if w.codec != codecNone {
		w.packed = packed
	}
	t := &thriftWriter{}
	t.begin()
	header(t, len(b), len(packed))
	t.end()
	w.out = append(w.out, t.b...)
	w.out = append(w.out, packed...)
	w.chunk.uncompressed += int64(len(t.b) + len(b))
	return nil
}

// plain appends values with PLAIN encoding.
func plain(b []byte, d *dense, from, to int, physical int32) []byte {
	if physical == typeBool {
		at := len(b)
		b = append(b, make([]byte, bitmapBytes(to-from))...)
		for i, v := range d.fixed[from:to] {
			b[at+i>>3] |= v << (i & 7)
		}
		return b
	}
	if d.width > 0 {
		return append(b, d.fixed[from*d.width:to*d.width]...)
	}
	for i := from; i < to; i++ {
		v := d.value(i)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(v)))
		b = append(b, v...)
	}
	return b
}

// definitions returns the definition levels of rows: 0 for null, 1 for a value.
func definitions(a arrow.Array, row, rows int) []byte {
	if a.NullN() == 0 {
		return append(binary.AppendUvarint(nil, uint64(rows)<<1), 1)
	}
	levels := make([]uint32, rows)
	for i := range levels {
		if a.IsValid(row + i) {
			levels[i] = 1
		}
	}
	return appendRLE(nil, levels, 1)
}

// appendRLE appends values with the hybrid of run lengths and bit-packed groups.
func appendRLE(b []byte, v []uint32, width uint) []byte {
	size := int(width+7) / 8
	for len(v) > 0 {
		n := runLength(v)
		if n >= 8 {
			b = binary.AppendUvarint(b, uint64(n)<<1)
			for i := range size {
				b = append(b, byte(v[0]>>(8*i)))
			}
			v = v[n:]
			continue
		}
		// Groups of eight, until a run of at least eight begins at a group.
		groups := 0
		for groups*8 < len(v) && groups < 1<<16 && (groups == 0 || runLength(v[groups*8:]) < 8) {
			groups++
		}
		b = binary.AppendUvarint(b, uint64(groups)<<1|1)
		b = pack(b, v[:min(len(v), groups*8)], groups*8, width)
		v = v[min(len(v), groups*8):]
	}
	return b
}

// runLength returns the number of equal values at the beginning.
func runLength(v []uint32) int {
	n := 1
	for n < len(v) && v[n] == v[0] {
		n++
	}
	return n
}

// pack appends n values of a width, of which those after v are 0.
func pack(b []byte, v []uint32, n int, width uint) []byte {
	var word uint64
	var have uint
	for i := range n {
		if i < len(v) {
			word |= uint64(v[i]) << have
		}
		for have += width; have >= 8; have -= 8 {
			b = append(b, byte(word))
			word >>= 8
		}
	}
	return b
}

// hash mixes the bits of a value.
func hash(v uint64) uint64 {
	hi, lo := bits.Mul64(v^0x9e3779b97f4a7c15, 0xd6e8feb86659fd93)
	return hi ^ lo
}
