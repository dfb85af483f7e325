package state

import (
	"math"
	"slices"
)

// enterProcessing assigns a ready task to a worker, without the order to compute it.
func (s *State) enterProcessing(t *Task, w *Worker) {
	t.worker = w
	s.setState(t, Processing)
	s.ledger.count(w, t)
	passed := s.scratch.tasks[:0]
	for i := range t.deps {
		d := t.deps[i].t
		switch {
		case w.holdsTask(d):
		case d.value != nil && w.values && len(s.requests) == 0: // a request may wait for the worker to announce it
			s.ledger.addReplica(d, w)
			passed = append(passed, d)
		default:
			s.ledger.need(w, d)
		}
	}
	s.passValues(w, passed)
	t.list = stealLevel(s, t)
	w.lists[t.list].push(t)
	w.processing++
	w.take(t.notes, 1)
	if t.actor {
		w.actors++
	}
	s.assignments++
	w.assigned = s.assignments
	w.updateLoad()
}

// passValues passes short results to a worker that will need them, so that it need not fetch them.
func (s *State) passValues(w *Worker, tasks []*Task) {
	if len(tasks) > 0 {
		s.out.flushWorker(w) // an earlier order may free one of them
		a := s.out.add(StoreValues)
		a.Worker, a.Tasks = w.id, s.out.copyTasks(tasks)
	}
	s.scratch.tasks = reuse(tasks)
}

// exitProcessing removes a task from the worker that processes it. The caller sets the next state.
func (s *State) exitProcessing(t *Task) {
	w := t.worker
	t.worker = nil
	t.refused = false
	endSteal(s, t)
	w.lists[t.list].remove(t)
	w.processing--
	if t.seceded {
		t.seceded = false
		w.seceded--
	} else {
		s.ledger.uncount(w, t)
	}
	for i := range t.deps {
		s.ledger.unneed(w, t.deps[i].t)
	}
	w.take(t.notes, -1)
	w.updateLoad()
}

// Tasks shorter than shortTask are sent ahead of time, as many as take aheadTime but no more than aheadMost per thread:
// a thread that had to request each one would mostly wait. Tasks with large results are never sent ahead.
const (
	shortTask   = 0.005 // seconds
	aheadTime   = 0.010 // seconds
	aheadMost   = 512
	aheadNBytes = 64 << 10
)

// slotsFor returns the number of tasks of a prefix that a worker may have before its other root tasks wait in the
// queue: base by the worker-saturation, depth if the tasks are short.
func slotsFor(s *State, w *Worker, p *Prefix) (base, depth int) {
	if math.IsInf(s.cfg.WorkerSaturation, 1) {
		return math.MaxInt, math.MaxInt
	}
	base = max(int(math.Ceil(s.cfg.WorkerSaturation*float64(w.threads))), 1)
	if p.average >= 0 && p.average < shortTask && p.nbytes < aheadNBytes {
		ahead := aheadMost
		if d := aheadTime / p.average; d < aheadMost {
			ahead = int(d)
		}
		return base, max(base, ahead*w.threads)
	}
	return base, base
}

func (s *State) enqueue(t *Task) {
	s.setState(t, Queued)
	if p := t.pool; p.queue.n == 0 && p.emptySince >= 0 {
		p.emptySince = s.nowNs // before, no task waited for the removed workers
	}
	t.pool.queue.push(t)
	noteEmpty(s, t.pool)
}

func (s *State) strand(t *Task) {
	s.setState(t, NoWorkerState)
	t.since = s.nowNs
	s.stranded.push(t)
	noteEmpty(s, t.pool)
	if !s.held && s.workers.running > 0 {
		a := s.out.logEvent("no running worker can run the task: " + t.why())
		a.Task, a.Key = t, t.key
	}
}

// send orders a worker to compute a task.
func (s *State) send(t *Task, w *Worker) {
	if s.process(t, w) {
		s.order(t, w)
		sendAhead(s, t, w)
	}
}

// process assigns a ready task to a worker. It returns false if the task has failed because its inputs are too large.
func (s *State) process(t *Task, w *Worker) bool {
	s.enterProcessing(t, w)
	if s.cfg.MemoryTerminate && w.memoryLimit > 0 && len(t.deps) > 0 {
		var need int64
		for i := range t.deps {
			need += s.ledger.size(t.deps[i].t)
		}
		if need > w.memoryLimit {
			s.fail(t, tooLarge(t, w, need))
			return false
		}
	}
	return true
}

// fillSlots takes tasks from the queues while workers have slots for them. Workers that run short tasks are filled when
// they are half empty, so that orders are sent in batches.
func (s *State) fillSlots() {
	if s.counts[Queued] == 0 || s.held {
		return
	}
	fillPool(s, s.pools.any)
	for _, p := range s.pools.list {
		fillPool(s, p)
	}
}

func fillPool(s *State, p *pool) {
	for len(p.heap) > 0 {
		w := p.heap[0]
		t := p.next()
		if t == nil {
			return
		}
		base, depth := slotsFor(s, w, t.group.prefix)
		n := base - w.active()
		if depth > base && w.active() <= depth/2 {
			// At most a fair share of the rest, so that no worker is left without.
			workers := t.pool.numBy(t.pool.queue.n)
			share := (t.pool.queue.n + 2*workers - 1) / (2 * workers)
			n = max(n, min(depth-w.active(), share))
		}
		if n <= 0 {
			return
		}
		prefix := t.group.prefix
		for ; n > 0 && t != nil && t.group.prefix == prefix; n-- {
			t.pool.queue.remove(t)
			s.send(t, w)
			t = p.next()
		}
		s.drain() // a task that is too large for its worker may have failed
	}
}

// A task whose only missing dependency is processed by a worker is sent to that worker ahead of the result if the
// worker would be chosen anyway. The worker runs it as soon as it has the result, so that a chain of tasks needs no
// message between two of them. The task still waits: it is processing when the report of the dependency arrives, which
// precedes its own report. If the dependency does not become a result on that worker, the order is canceled.

// aheadLinks is the number of tasks of a chain that are sent ahead, aheadStep the number of runs after which more of
// them are sent.
const (
	aheadLinks = 32
	aheadStep  = aheadLinks / 2
)

// aheadDependents is the number of dependents up to which a task's dependents are sent ahead: the others are better
// spread over workers.
const aheadDependents = 4

// sendAhead sends the tasks that follow t, which w has been ordered to run, to w.
func sendAhead(s *State, t *Task, w *Worker) {
	if !w.ahead || s.held {
		return
	}
	for n := 0; n < aheadLinks && t != nil; n++ {
		t = follow(s, t, w)
	}
}

// follow sends a task that only waits for t ahead to w, and returns one that has been sent, nil if there is none.
func follow(s *State, t *Task, w *Worker) (next *Task) {
	if t.actor || len(t.dependents) > aheadDependents {
		return nil
	}
	for i := range t.dependents {
		d := t.dependents[i].t
		if d.ahead == nil && fitsAhead(s, d, w) {
			d.ahead = w
			s.order(d, w)
		}
		if d.ahead == w && next == nil {
			next = d
		}
	}
	return next
}

// fitsAhead reports whether a task may be sent ahead to w: it waits for one result, and w is the only holder of its
// other dependencies.
func fitsAhead(s *State, t *Task, w *Worker) bool {
	if t.state != Waiting || t.waitingOn != 1 || t.target != none || t.notes != nil || t.actor || t.orphan ||
		len(t.spec) == 0 || !t.needed() || !s.pools.canTake(w, t) || queueable(s, t) {
		return false
	}
	for i := range t.deps {
		if d := t.deps[i].t; d.state == Memory && (len(d.holders) != 1 || d.holders[0].w != w) {
			return false
		}
	}
	return true
}

// promote lets the worker to which a ready task was sent ahead process it. It returns false if another one must.
func promote(s *State, t *Task) bool {
	w := t.ahead
	fits := !s.held && t.notes == nil && s.pools.canTake(w, t)
	for i := 0; fits && i < len(t.deps); i++ {
		fits = w.holdsTask(t.deps[i].t)
	}
	if !fits {
		cancelAhead(s, t)
		return false
	}
	t.ahead = nil
	if s.process(t, w) && t.runID%aheadStep == 0 {
		sendAhead(s, t, w)
	}
	return true
}

// cancelOrders cancels the orders that depend on the run of a task: its own, if it was sent ahead, and those of the
// tasks that follow it.
func cancelOrders(s *State, t *Task) {
	switch {
	case t.ahead != nil:
		cancelAhead(s, t)
	case t.worker != nil:
		cancelFollowers(s, t, t.worker)
	}
}

// cancelAhead cancels the order of a task that was sent ahead.
func cancelAhead(s *State, t *Task) {
	w := t.ahead
	t.ahead = nil
	s.out.free(w, t)
	cancelFollowers(s, t, w)
}

func cancelFollowers(s *State, t *Task, w *Worker) {
	if !w.ahead {
		return
	}
	for i := range t.dependents {
		if d := t.dependents[i].t; d.ahead == w {
			cancelAhead(s, d)
		}
	}
}

// follower returns a task that was sent ahead to w and waits for t, nil if there is none.
func (t *Task) follower(w *Worker) *Task {
	if w.ahead {
		for i := range t.dependents {
			if d := t.dependents[i].t; d.ahead == w {
				return d
			}
		}
	}
	return nil
}

// withFollowers returns the tasks that a worker processes, and those that were sent ahead to it and wait for them.
func withFollowers(processing []*Task, w *Worker) []*Task {
	if !w.ahead {
		return processing
	}
	all := slices.Clone(processing)
	for i := 0; i < len(all); i++ {
		for j := range all[i].dependents {
			if d := all[i].dependents[j].t; d.ahead == w {
				all = append(all, d)
			}
		}
	}
	return all
}

// suspect counts a worker that was lost while it may have run the task.
func (t *Task) suspect() {
	t.failures = min(t.failures, math.MaxUint16-1) + 1
	t.group.prefix.suspicious++
}
