package order

import (
	"math"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"pgregory.net/rapid"

	"go.millstream.dev/frame/internal/vec"
)

func TestSortAgainstStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		types := drawTypes(t, 0)
		in := drawTable(t, types, 60)
		keys := drawKeys(t, len(types))
		want := lines(in.whole, sortedRows(in.whole, keys))
		out, err := Sort(in.schema, in.batches, keys)
		if err != nil {
			t.Fatal(err)
		}
		compareLines(t, lines(out, allRows(out.NumRows())), want)
		out.Release()
		var got []string
		if err := SortTo(in.schema, in.batches, keys, 7, func(b arrow.RecordBatch) error {
			defer b.Release()
			if b.NumRows() > 7 {
				t.Errorf("batch of %d rows, want at most 7", b.NumRows())
			}
			got = append(got, lines(b, allRows(b.NumRows()))...)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		compareLines(t, got, want)
	})
}

func TestTopAgainstSort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		types := drawTypes(t, 0)
		in := drawTable(t, types, 40)
		keys := drawKeys(t, len(types))
		n := rapid.IntRange(0, 50).Draw(t, "n")
		top, err := NewTop(in.schema, keys, n)
		if err != nil {
			t.Fatal(err)
		}
		defer top.Release()
		for _, b := range in.batches {
			if err := top.Add(b); err != nil {
				t.Fatal(err)
			}
			if rapid.Bool().Draw(t, "cut") && len(top.held) > 0 {
				if err := top.cut(); err != nil {
					t.Fatal(err)
				}
			}
		}
		out, err := top.Finish()
		if err != nil {
			t.Fatal(err)
		}
		defer out.Release()
		rows := sortedRows(in.whole, keys)
		compareLines(t, lines(out, allRows(out.NumRows())), lines(in.whole, rows[:min(n, len(rows))]))
	})
}

func TestMergeAgainstSort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		types := drawTypes(t, 0)
		in := drawTable(t, types, 40)
		keys := drawKeys(t, len(types))
		// Every batch becomes a run of two batches and an empty one.
		var runs [][]arrow.RecordBatch
		for _, b := range in.batches {
			sorted, err := Sort(in.schema, []arrow.RecordBatch{b}, keys)
			if err != nil {
				t.Fatal(err)
			}
			half := sorted.NumRows() / 2
			runs = append(runs, []arrow.RecordBatch{sorted.NewSlice(0, half), sorted.NewSlice(0, 0),
				sorted.NewSlice(half, sorted.NumRows())})
		}
		most := rapid.SampledFrom([]int{0, 1, 9}).Draw(t, "max rows")
		var got []string
		if err := Merge(in.schema, runs, keys, most, func(b arrow.RecordBatch) error {
			defer b.Release()
			if b.NumRows() == 0 || most > 0 && int(b.NumRows()) > most {
				t.Errorf("batch of %d rows, want 1 to %d", b.NumRows(), most)
			}
			got = append(got, lines(b, allRows(b.NumRows()))...)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		compareLines(t, got, lines(in.whole, sortedRows(in.whole, keys)))
	})
}

// TestRangesAgainstSort requires that sorted ranges one after the other are the sorted table.
func TestRangesAgainstSort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		types := drawTypes(t, 1)
		in := drawTable(t, types, 40)
		keys := drawKeys(t, len(types))
		n := rapid.IntRange(1, 6).Draw(t, "n")
		size := rapid.SampledFrom([]int{0, 3, 100}).Draw(t, "sample")
		samples := []arrow.RecordBatch{keyColumns(in.whole.NewSlice(0, 0), keys)}
		for i, b := range in.batches {
			s, err := Sample(b, keys, size, uint64(i))
			if err != nil {
				t.Fatal(err)
			}
			if want := min(int64(size), b.NumRows()); s.NumRows() != want {
				t.Fatalf("sample of %d rows, want %d", s.NumRows(), want)
			}
			samples = append(samples, s)
		}
		bounds, err := Bounds(samples, keys, n)
		if err != nil {
			t.Fatal(err)
		}
		ranges := make([][]arrow.RecordBatch, n)
		for _, b := range in.batches {
			parts, err := RangePartition(b, keys, bounds, n)
			if err != nil {
				t.Fatal(err)
			}
			for i, p := range parts {
				ranges[i] = append(ranges[i], p)
			}
		}
		var got []string
		for i, r := range ranges {
			sorted, err := Sort(in.schema, r, keys)
			if err != nil {
				t.Fatal(err)
			}
			if i >= int(bounds.NumRows())+1 && sorted.NumRows() > 0 {
				t.Errorf("range %d has %d rows with %d bounds", i, sorted.NumRows(), bounds.NumRows())
			}
			got = append(got, lines(sorted, allRows(sorted.NumRows()))...)
		}
		compareLines(t, got, lines(in.whole, sortedRows(in.whole, keys)))
	})
}

// TestRadixAgainstStable compares the sort of words with that of the standard library.
func TestRadixAgainstStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shift := rapid.IntRange(0, 63).Draw(t, "shift")
		few := rapid.Uint64Range(0, 10)
		words := rapid.SliceOfN(rapid.OneOf(rapid.Uint64(), few, rapid.SampledFrom([]uint64{0, math.MaxUint64})), 0,
			500).Draw(t, "words")
		repeat := rapid.SampledFrom([]int{1, 20}).Draw(t, "repeat") // for the sizes of the larger digits
		var items []item
		for range repeat {
			for _, w := range words {
				items = append(items, item{w >> shift, int32(len(items))})
			}
		}
		packed, keyBits := make([]uint64, len(items)), 64-shift
		for i, x := range items {
			packed[i] = x.word<<14 | uint64(i)
		}
		if keyBits+14 <= 64 {
			packed = sortPacked(packed, make([]uint64, len(packed)), 14, keyBits)
		}
		sortItems(items, make([]item, len(items)))
		for i, x := range items {
			if i > 0 && (items[i-1].word > x.word || items[i-1].word == x.word && items[i-1].row > x.row) {
				t.Fatalf("item %d is %v after %v", i, x, items[i-1])
			}
			if keyBits+14 <= 64 && packed[i] != x.word<<14|uint64(x.row) {
				t.Fatalf("packed word %d is %x, want %x", i, packed[i], x.word<<14|uint64(x.row))
			}
		}
	})
}

// TestLongTexts sorts more texts with prefixes in common than are drawn above.
func TestLongTexts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawTable(t, []arrow.DataType{arrow.BinaryTypes.String}, 3)
		if len(in.batches) == 0 || in.whole.NumRows() == 0 {
			return
		}
		var many []arrow.RecordBatch
		for range 400 {
			many = append(many, in.batches...)
		}
		keys := drawKeys(t, 1)
		out, err := Sort(in.schema, many, keys)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := vec.Concat(in.schema, many)
		if err != nil {
			t.Fatal(err)
		}
		compareLines(t, lines(out, allRows(out.NumRows())), lines(whole, sortedRows(whole, keys)))
	})
}
