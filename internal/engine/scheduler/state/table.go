package state

import "go.millstream.dev/internal/task/taskid"

// table has all tasks by key, and finds those that run by the numbers of their runs.
type table struct {
	taskid.Table[*Task]
	runs runTable

	gone  []*Task // forgotten in this event
	spare []*Task // for reuse
	chunk []Task  // not used yet
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
	return tb.Get(k)
}

// forget removes a task that is about to be reused for another key.
func (r *runTable) forget(t *Task) {
	if len(r.ring) > 0 && t.runID != 0 {
		if i := r.at(t.runID); r.ring[i] == t {
			r.ring[i] = nil
		}
	}
}
