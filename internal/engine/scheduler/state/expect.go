package state

import (
	"strings"

	"go.millstream.dev/internal/taskid"
)

// expectData makes tasks of data from outside that workers held before the scheduler was started again. Such a task
// waits for a worker that says that it holds the data (AddKeys.Adopt); it has no dependencies and nothing to be
// computed by. What has not come when Hold ends is lost.
func (s *State) expectData(ev *ExpectData) {
	c := s.Client(ev.Client)
	if c == nil {
		return
	}
	var unknown []taskid.Key
	for _, k := range ev.Keys {
		hash := s.tasks.hash(k)
		t := s.tasks.find(k, hash)
		if t == nil {
			k = taskid.Key(strings.Clone(string(k)))
			if !s.held {
				unknown = append(unknown, k)
				continue
			}
			t = s.newTask(k, hash, s.anyPool)
			t.addWant(c)
			s.setState(t, Waiting)
			s.expected = append(s.expected, k)
			continue
		}
		s.desire(t, c)
		if t.state == Released {
			s.recommend(t, toWaiting)
		}
	}
	s.cancelled(c, unknown, "lost data", "it was put on workers before the scheduler was started again, and none has come back with it")
}

// expecting tells that a task waits for a worker to say that it holds its data.
func (t *Task) expecting() bool { return t.state == Waiting && len(t.spec) == 0 }

// expectNoMore gives up what no worker has come back with.
func (s *State) expectNoMore() {
	for _, k := range s.expected {
		if t := s.tasks.get(k); t != nil && t.expecting() {
			s.recommend(t, toForgotten)
		}
	}
	s.expected = nil
}
