package state

import (
	"slices"
	"strings"

	"go.millstream.dev/internal/task/taskid"
)

// Task finds a task, nil if it is not known.
func (s *State) Task(key taskid.Key) *Task { return s.tasks.byKey[key] }

// Tasks calls f with each task, in the order of their keys, until f returns false.
func (s *State) Tasks(f func(*Task) bool) {
	for _, t := range s.tasks.sorted() {
		if !f(t) {
			return
		}
	}
}

// sorted returns all tasks in the order of their keys.
func (tb *taskTable) sorted() []*Task {
	all := make([]*Task, 0, len(tb.byKey))
	for _, t := range tb.byKey {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b *Task) int { return strings.Compare(string(a.key), string(b.key)) })
	return all
}

// Len is how many tasks are known.
func (s *State) Len() int { return len(s.tasks.byKey) }

// Count is how many tasks are in a state.
func (s *State) Count(st TaskState) int { return s.tasks.counts[st] }

// Executing calls f with each task that runs, also those that have seceded or are cancelled.
func (s *State) Executing(f func(*Task)) {
	for _, t := range s.executing.tasks {
		f(t)
	}
	for _, t := range s.longRunning.tasks {
		f(t)
	}
}

// ExecutingCount is how many tasks run and count against the threads.
func (s *State) ExecutingCount() int { return s.executing.len() }

// InMemory calls f with each task whose result is here.
func (s *State) InMemory(f func(*Task)) {
	for _, t := range s.inMemory.tasks {
		f(t)
	}
}

// Running tells that the state is not paused.
func (s *State) Running() bool { return s.running }

// Attached tells that there is a scheduler, as far as the state was told.
func (s *State) Attached() bool { return !s.detached }

// Idle tells that nothing runs, is to be run or is under way.
func (s *State) Idle() bool {
	return s.executing.len()+s.longRunning.len()+s.transfers.inFlight == 0 &&
		len(s.tasks.byKey) == s.tasks.counts[Memory]+s.tasks.counts[Released]+s.tasks.counts[Erred]
}

// Stats are numbers for metrics.
type Stats struct {
	// NBytes is the size of all results that are here.
	NBytes int64
	// IncomingBytes are under way in IncomingCount transfers; IncomingTotal is how many there
	// were since the start.
	IncomingBytes int64
	IncomingCount int
	IncomingTotal uint64
	// Executed is how many runs have ended, in whatever way.
	Executed uint64
	// Transitions is how many there were.
	Transitions uint64
}

// Stats are the numbers of now.
func (s *State) Stats() Stats {
	return Stats{s.nbytes, s.transfers.bytes, s.transfers.inFlight, s.transfers.total, s.executed, s.transitions}
}

// Config is the configuration with all defaults filled in.
func (s *State) Config() Config { return s.cfg }
