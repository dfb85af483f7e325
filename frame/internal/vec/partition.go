package vec

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow"
)

// Bucket returns the bucket among n for a hash. It depends on the upper bits.
func Bucket(hash uint64, n int) int {
	hi, _ := bits.Mul64(hash, uint64(n))
	return int(hi)
}

// Partition divides the rows of a batch into n buckets by the hash of key columns, given by their numbers. Rows of a
// bucket keep their order. Buckets have memory of their own, as the results of Take, unless n is 1. The caller
// releases them.
func Partition(b arrow.RecordBatch, keys []int, n int) ([]arrow.RecordBatch, error) {
	if n < 1 {
		return nil, fmt.Errorf("vec: Partition into %d buckets; use at least one", n)
	}
	if b.NumRows() > math.MaxInt32 {
		return nil, fmt.Errorf("vec: Partition of %d rows; use batches of at most %d", b.NumRows(), math.MaxInt32)
	}
	columns := make([]arrow.Array, len(keys))
	for i, k := range keys {
		if k < 0 || k >= int(b.NumCols()) {
			return nil, fmt.Errorf("vec: Partition by column %d of %d", k, b.NumCols())
		}
		columns[i] = b.Column(k)
	}
	if n == 1 {
		b.Retain()
		return []arrow.RecordBatch{b}, nil
	}
	hashes := make([]uint64, b.NumRows())
	if err := Hash(columns, hashes); err != nil {
		return nil, err
	}
	return Split(b, hashes, n)
}

// Split is Partition by hashes that the caller computed.
func Split(b arrow.RecordBatch, hashes []uint64, n int) ([]arrow.RecordBatch, error) {
	if int64(len(hashes)) != b.NumRows() {
		return nil, fmt.Errorf("vec: %d hashes for %d rows", len(hashes), b.NumRows())
	}
	ends := make([]int, n+1)
	for _, h := range hashes {
		ends[Bucket(h, n)+1]++
	}
	for i := range n {
		ends[i+1] += ends[i]
	}
	// ends[i] is the start of bucket i, and moves to its end while the rows are placed.
	rows := make([]int32, len(hashes))
	for i, h := range hashes {
		p := Bucket(h, n)
		rows[ends[p]] = int32(i)
		ends[p]++
	}
	out := make([]arrow.RecordBatch, n)
	from := 0
	for i := range out {
		var err error
		if ends[i] == from {
			out[i] = Empty(b.Schema())
		} else if out[i], err = Take(b, rows[from:ends[i]]); err != nil {
			ReleaseBatches(out)
			return nil, err
		}
		from = ends[i]
	}
	return out, nil
}
