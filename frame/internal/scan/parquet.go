package scan

import (
	"fmt"
	"os"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/frame/internal/fault"
	"go.millstream.dev/frame/internal/files"
	"go.millstream.dev/frame/internal/parquet"
)

// readParquet reads the schema and the row groups of a file.
func (h *Head) readParquet(f *os.File) error {
	p, err := parquet.Open(f, h.Stamp.Size)
	if err != nil {
		return err
	}
	if h.Schema, err = EncodeSchema(p.Schema()); err != nil {
		return err
	}
	for _, g := range p.RowGroups() {
		h.Units = append(h.Units, Unit{Rows: g.Rows, Bytes: g.Bytes, FileBytes: g.FileBytes})
	}
	h.ColumnBytes = p.ColumnBytes()
	return nil
}

// readParquet reads the row groups of a split that may have rows that fulfill the conditions.
func readParquet(f *os.File, s Split, p projection, opts ReadOptions, take func(arrow.RecordBatch) error) error {
	file, err := parquet.Open(f, s.Stamp.Size)
	if err != nil {
		return err
	}
	if d := fault.DiffSchemas(p.in, file.Schema()); d != "" {
		return fault.Schemaf(s.Partition, "%s", d)
	}
	var groups []int
	for _, g := range s.Groups {
		if !file.HasGroup(g) {
			return fmt.Errorf("no row group %d", g)
		}
		if !pruneGroup(p.in, opts.Prune, func(column int) parquet.Stats { return file.Stats(g, column) }) {
			groups = append(groups, g)
		}
	}
	return file.Read(parquet.ReadOptions{Groups: groups, Columns: p.columns, Schema: p.out, Rows: opts.BatchRows},
		take)
}

// WriteParquet writes a batch as a file in the Parquet format.
func WriteParquet(b arrow.RecordBatch, path string, opts parquet.WriteOptions) (files.Written, error) {
	return write(b, path, func(f *os.File) error {
		w, err := parquet.NewWriter(f, b.Schema(), opts)
		if err != nil {
			return err
		}
		if err := w.Write(b); err != nil {
			return err
		}
		return w.Close()
	})
}
