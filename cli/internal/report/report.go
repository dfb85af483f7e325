// Package report implements `millstream report`.
package report

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"go.millstream.dev/internal/dashboard"
	"go.millstream.dev/internal/dashboard/spans"
	"go.millstream.dev/internal/wire/msgpack"
)

// Options are the arguments of Write.
type Options struct {
	// History is the folder of a history; "" for a scheduler.
	History string
	// Call sends a request to the scheduler.
	Call func(ctx context.Context, op string, args, reply any) error
	// Output is the file to write; "-" is the standard output.
	Output string
	// Since is how long ago the first task may have ended; 0 for all.
	Since time.Duration
}

// Write writes a report.
func Write(ctx context.Context, o Options, stdout io.Writer) error {
	var page []byte
	var err error
	if o.History != "" {
		page, err = o.fromHistory(ctx)
	} else {
		page, err = o.fromScheduler(ctx)
	}
	if err != nil {
		return err
	}
	if o.Output == "-" {
		_, err = stdout.Write(page)
		return err
	}
	if err := os.WriteFile(o.Output, page, 0o644); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%s written (%.1f MB)\n", o.Output, float64(len(page))/1e6)
	return err
}

// from returns the time of Since in microseconds since 1970, 0 for all.
func (o *Options) from() int64 {
	if o.Since <= 0 {
		return 0
	}
	return time.Now().Add(-o.Since).UnixMicro()
}

// fromHistory returns the report of a history on disk.
func (o *Options) fromHistory(ctx context.Context) ([]byte, error) {
	if _, err := os.Stat(o.History); err != nil {
		return nil, fmt.Errorf("--history: %w", err)
	}
	store, err := spans.Open(spans.Config{Dir: o.History})
	if err != nil {
		return nil, err
	}
	defer store.Close()
	s := dashboard.New(store, nil)
	defer s.Close()
	var b bytes.Buffer
	err = s.WriteReport(ctx, &b, dashboard.ReportOptions{Title: "Report of " + filepath.Base(o.History),
		From: o.from()})
	return b.Bytes(), err
}

// fromScheduler requests the report of a scheduler.
func (o *Options) fromScheduler(ctx context.Context) ([]byte, error) {
	var page []byte
	err := o.Call(ctx, "millstream-report", msgpack.MapOf("start", float64(o.from())/1e6), &page)
	if err != nil {
		return nil, err
	}
	if len(page) == 0 { // a scheduler of Dask answers None to unknown requests
		return nil, fmt.Errorf("no report: not a Millstream scheduler")
	}
	return page, nil
}
