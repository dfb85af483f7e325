package memory

import (
	"maps"
	"slices"
	"time"

	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/peers"
)

// usage is the memory of one worker or of several, in bytes: MemoryState of Dask.
type usage struct {
	process      int64 // of the processes
	managed      int64 // results in memory
	spilled      int64 // results on disk
	unmanagedOld int64 // the rest, as far as it is not recent
}

// newUsage returns the memory of a worker. Its figures are of different times and are made consistent, as in Dask.
func newUsage(process, managed, spilled, old int64) usage {
	managed = min(managed, process)
	return usage{process: process, managed: managed, spilled: spilled, unmanagedOld: min(old, process-managed)}
}

func (u *usage) add(v usage) {
	u.process += v.process
	u.managed += v.managed
	u.spilled += v.spilled
	u.unmanagedOld += v.unmanagedOld
}

// measures are the figures of a usage, under the names of Dask.
var measures = map[string]func(usage) int64{
	"process":          func(u usage) int64 { return u.process },
	"managed":          func(u usage) int64 { return u.managed },
	"managed_total":    func(u usage) int64 { return u.managed + u.spilled },
	"spilled":          func(u usage) int64 { return u.spilled },
	"unmanaged":        func(u usage) int64 { return u.process - u.managed },
	"unmanaged_old":    func(u usage) int64 { return u.unmanagedOld },
	"unmanaged_recent": func(u usage) int64 { return u.process - u.managed - u.unmanagedOld },
	"optimistic":       func(u usage) int64 { return u.managed + u.unmanagedOld },
}

// measureNames returns the names of measures, sorted.
func measureNames() []string { return slices.Sorted(maps.Keys(measures)) }

// usage returns the memory of all workers. It runs in the loop.
func (s *Memory) usage() usage {
	var sum usage
	for _, w := range s.Workers.ByAddress {
		sum.add(s.of(w))
	}
	return sum
}

// of returns the memory of a worker. It runs in the loop.
func (s *Memory) of(w *peers.Worker) usage {
	var old int64 // of a new worker
	if l := s.old[w]; l != nil {
		old = l.get()
	}
	r := &w.Recorded
	return newUsage(r.RSS, r.Managed, r.Spilled, old)
}

// Usage returns the figures of a worker's memory that determine the others. It runs in the loop.
func (s *Memory) Usage(w *peers.Worker) msgpack.Map {
	u := s.of(w)
	return msgpack.MapOf("process", u.process, "managed", u.managed, "spilled", u.spilled, "unmanaged_old",
		u.unmanagedOld)
}

// recordInterval is the resolution in time of unmanaged memory.
const recordInterval = 500 * time.Millisecond

// record records the unmanaged memory of all workers. It runs in the loop.
func (s *Memory) record(now time.Time) {
	for w := range s.old {
		if s.Workers.ByAddress[w.Address] != w {
			delete(s.old, w)
		}
	}
	for _, w := range s.Workers.ByAddress {
		l := s.old[w]
		if l == nil {
			l = &lowest{}
			s.old[w] = l
			l.add(now, 0, s.RecentToOld) // all memory of a new worker is recent
		}
		l.add(now, max(w.Recorded.RSS-w.Recorded.Managed, 0), s.RecentToOld)
	}
}

// lowest is the lowest of the values of a period of time.
type lowest struct {
	// values increase from the first, which is the lowest: later ones that are lower replace earlier ones.
	values []timed
}

type timed struct {
	at time.Time
	n  int64
}

// add adds a value and forgets those older than a period.
func (l *lowest) add(now time.Time, n int64, period time.Duration) {
	for len(l.values) > 0 && l.values[len(l.values)-1].n >= n {
		l.values = l.values[:len(l.values)-1]
	}
	l.values = append(l.values, timed{now, n})
	first := 0
	for now.Sub(l.values[first].at) > period {
		first++
	}
	l.values = slices.Delete(l.values, 0, first)
}

// get returns the lowest value; 0 without values.
func (l *lowest) get() int64 {
	if len(l.values) == 0 {
		return 0
	}
	return l.values[0].n
}
