package frame

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
)

// CSVOptions say how CSV files are read. The zero value is useful.
type CSVOptions struct {
	// Schema is that of the columns (default: inferred from the beginning of the first file).
	// With a header the columns are found by name, and those that it does not name are left
	// out.
	Schema *arrow.Schema
	// NoHeader tells that the first line has data; columns are then f0, f1 and so on.
	NoHeader bool
	// Comma separates the columns (default ',').
	Comma rune
	// Null are the texts that stand for no value, besides nothing at all (default NA, NaN,
	// null, NULL, None; for text columns only nothing at all is none).
	Null []string
	// Sample is how many bytes of the first file the schema is inferred from (default 1 MiB).
	Sample int64
	// Block divides files into partitions of about so many bytes (default 64 MiB; negative:
	// a partition for each file). Lines are never cut, nor are quoted texts with line breaks in
	// them: where a block begins in one, it begins behind it. To know that, files of more than
	// one block are gone through once before, for their quotes.
	Block int64
}

// csvDialect is what the tasks need to know.
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
	Quoted    [2]bool // whether the two ends of the span are within quotes
	Partition int
	Dialect   csvDialect
}

// csvHead is what the client needs to know about a file.
type csvHead struct {
	Stamp  stamp
	Schema []byte // inferred, if it was asked for
}

// csvLook is the question for it.
type csvLook struct {
	Path    string
	Infer   bool
	Sample  int64
	Dialect csvDialect
}

var (
	headCSV = client.Func("millstream.frame.csv-head", func(_ context.Context, l csvLook) (csvHead,
		error) {
		return readCSVHead(l)
	})
	// How many quotes are there: an odd number turns inside out.
	quotesCSV = client.Func("millstream.frame.csv-quotes", func(_ context.Context, s csvSource) (bool,
		error) {
		return oddQuotes(s)
	})
	readCSV = client.Func("millstream.frame.read-csv", func(_ context.Context, s csvSource) (arrow.RecordBatch,
		error) {
		return readCSVPart(s)
	})
	saveCSV = client.Func2("millstream.frame.write-csv", func(_ context.Context, b arrow.RecordBatch,
		path string) (written, error) {
		return writeCSV(b, path)
	})
)

// ReadCSV is a frame of CSV files: one, those of a folder (*.csv), or those that match a
// pattern. Workers read them, each its part. Columns are bool, int64, float64, timestamps in
// UTC or text where they are inferred; Options.Schema names others: every type of whole and
// floating-point number, bool, text, bytes, date32 and timestamps.
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
	paths, heads, err := lookAt(ctx, c, path, []string{".csv"}, func(paths []string) []*client.Future[csvHead] {
		looks := make([]csvLook, len(paths))
		for i, p := range paths {
			looks[i] = csvLook{Path: p, Infer: i == 0 && opts.Schema == nil, Sample: opts.Sample, Dialect: d}
		}
		return headCSV.Map(ctx, c, looks, client.WithImpure())
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
	return trusted(c, schema, readCSV.Map(ctx, c, sources)), nil
}

// markQuotes finds the blocks that begin or end within quotes.
func markQuotes(ctx context.Context, c *client.Client, sources []csvSource) error {
	var counted []csvSource
	var at []int // the block behind each of counted
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
		return typed(err)
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
		path string) *client.Future[written] {
		return saveCSV.Submit(ctx, f.c, p, client.Val(path), client.WithImpure())
	})
}

func readCSVHead(l csvLook) (head csvHead, err error) {
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
