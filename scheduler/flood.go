package scheduler

import "time"

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
