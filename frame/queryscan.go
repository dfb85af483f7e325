package frame

import (
	"context"
	"fmt"

	"go.millstream.dev/client"
	"go.millstream.dev/frame/internal/plan"
	"go.millstream.dev/frame/internal/scan"
)

// newScan returns a query of files that workers have opened.
func newScan(ctx context.Context, c *client.Client, verb, path string, opts scan.Options) *Query {
	q := &Query{c: c}
	src, err := openSource(ctx, c, path, opts)
	if err != nil {
		q.err = err
		return q
	}
	n, err := plan.NewScan(path, src)
	if err != nil {
		q.err = fmt.Errorf("frame: %s: %w", verb, err)
		return q
	}
	q.node = n
	return q
}

// ScanIPC returns a query of files in the Arrow IPC format: one file, those of a folder, or those that match a pattern,
// as ReadIPC. Workers read the heads of the files now, and the columns that the query needs when it runs.
func ScanIPC(ctx context.Context, c *client.Client, path string) *Query {
	return newScan(ctx, c, "ScanIPC", path, scan.Options{Format: scan.IPC})
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
