package state

import (
	"cmp"
	"slices"

	"go.millstream.dev/internal/task/taskid"
)

// apply retires workers without loss: they receive no new tasks, and results that only they hold are copied to others.
// Tasks that they still process when that is done restart elsewhere.
func (ev *RetireWorkers) apply(s *State) {
	r := newRequest(s, ev.Request)
	r.retire = &retirement{close: ev.Close, remove: ev.Remove}
	for _, id := range ev.Workers {
		w := s.Worker(id)
		if w == nil || w.retiring != nil {
			continue
		}
		w.retiring = r
		r.retire.workers = append(r.retire.workers, w)
		if w.running() {
			stopWorker(s, w)
		}
		w.status = StatusClosingGracefully
		a := s.out.add(StatusChange)
		a.Worker, a.Status = w.id, StatusClosingGracefully
	}
	r.stepRetire(s)
	// Other retiring workers may have relied on these.
	stepRequests(s)
}

// stepRetire requests copies of results that only retiring workers hold. When nothing is left it ends the request.
func (r *request) stepRetire(s *State) {
	var ask acquire
	asked := map[*Task]bool{} // not iterated
	var stuck []taskid.Key
	targets := newFillers(s.workers.among(nil), (*Worker).fill)
	for _, w := range r.retire.workers {
		if w.removed {
			continue
		}
		for i := range w.holds {
			t := w.holds[i].t
			if t.actor {
				continue // cannot be moved; clients are notified of the loss
			}
			if slices.ContainsFunc(t.holders, func(h holder) bool { return h.w.retiring == nil }) {
				continue
			}
			if asked[t] {
				continue
			}
			asked[t] = true
			to := targets.next(s.ledger.size(t), func(v *Worker) bool { return v.pool == w.pool || len(targets) < 2 })
			if to == nil {
				to = targets.next(s.ledger.size(t), func(*Worker) bool { return true })
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
		r.finishRetire(s, stuck)
	}
}

// finishRetire ends a retirement. Workers whose data could not be moved stay.
func (r *request) finishRetire(s *State, stuck []taskid.Key) {
	r.done = true              // finishRetire may be reached again below
	keep := map[*Worker]bool{} // not iterated
	for _, k := range stuck {
		if t := s.tasks.Get(k); t != nil {
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
			startWorker(s, w)
			a := s.out.add(StatusChange)
			a.Worker, a.Status = w.id, StatusRunning
			continue
		}
		switch {
		case r.retire.remove:
			removeWorker(s, w, &RemoveWorker{Worker: w.id, Safe: true, Close: r.retire.close, Reason: "retired"})
			a := s.out.add(WorkerRemoved)
			a.Worker, a.Text = w.id, w.address
		case r.retire.close:
			a := s.out.add(CloseWorker)
			a.Worker, a.Text = w.id, "retired"
		}
	}
	r.end(s, stuck)
}

// apply moves results from the fullest workers to the emptiest until all are within a twentieth of the mean. Only
// results with a single replica move: they are copied, and the first holder drops its own afterwards.
func (ev *Rebalance) apply(s *State) {
	r := newRequest(s, ev.Request)
	workers := s.workers.among(ev.Workers)
	var only map[taskid.Key]bool
	if len(ev.Keys) > 0 {
		only = make(map[taskid.Key]bool, len(ev.Keys))
		for _, k := range ev.Keys {
			only[k] = true
		}
	}
	var sum, data int64
	for _, w := range workers {
		sum += w.fill()
		data += w.nbytes
	}
	if n := int64(len(workers)); n > 1 {
		r.moveAround(s, workers, sum/n, data/n/20, only)
	}
	r.step(s)
}

func (r *request) moveAround(s *State, workers []*Worker, mean, gap int64, only map[taskid.Key]bool) {
	senders := slices.Clone(workers)
	slices.SortStableFunc(senders, func(a, b *Worker) int { return int(min(max(b.fill()-a.fill(), -1), 1)) })
	targets := newFillers(workers, (*Worker).fill)
	planned := map[*Worker]int64{}
	var ask acquire
	for _, from := range senders {
		left := from.fill()
		if f := from.fraction(left); f >= 0 && f < s.cfg.SenderMin {
			continue
		}
		for i := 0; i < len(from.holds) && left > mean+gap; i++ {
			t := from.holds[i].t
			size := s.ledger.size(t)
			if t.actor || len(t.holders) > 1 || only != nil && !only[t.key] || size > left-mean+gap {
				continue
			}
			// Filling it must not make it a sender.
			if f := targets[0]; f.w == from || f.nbytes+size > mean+gap {
				break
			}
			to := targets.next(size, func(w *Worker) bool {
				return w != from && (s.cfg.RecipientMax == 0 ||
					w.fraction(w.fill()+planned[w]+size) <= s.cfg.RecipientMax)
			})
			if to == nil {
				break
			}
			planned[to] += size
			r.expect(t, to, from)
			ask.add(t, to)
			left -= size
		}
	}
	ask.send(s)
}

// manyDependents is the number of dependents above which a task keeps its replicas while some of them wait.
const manyDependents = 4096

// apply drops replicas that no dependent needs, as the policy ReduceReplicas of Dask does.
func (ev *ReduceReplicas) apply(s *State) {
	var workers []*Worker
	keys := map[*Worker][]taskid.Key{} // not iterated
	for i := len(s.ledger.replicated.list) - 1; i >= 0; i-- {
		t := s.ledger.replicated.list[i] // dropping its replicas moves only later ones
		for _, w := range superfluous(s, t) {
			s.ledger.dropReplica(t, w)
			if keys[w] == nil {
				workers = append(workers, w)
			}
			keys[w] = append(keys[w], t.key)
			ev.Dropped++
		}
	}
	for _, w := range workers {
		a := s.out.add(RemoveReplicas)
		a.Worker, a.Keys = w.id, s.out.copyKeys(keys[w])
	}
}

// superfluous returns the holders of a task that should drop their replicas: all but one, and all but one for each
// worker or task that still needs the result. Holders that process a dependent keep theirs. Workers that do not accept
// tasks come first, then those with the most data.
func superfluous(s *State, t *Task) []*Worker {
	if t.waiters > 0 && len(t.dependents) > manyDependents {
		return nil
	}
	s.walk++
	needed := 0
	if t.waiters > 0 {
		for _, e := range t.dependents {
			w := e.t.worker
			if w == nil {
				w = e.t.ahead
			}
			switch {
			case !e.t.state.inPlay():
			case w == nil:
				needed++
			case w.mark != s.walk:
				w.mark, w.local = s.walk, 0
				needed++
			}
		}
	}
	n := len(t.holders) - max(1, needed, s.ledger.kept[t])
	if n <= 0 {
		return nil
	}
	free := make([]*Worker, 0, len(t.holders))
	running, busy, busyRunning := 0, 0, 0 // holders: free and running, those that process dependents, and run
	for i := range t.holders {
		switch w := t.holders[i].w; {
		case w.mark == s.walk:
			busy++
			if w.running() {
				busyRunning++
			}
		default:
			free = append(free, w)
			if w.running() {
				running++
			}
		}
	}
	slices.SortStableFunc(free, func(a, b *Worker) int {
		if a.running() != b.running() {
			if a.running() {
				return 1
			}
			return -1
		}
		return cmp.Compare(b.fill(), a.fill())
	})
	n = min(n, len(free), len(t.holders)-1)
	if n == len(free) && running > 0 && busy > 0 && busyRunning == 0 {
		// The last holder that runs keeps its replica: the others retire or pause, and would be copied from again.
		n--
	}
	return free[:n]
}
