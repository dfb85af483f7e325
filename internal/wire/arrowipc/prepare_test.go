package arrowipc

import (
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/internal/wire/libcodec"
)

// nested returns a batch of columns that consist of other arrays, all with nulls.
func nested(t *testing.T) arrow.RecordBatch {
	t.Helper()
	number := arrow.PrimitiveTypes.Int64
	words := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
	s := arrow.NewSchema([]arrow.Field{
		{Name: "i", Type: number, Nullable: true},
		{Name: "l", Type: arrow.ListOf(number), Nullable: true},
		{Name: "f", Type: arrow.FixedSizeListOf(2, number), Nullable: true},
		{Name: "r", Type: arrow.StructOf(arrow.Field{Name: "x", Type: number, Nullable: true},
			arrow.Field{Name: "l", Type: arrow.ListOf(number), Nullable: true}), Nullable: true},
		{Name: "d", Type: words, Nullable: true},
	}, nil)
	const text = `[
		{"i": 1, "l": [1, null], "f": [null, 2], "r": {"x": 1, "l": [null]}, "d": "a"},
		{"i": null, "l": null, "f": null, "r": {"x": null, "l": null}, "d": null},
		{"i": 3, "l": [null], "f": [3, 4], "r": null, "d": "b"},
		{"i": null, "l": [4], "f": [null, null], "r": {"x": 4, "l": [4, null]}, "d": "a"}]`
	b, _, err := array.RecordFromJSON(memory.DefaultAllocator, s, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// nullsIn returns the number of nulls of arrays and of those that they consist of. It uses all that the Arrow library
// computes at the first use of an array.
func nullsIn(arrays ...arrow.Array) int {
	n := 0
	for _, a := range arrays {
		n += a.NullN()
		switch a := a.(type) {
		case *array.Dictionary:
			n += nullsIn(a.Indices(), a.Dictionary())
		case array.ListLike:
			n += nullsIn(a.ListValues())
		case *array.Struct:
			for i := range a.NumField() {
				n += nullsIn(a.Field(i))
			}
		}
	}
	return n
}

// sliced returns columns of slices: those of a batch, those of joined slices, and those of a table.
func sliced(t *testing.T, prepare func(v any)) []arrow.Array {
	t.Helper()
	whole := nested(t)
	slice := whole.NewSlice(1, 4)
	var joined []arrow.Array
	for i := range int(whole.NumCols()) {
		two := []arrow.Array{array.NewSlice(whole.Column(i), 1, 4), array.NewSlice(whole.Column(i), 0, 3)}
		a, err := array.Concatenate(two, memory.DefaultAllocator)
		if err != nil {
			t.Fatal(err)
		}
		joined = append(joined, a)
	}
	table := array.NewTableFromRecords(whole.Schema(), []arrow.RecordBatch{whole.NewSlice(1, 3)})
	prepare(slice)
	prepare(array.NewRecordBatch(whole.Schema(), joined, 6))
	prepare(table)
	out := append(slice.Columns(), joined...)
	for i := range int(table.NumCols()) {
		out = append(out, table.Column(i).Data().Chunks()...)
	}
	return out
}

// Goroutines may share slices of batches after Prepare: without it the race detector reports the numbers of nulls and
// the dictionaries that they compute.
func TestPrepare(t *testing.T) {
	want := nullsIn(sliced(t, func(any) {})...)
	shared := sliced(t, libcodec.Prepare)
	got := make([]int, 4)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() { got[i] = nullsIn(shared...) })
	}
	wg.Wait()
	for _, n := range got {
		if n != want || want < 30 {
			t.Errorf("got %d nulls, want %d", n, want)
		}
	}
}

// Decoded values may be shared as well.
func TestPrepareDecoded(t *testing.T) {
	whole := nested(t)
	frames, err := encode(whole)
	if err != nil {
		t.Fatal(err)
	}
	v, err := decode(classRecordBatch, frames)
	if err != nil {
		t.Fatal(err)
	}
	shared, want := v.(arrow.RecordBatch).Columns(), nullsIn(whole.Columns()...)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if got := nullsIn(shared...); got != want {
				t.Errorf("got %d nulls, want %d", got, want)
			}
		})
	}
	wg.Wait()
}

// A value that the library rejects is left to its readers.
func TestPrepareInvalid(t *testing.T) {
	buffers := []*memory.Buffer{memory.NewBufferBytes([]byte{1}), memory.NewBufferBytes(make([]byte, 100))}
	d := array.NewData(arrow.PrimitiveTypes.Int8, 100, buffers, nil, array.UnknownNullCount, 0)
	a := array.MakeFromData(d)
	s := arrow.NewSchema([]arrow.Field{{Name: "x", Type: a.DataType(), Nullable: true}}, nil)
	Prepare(array.NewRecordBatch(s, []arrow.Array{a}, 100))
	libcodec.Prepare(3)
	libcodec.Prepare(nil)
}
