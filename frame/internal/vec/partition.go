package vec

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
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
	hashes := raw[uint64](int(b.NumRows()))
	if err := Hash(columns, hashes); err != nil {
		return nil, err
	}
	return Split(b, hashes, n)
}

// Split is Partition by hashes that the caller computed.
func Split(b arrow.RecordBatch, hashes []uint64, n int) (_ []arrow.RecordBatch, err error) {
	defer recoverError(&err)
	if int64(len(hashes)) != b.NumRows() {
		return nil, fmt.Errorf("vec: %d hashes for %d rows", len(hashes), b.NumRows())
	}
	if n < 1 || n > MaxBuckets {
		return nil, fmt.Errorf("vec: %d buckets; use 1 to %d", n, MaxBuckets)
	}
	d := newScatter(hashes, n)
	columns := make([][]arrow.Array, n) // of the buckets
	defer func() {
		for _, c := range columns {
			Release(c)
		}
	}()
	for i := range columns {
		columns[i] = make([]arrow.Array, b.NumCols())
	}
	for j := range int(b.NumCols()) {
		parts, err := d.column(b.Column(j))
		if err != nil {
			return nil, fmt.Errorf("vec: divide rows of column %q: %w", b.ColumnName(j), err)
		}
		for i, p := range parts {
			columns[i][j] = p
		}
	}
	out := make([]arrow.RecordBatch, n)
	for i := range out {
		out[i] = array.NewRecordBatch(b.Schema(), columns[i], int64(d.counts[i]))
	}
	return out, nil
}
