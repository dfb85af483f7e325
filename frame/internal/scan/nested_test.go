package scan

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestReadNested: lists, structs and maps of pyarrow are read with the values that pyarrow wrote: nulls, empty lists,
// rows of several pages.
func TestReadNested(t *testing.T) {
	dir := t.TempDir()
	peer(t, "nested", dir)
	if n := compareAll(t, dir); n != 8 {
		t.Errorf("compared %d files, want 8", n)
	}
	// Columns that are not nested are read on their own, and batches may be of any size.
	path := filepath.Join(dir, "200-zstd-2.0-True.parquet")
	src, err := Open(t.Context(), path, Options{SplitBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	want := openAll(t, path)
	for _, rows := range []int{1, 7, 79, 1 << 20} {
		got, err := wholeOf(src.Splits[0], ReadOptions{Columns: []string{"after", "lsl", "flat"}, BatchRows: rows})
		if err != nil {
			t.Fatal(err)
		}
		for i, name := range []string{"after", "lsl", "flat"} {
			if g, w := got.Column(i).String(), want.Column(want.Schema().FieldIndices(name)[0]).String(); g != w {
				t.Errorf("batches of %d rows, column %s: got %.100s, want %.100s", rows, name, g, w)
			}
		}
	}
}

// TestReadBrotli: a codec that is not supported is an error of the columns that have it, with their names.
func TestReadBrotli(t *testing.T) {
	dir := t.TempDir()
	peer(t, "brotli", dir)
	path := filepath.Join(dir, "brotli.parquet")
	src, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if b, err := wholeOf(src.Splits[0], ReadOptions{Columns: []string{"good"}}); err != nil || b.NumRows() != 2 {
		t.Errorf("the other column: %v", err)
	}
	_, err = whole(src.Splits[0])
	for _, want := range []string{path, "partition 0", `column "bad"`, "codec brotli is not supported"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}
