package state

// This file selects the tasks to run, and handles the ends of runs.

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

// nextReady returns the most urgent task that can start.
func (s *State) nextReady() *Task {
	var best *Task
	if s.ready.len() > 0 {
		best = s.ready.top()
	}
	for _, set := range s.resources.sets {
		if set.ready.len() == 0 || best != nil && !set.ready.top().before(best) || !s.resources.satisfied(set) {
			continue
		}
		best = set.ready.top()
	}
	return best
}

func (ev *ExecuteSuccess) apply(s *State) {
	t := ev.Hint
	if t == nil || t.key != ev.Key || t.key == "" || t.state == Forgotten {
		t = s.tasks.Get(ev.Key)
	}
	if t == nil || !t.running() {
		dropStale(s, &ev.Stored, t)
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

// dropStale deletes a value that is not wanted.
func dropStale(s *State, d *Stored, t *Task) {
	if t != nil && (t.stored || t.running() || t.flying()) {
		return
	}
	a := s.out.add(DoDelete)
	a.Key, a.Task, a.Stimulus = d.Key, t, s.ev.stimulus()
}

func (ev *ExecuteFailure) apply(s *State) {
	t := s.tasks.Get(ev.Key)
	if t == nil || !t.running() {
		return
	}
	wanted := t.state == Executing || t.state == LongRunning
	s.endRun(t)
	t.start, t.stop, t.thread = ev.Start, ev.Stop, ev.Thread
	switch {
	case t.scattered:
		s.recommend(t, Memory)
	case wanted && t.orphaned: // the next scheduler will assign it again
		s.recommend(t, Released)
	case wanted && (t.aborted || t.rerun): // canceled, and wanted again
		s.restart(t, Waiting)
	default:
		t.failure = ev.Failure
		if t.failure == nil {
			t.failure = &Failure{ExceptionText: "task failed without a reason"}
		}
		s.recommend(t, Erred)
	}
}

func (ev *Reschedule) apply(s *State) {
	t := s.tasks.Get(ev.Key)
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

func (ev *Secede) apply(s *State) {
	if t := s.tasks.Get(ev.Key); t != nil && t.running() {
		s.secede(t, ev.Duration)
	}
}

func (ev *DataLost) apply(s *State) {
	t := s.tasks.Get(ev.Key)
	if t == nil || t.state != Memory {
		return
	}
	if !s.cfg.AnnounceReleases {
		s.report(SendReleaseData, t)
	}
	s.recommend(t, Released)
}

func (*Pause) apply(s *State) { s.running = false }

func (*Unpause) apply(s *State) { s.running = true }

func (ev *SetResources) apply(s *State) { s.resources.setTotals(ev.Resources) }
