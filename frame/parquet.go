package frame

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
	"go.millstream.dev/frame/internal/files"
	"go.millstream.dev/frame/internal/parquet"
	"go.millstream.dev/frame/internal/scan"
)

// ParquetOptions specifies how Parquet files are read. The zero value is useful.
type ParquetOptions struct {
	// Split is the approximate size of partitions in compressed bytes (default 64 MiB; negative: one partition for each
	// file). A partition has whole row groups, so it may be larger.
	Split int64
}

func (o ParquetOptions) scan() scan.Options {
	return scan.Options{Format: scan.Parquet, SplitBytes: o.Split}
}

// ParquetWriteOptions specifies how Parquet files are written. The zero value is useful.
type ParquetWriteOptions struct {
	// Overwrite replaces the result in the folder, see WriteOptions.
	Overwrite bool
	// Compression is "snappy" (the default), "zstd", "gzip", "lz4" or "none".
	Compression string
	// RowGroup bounds the size of a row group in memory, in bytes (default 128 MiB).
	RowGroup int64
}

var saveParquet = client.Func3("millstream.frame.write-parquet", func(_ context.Context, b arrow.RecordBatch,
	path string, opts parquet.WriteOptions) (files.Written, error) {
	return scan.WriteParquet(b, path, opts)
})

// ReadParquet returns a frame of Parquet files: one file, those of a folder (*.parquet, *.parq, *.pq), or those that
// match a pattern. In a folder that WriteParquet wrote they are the files of its last result. Workers read the files,
// each its row groups; the schemas of all files must be equal. Columns of dictionaries are read as their values.
func ReadParquet(ctx context.Context, c *client.Client, path string, opts ParquetOptions) (*Frame, error) {
	return readSource(ctx, c, path, opts.scan())
}

// ScanParquet returns a query of Parquet files: one file, those of a folder, or those that match a pattern, as
// ReadParquet. Workers read the metadata of the files now, and the columns that the query needs when it runs. Row
// groups whose statistics show that no row fulfills the conditions of the query are not read.
func ScanParquet(ctx context.Context, c *client.Client, path string, opts ParquetOptions) *Query {
	return newScan(ctx, c, "ScanParquet", path, opts.scan())
}

// WriteParquet writes the frame as Parquet files, one for each partition, into a folder, which is created, and returns
// their paths. The files are one set, as those of WriteIPC.
func (f *Frame) WriteParquet(ctx context.Context, dir string, opts ParquetWriteOptions) ([]string, error) {
	o := parquet.WriteOptions{Codec: parquet.Codec(opts.Compression), GroupBytes: opts.RowGroup}
	if err := o.Check(); err != nil {
		return nil, fmt.Errorf("frame: WriteParquet: %w", err)
	}
	return f.writeSet(ctx, dir, scan.Parquet.Ext(), WriteOptions{Overwrite: opts.Overwrite},
		func(p client.Arg[arrow.RecordBatch], path string) *client.Future[files.Written] {
			return saveParquet.Submit(ctx, f.c, p, client.Val(path), client.Val(o), client.WithImpure())
		})
}

// WriteParquet runs the query and writes its result as Parquet files, as Frame.WriteParquet.
func (q *Query) WriteParquet(ctx context.Context, dir string, opts ParquetWriteOptions) ([]string, error) {
	return q.write(ctx, func(f *Frame) ([]string, error) { return f.WriteParquet(ctx, dir, opts) })
}
