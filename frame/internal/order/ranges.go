package order

import (
	"fmt"
	"math/rand/v2"
	"sort"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"go.millstream.dev/frame/internal/vec"
)

// Sample returns the key columns, in the order of the keys, of n rows of a batch, or of all if it has fewer: one of
// each of n equal ranges of rows, chosen by the seed. The caller releases them.
func Sample(b arrow.RecordBatch, keys []SortKey, n int, seed uint64) (_ arrow.RecordBatch, err error) {
	defer recoverError(&err)
	if err := checkKeys(b.Schema(), keys); err != nil {
		return nil, err
	}
	if err := checkRows(b.NumRows()); err != nil {
		return nil, err
	}
	total := b.NumRows()
	n = int(min(int64(max(n, 0)), total))
	rows := make([]int32, n)
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range rows {
		lo, hi := total*int64(i)/int64(n), total*int64(i+1)/int64(n)
		rows[i] = int32(lo + random.Int64N(hi-lo))
	}
	columns := keyColumns(b, keys)
	defer columns.Release()
	return vec.Take(columns, rows)
}

// keyColumns returns the key columns of a batch, in the order of the keys, which the caller releases.
func keyColumns(b arrow.RecordBatch, keys []SortKey) arrow.RecordBatch {
	fields, arrays := make([]arrow.Field, len(keys)), make([]arrow.Array, len(keys))
	for i, k := range keys {
		fields[i], arrays[i] = b.Schema().Field(k.Col), b.Column(k.Col)
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), arrays, b.NumRows())
}

// keysOfColumns returns the keys of a batch of keyColumns.
func keysOfColumns(keys []SortKey) []SortKey {
	out := make([]SortKey, len(keys))
	for i, k := range keys {
		out[i] = SortKey{i, k.Desc, k.NullsFirst}
	}
	return out
}

// Bounds returns the keys that divide rows into n ranges of about the same size, judged by samples from Sample, which
// are weighted by their numbers of rows. There are n-1, or none if the samples are empty. The caller releases them.
func Bounds(samples []arrow.RecordBatch, keys []SortKey, n int) (arrow.RecordBatch, error) {
	if n < 1 {
		return nil, fmt.Errorf("order: Bounds of %d ranges; use at least one", n)
	}
	if len(samples) == 0 {
		return nil, fmt.Errorf("order: Bounds without samples")
	}
	whole, err := Sort(samples[0].Schema(), samples, keysOfColumns(keys))
	if err != nil {
		return nil, err
	}
	defer whole.Release()
	total := whole.NumRows()
	if total == 0 {
		return whole.NewSlice(0, 0), nil
	}
	rows := make([]int32, n-1)
	for i := range rows {
		rows[i] = int32(total * int64(i+1) / int64(n))
	}
	return vec.Take(whole, rows)
}

// RangePartition divides the rows of a batch into n ranges by bounds from Bounds: range i has the rows that are not
// before bound i-1, but before bound i. Rows with equal keys are in one range, and rows of a range keep their order.
// The ranges have memory of their own; the caller releases them. Ranges without bounds are empty.
func RangePartition(b arrow.RecordBatch, keys []SortKey, bounds arrow.RecordBatch, n int) (_ []arrow.RecordBatch,
	err error) {
	defer recoverError(&err)
	if err := checkKeys(b.Schema(), keys); err != nil {
		return nil, err
	}
	if err := checkRows(b.NumRows()); err != nil {
		return nil, err
	}
	if int64(n) <= bounds.NumRows() {
		return nil, fmt.Errorf("order: %d ranges with %d bounds; use more ranges", n, bounds.NumRows())
	}
	own := keyColumns(b, keys)
	defer own.Release()
	if err := checkTypes(own.Schema(), bounds); err != nil {
		return nil, err
	}
	keys = keysOfColumns(keys)
	places := rangesOf(newKeyed(own, keys, true), newKeyed(bounds, keys, true))
	ends := make([]int, n+1)
	for _, p := range places {
		ends[p+1]++
	}
	for i := range n {
		ends[i+1] += ends[i]
	}
	rows := make([]int32, len(places))
	for i, p := range places {
		rows[ends[p]] = int32(i)
		ends[p]++
	}
	out := make([]arrow.RecordBatch, n)
	from := 0
	for i := range out {
		if ends[i] == from {
			out[i] = vec.Empty(b.Schema())
		} else if out[i], err = vec.Take(b, rows[from:ends[i]]); err != nil {
			vec.ReleaseBatches(out)
			return nil, fmt.Errorf("order: %w", err)
		}
		from = ends[i]
	}
	return out, nil
}

// rangesOf returns the number of the range of each row.
func rangesOf(rows, bounds *keyed) []int32 {
	out := make([]int32, len(rows.coarse))
	limits := bounds.coarse
	for i, w := range rows.coarse {
		// Bounds before lo are less than the row, those from hi are greater; between, the first key alone may not
		// decide.
		lo, n := 0, len(limits)
		for n > 0 {
			half := n / 2
			if limits[lo+half] < w {
				lo += half + 1
				n -= half + 1
			} else {
				n = half
			}
		}
		hi := lo
		for hi < len(limits) && limits[hi] == w {
			hi++
		}
		if hi > lo {
			lo += sort.Search(hi-lo, func(j int) bool { return rows.compare(i, bounds, lo+j) < 0 })
		}
		out[i] = int32(lo)
	}
	return out
}
