package frame

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/cluster"
	"go.millstream.dev/frame/internal/files"
	"go.millstream.dev/frame/internal/parquet"
	"go.millstream.dev/frame/internal/scan"
	"go.millstream.dev/internal/testkit/leak"
)

// A frame is read as it was written, with partitions by size; a query reads the columns and row groups that it needs.
func TestParquetFiles(t *testing.T) {
	leak.Check(t)
	ctx, c := connect(t, cluster.Goroutines)
	dir := t.TempDir()
	f := peopleFrame(t, ctx, c)
	for _, codec := range []string{"", "zstd", "gzip", "lz4", "none"} {
		paths := must[[]string](t)(f.WriteParquet(ctx, filepath.Join(dir, "p"+codec),
			ParquetWriteOptions{Compression: codec, RowGroup: 200}))
		if len(paths) != 4 || !strings.HasSuffix(paths[0], ".parquet") {
			t.Errorf("%s: got paths %v", codec, paths)
		}
		for _, split := range []int64{0, -1, 1} {
			back := must[*Frame](t)(ReadParquet(ctx, c, filepath.Join(dir, "p"+codec), ParquetOptions{Split: split}))
			same(t, ctx, codec, back, batchOf(0, 100))
			if n := back.NumPartitions(); (n > 3) != (split == 1) {
				t.Errorf("splits of %d: got %d partitions", split, n)
			}
		}
	}
	q := ScanParquet(ctx, c, filepath.Join(dir, "p"), ParquetOptions{}).Filter(Col("id").Ge(97)).Select(Col("id"))
	if n, err := q.NumRows(ctx); err != nil || n != 3 {
		t.Errorf("query: got %d rows, %v, want 3", n, err)
	}
	if _, err := q.WriteParquet(ctx, filepath.Join(dir, "q"), ParquetWriteOptions{}); err != nil {
		t.Error(err)
	}
	back := must[*Frame](t)(ReadParquet(ctx, c, filepath.Join(dir, "q"), ParquetOptions{}))
	if n, err := back.NumRows(ctx); err != nil || n != 3 || back.Schema().NumFields() != 1 {
		t.Errorf("result of the query: got %d rows of %v, %v", n, back, err)
	}
}

func TestParquetErrors(t *testing.T) {
	leak.Check(t)
	ctx, c := connect(t, cluster.Goroutines)
	dir := t.TempDir()
	good := filepath.Join(dir, "mixed", "0.parquet")
	other := filepath.Join(dir, "mixed", "1.parquet")
	if err := os.Mkdir(filepath.Dir(good), 0o700); err != nil {
		t.Fatal(err)
	}
	must[files.Written](t)(scan.WriteParquet(batchOf(0, 50), good, parquet.WriteOptions{Codec: parquet.Uncompressed}))
	must[files.Written](t)(scan.WriteParquet(dictionaries("a"), other, parquet.WriteOptions{}))
	b := must[[]byte](t)(os.ReadFile(good))
	damaged := append([]byte(nil), b...)
	for i := 4; i < 40; i++ { // the first page
		damaged[i] = 0xff
	}
	for _, tc := range []struct {
		path string
		kind error
		text []string
	}{
		{save(t, filepath.Join(dir, "cut.parquet"), b[:len(b)/2]), ErrCorrupt, []string{"cut.parquet", "truncated"}},
		{save(t, filepath.Join(dir, "damaged.parquet"), damaged), ErrCorrupt,
			[]string{"damaged.parquet", "partition 0", "row group 0", `column "id"`}},
		{filepath.Join(dir, "mixed"), ErrSchema, []string{"1.parquet", "0.parquet", "got 1 columns"}},
		{filepath.Join(dir, "none.parquet"), nil, []string{"none.parquet"}},
	} {
		f, err := ReadParquet(ctx, c, tc.path, ParquetOptions{})
		if err == nil {
			err = f.Persist(ctx)
		}
		if err == nil || tc.kind != nil && !errors.Is(err, tc.kind) {
			t.Errorf("%s: got %v, want %v", tc.path, err, tc.kind)
			continue
		}
		for _, text := range tc.text {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s: got %v, want %q", tc.path, err, text)
			}
		}
	}
	if _, err := peopleFrame(t, ctx, c).WriteParquet(ctx, dir, ParquetWriteOptions{Compression: "zip"}); err == nil ||
		!strings.Contains(err.Error(), `unknown Parquet codec "zip"`) {
		t.Errorf("unknown codec: got %v", err)
	}
	if _, err := ScanParquet(ctx, c, dir, ParquetOptions{}).Schema(); !errors.Is(err, ErrCorrupt) {
		t.Errorf("scan of damaged files: got %v", err)
	}
	nested := arrow.NewSchema([]arrow.Field{{Name: "l", Type: arrow.ListOf(arrow.PrimitiveTypes.Int8)}}, nil)
	f := must[*Frame](t)(FromBatches(ctx, c, []arrow.RecordBatch{emptyBatch(nested)}))
	if _, err := f.WriteParquet(ctx, filepath.Join(dir, "nested"), ParquetWriteOptions{}); err == nil ||
		!strings.Contains(err.Error(), "not supported in Parquet files") {
		t.Errorf("nested columns: got %v", err)
	}
}
