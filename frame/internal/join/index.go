package join

import "math/bits"

// index finds the rows of the table with a key of one word.
type index interface {
	// lookup sets first to -1 for keys that are not in the table. For others it is the row of the key if the keys of
	// the table are unique, and otherwise, with count, the range of the list of rows. There are at most chunkRows
	// keys. If few of them are expected in the table, a filter is tried first.
	lookup(keys []uint64, first, count []int32, few bool)
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
	// A bitmap with ranks needs 12 bytes for 64 possible keys, the hash table about 30 bytes for each key.
	if rows := uint64(len(keys)); most>>6 <= rows+1024 {
		return newBitIndex(keys, skip, int(most)+1)
	}
	return newHashIndex(keys, skip)
}

// bitIndex is an index of keys from a small range: a bitmap of the range, whose ranks number the keys.
type bitIndex struct {
	bits  []uint64 // one word more than needed, without keys
	ranks []uint32 // of the first bit of each word
	// rows has the row of each rank after an element -1, if keys are unique; nil if they are in ascending order, so
	// that rows are ranks. With duplicates it is the list of rows, and starts has the first position of each rank.
	rows   []int32
	starts []int32
	unique bool
}

func newBitIndex(keys []uint64, skip rowSet, size int) *bitIndex {
	x := &bitIndex{bits: make([]uint64, (size+63)/64+1), unique: true}
	x.ranks = make([]uint32, len(x.bits))
	sorted, added := skip == nil && ascending(keys), 0
	for i, k := range keys {
		if skip != nil && skip.has(i) {
			continue
		}
		bit := uint64(1) << (k & 63)
		if x.bits[k>>6]&bit != 0 {
			x.unique = false
		}
		x.bits[k>>6] |= bit
		added++
	}
	ranks := uint32(0)
	for i, b := range x.bits {
		x.ranks[i] = ranks
		ranks += uint32(bits.OnesCount64(b))
	}
	switch {
	case !x.unique:
		x.listRows(keys, skip, int(ranks), added)
	case !sorted:
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

func ascending(keys []uint64) bool {
	for i := 1; i < len(keys); i++ {
		if keys[i] < keys[i-1] {
			return false
		}
	}
	return true
}

// rank returns the number of a key of the index.
func (x *bitIndex) rank(k uint64) uint32 {
	return x.ranks[k>>6] + uint32(bits.OnesCount64(x.bits[k>>6]&(1<<(k&63)-1)))
}

// listRows lists the rows of keys that occur several times, by a counting sort.
func (x *bitIndex) listRows(keys []uint64, skip rowSet, ranks, added int) {
	ranked := make([]int32, len(keys))
	for i, k := range keys {
		if ranked[i] = -1; skip == nil || !skip.has(i) {
			ranked[i] = int32(x.rank(k))
		}
	}
	x.rows, x.starts = listGroups(ranked, ranks, added)
}

// listGroups returns the rows by the numbers of their groups, in ascending order for each, and where each group begins.
// Rows with the number -1 are in no group; added are in some.
func listGroups(numbers []int32, groups, added int) (rows, starts []int32) {
	starts = make([]int32, groups+2)
	counts := starts[2:] // shifted, so that starts moves into place when rows are placed
	for _, g := range numbers {
		if g >= 0 {
			counts[g]++
		}
	}
	for i := 1; i < len(counts); i++ {
		counts[i] += counts[i-1]
	}
	next := starts[1:]
	rows = make([]int32, added)
	for i, g := range numbers {
		if g >= 0 {
			rows[next[g]] = int32(i)
			next[g]++
		}
	}
	return rows, starts
}

func (x *bitIndex) list() []int32 {
	if x.unique {
		return nil
	}
	return x.rows
}

func (x *bitIndex) bytes() int64 {
	return int64(len(x.bits))*12 + 4*int64(len(x.rows)+len(x.starts))
}

func (x *bitIndex) lookup(keys []uint64, first, count []int32, _ bool) {
	first, count = first[:len(keys)], count[:len(keys)]
	var found [chunkRows]uint16
	n := 0
	last := uint64(len(x.bits) - 1)
	for i, k := range keys {
		first[i] = -1
		found[n&(chunkRows-1)] = uint16(i)
		n += int(x.bits[min(k>>6, last)] >> (k & 63) & 1)
	}
	hits := found[:n]
	// Reads of a loop do not depend on each other, nor on branches, so that the processor waits for many of them at a
	// time.
	for _, i := range hits {
		first[i] = int32(x.rank(keys[i]))
	}
	switch {
	case !x.unique:
		for _, i := range hits {
			r := first[i]
			first[i], count[i] = x.starts[r], x.starts[r+1]-x.starts[r]
		}
	case x.rows != nil:
		for _, i := range hits {
			first[i] = x.rows[first[i]+1]
		}
	}
}
