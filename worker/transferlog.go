package worker

import (
	"sync"

	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/worker/internal/record"
)

// maxReported bounds the transfers that one heartbeat lists. Those beyond it are added up by data connection.
const maxReported = 1000

// transferLog collects the transfers since the last heartbeat for the scheduler's log and metrics. Any goroutine may
// use it.
type transferLog struct {
	mu   sync.Mutex
	list []Transfer
	sums map[string]transferSum
}

// transferSum is the sum of incoming transfers that are not listed. Each transfer has two ends; the incoming one counts.
type transferSum struct {
	count, bytes int64
	seconds      float64
}

// add notes a transfer that has ended. Failed ones are the business of the worker's own records.
func (l *transferLog) add(t *Transfer) {
	if t.Error != "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.list) < maxReported {
		l.list = append(l.list, *t)
		return
	}
	if t.Incoming {
		l.addSum(t.Lane, transferSum{1, t.Bytes, t.Took.Seconds()})
	}
}

// addSum adds to the sum of a lane. The caller holds mu.
func (l *transferLog) addSum(lane string, s transferSum) {
	if l.sums == nil {
		l.sums = map[string]transferSum{}
	}
	all := l.sums[lane] // lanes are schemes of addresses: a handful
	l.sums[lane] = transferSum{all.count + s.count, all.bytes + s.bytes, all.seconds + s.seconds}
}

// take returns what was noted since the last time.
func (l *transferLog) take() ([]Transfer, map[string]transferSum) {
	l.mu.Lock()
	defer l.mu.Unlock()
	list, sums := l.list, l.sums
	l.list, l.sums = nil, nil
	return list, sums
}

// putBack notes again what a heartbeat that failed had taken.
func (l *transferLog) putBack(list []Transfer, sums map[string]transferSum) {
	for i := range list {
		l.add(&list[i])
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for lane, s := range sums {
		l.addSum(lane, s)
	}
}

// transferReport returns the part of a heartbeat that has the transfers: see the documentation of package scheduler.
func transferReport(list []Transfer, sums map[string]transferSum) msgpack.Map {
	if len(list) == 0 && len(sums) == 0 {
		return msgpack.Map{}
	}
	out := make([]any, len(list))
	for i, t := range list {
		direction := "outgoing"
		if t.Incoming {
			direction = "incoming"
		}
		start := record.Unix(t.Start)
		out[i] = []any{start, start + t.Took.Seconds(), t.Bytes, t.Lane, t.Peer, direction, t.Keys}
	}
	more := msgpack.Map{}
	for lane, s := range sums {
		more = append(more, msgpack.Pair{Key: lane, Value: []any{s.count, s.bytes, s.seconds}})
	}
	return msgpack.MapOf("millstream", msgpack.MapOf("transfers", out, "more-transfers", more))
}
