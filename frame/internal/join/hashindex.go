package join

import "math/bits"

// hashIndex is an index of any keys: a table with open addressing and linear probing.
type hashIndex struct {
	entries []hashEntry
	rows    []int32 // of all keys, if they are not unique
	keys    int     // distinct keys
	touched int32   // keeps the reads of touch from being left out
}

// hashEntry is a place for a key.
type hashEntry struct {
	key   uint64
	first int32 // the row, or the first position in the list of rows
	count int32 // rows; 0: free
}

const fibonacci = 0x9e3779b97f4a7c15

// slot returns the place where the search for a key starts among n.
func slot(key, n uint64) uint64 {
	hi, _ := bits.Mul64((key^key>>32)*fibonacci, n)
	return hi
}

func newHashIndex(keys []uint64, skip rowSet) *hashIndex {
	x := &hashIndex{entries: make([]hashEntry, 16+expectedKeys(keys)*3/2)}
	var slots [chunkRows]uint64
	for lo := 0; lo < len(keys); lo += chunkRows {
		chunk := keys[lo:min(lo+chunkRows, len(keys))]
		if (x.keys+len(chunk))*4 > len(x.entries)*3 {
			x.grow()
		}
		x.touch(chunk, slots[:])
		for i, k := range chunk {
			if skip != nil && skip.has(lo+i) {
				continue
			}
			e := x.place(k, slots[i])
			if e.count == 0 {
				e.key, e.first = k, int32(lo+i)
				x.keys++
			}
			e.count++
		}
	}
	x.listRows(keys, skip)
	return x
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

// touch sets the slots of keys, and reads them independently of each other, so that the processor waits for many of
// them at a time.
func (x *hashIndex) touch(keys []uint64, slots []uint64) {
	n, sum := uint64(len(x.entries)), int32(0)
	slots = slots[:len(keys)]
	for i, k := range keys {
		s := slot(k, n)
		slots[i] = s
		sum += x.entries[s].count
	}
	x.touched += sum
}

// place returns the entry of a key, or the free one for it, from a slot on.
func (x *hashIndex) place(k, s uint64) *hashEntry {
	for {
		e := &x.entries[s]
		if e.count == 0 || e.key == k {
			return e
		}
		if s++; s == uint64(len(x.entries)) {
			s = 0
		}
	}
}

// grow makes the table four times as large.
func (x *hashIndex) grow() {
	old := x.entries
	x.entries = make([]hashEntry, 4*len(old)+2*chunkRows)
	n := uint64(len(x.entries))
	for _, e := range old {
		if e.count != 0 {
			*x.place(e.key, slot(e.key, n)) = e
		}
	}
}

// listRows lists the rows of each key, if some key has several.
func (x *hashIndex) listRows(keys []uint64, skip rowSet) {
	total := 0
	for i := range x.entries {
		total += int(x.entries[i].count)
	}
	if total == x.keys {
		return
	}
	start := int32(0)
	for i := range x.entries {
		e := &x.entries[i]
		e.first = start
		start += e.count
	}
	x.rows = make([]int32, total)
	var slots [chunkRows]uint64
	for lo := 0; lo < len(keys); lo += chunkRows {
		chunk := keys[lo:min(lo+chunkRows, len(keys))]
		x.touch(chunk, slots[:])
		for i, k := range chunk {
			if skip == nil || !skip.has(lo+i) {
				e := x.place(k, slots[i])
				x.rows[e.first] = int32(lo + i)
				e.first++
			}
		}
	}
	for i := range x.entries {
		x.entries[i].first -= x.entries[i].count
	}
}

func (x *hashIndex) list() []int32 { return x.rows }

func (x *hashIndex) bytes() int64 { return 16*int64(len(x.entries)) + 4*int64(len(x.rows)) }

func (x *hashIndex) lookup(keys []uint64, first, count []int32) {
	var found [chunkRows]hashEntry
	var slots [chunkRows]uint64
	n := uint64(len(x.entries))
	first, count = first[:len(keys)], count[:len(keys)]
	// Reads of the table do not depend on each other in this loop, nor on branches.
	for i, k := range keys {
		s := slot(k, n)
		slots[i&(chunkRows-1)] = s
		found[i&(chunkRows-1)] = x.entries[s]
	}
	for i, k := range keys {
		e := &found[i&(chunkRows-1)]
		if e.key != k && e.count != 0 {
			if s := slots[i&(chunkRows-1)] + 1; s < n {
				e = x.place(k, s)
			} else {
				e = x.place(k, 0)
			}
		}
		if e.count == 0 {
			first[i] = -1
		} else {
			first[i], count[i] = e.first, e.count
		}
	}
}
