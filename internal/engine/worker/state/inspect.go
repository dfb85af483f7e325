package state

import (
	"slices"
	"strings"

	"go.millstream.dev/internal/task/taskid"
)

// Task returns the task with a key, nil if it is unknown.
func (s *State) Task(key taskid.Key) *Task { return s.tasks.Get(key) }

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
	all := make([]*Task, 0, tb.Len())
	for t := range tb.All() {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b *Task) int { return strings.Compare(string(a.key), string(b.key)) })
	return all
}

// Len returns the number of tasks.
func (s *State) Len() int { return s.tasks.Len() }

// Count returns the number of tasks in a state.
func (s *State) Count(st TaskState) int { return s.tasks.counts[st] }

// Executing calls f with each running task, including seceded and canceled ones.
func (s *State) Executing(f func(*Task)) {
	for _, t := range s.executing.tasks {
		f(t)
	}
	for _, t := range s.longRunning.tasks {
		f(t)
	}
}

// ExecutingCount returns the number of running tasks that count against the threads.
func (s *State) ExecutingCount() int { return s.executing.len() }

// InMemory calls f with each task whose result is on the worker.
func (s *State) InMemory(f func(*Task)) {
	for _, t := range s.inMemory.tasks {
		f(t)
	}
}

// Running reports whether the state is not paused.
func (s *State) Running() bool { return s.running }

// Attached reports whether there is a scheduler, according to the events.
func (s *State) Attached() bool { return !s.detached }

// Idle reports whether no task is running, assigned or being fetched.
func (s *State) Idle() bool {
	return s.executing.len()+s.longRunning.len()+s.transfers.inFlight == 0 &&
		s.tasks.Len() == s.tasks.counts[Memory]+s.tasks.counts[Released]+s.tasks.counts[Erred]
}

// Stats are figures for metrics.
type Stats struct {
	// NBytes is the size of all results on the worker.
	NBytes int64
	// IncomingBytes and IncomingCount are those of the transfers in progress; IncomingTotal is the number of transfers
	// since the start.
	IncomingBytes int64
	IncomingCount int
	IncomingTotal uint64
	// Executed is the number of runs that have ended, in any way.
	Executed uint64
	// Transitions is the number of transitions.
	Transitions uint64
}

// Stats returns the current figures.
func (s *State) Stats() Stats {
	return Stats{s.nbytes, s.transfers.bytes, s.transfers.inFlight, s.transfers.total, s.executed, s.transitions}
}

// Config returns the configuration with all defaults set.
func (s *State) Config() Config { return s.cfg }
