package scheduler

import "time"

// Bounds of what a worker can say of results and transfers. Sizes are added up over all tasks, and times
// become estimates for those of the same kind: one worker's nonsense must not become
// everybody's.
const (
	maxResult = 1 << 50         // bytes
	maxTime   = 100 * 24 * 3600 // seconds
	maxRate   = 1e14            // bytes per second
)

// believedSize is the size of a result as far as it can be: -1 is not known. It runs in the
// loop.
func (s *Scheduler) believedSize(w *worker, n int64) int64 {
	if n >= -1 && n <= maxResult {
		return n
	}
	s.doubt(w, "nbytes", n)
	return max(-1, min(n, maxResult))
}

// believedTime is how long a run has taken as far as it can be. It runs in the loop.
func (s *Scheduler) believedTime(w *worker, seconds float64) time.Duration {
	if seconds > maxTime {
		s.doubt(w, "seconds", seconds)
		seconds = maxTime
	}
	return time.Duration(seconds * float64(time.Second))
}

// believedRate is the bandwidth that a worker has measured, as far as it can be: 0 is not
// known. It runs in the loop.
func (s *Scheduler) believedRate(w *worker, rate float64) float64 {
	if rate >= 0 && rate <= maxRate {
		return rate
	}
	s.doubt(w, "bandwidth", rate)
	return 0
}

// doubt names a worker in the log, once.
func (s *Scheduler) doubt(w *worker, what string, value any) {
	if !w.doubted {
		w.doubted = true
		s.log.Warn("a worker tells of results what cannot be; the figures are cut", "worker", w.address, what, value)
	}
}

// floodRate is how many messages a second one client may send before the log names it: Dask's
// send at most a hundred, Go's some thousand.
const floodRate = 20_000

// flood notices a client that sends without end. It is slowed down as every peer is that sends
// more than the loop takes; this only says who it is, at most once a minute. The reader of the
// stream owns it.
type flood struct {
	count int
	since time.Time // of the first message that is counted
	told  time.Time
}

// message counts one and reports true, with the messages per second, when it is time to say
// something.
func (f *flood) message(rate int) (perSecond float64, tell bool) {
	if f.count++; f.count < rate {
		return 0, false
	}
	now := time.Now()
	took := now.Sub(f.since)
	f.count, f.since = 0, now
	if took > time.Second || !f.told.IsZero() && now.Sub(f.told) < time.Minute {
		return 0, false
	}
	f.told = now
	return float64(rate) / max(took.Seconds(), 1e-6), true
}
