package peers

import (
	"log/slog"
	"time"
)

// Bounds of figures that a worker reports for results and transfers. Sizes are added up over all tasks, and times are
// used as estimates for tasks of the same prefix: implausible figures of one worker must not affect the others.
const (
	MaxResult = 1 << 50         // bytes
	maxTime   = 100 * 24 * 3600 // seconds
	MaxRate   = 1e14            // bytes per second
)

// ClampSize returns the size of a result within bounds; -1 is unknown. It runs in the loop.
func (w *Worker) ClampSize(log *slog.Logger, n int64) int64 {
	if n >= -1 && n <= MaxResult {
		return n
	}
	w.warn(log, "nbytes", n)
	return max(-1, min(n, MaxResult))
}

// ClampTime returns the duration of a run within bounds. It runs in the loop.
func (w *Worker) ClampTime(log *slog.Logger, seconds float64) time.Duration {
	if seconds > maxTime {
		w.warn(log, "seconds", seconds)
		seconds = maxTime
	}
	return time.Duration(seconds * float64(time.Second))
}

// ClampRate returns the measured bandwidth of a worker within bounds; 0 is unknown. It runs in the loop.
func (w *Worker) ClampRate(log *slog.Logger, rate float64) float64 {
	if rate >= 0 && rate <= MaxRate {
		return rate
	}
	w.warn(log, "bandwidth", rate)
	return 0
}

// warn logs the first implausible figure of a worker.
func (w *Worker) warn(log *slog.Logger, what string, value any) {
	if !w.warned {
		w.warned = true
		log.Warn("worker reported implausible figures; clamping", "worker", w.Address, what, value)
	}
}
