// Package scan reads and writes the files of frames: Parquet, CSV, Arrow IPC and NDJSON.
//
// A path (a file, a folder or a pattern) is opened in two steps, so that workers can do each of them: ReadHead reads
// what is needed of one file, and Assemble makes a Source of the heads: the schema, and splits, each of which is the
// work of one task. Read reads the record batches of a split. Open does the first steps in the calling process.
// Options, Head and Split have exported fields only, because they are arguments and results of tasks.
package scan

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/frame/internal/fault"
	"go.millstream.dev/frame/internal/files"
)

// Format is the format of files.
type Format string

// isText reports whether files of the format are split by lines.
func (f Format) isText() bool { return f == CSV || f == NDJSON }

// The formats.
const (
	Parquet Format = "parquet"
	CSV     Format = "csv"
	IPC     Format = "ipc"
	NDJSON  Format = "ndjson"
)

const (
	// defaultRows is the default number of rows of a batch.
	defaultRows = 64 << 10
	// defaultSplit is the default size of a split in bytes.
	defaultSplit = 64 << 20
	// defaultSample is the default number of bytes for the inference of a schema.
	defaultSample = 1 << 20
)

var heap = memory.NewGoAllocator()

// Ext returns the extension of files that are written in the format.
func (f Format) Ext() string {
	switch f {
	case IPC:
		return ".arrow"
	default:
		return "." + string(f)
	}
}

// Endings returns the extensions of files of the format.
func (f Format) Endings() []string { return files.Endings(f.Ext()) }

// FormatOf returns the format of a file by its extension, "" if it is unknown.
func FormatOf(path string) Format {
	for _, f := range []Format{Parquet, CSV, IPC, NDJSON} {
		if slices.Contains(f.Endings(), filepath.Ext(path)) {
			return f
		}
	}
	return ""
}

// Options specifies how files are opened. The zero value of every field but Format is useful.
type Options struct {
	Format Format
	// Schema is an encoded schema of the columns to read, see EncodeSchema (default: that of the first file, inferred
	// for CSV and NDJSON).
	Schema []byte
	// SplitBytes is the approximate size of a split in bytes of the file (default 64 MiB, for IPC one record batch;
	// negative: one split for each file).
	SplitBytes int64
	// Sample is the number of bytes from which the schema of text is inferred (default 1 MiB).
	Sample int64
	// Dialect specifies the form of CSV files.
	Dialect Dialect
}

// withDefaults returns the options with the defaults of their format.
func (o Options) withDefaults() Options {
	if o.SplitBytes == 0 && o.Format != IPC {
		o.SplitBytes = defaultSplit
	}
	if o.Sample <= 0 {
		o.Sample = defaultSample
	}
	o.Dialect = o.Dialect.withDefaults()
	return o
}

// Split is a part of a file, the work of one task.
type Split struct {
	Format Format
	Path   string
	// Stamp is that of the file when it was opened: a file that was changed since is an error.
	Stamp files.Stamp
	// Partition is the number of the split in its Source, for errors.
	Partition int
	// Schema is the encoded schema of the Source.
	Schema []byte
	// Groups are the row groups of a Parquet file.
	Groups []int
	// Spans are ranges of bytes. IPC: the messages that are needed, the schema first. CSV and NDJSON: one, whose lines
	// are those that begin in it.
	Spans []files.Span
	// Quoted specifies whether begin and end of a span of a CSV file are within quotes.
	Quoted  [2]bool
	Dialect Dialect
	// Strict makes fields of an NDJSON file that are not in the schema errors.
	Strict bool
	// Rows is the number of rows, estimated for text and -1 if it is unknown.
	Rows int64
	// Bytes is the approximate size of all columns in memory.
	Bytes int64
}

// Source is an opened path.
type Source struct {
	Format Format
	// Schema is that of all files.
	Schema *arrow.Schema
	// Splits are all parts of the files, in the order of the files and of their rows. There is at least one.
	Splits []Split
	// Rows is the number of rows, -1 if it is unknown; Bytes is the approximate size of all columns in memory.
	Rows, Bytes int64
	// ColumnBytes are the approximate sizes of the columns in memory, nil if they are unknown.
	ColumnBytes []int64
}

// ReadOptions specifies what is read of a split. The zero value reads all.
type ReadOptions struct {
	// Columns are the names of the columns of the batches, in this order (default: all). A list that is empty but not
	// nil reads batches that have rows but no columns.
	Columns []string
	// Prune are conditions that all rows of the result of the query fulfill: parts of the file without such rows are
	// not read. Batches may still have rows that do not fulfill them.
	Prune []Cond
	// BatchRows is the largest number of rows of a batch (default 65536).
	BatchRows int
}

// Open opens a path in this process.
func Open(ctx context.Context, path string, opts Options) (*Source, error) {
	if opts.Format == "" {
		opts.Format = FormatOf(path)
	}
	paths, err := files.List(path, opts.Format.Endings())
	if err != nil {
		return nil, err
	}
	if opts.Format == "" {
		opts.Format = FormatOf(paths[0])
	}
	heads := make([]Head, len(paths))
	for i, p := range paths {
		if heads[i], err = ReadHead(ctx, HeadRequest{Path: p, First: i == 0, Options: opts}); err != nil {
			return nil, err
		}
	}
	s, err := Assemble(heads, opts)
	if err != nil {
		return nil, err
	}
	blocks, _ := s.Uncounted()
	odd := make([]bool, len(blocks))
	for i, b := range blocks {
		if odd[i], err = OddQuotes(ctx, b); err != nil {
			return nil, err
		}
	}
	s.MarkQuotes(odd)
	return s, nil
}

// Read returns the batches of a split, in order. The consumer releases them. The sequence ends after the first error.
// It never returns an empty batch.
func Read(ctx context.Context, s Split, opts ReadOptions) iter.Seq2[arrow.RecordBatch, error] {
	if opts.BatchRows <= 0 {
		opts.BatchRows = defaultRows
	}
	return func(yield func(arrow.RecordBatch, error) bool) {
		done := false
		err := read(ctx, s, opts, func(b arrow.RecordBatch) error {
			if b.NumRows() == 0 {
				b.Release()
				return ctx.Err()
			}
			if done = !yield(b, nil); done {
				return errStop
			}
			return ctx.Err()
		})
		if err != nil && !done {
			yield(nil, s.located(err))
		}
	}
}

// errStop ends a read whose consumer wants no more batches.
var errStop = errors.New("stop")

// read calls take with every batch of a split, until it returns an error. Panics of the Arrow library become errors.
func read(ctx context.Context, s Split, opts ReadOptions, take func(arrow.RecordBatch) error) (err error) {
	inside := false // of the consumer, whose panics are its own
	defer func() {
		if inside {
			return
		}
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	if err := ctx.Err(); err != nil {
		return err
	}
	schema, err := DecodeSchema(s.Schema)
	if err != nil {
		return err
	}
	p, err := projectionOf(schema, opts.Columns)
	if err != nil {
		return err
	}
	f, err := files.OpenStamped(s.Path, s.Stamp, s.Partition)
	if err != nil {
		return err
	}
	defer f.Close()
	guarded := func(b arrow.RecordBatch) error {
		inside = true
		err := take(b)
		inside = false
		return err
	}
	switch s.Format {
	case Parquet:
		return readParquet(f, s, p, opts, guarded)
	case CSV:
		return readCSV(f, s, p, opts, guarded)
	case IPC:
		return readIPC(f, s, p, opts, guarded)
	case NDJSON:
		return readJSON(f, s, p, opts, guarded)
	}
	return fmt.Errorf("frame: unknown format %q of %s", s.Format, s.Path)
}

// located adds the file and the partition to an error: ErrCorrupt unless it has a kind.
func (s Split) located(err error) error {
	if e, ok := errors.AsType[*fault.Error](err); ok {
		if e.Path == "" {
			e.Path, e.Partition = s.Path, s.Partition
		}
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &fault.Error{Kind: fault.ErrCorrupt, Path: s.Path, Partition: s.Partition, Err: err}
}
