package peers

import (
	"log/slog"
	"time"
)

// Bounds of what a worker can say of results and transfers. Sizes are added up over all tasks, and times
// become estimates for those of the same kind: one worker's nonsense must not become
// everybody's.
const (
	MaxResult = 1 << 50         // bytes
	maxTime   = 100 * 24 * 3600 // seconds
	MaxRate   = 1e14            // bytes per second
)

// BelievedSize is the size of a result as far as it can be: -1 is not known. It runs in the
// loop.
func (w *Worker) BelievedSize(log *slog.Logger, n int64) int64 {
	if n >= -1 && n <= MaxResult {
		return n
	}
	w.doubt(log, "nbytes", n)
	return max(-1, min(n, MaxResult))
}

// BelievedTime is how long a run has taken as far as it can be. It runs in the loop.
func (w *Worker) BelievedTime(log *slog.Logger, seconds float64) time.Duration {
	if seconds > maxTime {
		w.doubt(log, "seconds", seconds)
		seconds = maxTime
	}
	return time.Duration(seconds * float64(time.Second))
}

// BelievedRate is the bandwidth that a worker has measured, as far as it can be: 0 is not
// known. It runs in the loop.
func (w *Worker) BelievedRate(log *slog.Logger, rate float64) float64 {
	if rate >= 0 && rate <= MaxRate {
		return rate
	}
	w.doubt(log, "bandwidth", rate)
	return 0
}

// doubt names a worker in the log, once.
func (w *Worker) doubt(log *slog.Logger, what string, value any) {
	if !w.doubted {
		w.doubted = true
		log.Warn("worker reported implausible figures; clamping", "worker", w.Address, what, value)
	}
}
