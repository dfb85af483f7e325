package spans

import (
	"bytes"
	"slices"
	"sort"
	"time"
)

// Event is something that happened: the death of a worker, a retry, a lost key, a restart.
type Event struct {
	T    int64  // µs since the origin
	Kind string // of the caller
	JSON []byte // of the caller; not to be changed
}

// Bounds of events; the oldest are dropped first.
const (
	maxEvents     = 16 << 10
	maxEventBytes = 8 << 20
	maxEvent      = 64 << 10
)

// eventLog is the events of a history in order of time.
type eventLog struct {
	list  []Event
	bytes int
}

// Event adds an event. The number of events is bounded: the oldest are dropped. Events of more than 64 KiB are counted
// as dropped.
func (s *Store) Event(t time.Time, kind string, json []byte) {
	us := t.UnixMicro() - s.origin
	limit := s.cfg.Now().Add(futureMargin).UnixMicro() - s.origin
	if us < 0 || us >= min(limit, maxTime) || len(json) > maxEvent {
		s.dropped.Add(1)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events.add(Event{us, clip(kind), bytes.Clone(json)})
	s.changed = true
}

func (l *eventLog) add(e Event) {
	i := sort.Search(len(l.list), func(i int) bool { return l.list[i].T > e.T })
	l.list = slices.Insert(l.list, i, e)
	l.bytes += len(e.JSON)
	drop := 0
	for len(l.list)-drop > maxEvents || l.bytes > maxEventBytes {
		l.bytes -= len(l.list[drop].JSON)
		drop++
	}
	if drop > 0 {
		clear(l.list[:drop])
		l.list = l.list[drop:]
	}
}

// Events returns the events since a time.
func (s *Store) Events(from int64) []Event {
	s.mu.RLock()
	defer s.mu.RUnlock()
	list := s.events.list
	i := sort.Search(len(list), func(i int) bool { return list[i].T >= from })
	return slices.Clone(list[i:])
}
