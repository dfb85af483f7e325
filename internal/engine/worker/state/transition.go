package state

// setState changes a task's state, and the list or heap that goes with it. Tasks that run are
// in theirs from startRun to endRun, whatever happens to their state.
func (s *State) setState(t *Task, st TaskState) {
	switch t.state {
	case Waiting:
		s.waiting.remove(t)
	case Ready:
		s.ready.remove(int(t.pos))
		t.pos = -1
	case Constrained:
		t.needs.ready.remove(int(t.pos))
		t.pos = -1
	case Missing:
		s.missing.remove(t)
	case Memory:
		s.inMemory.remove(t)
	case Fetch:
		s.unneedAll(t)
	}
	s.counts[t.state]--
	s.counts[st]++
	t.state = st
	switch st {
	case Waiting:
		s.waiting.add(t)
	case Ready:
		s.ready.push(t, -1)
	case Constrained:
		t.needs.ready.push(t, -1)
	case Missing:
		s.missing.add(t)
	case Memory:
		s.inMemory.add(t)
	case Fetch:
		for i := range t.whoHas {
			s.need(t, int32(i))
		}
	}
}

// transition brings a task to another state, by way of released if there is no direct one.
// Where it ends depends on what is under way, see step.
func (s *State) transition(t *Task, finish TaskState) {
	start := t.state
	if start == finish {
		if start == Fetch && len(t.whoHas) == 0 {
			s.recommend(t, Missing)
		}
		return
	}
	s.transitions++
	if !s.step(t, finish) {
		if start == Released || start == Cancelled || finish == Released {
			panic(s.invalid(t, finish))
		}
		failure := t.failure
		s.transition(t, Released)
		t.rec = noState // released tasks are forgotten or fetched again: not this one
		if finish == Erred {
			t.failure = failure
		}
		s.transition(t, finish)
	}
	s.log.add(s, t, start, finish)
}

func pair(start, finish TaskState) int { return int(start)<<4 | int(finish) }

// step makes the one transition from a task's state to another, and reports whether there is
// such a one.
func (s *State) step(t *Task, finish TaskState) bool {
	switch pair(t.state, finish) {
	case pair(Released, Waiting):
		s.releasedWaiting(t)
	case pair(Waiting, Ready):
		if t.needs != nil {
			s.setState(t, Constrained)
		} else {
			s.setState(t, Ready)
		}
	case pair(Ready, Executing), pair(Constrained, Executing):
		s.startRun(t)
	case pair(Executing, Memory), pair(LongRunning, Memory):
		switch {
		case t.orphaned && t.scattered: // the scheduler has it from who scattered it
			s.added = append(s.added, t)
			s.toMemory(t)
		case t.orphaned:
			s.orphans = append(s.orphans, t)
			s.toMemory(t)
		default:
			s.toMemory(t)
			s.tell(SendTaskFinished, t)
		}
	case pair(Memory, Released):
		s.memoryReleased(t)
	case pair(Released, Forgotten):
		s.releasedForgotten(t)

	case pair(Released, Fetch), pair(Missing, Fetch):
		if len(t.whoHas) == 0 {
			s.recommend(t, Missing)
		} else {
			s.setState(t, Fetch)
			s.fetchCount++
		}
	case pair(Flight, Fetch):
		if t.done {
			t.done = false
			s.setState(t, Released)
			s.recommend(t, Fetch)
		}
	case pair(Fetch, Flight):
		s.fetchCount--
		s.setState(t, Flight)
	case pair(Fetch, Missing):
		if len(t.whoHas) == 0 { // or a holder was found since
			s.fetchCount--
			s.toMissing(t)
		}
	case pair(Released, Missing):
		s.toMissing(t)
	case pair(Flight, Memory):
		t.done = false
		s.added = append(s.added, t)
		s.toMemory(t)
	case pair(Released, Memory):
		s.toMemory(t)

	case pair(Fetch, Released):
		s.fetchCount--
		s.release(t)
	case pair(Waiting, Released), pair(Ready, Released), pair(Constrained, Released), pair(Missing, Released), pair(Erred, Released):
		s.release(t)
	case pair(Executing, Released), pair(LongRunning, Released):
		if t.done {
			s.release(t)
			return true
		}
		t.previous = t.state
		s.cancel(t)
		s.abort(t)
	case pair(Flight, Released):
		if t.done {
			s.release(t)
			return true
		}
		t.previous = Flight
		s.cancel(t)

	case pair(Executing, Erred), pair(LongRunning, Erred), pair(Released, Erred):
		t.done = false
		s.setState(t, Erred)
		s.unlinkAll(t)
		if a := s.tell(SendTaskErred, t); a != nil {
			a.Failure = t.failure
		}
	case pair(Executing, Rescheduled), pair(LongRunning, Rescheduled):
		s.tell(SendReschedule, t)
		s.release(t)

	case pair(Cancelled, Erred), pair(Cancelled, Memory), pair(Cancelled, Missing), pair(Cancelled, Released), pair(Cancelled, Rescheduled):
		if t.done {
			s.release(t)
		}
	case pair(Cancelled, Fetch):
		s.cancelledFetch(t)
	case pair(Cancelled, Waiting):
		s.cancelledWaiting(t)
	case pair(Resumed, Fetch):
		s.resumedFetch(t)
	case pair(Resumed, Missing):
		s.recommend(t, Fetch)
	case pair(Resumed, Memory):
		s.resumedMemory(t)
	case pair(Resumed, Erred), pair(Resumed, Rescheduled):
		s.restart(t, t.next)
	case pair(Resumed, Released):
		t.next = noState
		s.cancel(t)
	default:
		return false
	}
	return true
}

// releasedWaiting looks for the dependencies of a task that is to run.
func (s *State) releasedWaiting(t *Task) {
	t.nwaiting = 0
	for i := range t.deps {
		e := &t.deps[i]
		e.waiting = e.task.state != Memory
		if e.waiting {
			t.nwaiting++
			e.task.nwaiters++
			s.recommend(e.task, Fetch)
		}
	}
	s.setState(t, Waiting)
	if t.nwaiting == 0 {
		s.recommend(t, Ready)
	}
}

// startRun lets a task begin.
func (s *State) startRun(t *Task) {
	s.take(t.needs, 1)
	s.setState(t, Executing)
	s.executing.add(t)
	t.done, t.aborted, t.rerun, t.orphaned = false, false, false, false
	s.say(DoExecute, t)
}

// endRun takes a task out of those that run.
func (s *State) endRun(t *Task) {
	if t.state == LongRunning || t.previous == LongRunning {
		s.longRunning.remove(t)
	} else {
		s.executing.remove(t)
	}
	s.take(t.needs, -1)
	if t.rerun {
		next := t.nextNeeds
		s.useNeeds(t, next)
		t.nextNeeds = nil
		s.unuse(next) // nextNeeds was a user, too
	}
	t.done = true
	s.executed++
}

// abort tells the server that it may stop the run of a task.
func (s *State) abort(t *Task) {
	if !t.aborted {
		t.aborted = true
		s.say(DoCancel, t)
	}
}

// toMemory notes that the result of a task is here.
func (s *State) toMemory(t *Task) {
	t.done, t.scattered, t.asked, t.acquired, t.spec = false, false, false, false, nil
	if t.nbytes < 0 {
		t.nbytes = s.cfg.DefaultSize
	}
	s.nbytes += t.nbytes
	s.setState(t, Memory)
	s.unlinkAll(t)
	if t.nwaiters == 0 {
		return
	}
	for _, b := range t.dependents {
		e := &b.task.deps[b.slot]
		if !e.waiting {
			continue
		}
		e.waiting = false
		t.nwaiters--
		b.task.nwaiting--
		if b.task.nwaiting == 0 && b.task.state == Waiting {
			s.recommend(b.task, Ready)
		}
	}
}

func (s *State) toMissing(t *Task) {
	s.setState(t, Missing)
	if !t.asked {
		s.lost = append(s.lost, t)
	}
}

// memoryReleased drops a result. Tasks here that were about to use it wait for it again.
func (s *State) memoryReleased(t *Task) {
	s.nbytes -= t.nbytes
	for _, b := range t.dependents {
		if u := b.task; unstarted(u.state) {
			u.deps[b.slot].waiting = true
			u.nwaiting++
			t.nwaiters++
			if u.state != Waiting {
				s.setState(u, Waiting)
			}
		}
	}
	s.release(t)
	if s.cfg.AnnounceReleases {
		s.tell(SendReleaseData, t)
	}
}

// release forgets all about a task but who depends on it and who has it.
func (s *State) release(t *Task) {
	s.dropValue(t)
	s.setState(t, Released)
	s.unlinkAll(t)
	t.nbytes = -1
	t.previous, t.next, t.comingFrom, t.failure = noState, noState, nil, nil
	t.done, t.scattered, t.aborted, t.rerun = false, false, false, false
	t.orphaned, t.asked, t.acquired = false, false, false
	switch {
	case len(t.dependents) == 0:
		s.recommend(t, Forgotten)
	case t.nwaiters > 0:
		s.recommend(t, Fetch)
	}
}

// unwanted releases a dependency that nobody waits for any more, unless it is here for its
// own sake.
func (s *State) unwanted(dep *Task) {
	if dep.nwaiters > 0 {
		return
	}
	switch dep.state {
	case Fetch, Flight, Missing, Erred:
		if !dep.acquired {
			s.recommend(dep, Released)
		}
	case Resumed:
		if dep.next == Fetch && !dep.acquired {
			s.recommend(dep, Released)
		}
	case Released:
		if len(dep.dependents) == 0 {
			s.recommend(dep, Forgotten)
		}
	}
}

func (s *State) releasedForgotten(t *Task) {
	s.unlinkAll(t)
	s.removeHolders(t)
	s.useNeeds(t, nil)
	delete(s.tasks, t.key)
	s.counts[Released]--
	t.state = Forgotten
	s.dead = append(s.dead, t)
}

// dropValue has the value of a task deleted from the store, if there is one.
func (s *State) dropValue(t *Task) {
	if t.stored {
		t.stored = false
		s.say(DoDelete, t)
	}
}
