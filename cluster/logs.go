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
