package worker

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"go.millstream.dev/internal/log/logtext"
)

// logRing is a slog.Handler that passes records on and remembers the last of them for
// get_logs.
type logRing struct {
	next    slog.Handler
	records *Logs
	attrs   []slog.Attr
	group   string
}

type logRecord struct {
	at    time.Time
	level string
	text  string
}

// logLength is Dask's default of distributed.admin.log-length.
const logLength = 10_000

// Logs keeps the last log records and lines of output of a process for get_logs. Any goroutine may use it.
type Logs struct{ ring *ring[logRecord] }

// NewLogs returns an empty Logs.
func NewLogs() *Logs { return &Logs{newRing[logRecord](logLength)} }

// maxLogText bounds the text of a record in bytes.
const maxLogText = 16 << 10

// Add adds a record, whose text is cut at 16 KiB.
func (l *Logs) Add(at time.Time, level slog.Level, text string) {
	if len(text) > maxLogText {
		text = strings.ToValidUTF8(text[:maxLogText], "") + "…"
	}
	l.ring.add(logRecord{at, level.String(), text})
}

func newLogRing(next slog.Handler, logs *Logs) *logRing {
	if logs == nil {
		logs = NewLogs()
	}
	return &logRing{next: next, records: logs}
}

// Enabled keeps what Dask's workers keep, from INFO on, whatever is printed.
func (h *logRing) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelInfo || h.next.Enabled(ctx, l)
}

// Handle remembers a record and passes it on.
func (h *logRing) Handle(ctx context.Context, r slog.Record) error {
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

// WithAttrs and WithGroup are slog.Handler's.
func (h *logRing) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *h
	c.next = h.next.WithAttrs(attrs)
	c.attrs = slices.Clip(append(slices.Clip(h.attrs), attrs...))
	return &c
}

// WithGroup puts a name in front of the attributes that follow.
func (h *logRing) WithGroup(name string) slog.Handler {
	c := *h
	c.next = h.next.WithGroup(name)
	c.group += name + "."
	return &c
}

// list is the answer to get_logs: [level, text] each, newest first, or with the time.
func (h *logRing) list(start int, n *int, timestamps bool) []any {
	all := h.records.ring.all()
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
			out[i] = []any{unix(r.at), level, r.text}
		} else {
			out[i] = []any{level, r.text}
		}
	}
	return out
}
