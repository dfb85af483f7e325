package join

import "math/bits"

// index finds the rows of the table with a key of one word.
type index interface {
	// lookup sets first to -1 for keys that are not in the table. For others it is the row of the key if the keys of
	// the table are unique, and otherwise, with count, the range of the list of rows.
	lookup(keys []uint64, first, count []int32)
	// list returns the rows by key, in ascending order for each, or nil if the keys are unique.
	list() []int32
	// bytes returns the size of the index in memory.
	bytes() int64
}

// rowSet is a set of rows to be left out of an index; nil has none.
type rowSet []uint64

func (s rowSet) has(row int) bool { return s[row>>6]>>(row&63)&1 != 0 }

func (s rowSet) add(row int) { s[row>>6] |= 1 << (row & 63) }

func newRowSet(rows int) rowSet { return make(rowSet, (rows+63)/64) }

// newIndex returns an index of the rows with these keys, of which most is the greatest.
func newIndex(keys []uint64, skip rowSet, most uint64) index {
	// A bitmap with ranks needs a quarter of a byte for each possible key, the hash table 24 bytes for each key.
	if rows := uint64(len(keys)); most>>6 <= rows+1024 {
		return newBitIndex(keys, skip, int(most)+1)
	}
	return newHashIndex(keys, skip)
}

// bitIndex is an index of keys from a small range: a bitmap of the range, whose ranks number the keys.
type bitIndex struct {
	blocks []bitBlock // one more than needed, without keys
	// rows has the row of each rank after an element -1, if keys are unique; nil if they are in ascending order, so
	// that rows are ranks. With duplicates it is the list of rows, and starts has the first position of each rank.
	rows   []int32
	starts []int32
	unique bool
}

// bitBlock has the bits of 64 keys.
type bitBlock struct {
	bits uint64
	rank uint64 // of the first bit
}

func newBitIndex(keys []uint64, skip rowSet, size int) *bitIndex {
	x := &bitIndex{blocks: make([]bitBlock, (size+63)/64+1), unique: true}
	ascending, added := skip == nil, 0
	var last uint64
	for i, k := range keys {
		if skip != nil && skip.has(i) {
			continue
		}
		b, bit := &x.blocks[k>>6], uint64(1)<<(k&63)
		if b.bits&bit != 0 {
			x.unique = false
		}
		b.bits |= bit
		ascending = ascending && (k > last || i == 0)
		last = k
		added++
	}
	ranks := uint64(0)
	for i := range x.blocks {
		x.blocks[i].rank = ranks
		ranks += uint64(bits.OnesCount64(x.blocks[i].bits))
	}
	switch {
	case !x.unique:
		x.listRows(keys, skip, int(ranks), added)
	case !ascending:
		x.rows = make([]int32, ranks+1)
		x.rows[0] = -1
		for i, k := range keys {
			if skip == nil || !skip.has(i) {
				x.rows[x.rank(k)+1] = int32(i)
			}
		}
	}
	return x
}

// rank returns the number of a key of the index.
func (x *bitIndex) rank(k uint64) uint64 {
	b := &x.blocks[k>>6]
	return b.rank + uint64(bits.OnesCount64(b.bits&(1<<(k&63)-1)))
}

// listRows lists the rows of keys that occur several times, by a counting sort.
func (x *bitIndex) listRows(keys []uint64, skip rowSet, ranks, added int) {
	x.starts = make([]int32, ranks+2)
	counts := x.starts[2:] // shifted, so that starts moves into place when rows are placed
	ranked := make([]int32, len(keys))
	for i, k := range keys {
		if skip != nil && skip.has(i) {
			ranked[i] = -1
			continue
		}
		r := x.rank(k)
		ranked[i] = int32(r)
		counts[r]++
	}
	for i := 1; i < len(counts); i++ {
		counts[i] += counts[i-1]
	}
	starts := x.starts[1:]
	x.rows = make([]int32, added)
	for i, r := range ranked {
		if r >= 0 {
			x.rows[starts[r]] = int32(i)
			starts[r]++
		}
	}
}

func (x *bitIndex) list() []int32 {
	if x.unique {
		return nil
	}
	return x.rows
}

func (x *bitIndex) bytes() int64 {
	return int64(len(x.blocks))*16 + 4*int64(len(x.rows)+len(x.starts))
}

func (x *bitIndex) lookup(keys []uint64, first, count []int32) {
	first, count = first[:len(keys)], count[:len(keys)]
	last := uint64(len(x.blocks) - 1)
	for i, k := range keys {
		b := &x.blocks[min(k>>6, last)]
		rank := b.rank + uint64(bits.OnesCount64(b.bits&(1<<(k&63)-1)))
		// 1 if the key is there, so that misses have the rank -1.
		hit := b.bits >> (k & 63) & 1
		first[i] = int32(rank&-hit) - int32(1-hit)
	}
	switch {
	case !x.unique:
		for i, r := range first {
			if r >= 0 {
				first[i], count[i] = x.starts[r], x.starts[r+1]-x.starts[r]
			}
		}
	case x.rows != nil:
		for i, r := range first {
			first[i] = x.rows[r+1]
		}
	}
}
