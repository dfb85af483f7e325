package state

import "time"

// A run cannot be stopped immediately, and a transfer carries several keys: a task that is no longer wanted stays
// Cancelled until its run or transfer has ended. If it is wanted again before, in the same way, its state is restored;
// in another way, it is Resumed.

func (s *State) cancel(t *Task) {
	s.dropValue(t) // it may be scattered
	t.scattered, t.acquired = false, false
	s.setState(t, Cancelled)
	if t.nwaiters > 0 {
		s.recommend(t, Fetch)
	}
}

func cancelledFetch(s *State, t *Task) {
	switch {
	case t.previous != Flight:
		t.next = Fetch
		s.setState(t, Resumed)
	case t.done: // the transfer of an unwanted key has ended without it
		s.release(t)
	default:
		t.previous = noState
		s.setState(t, Flight)
	}
}

func cancelledWaiting(s *State, t *Task) {
	previous := t.previous
	if previous == Flight {
		t.next = Waiting
		s.setState(t, Resumed)
		return
	}
	t.previous = noState
	s.setState(t, previous)
	if previous == LongRunning {
		s.report(SendLongRunning, t) // it may have seceded while it was canceled
	}
}

func resumedFetch(s *State, t *Task) {
	switch {
	case t.previous != Flight: // already in this state
	case t.done: // the transfer failed: run the task, as assigned
		s.restart(t, Waiting)
	default:
		t.previous, t.next = noState, noState
		s.setState(t, Flight)
	}
}

// resumedMemory sends the message that the scheduler expects, which differs from that of the run or transfer.
func resumedMemory(s *State, t *Task) {
	fetched := t.previous == Flight
	t.previous, t.next = noState, noState
	if !fetched {
		s.added = append(s.added, t)
	}
	s.toMemory(t)
	if fetched {
		s.report(SendTaskFinished, t)
	}
}

// restart restarts a task whose run or transfer has ended without a usable result.
func (s *State) restart(t *Task, finish TaskState) {
	s.dropValue(t)
	t.done, t.previous, t.next, t.failure = false, noState, noState, nil
	t.aborted, t.rerun, t.orphaned, t.scattered = false, false, false, false
	s.setState(t, Released)
	s.recommend(t, finish)
}

// secede removes a running task from those that count against the threads.
func (s *State) secede(t *Task, after time.Duration) {
	switch {
	case t.state == Executing:
		s.executing.remove(t)
		s.setState(t, LongRunning)
		s.longRunning.add(t)
		s.log.add(s, t, Executing, LongRunning)
		if t.orphaned {
			return
		}
		if a := s.report(SendLongRunning, t); a != nil {
			a.After, a.HasState = after, true
		}
	case t.previous == Executing:
		// The scheduler does not expect this run; it is reported if it is wanted again.
		s.executing.remove(t)
		t.previous = LongRunning
		s.longRunning.add(t)
	}
}

// apply drops assigned tasks that have not started.
func (ev *SchedulerLost) apply(s *State) {
	s.detached = true
	for _, t := range s.tasks.sorted() {
		switch t.state {
		case Waiting, Ready, Constrained, Fetch, Missing, Erred:
			s.recommend(t, Released)
		case Flight:
			if !t.scattered {
				s.recommend(t, Released)
			}
		case Executing, LongRunning:
			t.orphaned = true
			if t.rerun && !t.scattered {
				s.recommend(t, Released)
			}
		case Resumed:
			if !t.scattered && (t.previous == Flight || t.rerun) {
				s.recommend(t, Released)
				continue
			}
			previous := t.previous
			t.previous, t.next, t.orphaned = noState, noState, previous != Flight
			s.setState(t, previous)
		}
	}
}

func (ev *Reattach) apply(s *State) {
	s.detached = false
	if a := s.reportList(SendAddKeys, s.inMemory.tasks); a != nil {
		a.Adopt = true
	}
}
