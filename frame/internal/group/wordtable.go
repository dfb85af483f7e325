package group

import (
	"math/bits"
	"math/rand/v2"
)

// block is the number of rows that are processed at a time. The arrays of a block fit into the first-level cache.
const block = 2048

// tableFactor is the multiplier of the hashes of tables.
const tableFactor = 0xd6e8feb86659fd93

// none is the number of an entry that does not exist.
const none = ^uint32(0)

// smallTable is the number of slots up to which a table is in the cache of the processor.
const smallTable = 1 << 16

// index is an open-addressing index of entries that are numbered from 0 in the order in which they were added. A slot
// has 32 bits of the hash of its entry above its number plus one, and is 0 if free. The position of an entry is given
// by those bits, so the index grows without the entries.
type index struct {
	slots []uint64
	mask  uint32
	keep  uint32 // bits of hashes, all except in tests
	used  int
	seed  uint64 // of hashes, random against keys that are chosen to collide

	hashes  [block]uint32
	found   [block]uint64
	pending []int32 // rows of a block that the first probe did not find
}

func newIndex() index {
	return index{slots: make([]uint64, 256), mask: 255, keep: ^uint32(0), seed: rand.Uint64()}
}

// reserve makes room for n more entries, so that at most seven tenths of the slots are in use.
func (x *index) reserve(n int) {
	size := len(x.slots)
	for (x.used+n)*10 > size*7 {
		size *= 2
	}
	if size == len(x.slots) {
		return
	}
	if x.used > block {
		size *= 2 // a table that grows will grow again
	}
	old := x.slots
	x.slots, x.mask = make([]uint64, size), uint32(size-1)
	slots, mask := x.slots, x.mask
	for _, s := range old {
		if s == 0 {
			continue
		}
		at := uint32(s>>32) & mask
		for slots[at] != 0 {
			at = (at + 1) & mask
		}
		slots[at] = s
	}
}

// reset removes all entries.
func (x *index) reset(n int) {
	x.used = 0
	if len(x.slots) > 256 {
		x.slots, x.mask = make([]uint64, 256), 255
	} else {
		clear(x.slots)
	}
	x.reserve(n)
}

func (x *index) bytes() int64 { return int64(len(x.slots)) * 8 }

// wordTable numbers distinct words of 64 bits in the order in which they come.
type wordTable struct {
	index
	keys   []uint64 // by number
	direct []uint32 // number plus one by key, instead of the index, if keys are small
}

func newWordTable() *wordTable { return &wordTable{index: newIndex()} }

// rebuild replaces the keys, which must be distinct. All keys are less than 1<<width if direct lookup is wanted.
func (t *wordTable) rebuild(keys []uint64, direct bool, width uint) {
	t.keys = keys
	if direct {
		t.direct = make([]uint32, 1<<width)
		for i, k := range keys {
			t.direct[k] = uint32(i + 1)
		}
		return
	}
	t.direct = nil
	t.reset(len(keys))
	for i, k := range keys {
		h := hashWord(k, t.seed) & t.keep
		at := h & t.mask
		for t.slots[at] != 0 {
			at = (at + 1) & t.mask
		}
		t.slots[at] = uint64(h)<<32 | uint64(i+1)
	}
	t.used = len(keys)
}

// hashWord returns the hash of a word.
func hashWord(w, seed uint64) uint32 {
	hi, lo := bits.Mul64(w^seed, tableFactor)
	return uint32(hi ^ lo)
}

// find writes the numbers of words, at most a block, and adds those that are new.
func (t *wordTable) find(words []uint64, ids []uint32) {
	if t.direct != nil {
		t.findDirect(words, ids)
		return
	}
	ids = ids[:len(words)]
	t.reserve(len(words))
	pending := t.pending[:0]
	slots, mask, keep, seed, keys := t.slots, t.mask, t.keep, t.seed, t.keys
	hashes := t.hashes[:len(words)]
	if len(slots) <= smallTable {
		for i, w := range words {
			h := hashWord(w, seed) & keep
			s := slots[h&mask]
			id := uint32(s) - 1
			ids[i] = id
			if uint32(s>>32) != h || uint(id) >= uint(len(keys)) || keys[id] != w {
				hashes[i] = h
				pending = append(pending, int32(i))
			}
		}
	} else {
		found := t.found[:len(words)]
		// The loads of a loop do not depend on each other, so that the processor waits for many at the same time.
		for i, w := range words {
			h := hashWord(w, seed) & keep
			hashes[i] = h
			found[i] = slots[h&mask]
		}
		for i, s := range found {
			id := uint32(s) - 1
			ids[i] = id
			if uint32(s>>32) != hashes[i] || uint(id) >= uint(len(keys)) || keys[id] != words[i] {
				pending = append(pending, int32(i))
			}
		}
	}
	for _, i := range pending {
		ids[i] = t.add(hashes[i], words[i])
	}
	t.pending = pending
}

// add returns the number of a word, which may be new.
func (t *wordTable) add(h uint32, w uint64) uint32 {
	at := h & t.mask
	for {
		s := t.slots[at]
		if s == 0 {
			t.keys = append(t.keys, w)
			t.used++
			t.slots[at] = uint64(h)<<32 | uint64(len(t.keys))
			return uint32(len(t.keys) - 1)
		}
		if uint32(s>>32) == h && t.keys[uint32(s)-1] == w {
			return uint32(s) - 1
		}
		at = (at + 1) & t.mask
	}
}

func (t *wordTable) findDirect(words []uint64, ids []uint32) {
	direct := t.direct
	ids = ids[:len(words)]
	for i, w := range words {
		id := direct[w]
		if id == 0 {
			t.keys = append(t.keys, w)
			id = uint32(len(t.keys))
			direct[w] = id
		}
		ids[i] = id - 1
	}
}

func (t *wordTable) bytes() int64 {
	return t.index.bytes() + int64(cap(t.keys))*8 + int64(len(t.direct))*4
}
