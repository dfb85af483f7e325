package group

import (
	"errors"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/frame/internal/vec"
)

// errValues is returned if a list array cannot hold the values of all groups.
var errValues = errors.New("group: more than 2147483647 values of groups; use more partitions")

// chunkSize is the number of values of a chunk.
const chunkSize = 1 << 16

// grouped is a sequence of values and their groups, in chunks, so that it grows without a copy.
type grouped struct {
	chunks []chunk
	n      int
}

type chunk struct {
	values []uint64
	ids    []uint32
}

// last returns the chunk to which values are appended. The first ones are small.
func (q *grouped) last() *chunk {
	if n := len(q.chunks); n > 0 && len(q.chunks[n-1].values) < cap(q.chunks[n-1].values) {
		return &q.chunks[n-1]
	}
	size := min(chunkSize, max(block, q.n))
	q.chunks = append(q.chunks, chunk{make([]uint64, 0, size), make([]uint32, 0, size)})
	return &q.chunks[len(q.chunks)-1]
}

func (q *grouped) append(id uint32, v uint64) {
	c := q.last()
	c.values, c.ids = append(c.values, v), append(c.ids, id)
	q.n++
}

func (q *grouped) bytes() (sum int64) {
	for _, c := range q.chunks {
		sum += int64(cap(c.values)) * 12
	}
	return sum
}

// sorted returns the values by group, in their order, and the ends of the groups.
func (q *grouped) sorted(groups int) (values []uint64, ends []int) {
	ends = make([]int, groups)
	for _, c := range q.chunks {
		for _, g := range c.ids {
			ends[g]++
		}
	}
	sum := 0
	for g, n := range ends {
		ends[g] = sum // start, which moves to the end
		sum += n
	}
	values = make([]uint64, sum)
	for _, c := range q.chunks {
		for i, g := range c.ids {
			values[ends[g]] = c.values[i]
			ends[g]++
		}
	}
	return values, ends
}

// sortKey returns a word whose order is that of floats, NaN last.
func sortKey(f float64) uint64 {
	b := vec.FloatWord(f)
	return b ^ (uint64(int64(b)>>63) | 1<<63)
}

// fromKey returns the float of a sort key.
func fromKey(k uint64) float64 {
	if k>>63 != 0 {
		return math.Float64frombits(k ^ 1<<63)
	}
	return math.Float64frombits(^k)
}

// values has all values of groups, for exact quantiles.
type values struct {
	floats
	q grouped

	sortedValues []uint64 // by group, after the end
	ends         []int
}

var floatList = arrow.ListOf(arrow.PrimitiveTypes.Float64)

func (h *values) types() []arrow.DataType { return []arrow.DataType{floatList} }
func (h *values) end() error              { return nil }
func (h *values) bytes() int64            { return h.q.bytes() + int64(cap(h.own))*8 }

// listed has the lists of a column.
type listed struct {
	list    *array.List
	offsets []int32
}

func (l *listed) read(a arrow.Array) {
	l.list = a.(*array.List)
	l.offsets = vec.Offsets[int32](a)
}

func (h *values) bind(cols []arrow.Array, _ int64) error {
	h.read(cols[0])
	return nil
}

func (h *values) add(from int, ids []uint32, _ int) error {
	if len(ids) == 0 {
		return nil
	}
	v := h.v[from:][:len(ids)]
	for len(v) > 0 {
		c := h.q.last()
		n := min(len(v), cap(c.values)-len(c.values))
		at := len(c.values)
		if h.valid == nil {
			c.values, c.ids = c.values[:at+n], c.ids[:at+n]
			to := c.values[at:]
			for i, x := range v[:n] {
				to[i] = sortKey(x)
			}
			copy(c.ids[at:], ids[:n])
			h.q.n += n
		} else {
			for i, x := range v[:n] {
				if isSet(h.valid, h.off+from+i) {
					c.values, c.ids = append(c.values, sortKey(x)), append(c.ids, ids[i])
					h.q.n++
				}
			}
		}
		v, ids, from = v[n:], ids[n:], from+n
	}
	return nil
}

// sort orders the values by group, once.
func (h *values) sort(groups int) {
	if h.ends == nil {
		h.sortedValues, h.ends = h.q.sorted(groups)
		h.q = grouped{}
	}
}

func (h *values) states(groups int) ([]arrow.Array, error) {
	h.sort(groups)
	if len(h.sortedValues) > math.MaxInt32 {
		return nil, errValues
	}
	out := make([]float64, len(h.sortedValues))
	for i, k := range h.sortedValues {
		out[i] = fromKey(k)
	}
	return []arrow.Array{floatLists(out, h.ends)}, nil
}

// floatLists returns lists of numbers with their ends.
func floatLists(v []float64, ends []int) arrow.Array {
	offsets := make([]int32, len(ends)+1)
	for i, e := range ends {
		offsets[i+1] = int32(e)
	}
	elements := vec.Make(arrow.PrimitiveTypes.Float64, len(v), 0, []*memory.Buffer{nil, vec.Buffer(v)})
	defer elements.Release()
	return vec.Make(floatList, len(ends), 0, []*memory.Buffer{nil, vec.Buffer(offsets)}, elements)
}

// quantile returns an exact quantile of groups.
func (h *values) quantile(groups int, q float64) arrow.Array {
	h.sort(groups)
	out := make([]float64, groups)
	from := 0
	for g, to := range h.ends {
		if v := h.sortedValues[from:to]; len(v) > 0 {
			at := q * float64(len(v)-1)
			lo := int(at)
			pivot(v, lo)
			out[g] = fromKey(v[lo])
			if part := at - float64(lo); part > 0 {
				next := v[lo+1]
				for _, x := range v[lo+2:] {
					next = min(next, x)
				}
				if f := fromKey(next); f != out[g] {
					out[g] += (f - out[g]) * part
				}
			}
		}
		from = to
	}
	starts := append([]int{0}, h.ends...)
	return fixedArray(arrow.PrimitiveTypes.Float64, out, groups, func(g int) bool { return starts[g] < starts[g+1] })
}

// mergedValues is values of states.
type mergedValues struct {
	values
	lists listed
	v     []float64
}

func (h *mergedValues) bind(cols []arrow.Array, _ int64) error {
	h.lists.read(cols[0])
	h.v = vec.Values[float64](h.lists.list.ListValues())
	return nil
}

func (h *mergedValues) add(from int, ids []uint32, _ int) error {
	for i, g := range ids {
		row := from + i
		for _, x := range h.v[h.lists.offsets[row]:h.lists.offsets[row+1]] {
			h.q.append(g, sortKey(x))
		}
	}
	return nil
}
