package scan

import (
	"context"
	"fmt"
	"os"

	"go.millstream.dev/frame/internal/fault"
	"go.millstream.dev/frame/internal/files"
)

// HeadRequest is the argument of ReadHead.
type HeadRequest struct {
	Path string
	// First indicates that the schema is inferred from this file, if the format has none and none was specified.
	First   bool
	Options Options
}

// Head is what is needed of a file to open it.
type Head struct {
	Path  string
	Stamp files.Stamp
	// Schema is the encoded schema of the file, nil if it is that of other files.
	Schema []byte
	// Units are the parts of the file that are not split: row groups of Parquet, batches of IPC; none for text.
	Units []Unit
	// Index has the messages of an IPC file.
	Index IPCIndex
	// Columns are the columns of an NDJSON file.
	Columns []JSONColumn
	// RowBytes is the average size of a row of text, estimated.
	RowBytes float64
	// ColumnBytes are the approximate sizes of the columns in memory, nil if they are unknown.
	ColumnBytes []int64
}

// Unit is a part of a file that is not split.
type Unit struct {
	Rows, Bytes int64 // Rows is -1 if it is unknown, Bytes is the size in memory
	FileBytes   int64
}

// ReadHead reads the head of a file.
func ReadHead(ctx context.Context, r HeadRequest) (h Head, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &fault.Error{Kind: fault.ErrCorrupt, Path: r.Path, Partition: -1, Reason: fmt.Sprint(p)}
		}
	}()
	if err := ctx.Err(); err != nil {
		return h, err
	}
	r.Options = r.Options.withDefaults()
	f, err := files.Open(r.Path)
	if err != nil {
		return h, fmt.Errorf("frame: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return h, fmt.Errorf("frame: %w", err)
	}
	h.Path, h.Stamp = r.Path, files.StampOf(info)
	if err := h.read(f, r); err != nil {
		return h, Split{Path: r.Path, Partition: -1}.located(err)
	}
	return h, nil
}

func (h *Head) read(f *os.File, r HeadRequest) error {
	switch r.Options.Format {
	case Parquet:
		return h.readParquet(f)
	case CSV:
		return h.readCSV(f, r)
	case IPC:
		return h.readIPC(f)
	case NDJSON:
		return h.readJSON(f, r)
	}
	return fmt.Errorf("frame: unknown format %q of %s; specify it", r.Options.Format, r.Path)
}

// Assemble makes a source of the heads of all files, which must have equal schemas.
func Assemble(heads []Head, opts Options) (*Source, error) {
	opts = opts.withDefaults()
	if len(heads) == 0 {
		return nil, fmt.Errorf("frame: no files")
	}
	src := &Source{Format: opts.Format}
	encoded, err := opts.schemaOf(heads)
	if err != nil {
		return nil, err
	}
	if src.Schema, err = DecodeSchema(encoded); err != nil {
		return nil, err
	}
	switch opts.Format {
	case CSV:
		err = checkCSVSchema(src.Schema)
	case NDJSON:
		err = checkJSONSchema(src.Schema)
	}
	if err != nil {
		return nil, err
	}
	for _, h := range heads {
		if h.Schema != nil && opts.Format != CSV {
			s, err := DecodeSchema(h.Schema)
			if err != nil {
				return nil, err
			}
			if d := fault.DiffSchemas(src.Schema, s); d != "" {
				return nil, &fault.Error{Kind: fault.ErrSchema, Path: h.Path, Partition: len(src.Splits),
					Reason: fmt.Sprintf("%s, as in %s", d, heads[0].Path)}
			}
		}
		src.add(h, Split{Format: opts.Format, Path: h.Path, Stamp: h.Stamp, Schema: encoded, Dialect: opts.Dialect,
			Strict: opts.Schema == nil}, opts.SplitBytes)
	}
	if len(src.Splits) == 0 { // files without rows: one empty split
		h := heads[0]
		s := Split{Format: opts.Format, Path: h.Path, Stamp: h.Stamp, Schema: encoded, Dialect: opts.Dialect}
		if opts.Format == IPC {
			s.Spans = []files.Span{h.Index.Schema}
		}
		src.Splits = append(src.Splits, s)
	}
	src.count()
	return src, nil
}

// schemaOf returns the encoded schema: the one that is specified, that of the first file, or for NDJSON one that fits
// the beginnings of all files.
func (o Options) schemaOf(heads []Head) ([]byte, error) {
	switch {
	case o.Schema != nil:
		return o.Schema, nil
	case o.Format == NDJSON:
		s, err := jsonSchema(heads)
		if err != nil {
			return nil, err
		}
		return EncodeSchema(s)
	}
	return heads[0].Schema, nil
}

// add adds the splits of one file.
func (src *Source) add(h Head, s Split, size int64) {
	push := func(s Split) {
		s.Partition = len(src.Splits)
		src.Splits = append(src.Splits, s)
	}
	if src.Format.isText() {
		if size < 0 {
			size = max(h.Stamp.Size, 1)
		}
		for at := int64(0); at == 0 || at < h.Stamp.Size; at += size {
			s.Spans = []files.Span{{From: at, To: min(h.Stamp.Size, at+size)}}
			s.Bytes, s.Rows = s.Spans[0].To-at, -1
			if h.RowBytes > 0 {
				s.Rows = int64(float64(s.Bytes) / h.RowBytes)
			}
			push(s)
		}
	}
	for from := 0; from < len(h.Units); {
		s.Rows, s.Bytes, s.Groups = 0, 0, nil
		to := from
		for n := int64(0); to < len(h.Units); to++ {
			u := h.Units[to]
			if n += u.FileBytes; to > from && n > size && size >= 0 {
				break
			}
			s.Groups = append(s.Groups, to)
			s.Bytes += u.Bytes
			if s.Rows += u.Rows; u.Rows < 0 {
				s.Rows = -1
			}
		}
		if src.Format == IPC {
			s.Spans, s.Groups = h.Index.spans(from, to), nil
		}
		push(s)
		from = to
	}
	if h.ColumnBytes != nil {
		if src.ColumnBytes == nil {
			src.ColumnBytes = make([]int64, len(h.ColumnBytes))
		}
		for i := range min(len(src.ColumnBytes), len(h.ColumnBytes)) {
			src.ColumnBytes[i] += h.ColumnBytes[i]
		}
	}
}

// count adds the estimates of the splits.
func (src *Source) count() {
	for _, s := range src.Splits {
		src.Bytes += s.Bytes
		if s.Rows < 0 || src.Rows < 0 {
			src.Rows = -1
			continue
		}
		src.Rows += s.Rows
	}
}
