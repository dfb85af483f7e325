package frame

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
	"go.millstream.dev/frame/internal/files"
	"go.millstream.dev/frame/internal/scan"
)

// CSVOptions specifies how CSV files are read. The zero value is useful.
type CSVOptions struct {
	// Schema is the schema of the columns (default: inferred from the beginning of the first file). With a header the
	// columns are found by name, and other columns are left out.
	Schema *arrow.Schema
	// NoHeader indicates that the first line has data; columns are then named f0, f1 and so on.
	NoHeader bool
	// Comma separates the columns (default ',').
	Comma rune
	// Null are the texts for nulls, in addition to the empty text (default NA, NaN, null, NULL, None). For text columns
	// only the empty text is null.
	Null []string
	// Sample is the number of bytes of the first file from which the schema is inferred (default 1 MiB).
	Sample int64
	// Block is the approximate size of partitions in bytes (default 64 MiB; negative: one partition for each file).
	// Lines and quoted texts with line breaks are not split: a block that begins within one starts after it. For this,
	// the quotes in files of more than one block are counted first.
	Block int64
}

var saveCSV = client.Func2("millstream.frame.write-csv", func(_ context.Context, b arrow.RecordBatch,
	path string) (files.Written, error) {
	return scan.WriteCSV(b, path)
})

// ReadCSV returns a frame of CSV files: one file, those of a folder (*.csv), or those that match a pattern. Workers
// read them, each its part. Inferred columns are bool, int64, float64, timestamps in UTC or text; Options.Schema also
// allows the other integer and floating-point types, bytes, date32 and other timestamps.
func ReadCSV(ctx context.Context, c *client.Client, path string, opts CSVOptions) (*Frame, error) {
	o, err := opts.scan()
	if err != nil {
		return nil, err
	}
	return readSource(ctx, c, path, o)
}

// scan returns the options of package scan.
func (opts CSVOptions) scan() (o scan.Options, err error) {
	o = scan.Options{Format: scan.CSV, Sample: opts.Sample, SplitBytes: opts.Block,
		Dialect: scan.Dialect{NoHeader: opts.NoHeader, Comma: opts.Comma, Null: opts.Null}}
	if opts.Schema != nil {
		o.Schema, err = encodeSchema(opts.Schema)
	}
	return o, err
}

// WriteCSV writes the frame as CSV files with a header, one for each partition, into a folder, which is created, and
// returns their paths. The files are one set, as those of WriteIPC.
func (f *Frame) WriteCSV(ctx context.Context, dir string, opts WriteOptions) ([]string, error) {
	return f.writeSet(ctx, dir, scan.CSV.Ext(), opts, func(p client.Arg[arrow.RecordBatch],
		path string) *client.Future[files.Written] {
		return saveCSV.Submit(ctx, f.c, p, client.Val(path), client.WithImpure())
	})
}

// ScanCSV returns a query of CSV files: one file, those of a folder, or those that match a pattern, as ReadCSV. Workers
// infer the schema now, and read the columns that the query needs when it runs.
func ScanCSV(ctx context.Context, c *client.Client, path string, opts CSVOptions) *Query {
	o, err := opts.scan()
	if err != nil {
		return &Query{c: c, err: err}
	}
	return newScan(ctx, c, "ScanCSV", path, o)
}
