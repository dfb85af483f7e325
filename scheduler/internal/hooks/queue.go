package hooks

import (
	"context"
	"encoding/binary"
	"sync"
	"time"

	"go.millstream.dev/internal/proc/ratelog"
	"go.millstream.dev/internal/wire/msgpack"
)

// queue holds encoded events until they are delivered. Events beyond its limits are dropped.
type queue struct {
	maxEvents, maxBytes int
	wake                chan struct{}
	noisy               ratelog.Limiter

	mu      sync.Mutex
	started bool   // guarded by mu, as are all below
	buf     []byte // header of an array and its events
	n       int    // events in buf
	skipped uint64 // events that were dropped since the last one in buf
	dropped uint64 // events that were dropped or lost
	added   uint64 // events that were put into buf
	done    uint64 // events that were taken and delivered or lost
	changed chan struct{}
}

// header is the space for the header of an array of 32-bit length.
const header = 5

func (q *queue) init(maxEvents, maxBytes int) {
	q.maxEvents, q.maxBytes = maxEvents, maxBytes
	q.wake, q.changed = make(chan struct{}, 1), make(chan struct{})
}

// start reports whether the queue has no reader yet. The caller starts one.
func (q *queue) start() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	first := !q.started
	q.started = true
	return first
}

func (q *queue) lost() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dropped
}

// put appends an event that encode appends to its argument, or drops it. Vital events may use an eighth more than the
// limits, so that transitions and log events are dropped first.
func (q *queue) put(vital bool, encode func([]byte) []byte) (ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	events, size := q.maxEvents, q.maxBytes
	if vital {
		events, size = events+events/8, size+size/8
	}
	if q.n >= events || len(q.buf) >= size {
		q.skip()
		return false
	}
	if len(q.buf) == 0 {
		q.buf = append(make([]byte, 0, 4096), 0xdd, 0, 0, 0, 0)
	}
	before := len(q.buf)
	b := q.buf
	if q.skipped > 0 {
		b = msgpack.AppendUint(msgpack.AppendString(msgpack.AppendArrayHeader(b, 2), "dropped"), q.skipped)
	}
	b = encode(b)
	if len(b) > size {
		q.buf = b[:before]
		q.skip()
		return false
	}
	q.buf = b
	if q.n++; q.skipped > 0 {
		q.n++
		q.added++
		q.skipped = 0
	}
	q.added++
	select {
	case q.wake <- struct{}{}:
	default:
	}
	return true
}

// skip counts a dropped event.
func (q *queue) skip() {
	q.skipped++
	q.dropped++
}

// take returns all events as an encoded array, and their number.
func (q *queue) take() ([]byte, int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	b, n := q.buf, q.n
	q.buf, q.n = nil, 0
	if n > 0 {
		binary.BigEndian.PutUint32(b[1:header], uint32(n))
	}
	return b, n
}

// finish reports that taken events were delivered, or lost.
func (q *queue) finish(n int, delivered bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.done += uint64(n)
	if !delivered {
		q.dropped += uint64(n)
	}
	close(q.changed)
	q.changed = make(chan struct{})
}

// progress returns the events that were added and finished so far, and a channel that is closed at the next finish.
func (q *queue) progress() (added, done uint64, changed <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.added, q.done, q.changed
}

// slowAfter is the time after which a batch that was not processed is logged.
const slowAfter = 10 * time.Second

// deliver passes events to the plugins until the scheduler closes, one batch at a time.
func (s *Hooks) deliver() {
	var reported uint64
	for {
		select {
		case <-s.queue.wake:
		case <-s.Context.Done():
			return
		}
		for {
			body, n := s.queue.take()
			if n == 0 {
				break
			}
			slow := time.AfterFunc(slowAfter, func() {
				s.queue.noisy.Warn(s.Log, "scheduler plugins are slow", "events", n, "after", slowAfter)
			})
			_, err := s.Call(s.Context, "plugin-events", msgpack.Raw(body), nil)
			slow.Stop()
			s.queue.finish(n, err == nil)
			if s.Context.Err() != nil {
				return
			}
			if err != nil {
				s.queue.noisy.Warn(s.Log, "events for scheduler plugins lost", "events", n, "error", err)
			}
			if lost := s.queue.lost(); lost > reported {
				s.queue.noisy.Warn(s.Log, "events for scheduler plugins dropped", "events", lost-reported, "total",
					lost)
				reported = lost
			}
		}
	}
}

// Flush waits until the plugins have processed the events that were queued so far, for at most Patience.
func (s *Hooks) Flush(ctx context.Context) {
	if !s.Active() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.Patience)
	defer cancel()
	target, done, changed := s.queue.progress()
	for done < target {
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
		_, done, changed = s.queue.progress()
	}
}
