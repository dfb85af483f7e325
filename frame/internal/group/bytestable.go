package group

import (
	"encoding/binary"
	"math/bits"

	"go.millstream.dev/frame/internal/vec"
)

// short is the longest value, in bytes, that is stored in its entry.
const short = 15

// longBit marks the entry of a value that is longer.
const longBit = 1 << 63

// entry is a value of bytes. A short one has its bytes in both words, and its length in the upper byte of the second.
// A longer one has its hash in the first word, and longBit with its number among the long values, from 1, in the
// second.
type entry [2]uint64

// masks have ones for the bytes of a short value, by its length.
var masks = func() (m [16]entry) {
	for n := range m {
		for i := range n {
			m[n][i/8] |= 0xff << (i % 8 * 8)
		}
	}
	return m
}()

// bytesTable numbers distinct values of bytes in the order in which they come.
type bytesTable struct {
	index
	entries []entry
	null    uint32 // number of null, which has an entry that no value is equal to; none if there is none
	long    []byte // bytes of the long values, in order
	ends    []int  // of the long values

	rows [block]entry
}

// nullEntry is not the entry of a value: no short value has this length.
var nullEntry = entry{0, 0x7f << 56}

func newBytesTable() *bytesTable { return &bytesTable{index: newIndex(), null: none} }

// shortEntry returns the entry of data[from:to], of at most 15 bytes.
func shortEntry(data []byte, from, to int) entry {
	n := to - from
	m := &masks[n&15]
	if from+16 <= len(data) {
		b := data[from:][:16]
		return entry{binary.LittleEndian.Uint64(b) & m[0],
			binary.LittleEndian.Uint64(b[8:])&m[1] | uint64(n)<<56}
	}
	var b [16]byte
	copy(b[:], data[from:to])
	return entry{binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:]) | uint64(n)<<56}
}

func (t *bytesTable) hash(e entry) uint32 {
	hi, lo := bits.Mul64(e[0]^t.seed, e[1]^t.factor)
	h := hi ^ lo
	return uint32(h>>32^h) * uint32(t.factor)
}

// find writes the numbers of n values, at most a block, and adds those that are new. Value i has the bytes
// data[offsets[i]:offsets[i+1]]; it is null if its bit in valid, which may be nil, is not set.
func find[T int32 | int64](t *bytesTable, offsets []T, data []byte, valid []byte, off int, ids []uint32) {
	n := len(ids)
	offsets = offsets[:n+1]
	t.reserve(n)
	slots, mask := t.slots, t.mask
	rows, hashes, found := t.rows[:n], t.hashes[:n], t.found[:n]
	from := int(offsets[0])
	for i := range rows {
		to := int(offsets[i+1])
		var e entry
		if uint(to-from) <= short {
			e = shortEntry(data, from, to)
		} else {
			e = entry{vec.HashBytes(data[from:to]), longBit}
		}
		if valid != nil && valid[uint(off+i)>>3]>>(uint(off+i)&7)&1 == 0 {
			e = nullEntry
		}
		from = to
		rows[i] = e
		h := t.hash(e)
		hashes[i] = h
		found[i] = slots[h&mask]
	}
	entries, pending := t.entries, t.pending[:0]
	for i, s := range found {
		id := uint32(s) - 1
		if uint32(s>>32) == hashes[i] && uint(id) < uint(len(entries)) && entries[id] == rows[i] {
			ids[i] = id
		} else {
			pending = append(pending, int32(i))
		}
	}
	for _, i := range pending {
		e := rows[i]
		var value []byte
		if e[1]&longBit != 0 {
			value = data[offsets[i]:offsets[i+1]]
		}
		ids[i] = t.add(hashes[i], e, value)
	}
	t.pending = pending
}

// add returns the number of a value, which may be new. A long one is given with its bytes.
func (t *bytesTable) add(h uint32, e entry, value []byte) uint32 {
	at := h & t.mask
	for {
		s := t.slots[at]
		if s == 0 {
			break
		}
		if uint32(s>>32) == h {
			id := uint32(s) - 1
			if have := t.entries[id]; have == e && e[1]&longBit == 0 ||
				have[0] == e[0] && have[1]&e[1]&longBit != 0 && string(t.longValue(have)) == string(value) {
				return id
			}
		}
		at = (at + 1) & t.mask
	}
	if e[1]&longBit != 0 {
		t.long = append(t.long, value...)
		t.ends = append(t.ends, len(t.long))
		e[1] = longBit | uint64(len(t.ends)) // never longBit alone, as in find
	}
	if e == nullEntry {
		t.null = uint32(len(t.entries))
	}
	t.entries = append(t.entries, e)
	t.used++
	t.slots[at] = uint64(h)<<32 | uint64(len(t.entries))
	return uint32(len(t.entries) - 1)
}

// longValue returns the bytes of a long value.
func (t *bytesTable) longValue(e entry) []byte {
	i := int(e[1] &^ longBit)
	from := 0
	if i > 1 {
		from = t.ends[i-2]
	}
	return t.long[from:t.ends[i-1]]
}

// size returns the length of the value with this number; null has none.
func (t *bytesTable) size(id uint32) int {
	e := t.entries[id]
	switch {
	case e == nullEntry:
		return 0
	case e[1]&longBit != 0:
		return len(t.longValue(e))
	}
	return int(e[1] >> 56)
}

// put copies the value with this number to b, which has its length.
func (t *bytesTable) put(b []byte, id uint32) {
	e := t.entries[id]
	if e[1]&longBit != 0 {
		copy(b, t.longValue(e))
		return
	}
	var raw [16]byte
	binary.LittleEndian.PutUint64(raw[:], e[0])
	binary.LittleEndian.PutUint64(raw[8:], e[1])
	copy(b, raw[:])
}

func (t *bytesTable) bytes() int64 {
	return t.index.bytes() + int64(cap(t.entries))*16 + int64(cap(t.long)) + int64(cap(t.ends))*8
}
