package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"log/slog"
	"slices"
	"strings"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/worker"
)

// maxRecord bounds the text of a record, and of each of its attributes, in bytes.
const maxRecord = 8 << 10

// recordHandler is the slog.Handler of a worker process. It sends records to the nanny, which writes them to the log of
// its program.
type recordHandler struct {
	child *child
	level slog.Level
	logs  *worker.Logs // for get_logs; nil if the worker keeps its own records
	attrs []logAttr
	group string
}

// Enabled reports whether records of a level are sent.
func (h *recordHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level }

// Handle sends a record. A record that is logged with the context of a task has its key.
func (h *recordHandler) Handle(ctx context.Context, r slog.Record) error {
	out := &logRecord{Time: r.Time, Level: r.Level, Text: shorten(r.Message), Attrs: slices.Clone(h.attrs)}
	r.Attrs(func(a slog.Attr) bool {
		out.Attrs = appendAttr(out.Attrs, h.group, a)
		return true
	})
	if h.logs != nil {
		if key := task.CurrentKey(ctx); key != "" {
			out.Attrs = append(out.Attrs, logAttr{"key", shorten(key.String())})
		}
		var b strings.Builder
		b.WriteString("task - " + r.Level.String() + " - " + out.Text)
		for _, a := range out.Attrs {
			fmt.Fprintf(&b, " %s=%v", a.Key, a.Value)
		}
		h.logs.Add(r.Time, r.Level, b.String())
	}
	h.child.report(event{Event: eventLog, Log: out})
	return nil
}

// WithAttrs returns a handler that adds attributes to each record.
func (h *recordHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *h
	c.attrs = slices.Clone(h.attrs)
	for _, a := range attrs {
		c.attrs = appendAttr(c.attrs, h.group, a)
	}
	return &c
}

// WithGroup returns a handler that prefixes the names of later attributes.
func (h *recordHandler) WithGroup(name string) slog.Handler {
	c := *h
	if name != "" {
		c.group += name + "."
	}
	return &c
}

// appendAttr adds an attribute in a form that JSON can represent.
func appendAttr(to []logAttr, group string, a slog.Attr) []logAttr {
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindGroup:
		if a.Key != "" {
			group += a.Key + "."
		}
		for _, in := range v.Group() {
			to = appendAttr(to, group, in)
		}
		return to
	case slog.KindBool, slog.KindInt64, slog.KindUint64:
		return append(to, logAttr{group + a.Key, v.Any()})
	}
	if a.Equal(slog.Attr{}) {
		return to
	}
	return append(to, logAttr{group + a.Key, shorten(v.String())})
}

func shorten(s string) string {
	if len(s) > maxRecord {
		s = strings.ToValidUTF8(s[:maxRecord], "") + "…"
	}
	return s
}

// takeLogs sends the log of this process to the nanny, and makes get_logs return its output and log. The returned
// logger is for the worker itself. Package log, and a handler that the program has set for package slog before Main,
// keep writing to standard error, which the nanny reads, so that their last lines survive an exit.
func (c *child) takeLogs(spec LogSpec) (*slog.Logger, *worker.Logs, error) {
	level, err := spec.level()
	if err != nil {
		return nil, nil, err
	}
	logs := worker.NewLogs()
	if fmt.Sprintf("%T", slog.Default().Handler()) == "*slog.defaultHandler" {
		w, flags, prefix := log.Writer(), log.Flags(), log.Prefix()
		slog.SetDefault(slog.New(&recordHandler{child: c, level: slog.LevelInfo, logs: logs}))
		log.SetOutput(w) // SetDefault has redirected it
		log.SetFlags(flags)
		log.SetPrefix(prefix)
	}
	go readEcho(c.echo, logs)
	return slog.New(&recordHandler{child: c, level: level}), logs, nil
}

// readEcho stores the output of this process and its predecessors for get_logs.
func readEcho(r io.Reader, logs *worker.Logs) {
	d := json.NewDecoder(r)
	for {
		var l outputLine
		if err := d.Decode(&l); err != nil {
			return // the parent has ended
		}
		logs.Add(l.Time, slog.LevelInfo, l.Stream+": "+l.Text)
	}
}

// LogSpec specifies how a process logs. Its zero value writes lines of text from level info on.
type LogSpec struct {
	// Format is "text" (default) or "json".
	Format string `json:"format,omitempty"`
	// Level is "debug", "info" (default), "warning" or "error".
	Level string `json:"level,omitempty"`
}

// New returns a logger that writes to w.
func (s LogSpec) New(w io.Writer) (*slog.Logger, error) {
	level, err := s.level()
	if err != nil {
		return nil, err
	}
	options := &slog.HandlerOptions{Level: level}
	switch s.Format {
	case "", "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	default:
		return nil, fmt.Errorf("log format %q: want text or json", s.Format)
	}
}

func (s LogSpec) level() (slog.Level, error) {
	switch strings.ToLower(s.Level) {
	case "debug":
		return slog.LevelDebug, nil
	case "", "info":
		return slog.LevelInfo, nil
	case "warn", "warning":
		return slog.LevelWarn, nil
	case "error", "critical":
		return slog.LevelError, nil
	}
	return 0, fmt.Errorf("log level %q: want debug, info, warning or error", s.Level)
}
