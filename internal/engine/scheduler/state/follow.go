package state

import "go.millstream.dev/internal/taskid"

// This file: what a server that follows single tasks needs: shuffles that live as long as their barrier, and
// progress bars.

// Watch makes every change of state of tasks an action (TaskMoved), until they are forgotten or Off says so.
// Keys that are not known are passed over.
type Watch struct {
	Keys []taskid.Key
	Off  bool
}

// Rerun takes tasks back whatever they are doing and whatever they have made, so that those that are needed run
// again. Erred tasks stay as they are. The first of Keys is taken back first.
type Rerun struct{ Keys []taskid.Key }

// Unqueue keeps tasks out of the queue of root-ish tasks for the rest of their lives.
type Unqueue struct{ Keys []taskid.Key }

func (*Watch) event()   {}
func (*Rerun) event()   {}
func (*Unqueue) event() {}

func (s *State) watch(ev *Watch) {
	for _, k := range ev.Keys {
		if t := s.tasks.get(k); t != nil {
			t.watched = !ev.Off
		}
	}
}

// moved tells the server of a watched task's new state.
func (s *State) moved(t *Task, to TaskState) {
	a := s.out.add(TaskMoved)
	a.Task, a.Key, a.From, a.To = t, t.key, t.state, to
}

func (s *State) rerun(ev *Rerun) {
	for i := len(ev.Keys) - 1; i >= 0; i-- { // the stack starts with the last
		if t := s.tasks.get(ev.Keys[i]); t != nil && t.state != Erred && len(t.spec) > 0 {
			s.recommend(t, toReleased)
		}
	}
}

func (s *State) unqueue(ev *Unqueue) {
	for _, k := range ev.Keys {
		t := s.tasks.get(k)
		if t == nil || t.notes != nil && t.notes.NotQueued {
			continue
		}
		var a Annotations
		if t.notes != nil {
			a = t.notes.Annotations
		}
		a.NotQueued = true
		s.renote(t, &a)
	}
}

// renote replaces the annotations of a task, wherever it is.
func (s *State) renote(t *Task, a *Annotations) {
	if t.state == Processing { // its resources are in use
		t.worker.take(t.notes, -1)
	}
	old := t.notes
	t.notes = s.notesOf(a)
	s.dropNotes(old)
	switch t.state {
	case Processing:
		t.worker.take(t.notes, 1)
	case Queued:
		s.release(t)
	case NoWorkerState:
		s.recommend(t, toProcessing)
	}
}
