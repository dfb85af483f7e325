package state

import (
	"hash/maphash"

	"go.millstream.dev/internal/taskid"
)

// table finds tasks by their keys. It is a plain open-addressing table instead of a map because it holds a million
// tasks: it grows without hashing keys again, and has one pointer per task for the collector to follow instead of two
// and a length. Its seed is random, which nothing but the order of Tasks shows.
type table struct {
	slots []slot // a power of two
	n     int
	seed  maphash.Seed
}

type slot struct {
	hash uint64
	t    *Task // nil where there is none
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

// put adds a task that is not there.
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

// remove takes a task out. Those that it was in the way of move up, so that nothing has to be skipped later.
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
		// What belongs between the hole and here stays.
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

// chunk is how many tasks are allocated at once: one piece of memory instead of many, not so large that one
// task that stays keeps much alive.
const chunk = 32

// blankTask returns a task with nothing set.
func (s *State) blankTask() *Task {
	if n := len(s.spare); n > 0 {
		t := s.spare[n-1]
		s.spare[n-1] = nil
		s.spare = s.spare[:n-1]
		return t
	}
	if len(s.chunk) == 0 {
		s.chunk = make([]Task, chunk)
	}
	t := &s.chunk[0]
	s.chunk = s.chunk[1:]
	return t
}
