package state

import "go.millstream.dev/internal/taskid"

// Keys to be freed are collected per worker, so that a client that lets go of a hundred thousand results costs one
// message per worker. They must not come after an order to compute the same key again: compute flushes
// those of its worker first.

// free orders a worker to forget a task. An order to compute it that has not left yet is taken back instead.
func (s *State) free(w *Worker, t *Task) {
	if w.removed {
		return
	}
	if i := int(t.sent) - 1; i >= 0 && i < len(s.out.list) {
		if a := &s.out.list[i]; a.Kind == ComputeTask && a.Task == t && a.Worker == w.id && a.RunID == t.runID {
			*a = Action{Kind: ActionNone, Worker: NoWorker, Client: NoClient}
			t.sent = 0
			return
		}
	}
	s.freeKey(w, t.key)
}

func (s *State) freeKey(w *Worker, k taskid.Key) {
	if len(w.freeing) == 0 {
		s.box = append(s.box, w)
	}
	w.freeing = append(w.freeing, k)
}

func (s *State) flushWorker(w *Worker) {
	if len(w.freeing) == 0 {
		return
	}
	if !w.removed {
		a := s.out.add(FreeKeys)
		a.Worker = w.id
		a.Keys = s.out.copyKeys(w.freeing)
	}
	w.freeing = emptied(w.freeing)
}

// flush sends what has been collected.
func (s *State) flush() {
	for i, w := range s.box {
		s.flushWorker(w)
		s.box[i] = nil
	}
	s.box = s.box[:0]
}

func (a *Actions) copyKeys(keys []taskid.Key) []taskid.Key {
	from := len(a.keys)
	a.keys = append(a.keys, keys...)
	return a.keys[from:len(a.keys):len(a.keys)]
}

func (a *Actions) copyTasks(tasks []*Task) []*Task {
	from := len(a.tasks)
	a.tasks = append(a.tasks, tasks...)
	return a.tasks[from:len(a.tasks):len(a.tasks)]
}

// compute sends a task to the worker that processes it, as a new run.
func (s *State) compute(t *Task) {
	w := t.worker
	s.flushWorker(w)
	s.runs++
	t.runID = int64(s.cfg.Epoch)<<32 + s.runs
	s.running.note(t, s.counts[Processing])
	a := s.out.add(ComputeTask)
	a.Worker, a.Task, a.Key, a.RunID = w.id, t, t.key, t.runID
	t.sent = int32(len(s.out.list))
}

// report tells a client how a task stands, if it is done one way or the other.
func (s *State) report(c *Client, t *Task) {
	if c.id == FireAndForget {
		return
	}
	switch t.state {
	case Memory:
		s.tell(KeyInMemory, c, t)
	case Erred:
		s.tell(KeyErred, c, t).Failure = t.failure
	}
}

// tell sends a client a word about a task.
func (s *State) tell(kind ActionKind, c *Client, t *Task) *Action {
	a := s.out.add(kind)
	a.Client, a.Task, a.Key = c.id, t, t.key
	return a
}

// tellAll sends it to all who want the task.
func (s *State) tellAll(kind ActionKind, t *Task) {
	for i := range t.wants {
		if c := t.wants[i].c; c.id != FireAndForget {
			s.tell(kind, c, t).Failure = t.failure
		}
	}
}

func (s *State) cancelled(c *Client, keys []taskid.Key, reason, msg string) {
	if c.id == FireAndForget || len(keys) == 0 {
		return
	}
	a := s.out.add(CancelledKeys)
	a.Client, a.Keys, a.Text, a.Msg = c.id, s.out.copyKeys(keys), reason, msg
}

func (s *State) logEvent(text string) *Action {
	a := s.out.add(LogEvent)
	a.Text = text
	return a
}
