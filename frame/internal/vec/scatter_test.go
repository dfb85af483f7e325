package vec

import (
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
)

// TestPartitionLarge divides columns of all types with and without nulls, in memory that is not cleared.
func TestPartitionLarge(t *testing.T) {
	for _, nulls := range []float64{0, 0.1} {
		const rows, n = 1200, 7
		whole := randomBatch(every(), rows+10, nulls, 5)
		b := whole.NewSlice(3, rows+3)
		hashes := make([]uint64, rows)
		for i := range hashes {
			hashes[i] = HashWord(HashSeed, uint64(i))
		}
		buckets, err := Split(b, hashes, n)
		if err != nil {
			t.Fatal(err)
		}
		want := make([][]int32, n)
		for i, h := range hashes {
			want[Bucket(h, n)] = append(want[Bucket(h, n)], int32(i))
		}
		for i, got := range buckets {
			t.Run(fmt.Sprintf("bucket %d, nulls %v", i, nulls), func(t *testing.T) { equalRows(t, got, b, want[i]) })
		}
		again, err := Concat(b.Schema(), buckets)
		if err != nil {
			t.Fatal(err)
		}
		var all []int32
		for _, rows := range want {
			all = append(all, rows...)
		}
		equalRows(t, again, b, all)
		again.Release()
		ReleaseBatches(buckets)
		b.Release()
		whole.Release()
	}
}

// TestSplitRejects passes a wrong number of hashes or buckets.
func TestSplitRejects(t *testing.T) {
	b := randomBatch([]arrow.DataType{arrow.PrimitiveTypes.Int64}, 5, 0, 1)
	defer b.Release()
	for _, c := range []struct{ hashes, buckets int }{{4, 2}, {5, 0}, {5, 1<<16 + 1}} {
		if _, err := Split(b, make([]uint64, c.hashes), c.buckets); err == nil {
			t.Errorf("%+v: got no error, want one", c)
		}
	}
	buckets, err := Split(b, make([]uint64, 5), 1<<16)
	if err != nil || buckets[0].NumRows() != 5 || buckets[1<<16-1].NumRows() != 0 {
		t.Errorf("got %v, want all rows in the first bucket", err)
	}
	ReleaseBatches(buckets)
}

// TestRaw checks that memory has its length and alignment, and is not shared.
func TestRaw(t *testing.T) {
	for _, n := range []int{0, 1, 127, 128, 1000, 100_000} {
		a, b := raw[uint64](n), raw[uint64](n)
		if len(a) != n || len(b) != n {
			t.Fatalf("got %d and %d values, want %d", len(a), len(b), n)
		}
		for i := range a {
			a[i] = 1
		}
		for i := range b {
			b[i] = 2
		}
		for i := range a {
			if a[i] != 1 {
				t.Fatalf("value %d of %d: got %d, want 1", i, n, a[i])
			}
		}
	}
}
