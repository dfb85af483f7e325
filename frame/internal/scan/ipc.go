package scan

import (
	"errors"
	"os"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"go.millstream.dev/frame/internal/fault"
	"go.millstream.dev/frame/internal/files"
	"go.millstream.dev/internal/wire/arrowipc"
)

// readIPC reads the schema and the index of a file.
func (h *Head) readIPC(f *os.File) error {
	ix, err := indexIPC(f, h.Stamp.Size)
	if err != nil {
		return err
	}
	if h.Schema, err = readSpans(f, []files.Span{ix.Schema}); err != nil {
		return err
	}
	if _, err = DecodeSchema(h.Schema); err != nil {
		return err
	}
	h.Index = *ix
	for _, b := range ix.Batches {
		h.Units = append(h.Units, Unit{Rows: -1, Bytes: b.To - b.From, FileBytes: b.To - b.From})
	}
	return nil
}

// readIPC reads the batches of a split, sliced to the number of rows.
func readIPC(f *os.File, s Split, p projection, opts ReadOptions, take func(arrow.RecordBatch) error) error {
	b, err := readSpans(f, s.Spans)
	if err != nil {
		return err
	}
	schema, batches, err := arrowipc.Read(b)
	if err != nil {
		return err
	}
	defer func() {
		for _, b := range batches {
			b.Release()
		}
	}()
	if d := fault.DiffSchemas(p.in, schema); d != "" {
		return fault.Schemaf(s.Partition, "%s", d)
	}
	for _, b := range batches {
		part := p.batch(b)
		err := sliced(part, opts.BatchRows, take)
		part.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// sliced calls take with slices of a batch of at most n rows.
func sliced(b arrow.RecordBatch, n int, take func(arrow.RecordBatch) error) error {
	rows := b.NumRows()
	if rows <= int64(n) {
		b.Retain()
		return take(b)
	}
	for at := int64(0); at < rows; at += int64(n) {
		if err := take(b.NewSlice(at, min(rows, at+int64(n)))); err != nil {
			return err
		}
	}
	return nil
}

// WriteIPC writes a batch as a file in the IPC format.
func WriteIPC(b arrow.RecordBatch, path string) (files.Written, error) {
	return write(b, path, func(f *os.File) error {
		w, err := ipc.NewFileWriter(f, ipc.WithSchema(b.Schema()))
		if err != nil {
			return err
		}
		return errors.Join(w.Write(b), w.Close())
	})
}
