package join

import "math/bits"

// hashIndex is an index of any keys: a table with open addressing and linear probing, and a filter of the keys. Keys
// are numbered in the order of their first rows: a group is the rows of a key.
type hashIndex struct {
	slots  []uint64 // upper half: tag of the hash; lower half: number of the group plus one; 0: free
	filter []uint64 // two bits for each key, both in the same word
	keys   []uint64 // by group
	groups int
	// rows has the row of each group if keys are unique, nil if that is the number of the group. With duplicates it is
	// the list of rows, and starts has the first position of each group.
	rows   []int32
	starts []int32
	unique bool

	touched uint64 // keeps the reads of touch from being left out
}

// hashOf spreads keys. The upper bits of the result depend on all bits of the key.
func hashOf(key uint64) uint64 { return (key ^ key>>32) * 0x9e3779b97f4a7c15 }

// slotOf returns the place among n of a hash.
func slotOf(hash, n uint64) uint64 {
	hi, _ := bits.Mul64(hash, n)
	return hi
}

// filterBits returns the bits of a hash in its word of the filter.
func filterBits(hash uint64) uint64 { return 1<<(hash>>20&63) | 1<<(hash>>26&63) }

// newHashIndex returns an index of keys, which it keeps.
func newHashIndex(keys []uint64, skip rowSet) *hashIndex {
	x := &hashIndex{slots: make([]uint64, 16+2*expectedKeys(keys)), keys: keys}
	numbers := make([]int32, len(keys)) // of the groups of rows
	added := 0
	var places [chunkRows]uint64
	for lo := 0; lo < len(keys); lo += chunkRows {
		chunk := keys[lo:min(lo+chunkRows, len(keys))]
		if (x.groups+len(chunk))*3 > len(x.slots)*2 {
			x.grow()
		}
		x.touch(chunk, places[:])
		for i, k := range chunk {
			if skip != nil && skip.has(lo+i) {
				numbers[lo+i] = -1
				continue
			}
			numbers[lo+i] = x.add(k, places[i])
			added++
		}
	}
	x.keys = keys[:x.groups]
	if x.unique = x.groups == added; !x.unique || skip != nil {
		x.rows, x.starts = listGroups(numbers, x.groups, added)
	}
	x.setFilter()
	return x
}

// add returns the group of a key whose search starts at a place. The keys of groups replace the first of those to be
// added, which were.
func (x *hashIndex) add(k, place uint64) int32 {
	tag := hashOf(k) << 32
	for {
		s := x.slots[place]
		if s == 0 {
			x.keys[x.groups] = k
			x.groups++
			x.slots[place] = tag | uint64(x.groups)
			return int32(x.groups - 1)
		}
		if g := uint32(s) - 1; s>>32 == tag>>32 && x.keys[g] == k {
			return int32(g)
		}
		if place++; place == uint64(len(x.slots)) {
			place = 0
		}
	}
}

// expectedKeys estimates the number of distinct keys from a sample: all of them, or few.
func expectedKeys(keys []uint64) int {
	const sample = 4096
	if len(keys) <= 4*sample {
		return len(keys)
	}
	seen := make(map[uint64]struct{}, sample)
	step := len(keys) / sample
	for i := range sample {
		seen[keys[i*step]] = struct{}{}
	}
	if len(seen) > sample/2 {
		return len(keys)
	}
	return 4 * sample
}

// touch sets the places of keys, and reads them independently of each other, so that the processor waits for many of
// them at a time.
func (x *hashIndex) touch(keys, places []uint64) {
	n, sum := uint64(len(x.slots)), uint64(0)
	places = places[:len(keys)]
	for i, k := range keys {
		p := slotOf(hashOf(k), n)
		places[i] = p
		sum += x.slots[p]
	}
	x.touched += sum
}

// grow makes the table four times as large.
func (x *hashIndex) grow() {
	old := x.slots
	x.slots = make([]uint64, 4*len(old)+2*chunkRows)
	n := uint64(len(x.slots))
	for _, s := range old {
		if s == 0 {
			continue
		}
		// The tag is not the part of the hash that places have.
		p := slotOf(hashOf(x.keyOf(s)), n)
		for x.slots[p] != 0 {
			if p++; p == n {
				p = 0
			}
		}
		x.slots[p] = s
	}
}

// keyOf returns the key of a slot that is not free.
func (x *hashIndex) keyOf(slot uint64) uint64 { return x.keys[uint32(slot)-1] }

// setFilter makes the filter, if the table is not in a cache anyway.
func (x *hashIndex) setFilter() {
	if len(x.slots)*8 < 1<<20 {
		return
	}
	x.filter = make([]uint64, x.groups/8+1)
	n := uint64(len(x.filter))
	for _, k := range x.keys {
		h := hashOf(k)
		x.filter[slotOf(h, n)] |= filterBits(h)
	}
}

func (x *hashIndex) list() []int32 {
	if x.unique {
		return nil
	}
	return x.rows
}

func (x *hashIndex) bytes() int64 {
	return 8*int64(len(x.slots)+len(x.filter)+cap(x.keys)) + 4*int64(len(x.rows)+len(x.starts))
}

func (x *hashIndex) lookup(keys []uint64, first, count []int32, few bool) {
	var (
		number [chunkRows]uint16 // of keys to be looked up
		places [chunkRows]uint64
		found  [chunkRows]uint64
	)
	first, count = first[:len(keys)], count[:len(keys)]
	k := 0
	if few && x.filter != nil {
		n := uint64(len(x.filter))
		for i, key := range keys {
			h := hashOf(key)
			first[i] = -1
			number[k&(chunkRows-1)] = uint16(i)
			if want := filterBits(h); x.filter[slotOf(h, n)]&want == want {
				k++
			}
		}
	} else {
		for i := range keys {
			first[i] = -1
			number[i&(chunkRows-1)] = uint16(i)
		}
		k = len(keys)
	}
	// Reads of a loop do not depend on each other, nor on branches, so that the processor waits for many of them at a
	// time: first those of the table, then those of the keys, then those of the rows.
	n := uint64(len(x.slots))
	for j, i := range number[:k] {
		p := slotOf(hashOf(keys[i]), n)
		places[j], found[j] = p, x.slots[p]
	}
	hits := 0
	for j, i := range number[:k] {
		if s := x.probe(hashOf(keys[i]), places[j], found[j]); s != 0 {
			number[hits], places[hits], found[hits] = i, places[j], s
			hits++
		}
	}
	matched := 0
	for j, i := range number[:hits] {
		g := uint32(found[j]) - 1
		if x.keys[g] != keys[i] {
			// Another key with the same tag: rare.
			var ok bool
			if g, ok = x.search(keys[i]); !ok {
				continue
			}
		}
		first[i] = int32(g)
		number[matched] = i
		matched++
	}
	switch {
	case !x.unique:
		for _, i := range number[:matched] {
			g := first[i]
			first[i], count[i] = x.starts[g], x.starts[g+1]-x.starts[g]
		}
	case x.rows != nil:
		for _, i := range number[:matched] {
			first[i] = x.rows[first[i]]
		}
	}
}

// probe returns the first slot with the tag of a hash, from a place and what is in it, or 0.
func (x *hashIndex) probe(hash, place, slot uint64) uint64 {
	for slot != 0 && slot>>32 != hash&0xffffffff {
		if place++; place == uint64(len(x.slots)) {
			place = 0
		}
		slot = x.slots[place]
	}
	return slot
}

// search returns the group of a key.
func (x *hashIndex) search(key uint64) (group uint32, ok bool) {
	h, n := hashOf(key), uint64(len(x.slots))
	for p := slotOf(h, n); ; p = (p + 1) % n {
		s := x.slots[p]
		if s == 0 {
			return 0, false
		}
		if s>>32 == h&0xffffffff && x.keyOf(s) == key {
			return uint32(s) - 1, true
		}
	}
}
