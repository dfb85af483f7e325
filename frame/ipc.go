package frame

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
	"go.millstream.dev/frame/internal/files"
	"go.millstream.dev/frame/internal/scan"
)

var saveIPC = client.Func2("millstream.frame.write-ipc", func(_ context.Context, b arrow.RecordBatch,
	path string) (files.Written, error) {
	return scan.WriteIPC(b, path)
})

// ReadIPC returns a frame of files in the Arrow IPC format, file or stream (Feather version 2 is the same): one file,
// those of a folder (*.arrow, *.feather, *.ipc, *.arrows), or those that match a pattern. In a folder that WriteIPC
// wrote they are the files of its last result. Every record batch is a partition; Repartition changes them. Workers
// read the files, each its part, when the partitions are needed; the client reads only their schemas, which must be
// equal.
func ReadIPC(ctx context.Context, c *client.Client, path string) (*Frame, error) {
	return readSource(ctx, c, path, scan.Options{Format: scan.IPC})
}

// WriteIPC writes the frame as files in the Arrow IPC format, one for each partition, into a folder, which is created,
// and returns their paths. Workers write them. The files are one set: readers see all of them or none, and a write that
// fails leaves nothing. If the folder already has files of this format, WriteIPC returns ErrExists unless
// opts.Overwrite is set. See WriteOptions.
func (f *Frame) WriteIPC(ctx context.Context, dir string, opts WriteOptions) ([]string, error) {
	return f.writeSet(ctx, dir, scan.IPC.Ext(), opts, func(p client.Arg[arrow.RecordBatch],
		path string) *client.Future[files.Written] {
		return saveIPC.Submit(ctx, f.c, p, client.Val(path), client.WithImpure())
	})
}

// ScanIPC returns a query of files in the Arrow IPC format: one file, those of a folder, or those that match a pattern,
// as ReadIPC. Workers read the heads of the files now, and the columns that the query needs when it runs.
func ScanIPC(ctx context.Context, c *client.Client, path string) *Query {
	return newScan(ctx, c, "ScanIPC", path, scan.Options{Format: scan.IPC})
}
