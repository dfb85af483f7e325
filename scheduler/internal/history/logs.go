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

// logKeep is how many lines get_logs can give (distributed.admin.log-length's default), logLineBytes how much of a
// line, and logBytes how many bytes of all.
const (
	logKeep      = 10_000
	logLineBytes = 8 << 10
	logBytes     = 16 << 20
)

// LogHandler is a slog.Handler that passes everything on and keeps the latest lines for
// get_logs. Any goroutine may use it.
type LogHandler struct {
	next  slog.Handler
	Lines *LogLines
	attrs []slog.Attr
	group string
}

type LogLines struct {
	mu    sync.Mutex
	lines []logLine // the oldest first; guarded by mu
	bytes int       // of their texts; guarded by mu
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
	l.lines = l.lines[drop:] // append copies what is left when the memory is used up
}

type logLine struct {
	at    time.Time
	level slog.Level
	text  string
}

func NewLogHandler(next slog.Handler) *LogHandler { return &LogHandler{next: next, Lines: &LogLines{}} }

// Enabled keeps what is told to people, whatever the next handler does with it.
func (l *LogHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo || l.next.Enabled(ctx, level)
}

// Handle keeps a line and passes it on.
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

// WithAttrs is slog's.
func (l *LogHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *l
	c.next = l.next.WithAttrs(attrs)
	c.attrs = append(append([]slog.Attr(nil), l.attrs...), attrs...)
	return &c
}

// WithGroup is slog's.
func (l *LogHandler) WithGroup(name string) slog.Handler {
	c := *l
	c.next = l.next.WithGroup(name)
	c.group = l.group + name + "."
	return &c
}

// latest are the newest n lines since start, oldest first; n 0 is all.
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

// getRPC is get_logs: pairs of level and line, or triples with the time first.
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
