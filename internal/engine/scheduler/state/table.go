package state

import (
	"hash/maphash"

	"go.millstream.dev/internal/task/taskid"
)

// table finds tasks by their keys. It is an open-addressing table instead of a map because it holds a million tasks: it
// grows without hashing keys again, and has one pointer per task for the garbage collector instead of two and a length.
// Its seed is random, which affects only the order of Tasks.
type table struct {
	slots []slot // a power of two
	n     int
	seed  maphash.Seed
	runs  runTable

	gone  []*Task // forgotten in this event
	spare []*Task // for reuse
	chunk []Task  // not used yet
}

type slot struct {
	hash uint64
	t    *Task // nil for an empty slot
}

const leastSlots = 64

func newTable() table {
	return table{slots: make([]slot, leastSlots), seed: maphash.MakeSeed()}
}

func (tb *table) hash(k taskid.Key) uint64 { return maphash.String(tb.seed, string(k)) }

// get returns the task with a key, nil if there is none.
func (tb *table) get(k taskid.Key) *Task { return tb.find(k, tb.hash(k)) }

func (tb *table) find(k taskid.Key, hash uint64) *Task {
	mask := uint64(len(tb.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		s := &tb.slots[i]
		if s.t == nil {
			return nil
		}
		if s.hash == hash && s.t.key == k {
			return s.t
		}
	}
}

// put adds a task that is not in the table.
func (tb *table) put(t *Task, hash uint64) {
	if tb.n >= len(tb.slots)/4*3 {
		tb.resize(2 * len(tb.slots))
	}
	tb.n++
	tb.place(slot{hash, t})
}

func (tb *table) place(s slot) {
	mask := uint64(len(tb.slots) - 1)
	i := s.hash & mask
	for tb.slots[i].t != nil {
		i = (i + 1) & mask
	}
	tb.slots[i] = s
}

// remove removes a task. Displaced tasks move up, so that no tombstones are needed.
func (tb *table) remove(t *Task) {
	mask := uint64(len(tb.slots) - 1)
	i := tb.hash(t.key) & mask
	for tb.slots[i].t != t {
		if tb.slots[i].t == nil {
			return
		}
		i = (i + 1) & mask
	}
	tb.n--
	for j := i; ; {
		j = (j + 1) & mask
		if tb.slots[j].t == nil {
			break
		}
		// Tasks whose home is between the hole and here stay.
		if home := tb.slots[j].hash & mask; (j-home)&mask >= (j-i)&mask {
			tb.slots[i] = tb.slots[j]
			i = j
		}
	}
	tb.slots[i] = slot{}
	if len(tb.slots) > leastSlots && tb.n < len(tb.slots)/8 {
		tb.resize(len(tb.slots) / 2)
	}
}

func (tb *table) resize(size int) {
	old := tb.slots
	tb.slots = make([]slot, size)
	for _, s := range old {
		if s.t != nil {
			tb.place(s)
		}
	}
}

// chunk is the number of tasks that are allocated at once: few allocations, but not so large that one remaining task
// keeps much memory alive.
const chunk = 32

// blank returns a zero task.
func (tb *table) blank() *Task {
	if n := len(tb.spare); n > 0 {
		t := tb.spare[n-1]
		tb.spare[n-1] = nil
		tb.spare = tb.spare[:n-1]
		return t
	}
	if len(tb.chunk) == 0 {
		tb.chunk = make([]Task, chunk)
	}
	t := &tb.chunk[0]
	tb.chunk = tb.chunk[1:]
	return t
}

// maxSpare bounds the forgotten tasks whose memory is kept for new ones.
const maxSpare = 4096

// reclaim keeps the memory of the tasks that the last event has forgotten for new ones.
func (tb *table) reclaim() {
	if len(tb.gone) == 0 {
		return
	}
	for i, t := range tb.gone {
		tb.runs.forget(t)
		if len(tb.spare) < maxSpare {
			deps, dependents := t.deps[:0], t.dependents[:0]
			*t = Task{}
			if cap(deps) <= 8 && cap(dependents) <= 8 {
				t.deps, t.dependents = deps, dependents
			}
			tb.spare = append(tb.spare, t)
		}
		tb.gone[i] = nil
	}
	tb.gone = tb.gone[:0]
}

// runTable finds a task by the number of its run, which is in the report of its end. Numbers increase and reports
// mostly arrive in the same order, so the entry is in the CPU cache, unlike that of a key in the table of a million
// tasks. Entries may be missing or outdated; the table of keys is authoritative.
type runTable struct {
	ring []*Task // a power of two; by the low bits of the run's number
}

const leastRuns = 256

// note records a task by its run; processing is the number of processing tasks.
func (r *runTable) note(t *Task, processing int) {
	if processing > len(r.ring)/2 && len(r.ring) < 1<<20 || len(r.ring) == 0 {
		old := r.ring
		r.ring = make([]*Task, max(2*len(old), leastRuns))
		for _, t := range old {
			if t != nil {
				r.ring[r.at(t.runID)] = t
			}
		}
	}
	r.ring[r.at(t.runID)] = t
}

func (r *runTable) at(run int64) int { return int(run) & (len(r.ring) - 1) }

// ran returns the task with a key that a worker has reported for a run; nil if there is none.
func (tb *table) ran(k taskid.Key, run int64) *Task {
	if r := &tb.runs; len(r.ring) > 0 {
		if t := r.ring[r.at(run)]; t != nil && t.runID == run && t.key == k && t.state != Forgotten {
			return t
		}
	}
	return tb.get(k)
}

// forget removes a task that is about to be reused for another key.
func (r *runTable) forget(t *Task) {
	if len(r.ring) > 0 && t.runID != 0 {
		if i := r.at(t.runID); r.ring[i] == t {
			r.ring[i] = nil
		}
	}
}
