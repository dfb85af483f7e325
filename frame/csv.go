package frame

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
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

// csvDialect has the options that tasks need.
type csvDialect struct {
	Schema   []byte
	NoHeader bool
	Comma    rune
	Null     []string
}

// csvSource is one partition of a CSV file: the lines that begin in a span.
type csvSource struct {
	Path      string
	Stamp     stamp
	Span      span
	Quoted    [2]bool // whether begin and end of the span are within quotes
	Partition int
	Dialect   csvDialect
}

// csvHead describes a file to the client.
type csvHead struct {
	Stamp  stamp
	Schema []byte // inferred, if requested
}

// csvHeadRequest is the argument of headCSV.
type csvHeadRequest struct {
	Path    string
	Infer   bool
	Sample  int64
	Dialect csvDialect
}

var (
	headCSV = client.Func("millstream.frame.csv-head", func(_ context.Context, l csvHeadRequest) (csvHead,
		error) {
		return readCSVHead(l)
	})
	// quotesCSV reports whether a block has an odd number of quotes, so that the next one begins within quotes.
	quotesCSV = client.Func("millstream.frame.csv-quotes", func(_ context.Context, s csvSource) (bool,
		error) {
		return oddQuotes(s)
	})
	readCSV = client.Func("millstream.frame.read-csv", func(_ context.Context, s csvSource) (arrow.RecordBatch,
		error) {
		return readCSVPart(s)
	})
	saveCSV = client.Func2("millstream.frame.write-csv", func(_ context.Context, b arrow.RecordBatch,
		path string) (writtenFile, error) {
		return writeCSV(b, path)
	})
)

// ReadCSV returns a frame of CSV files: one file, those of a folder (*.csv), or those that match a pattern. Workers
// read them, each its part. Inferred columns are bool, int64, float64, timestamps in UTC or text; Options.Schema also
// allows the other integer and floating-point types, bytes, date32 and other timestamps.
func ReadCSV(ctx context.Context, c *client.Client, path string, opts CSVOptions) (*Frame, error) {
	if opts.Sample <= 0 {
		opts.Sample = 1 << 20
	}
	if opts.Block == 0 {
		opts.Block = 64 << 20
	}
	if opts.Comma == 0 {
		opts.Comma = ','
	}
	if opts.Null == nil {
		opts.Null = []string{"NA", "NaN", "null", "NULL", "None"}
	}
	d := csvDialect{NoHeader: opts.NoHeader, Comma: opts.Comma, Null: opts.Null}
	paths, heads, err := readHeads(ctx, c, path, []string{".csv"}, func(paths []string) []*client.Future[csvHead] {
		requests := make([]csvHeadRequest, len(paths))
		for i, p := range paths {
			requests[i] = csvHeadRequest{Path: p, Infer: i == 0 && opts.Schema == nil, Sample: opts.Sample, Dialect: d}
		}
		return headCSV.Map(ctx, c, requests, client.WithImpure())
	})
	if err != nil {
		return nil, err
	}
	schema := opts.Schema
	if schema == nil {
		if schema, err = decodeSchema(heads[0].Schema); err != nil {
			return nil, err
		}
	}
	for _, f := range schema.Fields() {
		if _, err := csvColumn(f, heap, nil); err != nil {
			return nil, err
		}
	}
	if d.Schema, err = encodeSchema(schema); err != nil {
		return nil, err
	}
	var sources []csvSource
	for i, h := range heads {
		block := opts.Block
		if block < 0 {
			block = max(h.Stamp.Size, 1)
		}
		for at := int64(0); at == 0 || at < h.Stamp.Size; at += block {
			sources = append(sources, csvSource{Path: paths[i], Stamp: h.Stamp,
				Span: span{at, min(h.Stamp.Size, at+block)}, Partition: len(sources), Dialect: d})
		}
	}
	if err := markQuotes(ctx, c, sources); err != nil {
		return nil, err
	}
	return newFrame(c, schema, readCSV.Map(ctx, c, sources)), nil
}

// markQuotes finds the blocks that begin or end within quotes.
func markQuotes(ctx context.Context, c *client.Client, sources []csvSource) error {
	var counted []csvSource
	var at []int // the block after each of counted
	for i := 1; i < len(sources); i++ {
		if before := sources[i-1]; before.Path == sources[i].Path {
			counted, at = append(counted, before), append(at, i)
		}
	}
	if len(counted) == 0 {
		return nil
	}
	futures := quotesCSV.Map(ctx, c, counted)
	defer client.ReleaseAll(futures)
	odd, err := client.Gather(ctx, futures)
	if err != nil {
		return withKind(err)
	}
	for n, i := range at {
		sources[i].Quoted[0] = sources[i-1].Quoted[0] != odd[n]
		sources[i-1].Quoted[1] = sources[i].Quoted[0]
	}
	return nil
}

// WriteCSV writes the frame as CSV files with a header, one for each partition, into a folder, which is created, and
// returns their paths. The files are one set, as those of WriteIPC.
func (f *Frame) WriteCSV(ctx context.Context, dir string, opts WriteOptions) ([]string, error) {
	return f.writeSet(ctx, dir, ".csv", opts, func(p client.Arg[arrow.RecordBatch],
		path string) *client.Future[writtenFile] {
		return saveCSV.Submit(ctx, f.c, p, client.Val(path), client.WithImpure())
	})
}

func readCSVHead(l csvHeadRequest) (head csvHead, err error) {
	f, err := openPart(l.Path)
	if err != nil {
		return head, fmt.Errorf("frame: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return head, fmt.Errorf("frame: %w", err)
	}
	head.Stamp = stampOf(info)
	if !l.Infer {
		return head, nil
	}
	schema, err := inferCSV(f, info.Size(), l)
	if err != nil {
		return head, &Error{Kind: ErrCorrupt, Path: l.Path, Partition: -1, Err: err}
	}
	head.Schema, err = encodeSchema(schema)
	return head, err
}
