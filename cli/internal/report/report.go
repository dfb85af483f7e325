// Package report implements `millstream report`.
package report

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"go.millstream.dev/internal/dashboard"
	"go.millstream.dev/internal/dashboard/spans"
	"go.millstream.dev/internal/dashboard/trace"
	"go.millstream.dev/internal/dashboard/trace/arrowtrace"
	"go.millstream.dev/internal/wire/msgpack"
)

// Options are the arguments of Write.
type Options struct {
	// History is the folder of a history and Import a file with a Chrome trace, or an Arrow stream if it ends in
	// .arrow; both "" for a scheduler.
	History, Import string
	// Call sends a request to the scheduler.
	Call func(ctx context.Context, op string, args, reply any) error
	// Output is the file of the report; Trace and Arrow are those of a Chrome trace, or of an Arrow stream, instead of
	// it. "-" is the standard output.
	Output, Trace, Arrow string
	// Since is how long ago the first task may have ended; 0 for all.
	Since time.Duration
}

// Write writes a report or a trace.
func Write(ctx context.Context, o Options, stdout io.Writer) error {
	var b bytes.Buffer
	err := o.write(ctx, &b)
	if err != nil {
		return err
	}
	name := cmp.Or(o.Trace, o.Arrow, o.Output)
	if name == "-" {
		_, err = stdout.Write(b.Bytes())
		return err
	}
	if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%s written (%.1f MB)\n", name, float64(b.Len())/1e6)
	return err
}

func (o *Options) write(ctx context.Context, w io.Writer) error {
	if o.History == "" && o.Import == "" {
		return o.fromScheduler(ctx, w)
	}
	store, err := o.open()
	if err != nil {
		return err
	}
	defer store.Close()
	s := dashboard.New(store, nil)
	defer s.Close()
	switch {
	case o.Trace != "":
		return s.WriteTrace(w)
	case o.Arrow != "":
		return arrowtrace.Write(w, store)
	}
	return s.WriteReport(ctx, w, dashboard.ReportOptions{From: o.from(),
		Title: "Report of " + filepath.Base(cmp.Or(o.History, o.Import))})
}

// open opens the history, or reads the trace into one.
func (o *Options) open() (*spans.Store, error) {
	if o.History != "" {
		if _, err := os.Stat(o.History); err != nil {
			return nil, fmt.Errorf("--history: %w", err)
		}
		return spans.Open(spans.Config{Dir: o.History})
	}
	b, err := os.ReadFile(o.Import)
	if err != nil {
		return nil, fmt.Errorf("--import: %w", err)
	}
	var store *spans.Store
	if filepath.Ext(o.Import) == ".arrow" {
		store, err = arrowtrace.Read(b, spans.Config{})
	} else {
		store, err = trace.ReadChrome(bytes.NewReader(b), spans.Config{})
	}
	if err != nil {
		return nil, fmt.Errorf("--import %s: %w", o.Import, err)
	}
	return store, nil
}

// from returns the time of Since in microseconds since 1970, 0 for all.
func (o *Options) from() int64 {
	if o.Since <= 0 {
		return 0
	}
	return time.Now().Add(-o.Since).UnixMicro()
}

// fromScheduler requests the report or the trace of a scheduler.
func (o *Options) fromScheduler(ctx context.Context, w io.Writer) error {
	format := "html"
	if o.Trace != "" || o.Arrow != "" {
		format = "trace"
	}
	var page []byte
	err := o.Call(ctx, "millstream-report", msgpack.MapOf("start", float64(o.from())/1e6, "format", format), &page)
	if err != nil {
		return err
	}
	if len(page) == 0 { // a scheduler of Dask answers None to unknown requests
		return errors.New("no report: not a Millstream scheduler")
	}
	if o.Arrow != "" {
		store, err := trace.ReadChrome(bytes.NewReader(page), spans.Config{})
		if err != nil {
			return err
		}
		defer store.Close()
		return arrowtrace.Write(w, store)
	}
	_, err = w.Write(page)
	return err
}
