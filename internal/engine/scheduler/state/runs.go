package state

import "go.millstream.dev/internal/taskid"

// runTable finds a task by the number of its run, which comes back with the report of its end: the numbers count up
// and reports mostly come in the same order, so the place is in the cache, which that of a key in the table of a
// million tasks never is. It may forget and it may be out of date; the table of keys knows better.
type runTable struct {
	ring []*Task // a power of two; by the low bits of the run's number
}

const leastRuns = 256

// note remembers a task by its run, when so many are processing.
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

// ran returns the task with a key, which a worker has reported for a run; nil if there is none.
func (s *State) ran(k taskid.Key, run int64) *Task {
	if r := &s.running; len(r.ring) > 0 {
		if t := r.ring[r.at(run)]; t != nil && t.runID == run && t.key == k && t.state != Forgotten {
			return t
		}
	}
	return s.tasks.get(k)
}

// forget forgets a task that is about to be used for another key.
func (r *runTable) forget(t *Task) {
	if len(r.ring) > 0 && t.runID != 0 {
		if i := r.at(t.runID); r.ring[i] == t {
			r.ring[i] = nil
		}
	}
}
