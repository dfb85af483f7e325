package join

import (
	"bytes"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"go.millstream.dev/frame/internal/vec"
)

// hashed has what compares keys after their hashes were found equal: keys with bytes, and those too wide for a word.
type hashed struct {
	hash  hashFunc
	words []hashedWords
	texts []hashedBytes
	// mixed is true if two keys of the table have the same hash. Then every pair is compared, not only the first of
	// each key.
	mixed bool
}

type hashedWords struct {
	wordColumn
	values []uint64 // of all rows of the table
}

type hashedBytes struct {
	key    int
	values bytesColumn
}

// indexHashes makes the index of hashes of keys.
func (t *Table) indexHashes(keyed [][]arrow.Array, words []wordColumn, skip rowSet, hash hashFunc) error {
	h := &hashed{hash: hash}
	for _, w := range words {
		values := make([]uint64, t.rows)
		at := 0
		for _, columns := range keyed {
			n := columns[w.key].Len()
			fillWords(columns[w.key], w.part, 0, values[at:at+n])
			at += n
		}
		h.words = append(h.words, hashedWords{w, values})
	}
	for i, k := range t.keys {
		if _, n := familyOf(t.schema.Field(k).Type); n > 0 {
			continue
		}
		a, err := t.column(k)
		if err != nil {
			return err
		}
		h.texts = append(h.texts, hashedBytes{i, newBytesColumn(a)})
	}
	hashes := make([]uint64, t.rows)
	at := 0
	for _, columns := range keyed {
		n := columns[0].Len()
		if err := hash(columns, hashes[at:at+n]); err != nil {
			return fmt.Errorf("join: %w", err)
		}
		at += n
	}
	t.index, t.hashed = newIndex(hashes, skip, math.MaxUint64), h
	return nil
}

// bytes returns the size of the copies of keys in memory.
func (h *hashed) bytes() int64 {
	var n int64
	for _, w := range h.words {
		n += 8 * int64(len(w.values))
	}
	return n
}

// findCollisions sets mixed.
func (h *hashed) findCollisions(t *Table) {
	x, ok := t.index.(*hashIndex)
	if !ok || t.list == nil {
		return
	}
	for g := range x.groups {
		rows := t.list[x.starts[g]:x.starts[g+1]]
		for _, r := range rows[1:] {
			if !h.sameKey(rows[0], r) {
				h.mixed = true
				return
			}
		}
	}
}

// sameKey reports whether two rows of the table have the same key.
func (h *hashed) sameKey(a, b int32) bool {
	for _, w := range h.words {
		if w.values[a] != w.values[b] {
			return false
		}
	}
	for _, c := range h.texts {
		if !bytes.Equal(c.values.value(a), c.values.value(b)) {
			return false
		}
	}
	return true
}

// equal clears the marks of pairs of rows whose keys differ. The rows of the left side are counted from lo.
func (h *hashed) equal(key []arrow.Array, lo, n int, left, right []int32, marks []bool, scratch []uint64) {
	right, marks = right[:len(left)], marks[:len(left)]
	for _, w := range h.words {
		words := scratch[:n]
		fillWords(key[w.key], w.part, lo, words)
		for i, l := range left {
			if words[l] != w.values[right[i]] {
				marks[i] = false
			}
		}
	}
	for _, c := range h.texts {
		probe := newBytesColumn(key[c.key])
		for i, l := range left {
			if !bytes.Equal(probe.value(l+int32(lo)), c.values.value(right[i])) {
				marks[i] = false
			}
		}
	}
}

// bytesColumn has the values of an array of bytes or text.
type bytesColumn struct {
	data  []byte
	short []int32 // offsets, or
	long  []int64 // or
	width int     // of all values
}

func newBytesColumn(a arrow.Array) bytesColumn {
	switch a.DataType().ID() {
	case arrow.STRING, arrow.BINARY:
		return bytesColumn{data: vec.Data(a), short: vec.Offsets[int32](a)}
	case arrow.FIXED_SIZE_BINARY:
		width := a.DataType().(*arrow.FixedSizeBinaryType).ByteWidth
		var data []byte
		if b := a.Data().Buffers()[1]; b != nil {
			data = b.Bytes()[a.Data().Offset()*width:]
		} else {
			data = make([]byte, a.Len()*width)
		}
		return bytesColumn{data: data, width: width}
	}
	return bytesColumn{data: vec.Data(a), long: vec.Offsets[int64](a)}
}

// value returns the bytes of a row.
func (c *bytesColumn) value(row int32) []byte {
	switch {
	case c.short != nil:
		return c.data[c.short[row]:c.short[row+1]]
	case c.long != nil:
		return c.data[c.long[row]:c.long[row+1]]
	}
	return c.data[int(row)*c.width : (int(row)+1)*c.width]
}

// sliceAll returns slices of arrays, which the caller releases.
func sliceAll(arrays []arrow.Array, lo, hi int) []arrow.Array {
	out := make([]arrow.Array, len(arrays))
	for i, a := range arrays {
		out[i] = array.NewSlice(a, int64(lo), int64(hi))
	}
	return out
}
