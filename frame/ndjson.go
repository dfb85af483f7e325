package frame

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
	"go.millstream.dev/frame/internal/files"
	"go.millstream.dev/frame/internal/scan"
)

// NDJSONOptions specifies how NDJSON files are read. The zero value is useful.
type NDJSONOptions struct {
	// Schema is the schema of the columns (default: inferred from the beginnings of all files). Other fields are left
	// out; without a schema, fields that the beginnings do not have are errors.
	Schema *arrow.Schema
	// Sample is the number of bytes of each file from which the schema is inferred (default 1 MiB).
	Sample int64
	// Block is the approximate size of partitions in bytes (default 64 MiB; negative: one partition for each file).
	// Lines are not split.
	Block int64
}

// scan returns the options of package scan.
func (opts NDJSONOptions) scan() (o scan.Options, err error) {
	o = scan.Options{Format: scan.NDJSON, Sample: opts.Sample, SplitBytes: opts.Block}
	if opts.Schema != nil {
		o.Schema, err = encodeSchema(opts.Schema)
	}
	return o, err
}

var saveNDJSON = client.Func2("millstream.frame.write-ndjson", func(_ context.Context, b arrow.RecordBatch,
	path string) (files.Written, error) {
	return scan.WriteNDJSON(b, path)
})

// ReadNDJSON returns a frame of files with a JSON object in each line: one file, those of a folder (*.ndjson, *.jsonl),
// or those that match a pattern. Workers read them, each its part. Inferred columns are bool, int64, float64 (also for
// larger integers), timestamps in UTC, or text; arrays, objects and values of different kinds are text, as they are
// written. Fields that a line does not have are null. Schema also allows the other integer and floating-point types,
// decimals of 128 bits, bytes in base64, date32 and other timestamps.
func ReadNDJSON(ctx context.Context, c *client.Client, path string, opts NDJSONOptions) (*Frame, error) {
	o, err := opts.scan()
	if err != nil {
		return nil, err
	}
	return readSource(ctx, c, path, o)
}

// ScanNDJSON returns a query of NDJSON files: one file, those of a folder, or those that match a pattern, as
// ReadNDJSON. Workers infer the schema now, and read the columns that the query needs when it runs.
func ScanNDJSON(ctx context.Context, c *client.Client, path string, opts NDJSONOptions) *Query {
	o, err := opts.scan()
	if err != nil {
		return &Query{c: c, err: err}
	}
	return newScan(ctx, c, "ScanNDJSON", path, o)
}

// WriteNDJSON writes the frame as files with a JSON object in each line, one for each partition, into a folder, which
// is created, and returns their paths. Nulls are written; times are texts in the form of RFC 3339, bytes in base64, and
// floats without a number in JSON the texts NaN, Infinity and -Infinity. The files are one set, as those of WriteIPC.
func (f *Frame) WriteNDJSON(ctx context.Context, dir string, opts WriteOptions) ([]string, error) {
	return f.writeSet(ctx, dir, scan.NDJSON.Ext(), opts, func(p client.Arg[arrow.RecordBatch],
		path string) *client.Future[files.Written] {
		return saveNDJSON.Submit(ctx, f.c, p, client.Val(path), client.WithImpure())
	})
}

// WriteNDJSON runs the query and writes its result as NDJSON files, as Frame.WriteNDJSON.
func (q *Query) WriteNDJSON(ctx context.Context, dir string, opts WriteOptions) ([]string, error) {
	return q.write(ctx, func(f *Frame) ([]string, error) { return f.WriteNDJSON(ctx, dir, opts) })
}
