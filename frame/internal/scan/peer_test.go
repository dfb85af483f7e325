package scan

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"go.millstream.dev/frame/internal/parquet"
)

// peer runs pyarrow.
func peer(t *testing.T, args ...string) {
	t.Helper()
	python := os.Getenv("MILLSTREAM_PYTHON")
	if python == "" {
		t.Fatal("MILLSTREAM_PYTHON is not set: run the test with scripts/in-env")
	}
	cmd := exec.CommandContext(t.Context(), python, append([]string{"testdata/peer.py"}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
}

// openAll returns all rows of a file.
func openAll(t *testing.T, path string) arrow.RecordBatch {
	t.Helper()
	src, err := Open(t.Context(), path, Options{SplitBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	b, err := whole(src.Splits[0])
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// compareAll compares every Parquet file of a folder with the Arrow file of the same name.
func compareAll(t *testing.T, dir string) int {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		got, want := openAll(t, path), openAll(t, strings.TrimSuffix(path, ".parquet")+".arrow")
		if got.NumCols() != want.NumCols() {
			t.Errorf("%s: got %d columns, want %d", path, got.NumCols(), want.NumCols())
			continue
		}
		for i := range int(got.NumCols()) {
			if !equal(t, got.Column(i), want.Column(i)) {
				t.Errorf("%s, column %s: got %v, want %v", path, got.ColumnName(i), got.Column(i).DataType(),
					want.Column(i).DataType())
			}
		}
	}
	return len(paths)
}

// equal reports whether arrays have equal types and values. Values of fields of null structs do not matter.
func equal(t *testing.T, a, b arrow.Array) bool {
	t.Helper()
	if _, nested := a.DataType().(arrow.NestedType); !nested {
		return array.Equal(a, b)
	}
	x, err := a.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	y, err := b.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return arrow.TypeEqual(a.DataType(), b.DataType()) && bytes.Equal(x, y)
}

// TestReadPeer: files of pyarrow are read with the types and values that pyarrow wrote: types, nulls, codecs, versions
// of pages, encodings.
func TestReadPeer(t *testing.T) {
	dir := t.TempDir()
	peer(t, "write", dir)
	if n := compareAll(t, dir); n != 132 {
		t.Errorf("compared %d files, want 132", n)
	}
}

// TestWritePeer: pyarrow reads the files that are written here.
func TestWritePeer(t *testing.T) {
	in, dir := t.TempDir(), t.TempDir()
	peer(t, "write", in)
	n := 0
	for _, name := range []string{"0-1", "0-1000", "0.3-1000", "1-1"} {
		b := openAll(t, filepath.Join(in, name+"-zstd-1.0-True.parquet"))
		for _, codec := range []parquet.Codec{parquet.Snappy, parquet.Zstd, parquet.Gzip, parquet.LZ4,
			parquet.Uncompressed} {
			path := filepath.Join(dir, name+"-"+string(codec)+".parquet")
			if _, err := WriteParquet(b, path, parquet.WriteOptions{Codec: codec, GroupRows: 300}); err != nil {
				t.Fatal(err)
			}
			n++
		}
	}
	peer(t, "read", dir)
	if got := compareAll(t, dir); got != n {
		t.Errorf("compared %d files, want %d", got, n)
	}
}
