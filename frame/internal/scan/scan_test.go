package scan

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"go.millstream.dev/frame/internal/fault"
	"go.millstream.dev/frame/internal/files"
	"go.millstream.dev/frame/internal/parquet"
	"go.millstream.dev/internal/testkit/leak"
)

// numbers returns a batch with the rows from and to: n, its text (null for every third) and its half.
func numbers(from, to int) arrow.RecordBatch {
	b := array.NewRecordBuilder(heap, arrow.NewSchema([]arrow.Field{
		{Name: "n", Type: arrow.PrimitiveTypes.Int64},
		{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "half", Type: arrow.PrimitiveTypes.Float64},
	}, nil))
	defer b.Release()
	for i := from; i < to; i++ {
		b.Field(0).(*array.Int64Builder).Append(int64(i))
		if i%3 == 0 {
			b.Field(1).AppendNull()
		} else {
			b.Field(1).(*array.StringBuilder).Append(fmt.Sprint("t", i))
		}
		b.Field(2).(*array.Float64Builder).Append(float64(i) / 2)
	}
	return b.NewRecordBatch()
}

// eachFormat calls a test with a folder of two files of 100 rows in every format.
func eachFormat(t *testing.T, test func(t *testing.T, dir string, opts Options)) {
	for format, write := range writers {
		t.Run(string(format), func(t *testing.T) {
			leak.Check(t)
			dir := t.TempDir()
			for i := range 2 {
				path := filepath.Join(dir, fmt.Sprint(i, format.Ext()))
				if _, err := write(numbers(100*i, 100*i+100), path); err != nil {
					t.Fatal(err)
				}
			}
			schema, err := EncodeSchema(numbers(0, 0).Schema())
			if err != nil {
				t.Fatal(err)
			}
			opts := Options{Format: format}
			if format == CSV {
				opts.Schema = schema
			}
			test(t, dir, opts)
		})
	}
}

// TestRead: all splits together have all rows, for any size of splits and batches and any columns.
func TestRead(t *testing.T) {
	eachFormat(t, func(t *testing.T, dir string, opts Options) {
		for _, size := range []int64{0, -1, 300, 1 << 20} {
			opts.SplitBytes = size
			src, err := Open(t.Context(), dir, opts)
			if err != nil {
				t.Fatal(err)
			}
			for _, columns := range [][]string{nil, {"half"}, {"half", "n"}, {}} {
				for _, rows := range []int{0, 1, 7, 1000} {
					n, sum := int64(0), 0.0
					for i, s := range src.Splits {
						if s.Partition != i {
							t.Errorf("split %d: got partition %d", i, s.Partition)
						}
						for b, err := range Read(t.Context(), s, ReadOptions{Columns: columns, BatchRows: rows}) {
							if err != nil {
								t.Fatal(err)
							}
							if rows > 0 && b.NumRows() > int64(rows) || b.NumRows() == 0 {
								t.Errorf("batch of %d rows, want 1 to %d", b.NumRows(), rows)
							}
							n += b.NumRows()
							if at := b.Schema().FieldIndices("half"); len(at) > 0 {
								for _, v := range b.Column(at[0]).(*array.Float64).Float64Values() {
									sum += v
								}
							}
							b.Release()
						}
					}
					want := 9950.0
					if columns != nil && len(columns) == 0 {
						want = 0
					}
					if n != 200 || sum != want {
						t.Errorf("splits of %d, columns %v, batches of %d: got %d rows, sum %v, want 200, %v", size,
							columns, rows, n, sum, want)
					}
				}
			}
		}
	})
}

// TestReadEnds: a read ends when the consumer wants no more, when the context ends, and with an error for unknown
// columns; a panic of the consumer is not caught.
func TestReadEnds(t *testing.T) {
	eachFormat(t, func(t *testing.T, dir string, opts Options) {
		src, err := Open(t.Context(), dir, opts)
		if err != nil {
			t.Fatal(err)
		}
		s := src.Splits[0]
		n := 0
		for b, err := range Read(t.Context(), s, ReadOptions{BatchRows: 10}) {
			if err != nil {
				t.Fatal(err)
			}
			b.Release()
			if n++; n == 3 {
				break
			}
		}
		if n != 3 {
			t.Errorf("got %d batches, want 3", n)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		n = 0
		var last error
		for b, err := range Read(ctx, s, ReadOptions{BatchRows: 10}) {
			if last = err; err == nil {
				b.Release()
				cancel()
			}
			n++
		}
		if n != 2 || !errors.Is(last, context.Canceled) {
			t.Errorf("canceled: got %d batches and %v, want the error after the first", n, last)
		}
		if _, err := wholeOf(s, ReadOptions{Columns: []string{"none"}}); !errors.Is(err, fault.ErrSchema) ||
			!strings.Contains(err.Error(), s.Path) {
			t.Errorf("unknown column: got %v, want ErrSchema with the file", err)
		}
		func() {
			defer func() {
				if p := recover(); p != "mine" {
					t.Errorf("panic of the consumer: got %v", p)
				}
			}()
			for range Read(t.Context(), s, ReadOptions{}) {
				panic("mine")
			}
		}()
	})
}

// TestDrift: files of one source must have equal schemas; the error has the column, the file and both types.
func TestDrift(t *testing.T) {
	b := array.NewRecordBuilder(heap, arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.BinaryTypes.String},
		{Name: "text", Type: arrow.BinaryTypes.String}, {Name: "half", Type: arrow.PrimitiveTypes.Float64}}, nil))
	other := b.NewRecordBatch()
	eachFormat(t, func(t *testing.T, dir string, opts Options) {
		if opts.Format == CSV || opts.Format == "ndjson" {
			return // text has the types of the first file
		}
		path := filepath.Join(dir, "2"+opts.Format.Ext())
		if _, err := writers[opts.Format](other, path); err != nil {
			t.Fatal(err)
		}
		_, err := Open(t.Context(), dir, opts)
		for _, text := range []string{path, `column "n"`, "utf8", "int64", filepath.Join(dir, "0"+opts.Format.Ext())} {
			if !errors.Is(err, fault.ErrSchema) || !strings.Contains(err.Error(), text) {
				t.Errorf("got %v, want ErrSchema with %q", err, text)
			}
		}
	})
}

// TestChanged: a file that changes after it was opened is an error with the file and the partition.
func TestChanged(t *testing.T) {
	eachFormat(t, func(t *testing.T, dir string, opts Options) {
		src, err := Open(t.Context(), dir, opts)
		if err != nil {
			t.Fatal(err)
		}
		s := src.Splits[len(src.Splits)-1]
		if err := os.Truncate(s.Path, s.Stamp.Size-1); err != nil {
			t.Fatal(err)
		}
		if _, err := whole(s); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "changed") ||
			!strings.Contains(err.Error(), fmt.Sprint("partition ", s.Partition)) {
			t.Errorf("got %v, want ErrCorrupt of partition %d", err, s.Partition)
		}
	})
}

// TestFormatOf: formats are found by extension; a path without a known one needs Options.Format.
func TestFormatOf(t *testing.T) {
	dir := t.TempDir()
	if _, err := WriteCSV(numbers(0, 3), filepath.Join(dir, "a.csv")); err != nil {
		t.Fatal(err)
	}
	if src, err := Open(t.Context(), filepath.Join(dir, "a.csv"), Options{}); err != nil || src.Format != CSV {
		t.Errorf("got %v, %v", src, err)
	}
	path := save(t, filepath.Join(dir, "a.txt"), nil)
	if _, err := Open(t.Context(), path, Options{}); err == nil || !strings.Contains(err.Error(), "specify it") {
		t.Errorf("unknown format: got %v", err)
	}
	for path, want := range map[string]Format{"x.csv": CSV, "x.feather": IPC, "x.arrow": IPC, "x": "", "x.txt": ""} {
		if got := FormatOf(path); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}

// TestCSVSample: the sample for the inference of types may end within quotes.
func TestCSVSample(t *testing.T) {
	path := save(t, filepath.Join(t.TempDir(), "x.csv"),
		[]byte("n,text\n1,\"two\nlines\"\n2,plain\n3,\"a \"\"long\"\"\n\none\"\n4,\n"))
	for sample := int64(8); sample < 60; sample++ {
		src, err := Open(t.Context(), path, Options{Format: CSV, Sample: sample})
		if err != nil {
			t.Fatalf("sample of %d bytes: got %v", sample, err)
		}
		if got := src.Schema.Field(0).Type.String() + " " + src.Schema.Field(1).Type.String(); got != "int64 utf8" {
			t.Errorf("sample of %d bytes: got %s", sample, got)
		}
	}
}

// writers are the formats.
var writers = map[Format]func(arrow.RecordBatch, string) (files.Written, error){CSV: WriteCSV, IPC: WriteIPC,
	Parquet: func(b arrow.RecordBatch, path string) (files.Written, error) {
		return WriteParquet(b, path, parquet.WriteOptions{GroupRows: 30})
	}}
