package scheduler

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.millstream.dev/rpc"
)

// logKeep is how many lines get_logs can give (distributed.admin.log-length's default).
const logKeep = 10_000

// logRing is a slog.Handler that passes everything on and keeps the latest lines for
// get_logs. Any goroutine may use it.
type logRing struct {
	next  slog.Handler
	lines *logLines
	attrs []slog.Attr
	group string
}

type logLines struct {
	mu    sync.Mutex
	ring  []logLine // guarded by mu
	count int       // guarded by mu
}

type logLine struct {
	at    time.Time
	level slog.Level
	text  string
}

func newLogRing(next slog.Handler) *logRing { return &logRing{next: next, lines: &logLines{}} }

// Enabled keeps what is told to people, whatever the next handler does with it.
func (l *logRing) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo || l.next.Enabled(ctx, level)
}

// Handle keeps a line and passes it on.
func (l *logRing) Handle(ctx context.Context, r slog.Record) error {
	text := r.Message
	add := func(a slog.Attr) bool {
		text += fmt.Sprintf(" %s%s=%v", l.group, a.Key, a.Value)
		return true
	}
	for _, a := range l.attrs {
		add(a)
	}
	r.Attrs(add)
	l.lines.mu.Lock()
	line := logLine{r.Time, r.Level, text}
	if len(l.lines.ring) < logKeep {
		l.lines.ring = append(l.lines.ring, line)
	} else {
		l.lines.ring[l.lines.count%logKeep] = line
	}
	l.lines.count++
	l.lines.mu.Unlock()
	if !l.next.Enabled(ctx, r.Level) {
		return nil
	}
	return l.next.Handle(ctx, r)
}

// WithAttrs is slog's.
func (l *logRing) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *l
	c.next = l.next.WithAttrs(attrs)
	c.attrs = append(append([]slog.Attr(nil), l.attrs...), attrs...)
	return &c
}

// WithGroup is slog's.
func (l *logRing) WithGroup(name string) slog.Handler {
	c := *l
	c.next = l.next.WithGroup(name)
	c.group = l.group + name + "."
	return &c
}

// latest are the newest n lines since start, oldest first; n 0 is all.
func (l *logLines) latest(start time.Time, n int) []logLine {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []logLine
	for i := max(0, l.count-len(l.ring)); i < l.count; i++ {
		if line := l.ring[i%logKeep]; !line.at.Before(start) {
			out = append(out, line)
		}
	}
	if n > 0 && len(out) > n {
		out = out[len(out)-n:]
	}
	return out
}

// getLogs is get_logs: pairs of level and line, or triples with the time first.
func (s *Scheduler) getLogs(_ context.Context, _ *rpc.Request, in struct {
	Start      any  `rpc:"start,optional"`
	N          *int `rpc:"n"`
	Timestamps bool `rpc:"timestamps,optional"`
}) ([]any, error) {
	n := 0
	if in.N != nil {
		n = *in.N
	}
	var start time.Time
	if f, ok := number(in.Start); ok {
		start = time.Unix(0, int64(f*1e9))
	}
	out := []any{}
	for _, l := range s.lines.latest(start, n) {
		if in.Timestamps {
			out = append(out, []any{seconds(l.at), l.level.String(), l.text})
		} else {
			out = append(out, []any{l.level.String(), l.text})
		}
	}
	return out, nil
}
