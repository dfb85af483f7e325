package state

import (
	"fmt"
	"slices"
	"strings"
)

func (ev *AddWorker) apply(s *State) {
	ev.Worker, ev.Err = NoWorker, nil
	switch {
	case ev.Address == "":
		ev.Err = fmt.Errorf("scheduler: worker %q has no address", ev.Name)
	case ev.Threads < 1:
		ev.Err = fmt.Errorf("scheduler: worker %s has %d threads, want at least 1", ev.Address, ev.Threads)
	case s.workers.byAddress[ev.Address] != nil:
		ev.Err = fmt.Errorf("scheduler: worker %s already exists", ev.Address)
	case ev.Name != "" && s.workers.byName[ev.Name] != nil:
		ev.Err = fmt.Errorf("scheduler: name taken, %s: used by worker %s", ev.Name, s.workers.byName[ev.Name].address)
	}
	if ev.Err != nil {
		return
	}
	w := &Worker{
		address: strings.Clone(ev.Address), name: strings.Clone(ev.Name), host: strings.Clone(ev.Host),
		threads: ev.Threads, memoryLimit: ev.MemoryLimit, status: ev.Status, Data: ev.Data,
		place: -1, returning: ev.Returning, values: ev.Values, ahead: ev.Ahead, token: strings.Clone(ev.Token),
	}
	w.setResources(ev.Resources)
	s.away.restore(w, s.nowNs)
	if w.name == "" {
		w.name = w.address
	}
	s.workers.add(w)
	w.pool = s.pools.of(ev.Registry, ev.Can)
	w.registry = w.pool.registry
	w.pool.workers++
	w.pool.threads += w.threads
	ev.Worker = w.id
	s.assignments++
	w.assigned = s.assignments
	if w.running() {
		startWorker(s, w)
	}
}

// startWorker lets a worker receive tasks: first those that have waited for one like it.
func startWorker(s *State, w *Worker) {
	s.workers.running++
	w.pool.add(w)
	for _, p := range w.pool.takes {
		p.emptySince = -1
	}
	retryStranded(s, func(t *Task) bool {
		return s.pools.canTake(w, t) && (t.notes == nil || !t.notes.restricted || t.notes.AllowOtherWorkers ||
			t.notes.allows(w))
	})
}

// stopWorker stops assigning tasks to a worker.
func stopWorker(s *State, w *Worker) {
	w.stopped = s.now
	s.workers.running--
	w.pool.remove(w)
	for _, p := range w.pool.takes {
		noteEmpty(s, p)
	}
}

// retryStranded tries again to find workers for tasks that have none, the most urgent first.
func retryStranded(s *State, which func(*Task) bool) {
	if s.stranded.n == 0 || s.held {
		return
	}
	var found []*Task
	for t := s.stranded.head; t != nil; t = t.next {
		if which(t) {
			found = append(found, t)
		}
	}
	slices.SortStableFunc(found, func(a, b *Task) int { return b.prio.Compare(a.prio) })
	for _, t := range found {
		s.recommend(t, toProcessing)
	}
}

// noteEmpty records since when tasks of a pool have had no running worker.
func noteEmpty(s *State, p *pool) {
	if p.numBy(1) > 0 {
		p.emptySince = -1
	} else if p.emptySince < 0 {
		p.emptySince = s.nowNs
		switch {
		case s.workers.running == 0 || p.tasks == 0:
		case p.registry != "":
			s.out.logEvent("no running worker has the functions of registry " + p.registry +
				"; start workers of the same program as the client")
		default:
			s.out.logEvent("no running worker runs " + p.can.String() + "; start workers that do")
		}
	}
}

func (ev *RemoveWorker) apply(s *State) {
	if w := s.Worker(ev.Worker); w != nil {
		removeWorker(s, w, ev)
	}
}

func (ev *WorkerStatusChange) apply(s *State) {
	if w := s.Worker(ev.Worker); w != nil {
		setStatus(s, w, ev.Status)
	}
}

func setStatus(s *State, w *Worker, to WorkerStatus) {
	was := w.running()
	if to == StatusRunning && w.retiring != nil {
		return // the order to close is in flight
	}
	w.status = to
	switch now := w.running(); {
	case now && !was:
		startWorker(s, w)
	case was && !now:
		stopWorker(s, w)
		stepRequests(s)
	}
}

func (ev *SetResources) apply(s *State) {
	w := s.Worker(ev.Worker)
	if w == nil {
		return
	}
	w.setResources(ev.Resources)
	for t := range w.Processing() {
		w.take(t.notes, 1)
	}
	s.workers.gen++
	if w.running() {
		retryStranded(s, func(t *Task) bool { return s.pools.canTake(w, t) && (t.notes == nil || t.notes.allows(w)) })
	}
}

// removeWorker removes a worker. Its tasks are released, results that only it held are lost.
func removeWorker(s *State, w *Worker, ev *RemoveWorker) {
	if ev.Close {
		a := s.out.add(CloseWorker)
		a.Worker, a.Text = w.id, ev.Reason
	}
	if w.running() {
		stopWorker(s, w)
	}
	w.removed = true
	w.status = StatusClosed
	s.workers.remove(w)
	w.pool.workers--
	w.pool.threads -= w.threads

	processing := make([]*Task, 0, w.processing)
	for t := range w.Processing() {
		processing = append(processing, t)
	}
	slices.SortStableFunc(processing, func(a, b *Task) int { return a.prio.Compare(b.prio) })
	s.away.add(w, withFollowers(processing, w), s.nowNs)
	blamed := 0
	// In reverse order, because the stack is processed from the last.
	for i := len(processing) - 1; i >= 0; i-- {
		t := processing[i]
		// Only tasks that may have been running are suspicious: long-running tasks and the first in order.
		if !ev.Safe && (t.seceded || i < 2*w.threads) {
			blamed++
			// The next one may have been running too: the report of the first may be lost.
			next := t.follower(w)
			if next != nil {
				next.suspect()
			}
			if t.suspect(); int(t.failures) > s.cfg.AllowedFailures {
				s.fail(t, killedWorker(t, w, ev.Reason))
				continue
			}
			if next != nil && int(next.failures) > s.cfg.AllowedFailures {
				s.fail(next, killedWorker(next, w, ev.Reason))
			}
		}
		s.release(t)
	}
	lost, gone := 0, 0
	for n := len(w.holds); n > 0; n = len(w.holds) {
		t := w.holds[n-1].t
		if len(t.holders) > 1 {
			if t.actor {
				w.actors--
			}
			s.ledger.dropReplica(t, w)
			continue
		}
		switch {
		case len(t.spec) > 0:
			lost++
		case ev.Await > 0 && w.token != "" && !t.actor && t.needed():
			ev.Awaited++
			awaitReturn(s, t, w, ev.Await)
			continue
		default:
			gone++
		}
		lose(s, t, w)
	}
	s.ledger.netBytes -= w.netBytes
	w.netBytes, w.needs = 0, nil
	s.pools.drop(w.pool)
	a := s.out.logEvent(fmt.Sprintf("worker %s removed (%s): %d tasks rescheduled, %d of them suspicious; "+
		"%d results lost and recomputed, %d pieces of scattered data lost",
		w.address, ev.Reason, len(processing), blamed, lost, gone) + awaitedText(ev.Awaited))
	a.Worker = w.id
	for v := range s.Workers() {
		a := s.out.add(ForgetPeer)
		a.Worker, a.Text = v.id, w.address
	}
	stepRequests(s)
}

func awaitedText(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", %d wait for its return", n)
}

func (ev *Heartbeat) apply(s *State) {
	w := s.Worker(ev.Worker)
	if w == nil {
		return
	}
	w.memory, w.managed, w.spilled = ev.Memory, ev.Managed, ev.Spilled
	if ev.Bandwidth > 0 {
		part := 1 / float64(s.workers.n)
		s.ledger.bandwidth += (ev.Bandwidth - s.ledger.bandwidth) * part
	}
	for _, e := range ev.Executing {
		if t := s.tasks.Get(e.Key); t != nil && t.worker == w && !t.seceded {
			t.group.prefix.running(e.For.Seconds())
		}
	}
}

func (ev *Hold) apply(s *State) {
	s.held = ev.On
	if !s.held {
		endExpect(s)
		retryStranded(s, func(*Task) bool { return true })
	}
}

func (*Tick) apply(s *State) {
	timeouts(s)
	forgetDeparted(s, "")
	if len(s.requests) > 0 {
		stepRequests(s)
	}
	if s.now.Sub(s.steals.last) >= s.cfg.StealInterval {
		s.steals.last = s.now
		evacuate(s)
		balance(s)
	}
}

// timeouts errs tasks that have been without a worker for too long.
func timeouts(s *State) {
	limit := int64(s.cfg.NoWorkersTimeout)
	if limit <= 0 {
		return
	}
	var late []*Task
	for t := s.stranded.head; t != nil && s.nowNs-t.since > limit; t = t.next {
		late = append(late, t)
	}
	for _, p := range s.pools.all() {
		if p.queue.n > 0 && p.emptySince >= 0 && s.nowNs-p.emptySince > limit {
			p.queue.each(func(t *Task) { late = append(late, t) })
		}
	}
	for _, t := range late {
		switch {
		case t.state != NoWorkerState && t.state != Queued: // failed together with another one
		case s.workers.running == 0:
			s.fail(t, noWorkers(t, s.cfg.NoWorkersTimeout))
		default:
			s.fail(t, noValidWorker(t, t.why(), s.cfg.NoWorkersTimeout))
		}
	}
}
