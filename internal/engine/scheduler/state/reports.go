package state

import (
	"strings"
	"unsafe"

	"go.millstream.dev/internal/task/taskid"
)

func (ev *TaskFinished) apply(s *State) {
	w := s.Worker(ev.Worker)
	if w == nil {
		return
	}
	t := s.tasks.ran(ev.Key, ev.RunID)
	if t == nil {
		s.out.freeKey(w, taskid.Key(strings.Clone(string(ev.Key))))
		return
	}
	ev.Prefix = t.group.prefix
	if t.runID != ev.RunID {
		staleFinish(s, t, w, ev)
		return
	}
	switch t.state {
	case Processing:
		if t.worker != w { // another worker reports the run of this one: accept neither
			s.out.freeKey(w, t.key)
			return
		}
		t.nbytes = max(ev.NBytes, 0)
		if ev.Duration > 0 {
			t.group.prefix.learn(ev.Duration.Seconds(), t.nbytes)
		}
		t.kind = s.groups.resultType(ev.TypeName, ev.Type, t.kind)
		t.keepValue(ev.Value)
		s.out.value = unsafe.String(unsafe.SliceData(ev.Value), len(ev.Value)) // valid during the event
		s.enterMemory(t, w)
		s.out.value = ""
	case Memory:
		// The result was accepted from elsewhere meanwhile: this worker has been ordered to release it, or never had
		// it.
		if !w.holdsTask(t) {
			s.out.freeKey(w, t.key)
		}
	case Waiting:
		if t.ahead == w { // the worker had the result when it was ordered to compute it
			t.nbytes = max(ev.NBytes, 0)
			t.keepValue(ev.Value)
			s.enterMemory(t, w)
		}
		// Otherwise the run was canceled: the order to release it is in flight.
	default:
		s.out.freeKey(w, t.key)
	}
}

// staleFinish handles the report of a run that is not the latest.
func staleFinish(s *State, t *Task, w *Worker, ev *TaskFinished) {
	switch {
	case ev.RunID >= 0 && ev.RunID < int64(s.cfg.Epoch)<<32 && t.state != Erred && t.state != Released &&
		t.needed() && mayAdopt(s, t, w):
		// A run from before the restart of the scheduler. It was not canceled, and its result is valid.
		adopt(s, t, w, ev.NBytes)
	case t.state == Processing && t.worker == w:
		s.release(t)
	case t.state == Memory && w.holdsTask(t):
		// The late report of a run whose result was accepted in another way.
	default:
		s.out.freeKey(w, t.key)
	}
}

func (ev *TaskErred) apply(s *State) {
	t, w := s.tasks.Get(ev.Key), s.Worker(ev.Worker)
	if t != nil && w != nil && t.ahead == w { // a run from before the order: it runs again when its inputs are there
		cancelAhead(s, t)
		return
	}
	if t == nil || w == nil || t.state != Processing || t.worker != w {
		return
	}
	switch {
	case t.runID != ev.RunID:
		s.release(t)
	case t.retries > 0:
		t.retries--
		s.release(t)
	default:
		text := ev.ExceptionText
		if text == "" {
			text = "task failed without an error message"
		}
		s.fail(t, &Failure{Kind: TaskFailed, Key: t.key, Exception: ev.Exception, Traceback: ev.Traceback,
			Worker:        w.address,
			ExceptionText: strings.Clone(text), TracebackText: strings.Clone(ev.TracebackText)})
	}
}

func (ev *Reschedule) apply(s *State) {
	t := s.tasks.Get(ev.Key)
	if t != nil && t.ahead != nil && t.ahead.id == ev.Worker {
		cancelAhead(s, t)
		return
	}
	if t == nil || t.state != Processing || t.worker.id != ev.Worker || ev.RunID != 0 && ev.RunID != t.runID {
		return
	}
	s.release(t)
}

func (ev *LongRunning) apply(s *State) {
	t := s.tasks.Get(ev.Key)
	if t == nil || t.state != Processing || t.worker.id != ev.Worker || t.runID != ev.RunID || t.seceded {
		return
	}
	endSteal(s, t)
	w := t.worker
	t.relist(unstealable)
	t.seceded = true
	w.seceded++
	p := t.group.prefix
	if ev.Duration >= 0 {
		if d := ev.Duration.Seconds(); p.average < 0 {
			p.average = d
		} else {
			p.average = (p.average + d) / 2
		}
	}
	s.ledger.uncount(w, t)
	w.updateLoad()
}

func (ev *AddKeys) apply(s *State) {
	w := s.Worker(ev.Worker)
	if w == nil {
		return
	}
	redundant := s.scratch.keys[:0]
	for i, k := range ev.Keys {
		if w.removed { // this was the last copy that its retirement waited for
			break
		}
		t := s.tasks.Get(k)
		switch {
		case t != nil && t.state == Memory && !t.actor:
			s.ledger.addReplica(t, w)
			completeCopy(s, k, w)
		case ev.Adopt && t != nil && t.state != Memory && t.state != Erred && !t.actor && t.needed():
			n := int64(-1)
			if i < len(ev.NBytes) {
				n = ev.NBytes[i]
			}
			if !mayAdopt(s, t, w) {
				reject(s, t, w)
				redundant = append(redundant, t.key)
				break
			}
			adopt(s, t, w, n)
		case t != nil && t.state == Memory && w.holdsTask(t):
		case t != nil && (t.worker == w || t.ahead == w):
			// The worker had the result when it was ordered to compute it, and reports that separately: an order to
			// remove it would arrive after the report.
		default:
			redundant = append(redundant, taskid.Key(strings.Clone(string(k))))
		}
	}
	if len(redundant) > 0 && !w.removed {
		a := s.out.add(RemoveReplicas)
		a.Worker, a.Keys = w.id, s.out.copyKeys(redundant)
	}
	s.scratch.keys = reuse(redundant)
}

// mayAdopt reports whether a result is accepted that no current run has produced: from the worker that runs the task;
// during Hold, from a worker that was registered before the restart of the scheduler; and from a worker that held the
// result or ran the task before it was removed and returned, unless another one runs the task now. Any other worker
// could forge the results of tasks that others run.
func mayAdopt(s *State, t *Task, w *Worker) bool {
	if t.worker == w || t.ahead == w || s.held && w.returning {
		return true
	}
	_, had := w.former[t.key]
	return had && t.worker == nil
}

// Refused is the text of the LogEvent about a worker that announced the result of a task that was not assigned to it.
const Refused = "result rejected: task not assigned to the worker"

func reject(s *State, t *Task, w *Worker) {
	a := s.out.add(LogEvent)
	a.Worker, a.Task, a.Text = w.id, t, Refused
}

// adopt accepts a result that no run of this scheduler has produced.
func adopt(s *State, t *Task, w *Worker, nbytes int64) {
	if t.state == Memory {
		s.ledger.addReplica(t, w)
		return
	}
	if old := t.worker; old != nil && old != w {
		s.out.free(old, t)
	}
	if nbytes >= 0 {
		t.nbytes = nbytes
	}
	delete(w.former, t.key)
	s.enterMemory(t, w)
}

func (ev *ReleaseWorkerData) apply(s *State) {
	t, w := s.tasks.Get(ev.Key), s.Worker(ev.Worker)
	if t == nil || w == nil || t.state != Memory || !w.holdsTask(t) {
		return
	}
	loseReplica(s, t, w)
}

// loseReplica records that a worker does not hold a result any more.
func loseReplica(s *State, t *Task, w *Worker) {
	if len(t.holders) == 1 {
		lose(s, t, w)
		return
	}
	s.ledger.dropReplica(t, w)
}

// lose handles the loss of the last replica of a result. Scattered data cannot be recomputed.
func lose(s *State, t *Task, w *Worker) {
	if t.actor {
		w.actors--
	}
	s.ledger.dropReplica(t, w)
	if len(t.spec) == 0 {
		s.forget(t)
	} else {
		s.release(t)
	}
}

func (ev *RequestRefreshWhoHas) apply(s *State) {
	w := s.Worker(ev.Worker)
	if w == nil {
		return
	}
	known := s.scratch.tasks[:0]
	for _, k := range ev.Keys {
		t := s.tasks.Get(k)
		if t != nil && t.state == Memory && w.holdsTask(t) {
			// A worker that requests the holders does not hold the result.
			loseReplica(s, t, w)
		}
		if t != nil && t.state != Forgotten {
			known = append(known, t)
		} else {
			s.out.freeKey(w, taskid.Key(strings.Clone(string(k))))
		}
	}
	if len(known) > 0 {
		a := s.out.add(RefreshWhoHas)
		a.Worker, a.Tasks = w.id, s.out.copyTasks(known)
	}
	s.scratch.tasks = reuse(known)
}

func (ev *Watch) apply(s *State) {
	for _, k := range ev.Keys {
		if t := s.tasks.Get(k); t != nil {
			t.watched = !ev.Off
		}
	}
}

func (ev *Rerun) apply(s *State) {
	for i := len(ev.Keys) - 1; i >= 0; i-- { // the stack is processed from the last
		if t := s.tasks.Get(ev.Keys[i]); t != nil && t.state != Erred && len(t.spec) > 0 {
			s.recommend(t, toReleased)
		}
	}
}
