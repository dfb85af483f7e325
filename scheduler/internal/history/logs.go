package history

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"go.millstream.dev/internal/proc/logtext"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/scheduler/internal/val"
)

// logKeep is the number of lines that get_logs returns (default of distributed.admin.log-length), logLineBytes the
// maximum length of a line, and logBytes that of all lines together.
const (
	logKeep      = 10_000
	logLineBytes = 8 << 10
	logBytes     = 16 << 20
)

// LogHandler is a slog.Handler that forwards all records and keeps the latest lines for get_logs. Any goroutine may use
// it.
type LogHandler struct {
	next  slog.Handler
	Lines *LogLines
	attrs []slog.Attr
	group string
}

type LogLines struct {
	mu    sync.Mutex
	lines []logLine // the oldest first; guarded by mu
	bytes int       // total length of the texts; guarded by mu
}

// add keeps a line and drops the oldest beyond the limits.
func (l *LogLines) add(line logLine) {
	if len(line.text) > logLineBytes {
		line.text = strings.ToValidUTF8(line.text[:logLineBytes], "") + "…"
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
	l.bytes += len(line.text)
	drop := 0
	for len(l.lines)-drop > logKeep || l.bytes > logBytes {
		l.bytes -= len(l.lines[drop].text)
		l.lines[drop] = logLine{}
		drop++
	}
	l.lines = l.lines[drop:] // append copies the rest when the capacity is used up
}

type logLine struct {
	at    time.Time
	level slog.Level
	text  string
}

func NewLogHandler(next slog.Handler) *LogHandler { return &LogHandler{next: next, Lines: &LogLines{}} }

// Enabled reports true from level info on, whatever the next handler does, so that lines are kept.
func (l *LogHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo || l.next.Enabled(ctx, level)
}

// Handle keeps a line and forwards the record.
func (l *LogHandler) Handle(ctx context.Context, r slog.Record) error {
	text := r.Message
	add := func(a slog.Attr) bool {
		text += fmt.Sprintf(" %s%s=%v", l.group, a.Key, a.Value)
		return true
	}
	for _, a := range l.attrs {
		add(a)
	}
	r.Attrs(add)
	l.Lines.add(logLine{r.Time, r.Level, logtext.OneLine(text)})
	if !l.next.Enabled(ctx, r.Level) {
		return nil
	}
	return l.next.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (l *LogHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *l
	c.next = l.next.WithAttrs(attrs)
	c.attrs = append(append([]slog.Attr(nil), l.attrs...), attrs...)
	return &c
}

// WithGroup implements slog.Handler.
func (l *LogHandler) WithGroup(name string) slog.Handler {
	c := *l
	c.next = l.next.WithGroup(name)
	c.group = l.group + name + "."
	return &c
}

// latest returns the newest n lines since start, oldest first; n 0 is all.
func (l *LogLines) latest(start time.Time, n int) []logLine {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []logLine
	for _, line := range l.lines {
		if !line.at.Before(start) {
			out = append(out, line)
		}
	}
	if n > 0 && len(out) > n {
		out = out[len(out)-n:]
	}
	return out
}

// Pairs returns the latest n lines as pairs of level and text.
func (l *LogLines) Pairs(n int) []any {
	out := []any{}
	for _, x := range l.latest(time.Time{}, n) {
		out = append(out, []any{x.level.String(), x.text})
	}
	return out
}

// getRPC serves get_logs: pairs of level and line, or triples with the time first.
func (l *LogLines) getRPC(_ context.Context, _ *rpc.Request, in struct {
	Start      any  `rpc:"start,optional"`
	N          *int `rpc:"n"`
	Timestamps bool `rpc:"timestamps,optional"`
}) ([]any, error) {
	n := 0
	if in.N != nil {
		n = *in.N
	}
	var start time.Time
	if f, ok := val.Number(in.Start); ok {
		start = time.Unix(0, int64(f*1e9))
	}
	out := []any{}
	for _, x := range l.latest(start, n) {
		if in.Timestamps {
			out = append(out, []any{val.Seconds(x.at), x.level.String(), x.text})
		} else {
			out = append(out, []any{x.level.String(), x.text})
		}
	}
	return out, nil
}

// Register sets the handlers of requests.
func (l *LogLines) Register(r *rpc.Server) {
	rpc.Handle(r, "get_logs", l.getRPC)
	rpc.Handle(r, "logs", l.getRPC)
}
