package group

import (
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"go.millstream.dev/frame/internal/vec"
)

// digestSize is the compression of digests: a centroid in the middle has at most 4/digestSize of the values.
const digestSize = 200

// centroid is the mean of values that are next to each other in order, and their number.
type centroid struct{ mean, n float64 }

// digests summarize the values of groups, as in a t-digest: centroids are small near the ends and larger in the middle.
type digests struct {
	floats
	s     [][]centroid
	q     grouped // values that are not in digests yet
	limit int     // of values in q
}

func newDigests() *digests { return &digests{limit: 1 << 20} }

func (h *digests) types() []arrow.DataType { return []arrow.DataType{floatList, floatList} }
func (h *digests) end() error              { return nil }

func (h *digests) bind(cols []arrow.Array, _ int64) error {
	h.read(cols[0])
	return nil
}

func (h *digests) add(from int, ids []uint32, groups int) error {
	h.s = grow(h.s, groups)
	if len(ids) == 0 {
		return nil
	}
	v := h.v[from:][:len(ids)]
	for i, g := range ids {
		if isSet(h.valid, h.off+from+i) {
			h.q.append(g, sortKey(v[i]))
		}
	}
	if h.q.n >= h.limit {
		h.flush(groups)
	}
	return nil
}

// flush moves the values to digests.
func (h *digests) flush(groups int) {
	values, ends := h.q.sorted(groups)
	h.q = grouped{}
	var more []centroid
	from := 0
	for g, to := range ends {
		if v := values[from:to]; len(v) > 0 {
			slices.Sort(v)
			more = more[:0]
			for _, k := range v {
				more = append(more, centroid{fromKey(k), 1})
			}
			h.s[g] = compress(mergeCentroids(h.s[g], more))
		}
		from = to
	}
}

// mergeCentroids returns the centroids of two digests in order.
func mergeCentroids(a, b []centroid) []centroid {
	out := make([]centroid, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if sortKey(b[0].mean) < sortKey(a[0].mean) {
			out, b = append(out, b[0]), b[1:]
		} else {
			out, a = append(out, a[0]), a[1:]
		}
	}
	return append(append(out, a...), b...)
}

// compress joins neighbors in place as long as a centroid has at most 4·n·q·(1-q)/digestSize of the n values, q being
// the quantile of its middle. Infinities and NaN are not joined with numbers.
func compress(c []centroid) []centroid {
	if len(c) <= digestSize {
		return c
	}
	var n float64
	for _, x := range c {
		n += x.n
	}
	out := c[:1]
	before := 0.0 // values before the last centroid of out
	for _, x := range c[1:] {
		last := &out[len(out)-1]
		sum := last.n + x.n
		q := (before + sum/2) / n
		same := sortKey(last.mean) == sortKey(x.mean)
		if sum <= 4*n*q*(1-q)/digestSize && (same || finite(last.mean) && finite(x.mean)) {
			if !same {
				last.mean += (x.mean - last.mean) * (x.n / sum)
			}
			last.n = sum
			continue
		}
		before += last.n
		out = append(out, x)
	}
	return slices.Clip(out)
}

func finite(f float64) bool { return !math.IsInf(f, 0) && f == f }

// quantile returns a quantile of groups.
func (h *digests) quantile(groups int, q float64) arrow.Array {
	h.flush(groups)
	out := make([]float64, groups)
	for g, c := range h.s[:groups] {
		if len(c) > 0 {
			out[g] = centroidQuantile(c, q)
		}
	}
	return fixedArray(arrow.PrimitiveTypes.Float64, out, groups, func(g int) bool { return len(h.s[g]) > 0 })
}

// centroidQuantile interpolates between the middles of centroids. The ranks of values are 0 to n-1.
func centroidQuantile(c []centroid, q float64) float64 {
	var n float64
	for _, x := range c {
		n += x.n
	}
	rank := q * (n - 1)
	before, middle := 0.0, 0.0 // rank of the middle of the centroid before
	for i, x := range c {
		m := before + (x.n-1)/2
		if rank <= m {
			if i == 0 || rank == m || sortKey(c[i-1].mean) == sortKey(x.mean) {
				return x.mean
			}
			return c[i-1].mean + (x.mean-c[i-1].mean)*((rank-middle)/(m-middle))
		}
		before, middle = before+x.n, m
	}
	return c[len(c)-1].mean
}

func (h *digests) states(groups int) ([]arrow.Array, error) {
	h.flush(groups)
	var means, counts []float64
	ends := make([]int, groups)
	for g, c := range h.s[:groups] {
		for _, x := range c {
			means, counts = append(means, x.mean), append(counts, x.n)
		}
		ends[g] = len(means)
	}
	if len(means) > math.MaxInt32 {
		return nil, errValues
	}
	return []arrow.Array{floatLists(means, ends), floatLists(counts, ends)}, nil
}

func (h *digests) bytes() int64 {
	sum := h.q.bytes() + int64(cap(h.s))*24 + int64(cap(h.own))*8
	for _, c := range h.s {
		sum += int64(cap(c)) * 16
	}
	return sum
}

// mergedDigests is digests of states.
type mergedDigests struct {
	digests
	means, counts listed
	x, n          []float64
}

func (h *mergedDigests) bind(cols []arrow.Array, _ int64) error {
	h.means.read(cols[0])
	h.counts.read(cols[1])
	h.x = vec.Values[float64](cols[0].(*array.List).ListValues())
	h.n = vec.Values[float64](cols[1].(*array.List).ListValues())
	return nil
}

func (h *mergedDigests) add(from int, ids []uint32, groups int) error {
	h.s = grow(h.s, groups)
	for i, g := range ids {
		row := from + i
		x := h.x[h.means.offsets[row]:h.means.offsets[row+1]]
		n := h.n[h.counts.offsets[row]:h.counts.offsets[row+1]]
		if len(x) == 0 {
			continue
		}
		more := make([]centroid, len(x))
		for j := range more {
			more[j] = centroid{x[j], n[j]}
		}
		h.s[g] = compress(mergeCentroids(h.s[g], more))
	}
	return nil
}
