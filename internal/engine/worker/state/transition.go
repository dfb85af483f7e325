package state

// setState changes the state of a task, and its list or heap. Running tasks stay in theirs from startRun to endRun,
// independent of their state.
func (s *State) setState(t *Task, st TaskState) {
	if s.cfg.Validate {
		s.checkMove(t, st)
	}
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
		s.peers.removeAllNeeded(t)
	}
	s.tasks.counts[t.state]--
	s.tasks.counts[st]++
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
			s.peers.addNeeded(t, int32(i))
		}
	}
}

// transition moves a task to another state, through Released if there is no direct step. The resulting state depends on
// runs and transfers in progress, see Step.
func (s *State) transition(t *Task, finish TaskState) {
	start := t.state
	if start == finish {
		if start == Fetch && len(t.whoHas) == 0 {
			s.recommend(t, Missing)
		}
		return
	}
	s.transitions++
	if do := dispatch[start&15][finish&15]; do != nil {
		do(s, t)
	} else {
		if start == Released || start == Cancelled || finish == Released {
			panic(invalid(s, t, finish))
		}
		failure := t.failure
		s.transition(t, Released)
		t.rec = noState // a recommendation to forget or fetch the released task does not apply
		if finish == Erred {
			t.failure = failure
		}
		s.transition(t, finish)
	}
	s.log.add(s, t, start, finish)
}

// expected reports whether the result of a task is to be computed here for a task that was assigned ahead of it.
func (t *Task) expected() bool { return t.nowhere && t.assigned() }

// assigned reports whether a task is to run or runs here, possibly after a transfer.
func (t *Task) assigned() bool {
	return unstarted(t.state) || t.state == Executing || t.state == LongRunning ||
		t.state == Resumed && t.next == Waiting
}

// releasedWaiting requests the dependencies of a task that is to run.
func releasedWaiting(s *State, t *Task) {
	t.nwaiting = 0
	for i := range t.deps {
		e := &t.deps[i]
		e.waiting = e.task.state != Memory
		if e.waiting {
			t.nwaiting++
			e.task.nwaiters++
			if !e.task.expected() {
				s.recommend(e.task, Fetch)
			}
		}
	}
	s.setState(t, Waiting)
	if t.nwaiting == 0 {
		s.recommend(t, Ready)
	}
}

// startRun starts the run of a task.
func startRun(s *State, t *Task) {
	s.resources.take(t.needs, 1)
	s.setState(t, Executing)
	s.executing.add(t)
	t.done, t.aborted, t.rerun, t.orphaned = false, false, false, false
	s.addAction(DoExecute, t)
}

// endRun removes a task from the running ones.
func (s *State) endRun(t *Task) {
	if t.state == LongRunning || t.previous == LongRunning {
		s.longRunning.remove(t)
	} else {
		s.executing.remove(t)
	}
	s.resources.take(t.needs, -1)
	if t.rerun {
		next := t.nextNeeds
		s.resources.setNeeds(t, next)
		t.nextNeeds = nil
		s.resources.removeUser(next) // nextNeeds was counted as well
	}
	t.done = true
	s.executed++
}

// abort notifies the server that it may stop the run of a task.
func (s *State) abort(t *Task) {
	if !t.aborted {
		t.aborted = true
		s.addAction(DoCancel, t)
	}
}

// toMemory records that the result of a task is on this worker.
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

// memoryReleased drops a result. Tasks that were about to use it wait for it again.
func memoryReleased(s *State, t *Task) {
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
		s.report(SendReleaseData, t)
	}
}

// release resets a task except for its dependents and holders.
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

// releaseUnwanted releases a dependency that no task waits for, unless it is wanted for another reason.
func (s *State) releaseUnwanted(dep *Task) {
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

func releasedForgotten(s *State, t *Task) {
	s.unlinkAll(t)
	s.peers.removeHolders(t)
	s.resources.setNeeds(t, nil)
	s.tasks.Remove(t)
	s.tasks.counts[Released]--
	t.state = Forgotten
	s.tasks.dead = append(s.tasks.dead, t)
}

// dropValue deletes the value of a task from the store, if there is one.
func (s *State) dropValue(t *Task) {
	if t.stored {
		t.stored = false
		s.addAction(DoDelete, t)
	}
}
