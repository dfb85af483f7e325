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
// second. It is not an array, whose elements the compiler does not keep in registers.
type entry struct{ lo, hi uint64 }

// masks have ones for the bytes of a short value, and its length, by its length.
var masks = func() (m [16]struct{ lo, hi, size uint64 }) {
	for n := range m {
		for i := range n {
			if i < 8 {
				m[n].lo |= 0xff << (i * 8)
			} else {
				m[n].hi |= 0xff << (i % 8 * 8)
			}
		}
		m[n].size = uint64(n) << 56
	}
	return m
}()

// nullEntry is not the entry of a value: no short value has this length.
var nullEntry = entry{0, 0x7f << 56}

// bytesTable numbers distinct values of bytes in the order in which they come.
type bytesTable struct {
	index
	entries []entry
	null    uint32 // number of null, or none
	long    []byte // bytes of the long values, in order
	ends    []int  // of the long values

	rows [block]entry
}

func newBytesTable() *bytesTable { return &bytesTable{index: newIndex(), null: none} }

// entryOf returns the entry of a value, without the number of a long one.
func entryOf(data []byte, from, to int) entry {
	if n := to - from; uint(n) > short {
		return entry{vec.HashBytes(data[from:to]), longBit}
	}
	var b [16]byte // the value is at the end of the memory
	n := copy(b[:], data[from:to])
	return entry{binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:]) | uint64(n)<<56}
}

func hashEntry(e entry, seed uint64) uint32 {
	hi, lo := bits.Mul64(e.lo^seed, e.hi^tableFactor)
	return uint32(hi ^ lo)
}

// find writes the numbers of len(ids) values, at most a block, and adds those that are new. Value i has the bytes
// data[offsets[i]:offsets[i+1]]; it is null if its bit in valid, which may be nil, is not set.
func find[T int32 | int64](t *bytesTable, offsets []T, data []byte, valid []byte, off int, ids []uint32) {
	n := len(ids)
	offsets = offsets[:n+1]
	t.reserve(n)
	rows := t.rows[:n]
	from := int(offsets[0])
	for i, end := range offsets[1:] {
		to := int(end)
		var e entry
		if size := to - from; uint(size) <= short && from+16 <= len(data) {
			b, m := data[from:from+16:from+16], &masks[size&15]
			e.lo = binary.LittleEndian.Uint64(b) & m.lo
			e.hi = binary.LittleEndian.Uint64(b[8:])&m.hi | m.size
		} else {
			e = entryOf(data, from, to)
		}
		rows[i] = e
		from = to
	}
	if valid != nil {
		for i := range rows {
			if !isSet(valid, off+i) {
				rows[i] = nullEntry
			}
		}
	}
	t.lookup(rows, ids)
	for _, i := range t.pending {
		var value []byte
		if rows[i].hi&longBit != 0 {
			value = data[offsets[i]:offsets[i+1]]
		}
		ids[i] = t.add(t.hashes[i], rows[i], value)
	}
}

// lookup writes the numbers of short values that the first probe finds. The others are pending, with their hashes.
func (t *bytesTable) lookup(rows []entry, ids []uint32) {
	pending := t.pending[:0]
	slots, mask, keep, seed, entries := t.slots, t.mask, t.keep, t.seed, t.entries
	hashes := t.hashes[:len(rows)]
	ids = ids[:len(rows)]
	if len(slots) <= smallTable {
		for i, e := range rows {
			h := hashEntry(e, seed) & keep
			s := slots[h&mask]
			id := uint32(s) - 1
			ids[i] = id
			if uint32(s>>32) != h || uint(id) >= uint(len(entries)) || entries[id].lo != e.lo ||
				entries[id].hi != e.hi {
				hashes[i] = h
				pending = append(pending, int32(i))
			}
		}
		t.pending = pending
		return
	}
	found := t.found[:len(rows)]
	for i, e := range rows {
		h := hashEntry(e, seed) & keep
		hashes[i] = h
		found[i] = slots[h&mask]
	}
	for i, s := range found {
		id, e := uint32(s)-1, rows[i]
		ids[i] = id
		if uint32(s>>32) != hashes[i] || uint(id) >= uint(len(entries)) || entries[id].lo != e.lo ||
			entries[id].hi != e.hi {
			pending = append(pending, int32(i))
		}
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
			if have := t.entries[id]; have == e && e.hi&longBit == 0 ||
				have.lo == e.lo && have.hi&e.hi&longBit != 0 && string(t.longValue(have)) == string(value) {
				return id
			}
		}
		at = (at + 1) & t.mask
	}
	if e.hi&longBit != 0 {
		t.long = append(t.long, value...)
		t.ends = append(t.ends, len(t.long))
		e.hi = longBit | uint64(len(t.ends)) // never longBit alone, as in find
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
	i := int(e.hi &^ longBit)
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
	case e.hi&longBit != 0:
		return len(t.longValue(e))
	}
	return int(e.hi >> 56)
}

// put copies the value with this number to the start of b, and may write up to 16 bytes if b is longer.
func (t *bytesTable) put(b []byte, id uint32) {
	e := t.entries[id]
	switch {
	case e.hi&longBit != 0:
		copy(b, t.longValue(e))
	case len(b) >= 16:
		binary.LittleEndian.PutUint64(b, e.lo)
		binary.LittleEndian.PutUint64(b[8:], e.hi)
	default:
		var raw [16]byte
		binary.LittleEndian.PutUint64(raw[:], e.lo)
		binary.LittleEndian.PutUint64(raw[8:], e.hi)
		copy(b, raw[:e.hi>>56])
	}
}

func (t *bytesTable) bytes() int64 {
	return t.index.bytes() + int64(cap(t.entries))*16 + int64(cap(t.long)) + int64(cap(t.ends))*8
}
