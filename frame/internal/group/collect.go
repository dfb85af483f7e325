package group

import (
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/frame/internal/vec"
)

// nullArray returns n nulls.
func nullArray(t arrow.DataType, n int) arrow.Array { return array.MakeArrayOfNull(heap, t, n) }

// collect has the values of groups in lists. It holds the columns of the batches.
type collect struct {
	typ    arrow.DataType // of values
	merged bool
	lists  listed
	kept   []arrow.Array
	ids    []uint32 // groups of all values
}

func (h *collect) types() []arrow.DataType { return []arrow.DataType{arrow.ListOf(h.typ)} }
func (h *collect) end() error              { return nil }

func (h *collect) bind(cols []arrow.Array, _ int64) error {
	a := cols[0]
	if h.merged {
		h.lists.read(a)
		o := h.lists.offsets
		h.kept = append(h.kept, array.NewSlice(h.lists.list.ListValues(), int64(o[0]), int64(o[a.Len()])))
		return nil
	}
	a.Retain()
	h.kept = append(h.kept, a)
	return nil
}

func (h *collect) add(from int, ids []uint32, _ int) error {
	if !h.merged {
		h.ids = append(h.ids, ids...)
		return nil
	}
	for i, g := range ids {
		for range h.lists.offsets[from+i+1] - h.lists.offsets[from+i] {
			h.ids = append(h.ids, g)
		}
	}
	return nil
}

func (h *collect) states(groups int) ([]arrow.Array, error) {
	defer func() {
		vec.Release(h.kept)
		h.kept = nil
	}()
	if len(h.ids) > math.MaxInt32 {
		return nil, errValues
	}
	rows, ends := order(h.ids, groups)
	whole := nullArray(h.typ, 0)
	if len(h.kept) > 0 {
		var err error
		if whole, err = vec.ConcatArrays(h.kept); err != nil {
			return nil, err
		}
	}
	defer whole.Release()
	elements, err := vec.TakeArray(whole, rows)
	if err != nil {
		return nil, err
	}
	defer elements.Release()
	return []arrow.Array{listArray(elements, ends)}, nil
}

// order returns the numbers of values by group, in their order, and the ends of the groups.
func order(ids []uint32, groups int) (rows []int32, ends []int32) {
	ends = make([]int32, groups)
	for _, g := range ids {
		ends[g]++
	}
	var sum int32
	for g, n := range ends {
		ends[g] = sum
		sum += n
	}
	rows = make([]int32, len(ids))
	for i, g := range ids {
		rows[ends[g]] = int32(i)
		ends[g]++
	}
	return rows, ends
}

// listArray returns lists with their ends. A group without rows, which is the only one, has null.
func listArray(elements arrow.Array, ends []int32) arrow.Array {
	offsets := append([]int32{0}, ends...)
	valid, nulls := validity(len(ends), func(g int) bool { return offsets[g] < offsets[g+1] })
	return vec.Make(arrow.ListOf(elements.DataType()), len(ends), nulls,
		[]*memory.Buffer{valid, vec.Buffer(offsets)}, elements)
}

func (h *collect) bytes() int64 {
	sum := int64(cap(h.ids)) * 4
	for _, a := range h.kept {
		sum += vec.ArrayBytes(a)
	}
	return sum
}
