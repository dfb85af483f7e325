package group

import (
	"fmt"
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/frame/internal/vec"
)

// keyColumn encodes the values of a key column in few bits, so that several columns fit into one word. It is either
// ranged, with codes by value, or dense, with codes that count the distinct values from 0.
type keyColumn interface {
	// bind sets the array whose rows encode and find read.
	bind(a arrow.Array) error
	// encode adds the codes of rows, shifted, to the words of a block. It returns false if a code does not fit.
	encode(from int, words []uint64, shift uint) bool
	// width returns the number of bits of a code.
	width() uint
	// fit sets the width so that the rows from a number fit, with room for more values if there is.
	fit(from int)
	// tighten reduces the width to what is needed, or nearly.
	tighten()
	// intern makes a ranged column dense.
	intern()
	// translate converts codes from before the last calls of fit and intern.
	translate(codes []uint64)
	// dense reports whether codes count the distinct values.
	dense() bool
	// find writes the codes of rows of a dense column.
	find(from int, ids []uint32)
	// count returns the number of codes of a dense column.
	count() int
	// decode returns the values of codes.
	decode(codes []uint64) (arrow.Array, error)
	bytes() int64
}

// newKeyColumn returns the encoder of a type. A dictionary is encoded by its values.
func newKeyColumn(t arrow.DataType) (keyColumn, error) {
	switch t := t.(type) {
	case *arrow.NullType:
		return nullColumn{}, nil
	case *arrow.DictionaryType:
		inner, err := newKeyColumn(t.ValueType)
		return &dictionaryColumn{keyColumn: inner}, err
	case arrow.ExtensionType:
		inner, err := newKeyColumn(t.StorageType())
		return &extensionColumn{inner, t}, err
	}
	if c := newCodec(t); c != nil {
		w := &wordColumn{typ: t, c: c, null: none}
		switch c.(type) {
		case *floatCodec[float32], *floatCodec[float64]:
			w.intern()
		}
		return w, nil
	}
	if !vec.Hashable(t) {
		return nil, fmt.Errorf("type %v cannot be a key; use columns of plain types", t)
	}
	return newBytesColumn(t), nil
}

// keyType returns the type of a key column in results: that of its values for dictionaries.
func keyType(t arrow.DataType) arrow.DataType {
	if d, ok := t.(*arrow.DictionaryType); ok {
		return keyType(d.ValueType)
	}
	return t
}

// wordColumn encodes values with a codec. If ranged, a code is the distance from a base plus one, or 0 for null.
type wordColumn struct {
	typ   arrow.DataType
	c     codec
	n     int // rows of the array
	valid []byte
	off   int
	nulls bool // any array had nulls

	w    uint
	base uint64
	from uint64     // base before fit
	was  *wordTable // tab before fit
	tab  *wordTable // of a dense column
	null uint32     // code of null in a dense column, or none

	raw  [block]uint64
	ids  [block]uint32
	some [block]uint32 // codes of values that are not null
}

func (k *wordColumn) bind(a arrow.Array) error {
	k.c.bind(a)
	k.n = a.Len()
	k.valid, k.off = vec.Validity(a)
	k.nulls = k.nulls || k.valid != nil
	return nil
}

func (k *wordColumn) width() uint { return k.w }
func (k *wordColumn) dense() bool { return k.tab != nil }
func (k *wordColumn) count() int  { return len(k.tab.keys) }

func (k *wordColumn) encode(from int, words []uint64, shift uint) bool {
	switch {
	case k.tab != nil:
		ids := k.ids[:len(words)]
		k.find(from, ids)
		for i, id := range ids {
			words[i] |= uint64(id) << (shift & 63)
		}
		return uint64(k.count()) <= 1<<k.w
	case k.w == 0 || k.w == 1 && k.valid == nil:
		return false // no value has a code yet
	case k.valid == nil:
		return k.c.offset(from, words, shift, k.base)>>k.w == 0
	}
	raw := k.raw[:len(words)]
	k.c.load(from, raw)
	var union uint64
	for i, v := range raw {
		if isSet(k.valid, k.off+from+i) {
			code := v - k.base
			union |= code | (code + 1)
			words[i] |= (code + 1) << (shift & 63)
			if k.w == 1 {
				return false
			}
		}
	}
	return union>>k.w == 0
}

func (k *wordColumn) find(from int, ids []uint32) {
	raw := k.raw[:len(ids)]
	k.c.load(from, raw)
	if k.valid == nil {
		k.tab.find(raw, ids)
		return
	}
	n := 0
	for i, w := range raw {
		if isSet(k.valid, k.off+from+i) {
			raw[n] = w
			n++
		}
	}
	k.tab.find(raw[:n], k.some[:n])
	n = 0
	for i := range ids {
		if isSet(k.valid, k.off+from+i) {
			ids[i] = k.some[n]
			n++
		} else {
			ids[i] = k.nullCode()
		}
	}
}

// nullCode returns the code of null, which has no slot in the index of the table.
func (k *wordColumn) nullCode() uint32 {
	if k.null == none {
		k.null = uint32(len(k.tab.keys))
		k.tab.keys = append(k.tab.keys, 0)
	}
	return k.null
}

func (k *wordColumn) fit(from int) {
	k.from, k.was = k.base, k.tab
	if k.tab != nil {
		k.w = max(8, uint(bits.Len(uint(k.count())))+2)
		return
	}
	lo, hi, ok := k.c.span(from, k.n, k.valid, k.off)
	if !ok {
		k.w = max(k.w, 1) // null has a code
		return
	}
	size := hi - lo // codes 1 to size+1
	below := false
	if k.w > 1 {
		// The new range includes all values that have codes now.
		if below = k.c.less(lo, k.base); !below {
			lo = k.base
		}
		now, carry := bits.Add64(k.base-lo, 1<<k.w-2, 0)
		if carry != 0 {
			k.intern()
			return
		}
		size = max(hi-lo, now)
	}
	if size >= 1<<63-1 {
		k.intern()
		return
	}
	k.w = max(2, uint(bits.Len64(size+1)))
	k.base = lo
	if below {
		// Values that come in descending order need room below.
		k.base -= min(1<<k.w-2-size, lo-k.c.least())
	}
}

func (k *wordColumn) tighten() {
	if k.tab != nil {
		k.w = max(1, uint(bits.Len(uint(k.count()))))
	}
}

func (k *wordColumn) intern() {
	if k.tab == nil {
		k.tab = newWordTable()
		k.w = 16
	}
}

func (k *wordColumn) translate(codes []uint64) {
	if k.was != nil {
		return
	}
	if k.tab == nil {
		shift := k.from - k.base
		if shift != 0 {
			for i, c := range codes {
				if c != 0 {
					codes[i] = c + shift
				}
			}
		}
		k.from = k.base
		return
	}
	var word [1]uint64
	var id [1]uint32
	for i, c := range codes {
		if c == 0 {
			codes[i] = uint64(k.nullCode())
			continue
		}
		word[0] = k.from + c - 1
		k.tab.find(word[:], id[:])
		codes[i] = uint64(id[0])
	}
	k.w = max(k.w, uint(bits.Len(uint(k.count()))))
	k.was = k.tab
}

func (k *wordColumn) decode(codes []uint64) (arrow.Array, error) {
	words := make([]uint64, len(codes))
	isNull := func(c uint64) bool { return c == 0 }
	if k.tab != nil {
		isNull = func(c uint64) bool { return uint32(c) == k.null }
		for i, c := range codes {
			words[i] = k.tab.keys[c]
		}
	} else {
		for i, c := range codes {
			words[i] = k.base + c - 1
		}
	}
	var valid *memory.Buffer
	nulls := 0
	if k.nulls {
		valid, nulls = validity(len(codes), func(i int) bool { return !isNull(codes[i]) })
	}
	return k.c.build(k.typ, words, valid, nulls), nil
}

// validity returns the bitmap of n rows and the number of nulls; it is nil if there are none.
func validity(n int, valid func(i int) bool) (*memory.Buffer, int) {
	nulls := 0
	for i := range n {
		if !valid(i) {
			nulls++
		}
	}
	if nulls == 0 {
		return nil, 0
	}
	return memory.NewBufferBytes(pack(n, valid)), nulls
}

func (k *wordColumn) bytes() int64 {
	if k.tab != nil {
		return k.tab.bytes()
	}
	return 0
}

// nullColumn has only nulls, and codes of no bits.
type nullColumn struct{}

func (nullColumn) bind(arrow.Array) error                 { return nil }
func (nullColumn) encode(int, []uint64, uint) bool        { return true }
func (nullColumn) width() uint                            { return 0 }
func (nullColumn) fit(int)                                {}
func (nullColumn) tighten()                               {}
func (nullColumn) intern()                                {}
func (nullColumn) translate([]uint64)                     {}
func (nullColumn) dense() bool                            { return false }
func (nullColumn) find(int, []uint32)                     {}
func (nullColumn) count() int                             { return 0 }
func (nullColumn) bytes() int64                           { return 0 }
func (nullColumn) decode(c []uint64) (arrow.Array, error) { return array.NewNull(len(c)), nil }

// dictionaryColumn encodes the values of a dictionary.
type dictionaryColumn struct{ keyColumn }

func (k *dictionaryColumn) bind(a arrow.Array) error {
	plain, err := decodeDictionary(a.(*array.Dictionary))
	if err != nil {
		return err
	}
	return k.keyColumn.bind(plain)
}

// decodeDictionary returns the values of the rows.
func decodeDictionary(d *array.Dictionary) (arrow.Array, error) {
	rows := make([]int32, d.Len())
	for i := range rows {
		rows[i] = -1
		if d.IsValid(i) {
			rows[i] = int32(d.GetValueIndex(i))
		}
	}
	return vec.TakeArray(d.Dictionary(), rows)
}

// extensionColumn encodes the storage of an extension type.
type extensionColumn struct {
	keyColumn
	typ arrow.ExtensionType
}

func (k *extensionColumn) bind(a arrow.Array) error {
	return k.keyColumn.bind(a.(array.ExtensionArray).Storage())
}

func (k *extensionColumn) decode(codes []uint64) (arrow.Array, error) {
	a, err := k.keyColumn.decode(codes)
	if err != nil {
		return nil, err
	}
	defer a.Release()
	return array.NewExtensionArrayWithStorage(k.typ, a), nil
}
