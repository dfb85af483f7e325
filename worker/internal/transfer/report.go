package transfer

import (
	"sync"

	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/worker/internal/record"
)

// maxReported bounds the transfers that one heartbeat lists. Further ones are summed by the scheme of their connection.
const maxReported = 1000

// reportLog collects the transfers since the last heartbeat for the log and metrics of the scheduler. Any goroutine may
// use it.
type reportLog struct {
	mu   sync.Mutex
	list []Record
	sums map[string]sum
}

// sum is the sum of incoming transfers that are not listed. Both ends report a transfer; the incoming one counts.
type sum struct {
	count, bytes int64
	seconds      float64
}

// add adds a transfer that has ended. Failed transfers are only in the records of the worker.
func (l *reportLog) add(t *Record) {
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
		l.addSum(t.Scheme, sum{1, t.Bytes, t.Took.Seconds()})
	}
}

// addSum adds to the sum of a scheme. The caller holds mu.
func (l *reportLog) addSum(scheme string, s sum) {
	if l.sums == nil {
		l.sums = map[string]sum{}
	}
	all := l.sums[scheme]
	l.sums[scheme] = sum{all.count + s.count, all.bytes + s.bytes, all.seconds + s.seconds}
}

// Report holds the transfers of one heartbeat.
type Report struct {
	list []Record
	sums map[string]sum
}

// TakeReport returns the transfers since the last call.
func (m *Manager) TakeReport() Report { return m.unreported.take() }

// PutBack adds the transfers of a report that could not be sent to the next one.
func (m *Manager) PutBack(r Report) { m.unreported.putBack(r) }

func (l *reportLog) take() Report {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := Report{l.list, l.sums}
	l.list, l.sums = nil, nil
	return r
}

func (l *reportLog) putBack(r Report) {
	for i := range r.list {
		l.add(&r.list[i])
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for scheme, s := range r.sums {
		l.addSum(scheme, s)
	}
}

// Extensions returns the extension of a heartbeat with the transfers, see the documentation of package scheduler.
func (r Report) Extensions() msgpack.Map {
	if len(r.list) == 0 && len(r.sums) == 0 {
		return msgpack.Map{}
	}
	out := make([]any, len(r.list))
	for i, t := range r.list {
		direction := "outgoing"
		if t.Incoming {
			direction = "incoming"
		}
		start := record.Unix(t.Start)
		out[i] = []any{start, start + t.Took.Seconds(), t.Bytes, t.Scheme, t.Peer, direction, t.Keys,
			t.Transport()}
	}
	more := msgpack.Map{}
	for scheme, s := range r.sums {
		more = append(more, msgpack.Pair{Key: scheme, Value: []any{s.count, s.bytes, s.seconds}})
	}
	return msgpack.MapOf("millstream", msgpack.MapOf("transfers", out, "more-transfers", more))
}
