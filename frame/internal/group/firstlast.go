package group

import (
	"math"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/frame/internal/vec"
)

// firstLast has the value of the first or last row of groups, of any type. Values are rows of arrays, which are copies
// of the rows of batches.
type firstLast struct {
	typ    arrow.DataType
	last   bool
	merged bool // the input has positions

	a     arrow.Array
	pos   int64   // of the first row of the batch
	given []int64 // positions of rows

	at      []int64 // position by group, -1 if there is none
	where   []int64 // array and row by group
	row     []int32 // row of the batch by group, or -1
	touched []uint32
	kept    []arrow.Array
	rows    int // of the arrays
}

func (h *firstLast) types() []arrow.DataType {
	return []arrow.DataType{h.typ, arrow.PrimitiveTypes.Int64}
}

func (h *firstLast) bind(cols []arrow.Array, pos int64) error {
	h.a, h.pos = cols[0], pos
	if h.merged {
		h.given = append(h.given[:0], vec.Values[int64](cols[1])...)
		if valid, off := vec.Validity(cols[1]); valid != nil {
			for i := range h.given {
				if !isSet(valid, off+i) {
					h.given[i] = -1
				}
			}
		}
	}
	return nil
}

func (h *firstLast) add(from int, ids []uint32, groups int) error {
	if old := len(h.at); groups > old {
		h.at, h.where, h.row = grow(h.at, groups), grow(h.where, groups), grow(h.row, groups)
		for i := old; i < groups; i++ {
			h.at[i], h.row[i] = -1, -1
		}
	}
	for i, g := range ids {
		row := from + i
		pos := h.pos + int64(row)
		if h.merged {
			if pos = h.given[row]; pos < 0 {
				continue
			}
		}
		if at := h.at[g]; at >= 0 && pos > at != h.last {
			continue
		}
		h.at[g] = pos
		if h.row[g] < 0 {
			h.touched = append(h.touched, g)
		}
		h.row[g] = int32(row)
	}
	return nil
}

// end copies the values of the groups that changed.
func (h *firstLast) end() error {
	if len(h.touched) == 0 {
		return nil
	}
	rows := make([]int32, len(h.touched))
	for i, g := range h.touched {
		rows[i] = h.row[g]
		h.row[g] = -1
		h.where[g] = int64(len(h.kept))<<32 | int64(i)
	}
	a, err := vec.TakeArray(h.a, rows)
	if err != nil {
		return err
	}
	h.a = nil
	h.kept = append(h.kept, a)
	h.rows += len(rows)
	h.touched = h.touched[:0]
	if h.rows > 2*len(h.at)+1<<16 {
		return h.compact()
	}
	return nil
}

// compact keeps only the values of groups, in one array.
func (h *firstLast) compact() error {
	if len(h.kept) == 0 {
		return nil
	}
	starts := make([]int64, len(h.kept))
	var n int64
	for i, a := range h.kept {
		starts[i] = n
		n += int64(a.Len())
	}
	if n > math.MaxInt32 {
		return errValues
	}
	whole, err := vec.ConcatArrays(h.kept)
	if err != nil {
		return err
	}
	defer whole.Release()
	rows := make([]int32, len(h.at))
	for g := range rows {
		rows[g] = -1
		if h.at[g] >= 0 {
			rows[g] = int32(starts[h.where[g]>>32] + int64(uint32(h.where[g])))
		}
		h.where[g] = int64(g)
	}
	vec.Release(h.kept)
	h.kept, h.rows = nil, len(rows)
	a, err := vec.TakeArray(whole, rows)
	if err != nil {
		return err
	}
	h.kept = []arrow.Array{a}
	return nil
}

// values returns the values of groups.
func (h *firstLast) values(groups int) (arrow.Array, error) {
	if err := h.compact(); err != nil {
		return nil, err
	}
	if len(h.kept) == 0 {
		return nullArray(h.typ, groups), nil
	}
	h.kept[0].Retain()
	return h.kept[0], nil
}

func (h *firstLast) states(groups int) ([]arrow.Array, error) {
	v, err := h.values(groups)
	if err != nil {
		return nil, err
	}
	return []arrow.Array{v, fixedArray(arrow.PrimitiveTypes.Int64, h.at, groups,
		func(g int) bool { return h.at[g] >= 0 })}, nil
}

func (h *firstLast) bytes() int64 {
	sum := int64(cap(h.at))*8 + int64(cap(h.where))*8 + int64(cap(h.row))*4 + int64(cap(h.given))*8
	for _, a := range h.kept {
		sum += vec.ArrayBytes(a)
	}
	return sum
}
