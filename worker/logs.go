package worker

import (
	"log/slog"
	"time"

	"go.millstream.dev/worker/internal/logs"
)

// Logs keeps the last log records and lines of output of a process for get_logs. Any goroutine may use it.
type Logs struct{ records *logs.Records }

// NewLogs returns an empty Logs.
func NewLogs() *Logs { return &Logs{logs.NewRecords()} }

// Add adds a record, whose text is cut at 16 KiB.
func (l *Logs) Add(at time.Time, level slog.Level, text string) { l.records.Add(at, level, text) }
