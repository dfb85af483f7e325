package scan

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

func save(t testing.TB, path string, b []byte) string {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func release(batches []arrow.RecordBatch) {
	for _, b := range batches {
		b.Release()
	}
}

// joined returns the rows of all batches in one.
func joined(schema *arrow.Schema, batches []arrow.RecordBatch) (arrow.RecordBatch, error) {
	if len(batches) == 0 {
		b := array.NewRecordBuilder(heap, schema)
		defer b.Release()
		return b.NewRecordBatch(), nil
	}
	var rows int64
	columns := make([]arrow.Array, schema.NumFields())
	for i := range columns {
		chunks := make([]arrow.Array, len(batches))
		for j, b := range batches {
			chunks[j] = b.Column(i)
		}
		var err error
		if columns[i], err = array.Concatenate(chunks, heap); err != nil {
			return nil, err
		}
	}
	for _, b := range batches {
		rows += b.NumRows()
	}
	return array.NewRecordBatch(schema, columns, rows), nil
}

// whole returns all rows of a split.
func whole(s Split) (arrow.RecordBatch, error) { return wholeOf(s, ReadOptions{}) }

// wholeOf returns all rows that are read of a split.
func wholeOf(s Split, opts ReadOptions) (arrow.RecordBatch, error) {
	var batches []arrow.RecordBatch
	defer func() { release(batches) }()
	for b, err := range Read(context.Background(), s, opts) {
		if err != nil {
			return nil, err
		}
		batches = append(batches, b)
	}
	schema, err := DecodeSchema(s.Schema)
	if err != nil {
		return nil, err
	}
	p, err := projectionOf(schema, opts.Columns)
	if err != nil {
		return nil, err
	}
	return joined(p.out, batches)
}

// For any size of blocks a file has the same lines, or the same error.
func FuzzCSV(f *testing.F) {
	f.Add([]byte("n,text,at\n1,\"a\nb\",2024-01-02\n2,,NA\n"), int64(10))
	f.Add([]byte("a,b\n1,2\n\n3,4"), int64(3))
	f.Add([]byte("\n\n0\n1\n"), int64(1))
	f.Add([]byte("a,b\n\"1\n\"\"2\"\"\n\",2\n\"\n\n\",4\n"), int64(3))
	f.Fuzz(func(t *testing.T, b []byte, block int64) {
		if block < 1 || len(b) > 1<<12 || strings.ContainsAny(string(b), "\r") {
			return
		}
		path := save(t, filepath.Join(t.TempDir(), "x.csv"), b)
		opts := Options{Format: CSV, Dialect: Dialect{Null: []string{"NA"}}, SplitBytes: -1}
		src, err := Open(t.Context(), path, opts)
		if err != nil {
			return
		}
		want, err := whole(src.Splits[0])
		opts.SplitBytes = max(block, int64(len(b))/50)
		parts, openErr := Open(t.Context(), path, opts)
		if openErr != nil {
			t.Fatal(openErr)
		}
		var rows int64
		for i, s := range parts.Splits {
			part, partErr := whole(s)
			if partErr != nil {
				if err == nil {
					t.Fatalf("block %d: got %v, want the rows of the whole file", i, partErr)
				}
				return
			}
			rows += part.NumRows()
		}
		if err == nil && rows != want.NumRows() {
			t.Fatalf("got %d rows in blocks, want %d", rows, want.NumRows())
		}
	})
}

// Reading any file returns batches or an error.
func FuzzIPC(f *testing.F) {
	for i := range 4 {
		b := array.NewRecordBuilder(heap, arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int64},
			{Name: "s", Type: arrow.BinaryTypes.String, Nullable: true}}, nil))
		for row := range i {
			b.Field(0).(*array.Int64Builder).Append(int64(row))
			b.Field(1).AppendNull()
		}
		path := filepath.Join(f.TempDir(), "x.arrow")
		if _, err := WriteIPC(b.NewRecordBatch(), path); err != nil {
			f.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		path := save(t, filepath.Join(t.TempDir(), "x.arrow"), b)
		src, err := Open(t.Context(), path, Options{Format: IPC})
		if err != nil {
			return
		}
		for _, s := range src.Splits {
			batch, err := whole(s)
			if err != nil {
				continue
			}
			for c := range int(batch.NumCols()) {
				for row := range min(batch.Column(c).Len(), 100) {
					_ = batch.Column(c).ValueStr(row)
				}
			}
			batch.Release()
		}
	})
}
