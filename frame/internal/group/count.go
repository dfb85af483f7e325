package group

import (
	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/frame/internal/vec"
)

// counter returns the number of values of a group.
type counter interface{ count(g int) int64 }

// rowCount counts the rows of groups.
type rowCount struct {
	n      []int64
	single bool // one group
}

func (h *rowCount) types() []arrow.DataType         { return []arrow.DataType{arrow.PrimitiveTypes.Int64} }
func (h *rowCount) bind([]arrow.Array, int64) error { return nil }
func (h *rowCount) end() error                      { return nil }
func (h *rowCount) bytes() int64                    { return int64(cap(h.n)) * 8 }
func (h *rowCount) count(g int) int64               { return h.n[g] }

func (h *rowCount) add(_ int, ids []uint32, groups int) error {
	h.n = grow(h.n, groups)
	n := h.n
	if h.single {
		n[0] += int64(len(ids))
		return nil
	}
	for _, g := range ids {
		n[g]++
	}
	return nil
}

func (h *rowCount) states(groups int) ([]arrow.Array, error) {
	return []arrow.Array{fixedArray(arrow.PrimitiveTypes.Int64, h.n, groups, all)}, nil
}

// valueCount counts the values of a column: the rows without its nulls.
type valueCount struct {
	rows  *rowCount
	nulls []int64 // of groups, nil if there are none
	valid []byte
	off   int
}

func (h *valueCount) types() []arrow.DataType { return []arrow.DataType{arrow.PrimitiveTypes.Int64} }

func (h *valueCount) bind(cols []arrow.Array, _ int64) error {
	h.valid, h.off = vec.Validity(cols[0])
	if cols[0].DataType().ID() == arrow.NULL {
		h.valid, h.off = make([]byte, (cols[0].Len()+7)/8), 0
	}
	return nil
}

func (h *valueCount) add(from int, ids []uint32, groups int) error {
	if h.valid == nil {
		return nil
	}
	h.nulls = grow(h.nulls, groups)
	for i, g := range ids {
		if !isSet(h.valid, h.off+from+i) {
			h.nulls[g]++
		}
	}
	return nil
}

func (h *valueCount) count(g int) int64 {
	if g < len(h.nulls) {
		return h.rows.n[g] - h.nulls[g]
	}
	return h.rows.n[g]
}

func (h *valueCount) states(groups int) ([]arrow.Array, error) {
	n := make([]int64, groups)
	for g := range n {
		n[g] = h.count(g)
	}
	return []arrow.Array{fixedArray(arrow.PrimitiveTypes.Int64, n, groups, all)}, nil
}

func (h *valueCount) end() error   { return nil }
func (h *valueCount) bytes() int64 { return int64(cap(h.nulls)) * 8 }

// mergedCount adds up counts of states.
type mergedCount struct{ sumInt[int64, int64] }

func newMergedCount() *mergedCount {
	return &mergedCount{sumInt[int64, int64]{typ: arrow.PrimitiveTypes.Int64, name: "count"}}
}

func (h *mergedCount) count(g int) int64 { return h.s[g] }

func (h *mergedCount) states(groups int) ([]arrow.Array, error) {
	return []arrow.Array{fixedArray(arrow.PrimitiveTypes.Int64, h.s, groups, all)}, nil
}
