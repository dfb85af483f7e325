package state

import (
	"slices"

	"go.millstream.dev/internal/taskid"
)

// retireWorkers makes workers leave without loss: they get no new tasks, and what only they hold is copied to
// others. Tasks that they still process when that is done start anew elsewhere.
func (s *State) retireWorkers(ev *RetireWorkers) {
	r := s.newRequest(ev.Request)
	r.retire = &retirement{close: ev.Close, remove: ev.Remove}
	for _, id := range ev.Workers {
		w := s.Worker(id)
		if w == nil || w.retiring != nil {
			continue
		}
		w.retiring = r
		r.retire.workers = append(r.retire.workers, w)
		if w.running() {
			s.stopWorker(w)
		}
		w.status = StatusClosingGracefully
		a := s.out.add(StatusChange)
		a.Worker, a.Status = w.id, StatusClosingGracefully
	}
	s.stepRetire(r)
	// Others that leave may have counted on these.
	s.stepRequests()
}

// stepRetire asks for copies of what only retiring workers hold. When there is nothing left it ends the
// request.
func (s *State) stepRetire(r *request) {
	var ask acquire
	asked := map[*Task]bool{} // looked up only
	var stuck []taskid.Key
	targets := newFillers(s.among(nil), (*Worker).fill)
	for _, w := range r.retire.workers {
		if w.removed {
			continue
		}
		for i := range w.holds {
			t := w.holds[i].t
			if t.actor {
				continue // it cannot be moved: whoever wants it will hear that it is lost
			}
			if slices.ContainsFunc(t.holders, func(h holder) bool { return h.w.retiring == nil }) {
				continue
			}
			if asked[t] {
				continue
			}
			asked[t] = true
			to := targets.next(s.size(t), func(v *Worker) bool { return v.pool == w.pool || len(targets) < 2 })
			if to == nil {
				to = targets.next(s.size(t), func(*Worker) bool { return true })
			}
			if to == nil {
				stuck = append(stuck, t.key)
				continue
			}
			r.expect(t, to, nil)
			ask.add(t, to)
		}
	}
	ask.send(s)
	if len(r.copies) == 0 {
		s.retired(r, stuck)
	}
}

// retired ends a retirement. Workers whose data could not be moved stay, and go on.
func (s *State) retired(r *request, stuck []taskid.Key) {
	r.done = true              // what follows may come by here again
	keep := map[*Worker]bool{} // looked up only
	for _, k := range stuck {
		if t := s.tasks.get(k); t != nil {
			for i := range t.holders {
				keep[t.holders[i].w] = true
			}
		}
	}
	for _, w := range r.retire.workers {
		if w.removed {
			continue
		}
		if keep[w] {
			w.retiring = nil
			w.status = StatusRunning
			s.startWorker(w)
			a := s.out.add(StatusChange)
			a.Worker, a.Status = w.id, StatusRunning
			continue
		}
		switch {
		case r.retire.remove:
			s.removeWorker(w, &RemoveWorker{Worker: w.id, Safe: true, Close: r.retire.close, Reason: "retired"})
			a := s.out.add(WorkerRemoved)
			a.Worker, a.Text = w.id, w.address
		case r.retire.close:
			a := s.out.add(CloseWorker)
			a.Worker, a.Text = w.id, "retired"
		}
	}
	s.endRequest(r, stuck)
}
