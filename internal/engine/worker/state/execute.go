package state

// This file has what becomes ready, and what runs end with.

// ensureComputing starts tasks while there are threads and resources for them.
func (s *State) ensureComputing() {
	for s.running && s.executing.len() < s.cfg.Threads {
		t := s.nextReady()
		if t == nil {
			return
		}
		s.transition(t, Executing)
	}
}

// nextReady is the most urgent task that can start.
func (s *State) nextReady() *Task {
	var best *Task
	if s.ready.len() > 0 {
		best = s.ready.top()
	}
	for _, set := range s.needSets {
		if set.ready.len() == 0 || best != nil && !set.ready.top().before(best) || !s.satisfied(set) {
			continue
		}
		best = set.ready.top()
	}
	return best
}

func (s *State) executeSuccess(ev *ExecuteSuccess) {
	t := s.tasks[ev.Key]
	if t == nil || !t.running() {
		s.stale(&ev.Stored, t)
		return
	}
	wanted := t.state == Executing || t.state == LongRunning
	s.endRun(t)
	t.stored, t.nbytes, t.typeName = true, ev.NBytes, ev.TypeName
	t.start, t.stop, t.thread = ev.Start, ev.Stop, ev.Thread
	switch {
	case t.rerun && !t.scattered && wanted:
		s.restart(t, Waiting)
	case t.rerun && !t.scattered:
		s.recommend(t, Rescheduled)
	default:
		s.recommend(t, Memory)
	}
}

// stale deletes a value that nobody asked for.
func (s *State) stale(d *Stored, t *Task) {
	if t != nil && (t.stored || t.running() || t.flying()) {
		return
	}
	a := s.out.add(DoDelete)
	a.Key, a.Task, a.Stimulus = d.Key, t, s.ev.stimulus()
}

func (s *State) executeFailure(ev *ExecuteFailure) {
	t := s.tasks[ev.Key]
	if t == nil || !t.running() {
		return
	}
	wanted := t.state == Executing || t.state == LongRunning
	s.endRun(t)
	t.start, t.stop, t.thread = ev.Start, ev.Stop, ev.Thread
	switch {
	case t.scattered:
		s.recommend(t, Memory)
	case wanted && t.orphaned: // the next scheduler will order it again
		s.recommend(t, Released)
	case wanted && (t.aborted || t.rerun): // it was told to stop, and is wanted nevertheless
		s.restart(t, Waiting)
	default:
		t.failure = ev.Failure
		if t.failure == nil {
			t.failure = &Failure{ExceptionText: "the task failed without saying why"}
		}
		s.recommend(t, Erred)
	}
}

func (s *State) reschedule(ev *Reschedule) {
	t := s.tasks[ev.Key]
	if t == nil || !t.running() {
		return
	}
	wanted := t.state == Executing || t.state == LongRunning
	s.endRun(t)
	switch {
	case t.scattered:
		s.recommend(t, Memory)
	case wanted && t.orphaned:
		s.recommend(t, Released)
	case wanted && t.rerun:
		s.restart(t, Waiting)
	default:
		s.recommend(t, Rescheduled)
	}
}
