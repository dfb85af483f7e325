package cluster

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// LogSpec says how a process logs. Its zero value writes lines of text from level info on.
type LogSpec struct {
	// Format is "text" (default) or "json".
	Format string `json:"format,omitempty"`
	// Level is "debug", "info" (default), "warning" or "error".
	Level string `json:"level,omitempty"`
}

// New makes a logger that writes to w.
func (s LogSpec) New(w io.Writer) (*slog.Logger, error) {
	options := &slog.HandlerOptions{}
	switch strings.ToLower(s.Level) {
	case "debug":
		options.Level = slog.LevelDebug
	case "", "info":
		options.Level = slog.LevelInfo
	case "warn", "warning":
		options.Level = slog.LevelWarn
	case "error", "critical":
		options.Level = slog.LevelError
	default:
		return nil, fmt.Errorf("log level %q: want debug, info, warning or error", s.Level)
	}
	switch s.Format {
	case "", "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	default:
		return nil, fmt.Errorf("log format %q: want text or json", s.Format)
	}
}
