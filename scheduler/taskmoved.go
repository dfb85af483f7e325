package scheduler

import "go.millstream.dev/internal/engine/scheduler/state"

// taskMoved notifies those who follow a task of its new state. It runs in the loop, while actions are being carried
// out.
func (s *Scheduler) taskMoved(a *state.Action) {
	s.shuffles.Moved(a)
	s.feeds.Moved(a)
	s.collectors.Moved(a)
}
