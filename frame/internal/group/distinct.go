package group

import (
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/frame/internal/vec"
)

// distinct has the distinct values of groups: pairs of a group and the code of a value.
type distinct struct {
	typ    arrow.DataType // of values, not a dictionary
	col    keyColumn      // dense
	pairs  *wordTable
	merged bool
	lists  listed
	valid  []byte
	off    int

	codes [block]uint32
	words [block]uint64
	found [block]uint32
}

func newDistinct(t arrow.DataType, merged bool) (*distinct, error) {
	c, err := newKeyColumn(t)
	if err != nil {
		return nil, err
	}
	c.intern()
	return &distinct{typ: keyType(t), col: c, pairs: newWordTable(), merged: merged}, nil
}

func (h *distinct) types() []arrow.DataType { return []arrow.DataType{arrow.ListOf(h.typ)} }
func (h *distinct) end() error              { return nil }

func (h *distinct) bind(cols []arrow.Array, _ int64) error {
	if h.merged {
		h.lists.read(cols[0])
		return h.col.bind(h.lists.list.ListValues())
	}
	h.valid, h.off = vec.Validity(cols[0])
	if d, ok := cols[0].(interface{ Dictionary() arrow.Array }); ok && d.Dictionary().NullN() > 0 {
		// Nulls may also be in the dictionary.
		h.valid, h.off = pack(cols[0].Len(), func(i int) bool { return validIn(cols[0], i) }), 0
	}
	return h.col.bind(cols[0])
}

func (h *distinct) add(from int, ids []uint32, _ int) error {
	if len(ids) == 0 {
		return nil
	}
	if h.merged {
		return h.merge(from, ids)
	}
	if !h.col.dense() {
		return nil // only nulls
	}
	codes := h.codes[:len(ids)]
	h.col.find(from, codes)
	n := 0
	for i, g := range ids {
		h.words[n] = uint64(g)<<32 | uint64(codes[i])
		if isSet(h.valid, h.off+from+i) {
			n++
		}
	}
	h.pairs.find(h.words[:n], h.found[:n])
	return nil
}

// merge adds the elements of the lists of rows.
func (h *distinct) merge(from int, ids []uint32) error {
	if !h.col.dense() {
		return nil
	}
	n, start := 0, int(h.lists.offsets[from])
	flush := func() {
		h.col.find(start, h.codes[:n])
		for i, c := range h.codes[:n] {
			h.words[i] |= uint64(c)
		}
		h.pairs.find(h.words[:n], h.found[:n])
		start, n = start+n, 0
	}
	for i, g := range ids {
		for range h.lists.offsets[from+i+1] - h.lists.offsets[from+i] {
			if n == block {
				flush()
			}
			h.words[n] = uint64(g) << 32
			n++
		}
	}
	flush()
	return nil
}

// counts returns the number of values of groups.
func (h *distinct) counts(groups int) []int64 {
	n := make([]int64, groups)
	for _, k := range h.pairs.keys {
		n[k>>32]++
	}
	return n
}

func (h *distinct) states(groups int) ([]arrow.Array, error) {
	if len(h.pairs.keys) > math.MaxInt32 {
		return nil, errValues
	}
	offsets := make([]int32, groups+1)
	for g, n := range h.counts(groups) {
		offsets[g+1] = offsets[g] + int32(n)
	}
	codes := make([]uint64, len(h.pairs.keys))
	next := append([]int32(nil), offsets...)
	for _, k := range h.pairs.keys {
		g := k >> 32
		codes[next[g]] = uint64(uint32(k))
		next[g]++
	}
	elements, err := h.col.decode(codes)
	if err != nil {
		return nil, err
	}
	defer elements.Release()
	return []arrow.Array{vec.Make(h.types()[0], groups, 0, []*memory.Buffer{nil, vec.Buffer(offsets)}, elements)}, nil
}

func (h *distinct) bytes() int64 { return h.col.bytes() + h.pairs.bytes() }
