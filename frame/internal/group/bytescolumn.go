package group

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/frame/internal/vec"
)

// bytesColumn encodes text, bytes and values of a fixed width of more than 64 bits. It is dense.
type bytesColumn struct {
	typ    arrow.DataType
	tab    *bytesTable
	w      uint
	fixed  int // width of values in bytes, or 0
	data   []byte
	narrow []int32 // offsets, or
	wide   []int64
	valid  []byte
	off    int

	ids     [block]uint32
	offsets [block + 1]int64 // of values of a fixed width
}

func newBytesColumn(t arrow.DataType) *bytesColumn {
	k := &bytesColumn{typ: t, tab: newBytesTable(), w: 8}
	switch t.ID() {
	case arrow.STRING, arrow.BINARY, arrow.LARGE_STRING, arrow.LARGE_BINARY, arrow.STRING_VIEW, arrow.BINARY_VIEW:
	default:
		k.fixed = t.(arrow.FixedWidthDataType).BitWidth() / 8
	}
	return k
}

func (k *bytesColumn) bind(a arrow.Array) error {
	k.valid, k.off = vec.Validity(a)
	k.narrow, k.wide = nil, nil
	if k.fixed > 0 {
		d := a.Data()
		if d.Len() > 0 && d.Buffers()[1] != nil {
			k.data = d.Buffers()[1].Bytes()[d.Offset()*k.fixed : (d.Offset()+d.Len())*k.fixed]
		} else {
			k.data = make([]byte, d.Len()*k.fixed)
		}
		return nil
	}
	switch a := a.(type) {
	case *array.StringView:
		k.bindView(a.Len(), func(i int) string { return a.Value(i) }, a.IsValid)
		return nil
	case *array.BinaryView:
		k.bindView(a.Len(), func(i int) string { return a.ValueString(i) }, a.IsValid)
		return nil
	}
	k.data = vec.Data(a)
	switch k.typ.ID() {
	case arrow.STRING, arrow.BINARY:
		k.narrow = vec.Offsets[int32](a)
	default:
		k.wide = vec.Offsets[int64](a)
	}
	return nil
}

// bindView copies the values of a view type.
func (k *bytesColumn) bindView(n int, value func(i int) string, valid func(i int) bool) {
	k.data, k.wide = nil, make([]int64, n+1)
	for i := range n {
		if valid(i) {
			k.data = append(k.data, value(i)...)
		}
		k.wide[i+1] = int64(len(k.data))
	}
}

func (k *bytesColumn) find(from int, ids []uint32) {
	n := len(ids)
	switch {
	case k.fixed > 0:
		for i := range n + 1 {
			k.offsets[i] = int64((from + i) * k.fixed)
		}
		find(k.tab, k.offsets[:n+1], k.data, k.valid, k.off+from, ids)
	case k.narrow != nil:
		find(k.tab, k.narrow[from:from+n+1], k.data, k.valid, k.off+from, ids)
	default:
		find(k.tab, k.wide[from:from+n+1], k.data, k.valid, k.off+from, ids)
	}
}

func (k *bytesColumn) encode(from int, words []uint64, shift uint) bool {
	ids := k.ids[:len(words)]
	k.find(from, ids)
	for i, id := range ids {
		words[i] |= uint64(id) << (shift & 63)
	}
	return uint64(k.count()) <= 1<<k.w
}

func (k *bytesColumn) width() uint        { return k.w }
func (k *bytesColumn) fit(int)            { k.w = max(8, uint(bits.Len(uint(k.count())))+2) }
func (k *bytesColumn) tighten()           { k.w = max(1, uint(bits.Len(uint(k.count())))) }
func (k *bytesColumn) intern()            {}
func (k *bytesColumn) translate([]uint64) {}
func (k *bytesColumn) dense() bool        { return true }
func (k *bytesColumn) count() int         { return len(k.tab.entries) }
func (k *bytesColumn) bytes() int64       { return k.tab.bytes() }

func (k *bytesColumn) decode(codes []uint64) (arrow.Array, error) {
	var valid *memory.Buffer
	nulls := 0
	if k.tab.null != none {
		valid, nulls = validity(len(codes), func(i int) bool { return uint32(codes[i]) != k.tab.null })
	}
	if k.fixed > 0 {
		data := make([]byte, len(codes)*k.fixed)
		for i, c := range codes {
			if uint32(c) != k.tab.null {
				k.tab.put(data[i*k.fixed:], uint32(c)) // the next value overwrites what is too much
			}
		}
		return vec.Make(k.typ, len(codes), nulls, []*memory.Buffer{valid, memory.NewBufferBytes(data)}), nil
	}
	switch k.typ.ID() {
	case arrow.STRING, arrow.BINARY:
		return decodeBytes[int32](k, codes, valid, nulls, math.MaxInt32)
	case arrow.LARGE_STRING, arrow.LARGE_BINARY:
		return decodeBytes[int64](k, codes, valid, nulls, math.MaxInt64)
	}
	b := array.NewBuilder(heap, k.typ)
	defer b.Release()
	for _, c := range codes {
		if uint32(c) == k.tab.null {
			b.AppendNull()
			continue
		}
		value := make([]byte, k.tab.size(uint32(c)))
		k.tab.put(value, uint32(c))
		switch b := b.(type) {
		case *array.StringViewBuilder:
			b.Append(string(value))
		case *array.BinaryViewBuilder:
			b.Append(value)
		}
	}
	return b.NewArray(), nil
}

// decodeBytes returns an array with offsets, which may have most bytes.
func decodeBytes[T int32 | int64](k *bytesColumn, codes []uint64, valid *memory.Buffer, nulls int,
	most int64) (arrow.Array, error) {
	offsets := make([]T, len(codes)+1)
	var size int64
	for i, c := range codes {
		size += int64(k.tab.size(uint32(c)))
		offsets[i+1] = T(size)
	}
	if size > most {
		return nil, fmt.Errorf("group: %d bytes of keys do not fit into an array of type %v; use more partitions "+
			"or the large type", size, k.typ)
	}
	data := make([]byte, size)
	for i, c := range codes {
		if offsets[i] != offsets[i+1] {
			k.tab.put(data[offsets[i]:], uint32(c)) // the next value overwrites what is too much
		}
	}
	return vec.Make(k.typ, len(codes), nulls, []*memory.Buffer{valid, vec.Buffer(offsets),
		memory.NewBufferBytes(data)}), nil
}
