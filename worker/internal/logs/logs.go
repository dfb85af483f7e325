// Package logs keeps the last log records of a worker for get_logs.
package logs

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"go.millstream.dev/internal/proc/logtext"
	"go.millstream.dev/worker/internal/record"
)

// Records keeps the last log records and lines of output of a process. Any goroutine may use it.
type Records struct{ ring *record.Ring[entry] }

type entry struct {
	at    time.Time
	level string
	text  string
}

// length is Dask's default of distributed.admin.log-length.
const length = 10_000

// NewRecords returns an empty Records.
func NewRecords() *Records { return &Records{record.NewRing[entry](length)} }

// maxText bounds the text of a record in bytes.
const maxText = 16 << 10

// Add adds a record. Its text is truncated at 16 KiB.
func (l *Records) Add(at time.Time, level slog.Level, text string) {
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	l.ring.Add(entry{at, level.String(), text})
}

// List returns the reply to get_logs: [level, text] of each record, newest first, or [seconds since 1970, level, text]
// with timestamps. It skips start records and returns at most *n.
func (l *Records) List(start int, n *int, timestamps bool) []any {
	all := l.ring.All()
	slices.Reverse(all)
	all = all[min(max(start, 0), len(all)):]
	if n != nil {
		all = all[:min(max(*n, 0), len(all))]
	}
	out := make([]any, len(all))
	for i, r := range all {
		level := r.level
		if level == "WARN" {
			level = "WARNING"
		}
		if timestamps {
			out[i] = []any{record.Unix(r.at), level, r.text}
		} else {
			out[i] = []any{level, r.text}
		}
	}
	return out
}

// Handler is a slog.Handler that forwards records and keeps the last of them.
type Handler struct {
	next    slog.Handler
	records *Records
	attrs   []slog.Attr
	group   string
}

// NewHandler returns a Handler that forwards to next.
func NewHandler(next slog.Handler, records *Records) *Handler {
	return &Handler{next: next, records: records}
}

// Enabled implements slog.Handler. Records from INFO on are kept, as by Dask workers, even if next does not print them.
func (h *Handler) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelInfo || h.next.Enabled(ctx, l)
}

// Handle implements slog.Handler: it keeps a record and forwards it.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelInfo {
		var b strings.Builder
		b.WriteString("millstream.worker - " + r.Level.String() + " - " + r.Message)
		for _, a := range h.attrs {
			fmt.Fprintf(&b, " %s=%v", a.Key, a.Value)
		}
		r.Attrs(func(a slog.Attr) bool {
			fmt.Fprintf(&b, " %s%s=%v", h.group, a.Key, a.Value)
			return true
		})
		h.records.Add(r.Time, r.Level, logtext.OneLine(b.String()))
	}
	if h.next.Enabled(ctx, r.Level) {
		return h.next.Handle(ctx, r)
	}
	return nil
}

// WithAttrs implements slog.Handler.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *h
	c.next = h.next.WithAttrs(attrs)
	c.attrs = slices.Clip(append(slices.Clip(h.attrs), attrs...))
	return &c
}

// WithGroup implements slog.Handler: it prefixes the names of the following attributes.
func (h *Handler) WithGroup(name string) slog.Handler {
	c := *h
	c.next = h.next.WithGroup(name)
	c.group += name + "."
	return &c
}
