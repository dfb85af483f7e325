// Package ratelog bounds how often a log message about hostile or broken peers is written: a peer that fails a thousand
// times a second must not fill the disk.
package ratelog

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Defaults of Limiter.
const (
	// Burst is the number of messages that pass at once.
	Burst = 20
	// Interval is the time after which one more passes.
	Interval = time.Second
)

// Limiter lets Burst messages through, then one per Interval. The zero value is ready to
// use. Its methods may be called from any goroutine.
type Limiter struct {
	mu      sync.Mutex
	used    int       // of the burst; guarded by mu
	since   time.Time // when used was last lowered; guarded by mu
	dropped int64     // messages since the last one that passed; guarded by mu
}

// allow reports whether a message passes, and how many were dropped before it.
func (l *Limiter) allow(now time.Time) (dropped int64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if back := int(now.Sub(l.since) / Interval); back > 0 {
		l.used = max(l.used-back, 0)
		l.since = now
	}
	if l.used >= Burst {
		l.dropped++
		return 0, false
	}
	l.used++
	dropped, l.dropped = l.dropped, 0
	return dropped, true
}

// Log writes a message unless there were too many. One that passes after others were
// dropped has their number as attribute "suppressed".
func (l *Limiter) Log(log *slog.Logger, level slog.Level, msg string, args ...any) {
	dropped, ok := l.allow(time.Now())
	if !ok {
		return
	}
	if dropped > 0 {
		args = append(args, "suppressed", dropped)
	}
	log.Log(context.Background(), level, msg, args...)
}

// Warn is Log at level Warn.
func (l *Limiter) Warn(log *slog.Logger, msg string, args ...any) {
	l.Log(log, slog.LevelWarn, msg, args...)
}
