package vec

import (
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"pgregory.net/rapid"
)

// TestPartition requires that every row is in the bucket of its hash, in order, and that none is lost.
func TestPartition(t *testing.T) {
	b := randomBatch(every(), 60, 0.2, 3)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 20).Draw(t, "buckets")
		keys := rapid.SliceOfN(rapid.IntRange(0, len(plainTypes)-1), 0, 3).Draw(t, "keys")
		from := rapid.Int64Range(0, 60).Draw(t, "from")
		part := b.NewSlice(from, rapid.Int64Range(from, 60).Draw(t, "to"))
		defer part.Release()
		buckets, err := Partition(part, keys, n)
		if err != nil {
			t.Fatal(err)
		}
		defer ReleaseBatches(buckets)
		if len(buckets) != n {
			t.Fatalf("got %d buckets, want %d", len(buckets), n)
		}
		var cols []arrow.Array
		for _, k := range keys {
			cols = append(cols, part.Column(k))
		}
		hashes := make([]uint64, part.NumRows())
		if err := Hash(cols, hashes); err != nil {
			t.Fatal(err)
		}
		next := make([]int, n)
		for i, h := range hashes {
			p := Bucket(h, n)
			for c := range int(part.NumCols()) {
				if next[p] >= int(buckets[p].NumRows()) {
					t.Fatalf("bucket %d has %d rows, want more", p, next[p])
				}
				if got, want := text(buckets[p].Column(c), next[p]), text(part.Column(c), i); got != want {
					t.Fatalf("row %d in bucket %d: column %d: got %s, want %s", i, p, c, got, want)
				}
			}
			next[p]++
		}
		for p, b := range buckets {
			if int(b.NumRows()) != next[p] {
				t.Fatalf("bucket %d has %d rows, want %d", p, b.NumRows(), next[p])
			}
		}
	})
}

func TestPartitionRejects(t *testing.T) {
	b := randomBatch(every(), 5, 0, 3)
	for _, c := range []struct {
		keys []int
		n    int
	}{{[]int{0}, 0}, {[]int{-1}, 2}, {[]int{len(every())}, 2}, {[]int{len(plainTypes)}, 2}} {
		if _, err := Partition(b, c.keys, c.n); err == nil {
			t.Errorf("keys %v, %d buckets: got no error", c.keys, c.n)
		}
	}
	if _, err := Split(b, make([]uint64, 4), 2); err == nil {
		t.Error("four hashes for five rows: got no error")
	}
}

// TestConcat divides a batch anywhere and joins it again.
func TestConcat(t *testing.T) {
	b := randomBatch(every(), 25, 0.3, 9)
	rapid.Check(t, func(t *rapid.T) {
		var parts []arrow.RecordBatch
		var rows []int32
		for range rapid.IntRange(0, 5).Draw(t, "parts") {
			from := rapid.Int64Range(0, 25).Draw(t, "from")
			to := rapid.Int64Range(from, 25).Draw(t, "to")
			parts = append(parts, b.NewSlice(from, to))
			for r := from; r < to; r++ {
				rows = append(rows, int32(r))
			}
		}
		got, err := Concat(b.Schema(), parts)
		if err != nil {
			t.Fatal(err)
		}
		if got.NumRows() != int64(len(rows)) {
			t.Fatalf("got %d rows, want %d", got.NumRows(), len(rows))
		}
		for c := range int(b.NumCols()) {
			for i, r := range rows {
				if g, w := text(got.Column(c), i), text(b.Column(c), int(r)); g != w {
					t.Fatalf("column of %v: row %d: got %s, want %s", b.Column(c).DataType(), i, g, w)
				}
			}
		}
	})
}

func TestConcatRejects(t *testing.T) {
	one, two := randomBatch(plainTypes[:2], 3, 0, 1), randomBatch(plainTypes[1:3], 3, 0, 1)
	three := randomBatch(plainTypes[:3], 3, 0, 1)
	for i, other := range []arrow.RecordBatch{two, three} {
		if _, err := Concat(one.Schema(), []arrow.RecordBatch{one, other}); err == nil {
			t.Errorf("case %d: got no error for other columns", i)
		}
	}
}

// TestBytes compares the size of slices with that of copies.
func TestBytes(t *testing.T) {
	for i, dt := range every() {
		b := randomBatch([]arrow.DataType{dt}, 400, 0.2, uint64(i))
		s := b.NewSlice(17, 217)
		copied, err := Take(s, sequence(200))
		if err != nil {
			t.Fatal(err)
		}
		size, own := Bytes(s), Bytes(copied)
		switch dt.ID() {
		case arrow.NULL:
			if size != 0 {
				t.Errorf("null: got %d bytes, want 0", size)
			}
		case arrow.RUN_END_ENCODED, arrow.LIST_VIEW:
		default:
			// Elements of null lists are not copied.
			if size < own || size > own*5/4+16 {
				t.Errorf("%v: slice has %d bytes, its copy %d", dt, size, own)
			}
		}
		if held := Held(b); held < Bytes(b) {
			t.Errorf("%v: holds %d bytes, less than its rows, %d", dt, held, Bytes(b))
		}
		if got := Bytes(b.NewSlice(0, 0)); got != 0 {
			t.Errorf("%v: no rows have %d bytes", dt, got)
		}
	}
}

func sequence(n int) []int32 {
	rows := make([]int32, n)
	for i := range rows {
		rows[i] = int32(i)
	}
	return rows
}

func TestDetach(t *testing.T) {
	b := randomBatch(plainTypes, 5000, 0.2, 1)
	whole, err := Detach(b)
	if err != nil {
		t.Fatal(err)
	}
	if whole.Column(3) != b.Column(3) {
		t.Error("whole batch was copied")
	}
	s := b.NewSlice(100, 120)
	small, err := Detach(s)
	if err != nil {
		t.Fatal(err)
	}
	equalRows(t, small, s, sequence(20))
	if held := Held(small); held > Held(b)/10 {
		t.Errorf("20 of 5000 rows hold %d bytes of %d", held, Held(b))
	}
}

func BenchmarkPartition(b *testing.B) {
	batch := randomBatch([]arrow.DataType{arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String,
		arrow.PrimitiveTypes.Float64}, 1<<16, 0, 1)
	for _, key := range []int{0, 1} {
		b.Run(fmt.Sprint(batch.Column(key).DataType()), func(b *testing.B) {
			for b.Loop() {
				out, err := Partition(batch, []int{key}, 16)
				if err != nil {
					b.Fatal(err)
				}
				ReleaseBatches(out)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(batch.NumRows()), "ns/row")
		})
	}
}

func BenchmarkHash(b *testing.B) {
	batch := randomBatch([]arrow.DataType{arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String,
		arrow.PrimitiveTypes.Float64}, 1<<16, 0, 1)
	out := make([]uint64, batch.NumRows())
	for c := range batch.Columns() {
		b.Run(fmt.Sprint(batch.Column(c).DataType()), func(b *testing.B) {
			for b.Loop() {
				if err := Hash(batch.Columns()[c:c+1], out); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(batch.NumRows()), "ns/row")
		})
	}
}
