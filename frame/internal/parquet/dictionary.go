package parquet

import "encoding/binary"

// dictionary has the distinct values of a column chunk and the index of each value.
type dictionary struct {
	values dense
	index  []uint32
}

// buildDictionary returns the dictionary of values, nil if it does not pay: it is large, or most values are distinct.
func buildDictionary(d *dense) *dictionary {
	if d.n == 0 {
		return nil
	}
	out := &dictionary{index: make([]uint32, d.n), values: dense{width: d.width}}
	ok := false
	switch d.width {
	case 4:
		ok = out.words(d, func(i int) uint64 { return uint64(binary.LittleEndian.Uint32(d.fixed[i*4:])) })
	case 8:
		ok = out.words(d, func(i int) uint64 { return binary.LittleEndian.Uint64(d.fixed[i*8:]) })
	default:
		ok = out.texts(d)
	}
	if !ok {
		return nil
	}
	return out
}

// add adds a value.
func (x *dictionary) add(v []byte) {
	x.values.n++
	if x.values.width > 0 {
		x.values.fixed = append(x.values.fixed, v...)
		return
	}
	if x.values.ends == nil {
		x.values.ends = []int{0}
	}
	x.values.bytes = append(x.values.bytes, v...)
	x.values.ends = append(x.values.ends, len(x.values.bytes))
}

// pays reports whether the dictionary is worth its size after n values.
func (x *dictionary) pays(n int) bool {
	if x.values.size(0, x.values.n) > dictBytes {
		return false
	}
	return n < dictSample || x.values.n < n/2
}

// words fills the dictionary with values of 4 or 8 bytes, by an open-addressing table.
func (x *dictionary) words(d *dense, word func(i int) uint64) bool {
	const size = 2 * dictBytes / 4 // at most half full
	table := make([]uint32, min(size, nextPower(4*d.n)))
	keys := make([]uint64, 0, 1024)
	mask := uint64(len(table) - 1)
	for i := range d.n {
		v := word(i)
		at := hash(v) & mask
		for {
			k := table[at]
			if k == 0 {
				keys = append(keys, v)
				table[at] = uint32(len(keys))
				x.index[i] = uint32(len(keys) - 1)
				x.add(d.value(i))
				break
			}
			if keys[k-1] == v {
				x.index[i] = k - 1
				break
			}
			at = (at + 1) & mask
		}
		if i&1023 == 1023 && !x.pays(i) {
			return false
		}
	}
	return x.values.n < d.n && x.pays(d.n)
}

// texts fills the dictionary with values of any length.
func (x *dictionary) texts(d *dense) bool {
	seen := make(map[string]uint32)
	for i := range d.n {
		v := d.value(i)
		at, ok := seen[string(v)]
		if !ok {
			at = uint32(len(seen))
			seen[string(v)] = at
			x.add(v)
		}
		x.index[i] = at
		if i&1023 == 1023 && !x.pays(i) {
			return false
		}
	}
	return x.values.n < d.n && x.pays(d.n)
}

// nextPower returns the smallest power of two that is at least n.
func nextPower(n int) int {
	p := 16
	for p < n {
		p *= 2
	}
	return p
}
