package state

import "bytes"

// This file applies the events of the scheduler.

func (ev *ComputeTask) apply(s *State) {
	hash := s.tasks.Hash(ev.Key)
	t := s.tasks.Find(ev.Key, hash)
	same := true
	if t == nil {
		t = s.tasks.addWithSpec(ev.Key, hash, ev.Spec)
	} else {
		same = t.state != Memory && bytes.Equal(t.spec, ev.Spec)
	}
	t.runID = ev.RunID
	switch {
	case t.state == Memory:
		s.report(SendTaskFinished, t)
		return
	case unstarted(t.state) && same:
		return
	case unstarted(t.state), t.state == Erred, t.state == Fetch, t.state == Missing:
		s.transition(t, Released)
		t.rec = noState
	case (t.state == Executing || t.state == LongRunning) && same:
		if t.orphaned && t.state == LongRunning {
			s.report(SendLongRunning, t)
		}
		t.orphaned = false
		return
	}

	if !same {
		t.spec = cloneBytes(ev.Spec)
	}
	s.generation--
	t.priority, t.generation, t.hasPrio = ev.Priority, s.generation, true
	t.actor, t.failure = ev.Actor, nil
	t.annotations, t.spanID, t.data = cloneBytes(ev.Annotations), cloneString(ev.SpanID), ev.Data
	if running := t.running(); !running || !same { // a run keeps its resources
		set, err := s.resources.setFor(ev.Resources)
		switch {
		case err != nil:
			reject(s, t, &Failure{ExceptionText: err.Error()})
			return
		case running:
			replace(s, t, set)
		default:
			s.resources.setNeeds(t, set)
		}
	}
	s.linkDeps(t, ev.Deps)
	if t.state == Executing || t.state == LongRunning {
		t.orphaned = false
		return
	}
	s.recommend(t, Waiting)
}

// reject fails an assignment. Other uses of the task, as data of others, continue.
func reject(s *State, t *Task, why *Failure) {
	switch t.state {
	case Released:
		t.failure = why
		s.recommend(t, Erred)
		return
	case Executing, LongRunning:
		s.transition(t, Released)
	}
	if a := s.report(SendTaskErred, t); a != nil {
		a.Failure = why
	}
}

// replace records that the current run is not the wanted one: another one follows it.
func replace(s *State, t *Task, set *needSet) {
	if set != nil {
		set.users++
	}
	s.resources.removeUser(t.nextNeeds)
	t.rerun, t.nextNeeds = true, set
	s.abort(t)
}

func (ev *FreeKeys) apply(s *State) {
	for _, key := range ev.Keys {
		if t := s.tasks.Get(key); t != nil {
			s.recommend(t, Released)
		}
	}
}

func (ev *RemoveReplicas) apply(s *State) {
	for _, key := range ev.Keys {
		t := s.tasks.Get(key)
		if t == nil || t.state != Memory {
			continue
		}
		if t.actor || t.needed() {
			s.added = append(s.added, t)
		} else {
			s.recommend(t, Released)
		}
	}
}

// needed reports whether a task on this worker uses the value or is about to.
func (t *Task) needed() bool {
	for _, b := range t.dependents {
		if st := b.task.state; unstarted(st) || st == Executing || st == LongRunning {
			return true
		}
	}
	return false
}

func (ev *AcquireReplicas) apply(s *State) {
	for i := range ev.Deps {
		d := &ev.Deps[i]
		t := s.ensureTask(d.Key, replicaPriority, 0)
		if t.state == Memory || t.assigned() { // on this worker, or will be
			continue
		}
		if t.state == Erred {
			s.transition(t, Released)
		}
		s.setDep(t, d)
		t.acquired = true
		s.recommend(t, Fetch)
	}
}

func (ev *RefreshWhoHas) apply(s *State) {
	for i := range ev.Deps {
		if t := s.tasks.Get(ev.Deps[i].Key); t != nil {
			s.updateHolders(t, ev.Deps[i].WhoHas)
		}
	}
}

func (ev *StealRequest) apply(s *State) {
	t := s.tasks.Get(ev.Key)
	if !s.detached {
		a := s.out.add(SendStealResponse)
		a.Key, a.Stimulus = ev.Key, ev.Stimulus
		if t != nil {
			a.Task, a.Key, a.State, a.HasState = t, t.key, t.state, true
		}
	}
	if t != nil && unstarted(t.state) {
		s.recommend(t, Released)
	}
}

func (ev *UpdateData) apply(s *State) {
	for i := range ev.Data {
		d := &ev.Data[i]
		t := s.tasks.ensure(d.Key)
		if t.state == Memory {
			s.nbytes += d.NBytes - t.nbytes
		}
		t.stored, t.typeName = true, d.TypeName
		switch {
		case t.state == Memory:
			t.nbytes = d.NBytes
		case t.running():
			t.scattered, t.nbytes = true, d.NBytes
			if t.state == Cancelled { // wanted again, without an assignment
				t.orphaned = true
				previous := t.previous
				t.previous = noState
				s.setState(t, previous)
			}
		case t.flying():
			t.scattered, t.nbytes = true, d.NBytes
			if t.state == Cancelled {
				t.previous = noState
				s.setState(t, Flight)
			}
		default:
			ordered := unstarted(t.state)
			if ev.Passed && t.state != Released {
				// A request for its holders may be in flight, after which the scheduler assumes that it is not here.
				s.added = append(s.added, t)
			}
			if t.state != Released {
				t.stored = false // keep it in the transition
				s.transition(t, Released)
				t.stored = true
			}
			t.rec = noState
			t.nbytes = d.NBytes
			s.transition(t, Memory)
			if ordered {
				s.report(SendTaskFinished, t)
			}
		}
	}
}

func (ev *CancelCompute) apply(s *State) {
	if t := s.tasks.Get(ev.Key); t != nil && unstarted(t.state) {
		s.recommend(t, Released)
	}
}
