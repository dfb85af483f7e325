package state

import (
	"slices"

	"go.millstream.dev/internal/task/taskid"
)

// recommend schedules a transition of a task after the current one. The latest recommendation replaces an earlier one
// and goes first; but toUnneeded and toProcessing do not replace others, and nothing replaces toForgotten.
func (s *State) recommend(t *Task, to target) {
	switch {
	case t.state == Forgotten, t.target == toForgotten:
		return
	case to == toUnneeded && t.target != none, to == toProcessing && t.target > toProcessing:
		return
	}
	t.target = to
	t.turn = int32(len(s.stack))
	s.stack = append(s.stack, t)
}

// drain carries out recommendations until none is left.
func (s *State) drain() {
	for len(s.stack) > 0 {
		last := len(s.stack) - 1
		t := s.stack[last]
		s.stack[last] = nil
		s.stack = s.stack[:last]
		if int(t.turn) != last || t.target == none { // replaced by a later one
			continue
		}
		to := t.target
		t.target = none
		s.transition(t, to)
	}
	if cap(s.stack) > 1<<16 {
		s.stack = nil
	}
}

// setState changes the state and all counts by state.
func (s *State) setState(t *Task, to TaskState) {
	if s.cfg.Validate {
		checkMove(s, t, to)
	}
	s.transitions++
	if s.log.limit > 0 {
		s.log.add(logged{t.key, s.nowNs, s.events, t.state, to, s.cause})
	}
	if s.observer != nil {
		s.observer(t, to)
	}
	if t.watched {
		s.out.reportMove(t, to)
	}
	s.counts[t.state]--
	s.counts[to]++
	g := t.group
	g.states[t.state]--
	g.states[to]++
	if to == Memory {
		g.nbytes += s.ledger.size(t)
	} else if t.state == Memory {
		g.nbytes -= s.ledger.size(t)
		t.value = nil
	}
	t.state = to
}

// wait moves a released task into play: missing dependencies are computed.
func (s *State) wait(t *Task) {
	if t.orphan || len(t.spec) == 0 {
		s.recommend(t, toForgotten)
		return
	}
	for i := range t.deps {
		if d := t.deps[i].t; d.state == Erred {
			s.fail(t, d.failure)
			return
		}
	}
	t.failure = nil
	s.setState(t, Waiting)
	t.waitingOn = 0
	// In reverse order, because the stack is processed from the last.
	for i := len(t.deps) - 1; i >= 0; i-- {
		d := t.deps[i].t
		d.waiters++
		if d.state != Memory {
			t.waitingOn++
			if d.state == Released {
				s.recommend(d, toWaiting)
			}
		}
	}
	if t.waitingOn == 0 {
		s.recommend(t, toProcessing)
	}
}

// leavePlay records that the task no longer needs its dependencies.
func (s *State) leavePlay(t *Task) {
	for i := range t.deps {
		d := t.deps[i].t
		if d.waiters--; d.waiters == 0 {
			d.value = nil
		}
		if !d.needed() {
			s.recommend(d, toUnneeded)
		}
	}
	t.waitingOn = 0
}

// withdraw removes a task from the data structure of its state, and from play. freed specifies whether the worker that
// processed it is ordered to release it.
func (s *State) withdraw(t *Task, freed bool) {
	cancelOrders(s, t)
	leave(s, t, freed)
}

// leave is withdraw that keeps the orders of tasks that were sent ahead.
func leave(s *State, t *Task, freed bool) {
	switch t.state {
	case Queued:
		t.pool.queue.remove(t)
	case NoWorkerState:
		s.stranded.remove(t)
	case Processing:
		w := t.worker
		s.exitProcessing(t)
		if t.actor {
			w.actors--
		}
		if freed {
			s.out.free(w, t)
		}
	}
	if t.state.inPlay() {
		s.leavePlay(t)
	}
}

// release releases a task with its run or result. If it is needed it starts again.
func (s *State) release(t *Task) {
	switch t.state {
	case Memory:
		s.releaseMemory(t)
		if t.state != Released {
			return
		}
	case Erred:
		freeErred(s, t)
		t.failure = nil
		s.setState(t, Released)
		s.out.notifyAll(TaskRetried, t)
		for i := len(t.dependents) - 1; i >= 0; i-- {
			if d := t.dependents[i].t; d.state == Erred {
				s.recommend(d, toWaiting)
			}
		}
	default:
		s.withdraw(t, true)
		s.setState(t, Released)
	}
	switch {
	case t.orphan || len(t.spec) == 0:
		s.recommend(t, toForgotten)
	case t.needed():
		s.recommend(t, toWaiting)
	case len(t.dependents) == 0:
		s.recommend(t, toUnneeded)
	}
}

// releaseMemory releases a result, or handles its loss: dependents in play wait again.
func (s *State) releaseMemory(t *Task) {
	if t.actor && len(t.wants) > 0 {
		s.fail(t, &Failure{Kind: ActorLost, Key: t.key, ExceptionText: "the worker that held the actor " +
			t.key.String() + " was lost"})
		return
	}
	t.dropActor()
	freeReplicas(s, t)
	s.setState(t, Released)
	s.out.notifyAll(LostData, t)
	s.unready(t)
}

// unready notifies the dependents in play that a task's result is lost.
func (s *State) unready(t *Task) {
	for i := range t.dependents {
		switch d := t.dependents[i].t; d.state {
		case Waiting:
			cancelOrders(s, d)
			d.waitingOn++
		case Queued, NoWorkerState, Processing:
			s.recommend(d, toReleased)
		}
	}
}

// dropActor updates the counts of the workers that hold an actor.
func (t *Task) dropActor() {
	if t.actor {
		for i := range t.holders {
			t.holders[i].w.actors--
		}
	}
}

// freeErred orders the worker on which a task failed to release it.
func freeErred(s *State, t *Task) {
	if f := t.failure; f != nil && f.Kind == TaskFailed && f.Key == t.key {
		if w := s.workers.byAddress[f.Worker]; w != nil {
			s.out.free(w, t)
		}
	}
}

// enterMemory is the transition to memory: a result is on its first worker.
func (s *State) enterMemory(t *Task, w *Worker) {
	switch w { // tasks that were sent ahead to it have their input now
	case t.worker:
	case t.ahead:
		t.ahead = nil
	default:
		cancelOrders(s, t)
	}
	leave(s, t, false)
	t.failure = nil
	s.ledger.addReplica(t, w)
	s.setState(t, Memory)
	if t.actor {
		w.actors++
	}
	ready := s.scratch.tasks[:0]
	for i := range t.dependents {
		if d := t.dependents[i].t; d.state == Waiting {
			if d.waitingOn--; d.waitingOn == 0 {
				ready = append(ready, d)
			}
		}
	}
	if len(ready) > 1 { // the stack is processed from the last
		slices.SortStableFunc(ready, func(a, b *Task) int { return b.prio.Compare(a.prio) })
	}
	for _, d := range ready {
		s.recommend(d, toProcessing)
	}
	s.scratch.tasks = reuse(ready)
	s.out.notifyAll(KeyInMemory, t)
	s.releaseFireAndForget(t)
	if !t.needed() && len(t.spec) > 0 {
		s.recommend(t, toUnneeded)
	}
}

// releaseFireAndForget releases the task for FireAndForget.
func (s *State) releaseFireAndForget(t *Task) {
	if t.dropWant(s.clients.all[FireAndForget]) && !t.needed() {
		s.recommend(t, toUnneeded)
	}
}

// fail is the transition to erred, from any state.
func (s *State) fail(t *Task, f *Failure) {
	if t.state == Memory {
		t.dropActor()
		freeReplicas(s, t)
		s.unready(t)
	} else {
		s.withdraw(t, f.Key != t.key || f.Kind != TaskFailed)
	}
	t.failure = f
	s.setState(t, Erred)
	for i := len(t.dependents) - 1; i >= 0; i-- {
		if d := t.dependents[i].t; d.state.inPlay() {
			d.failure = f
			s.recommend(d, toErred)
		}
	}
	s.out.notifyAll(KeyErred, t)
	s.releaseFireAndForget(t)
	if !t.needed() && len(t.dependents) == 0 {
		s.recommend(t, toUnneeded)
	}
}

// forget removes a task. Dependents that are not done can never run and are removed with it.
func (s *State) forget(t *Task) {
	wasMemory := t.state == Memory
	switch t.state {
	case Memory:
		t.dropActor()
		freeReplicas(s, t)
	case Erred:
		freeErred(s, t)
	default:
		s.withdraw(t, true)
	}
	s.setState(t, Forgotten)
	for i := range t.dependents {
		e := t.dependents[i]
		d := e.t
		d.orphan = true
		if d.state == Waiting && !wasMemory {
			d.waitingOn--
		}
		if d.worker != nil {
			s.ledger.unneed(d.worker, t)
		}
		d.dropDep(int(e.back))
		if d.state != Memory && d.state != Erred {
			s.recommend(d, toForgotten)
		}
	}
	for i := range t.deps {
		e := t.deps[i]
		e.t.dropDependent(int(e.back))
		if !e.t.needed() && len(e.t.dependents) == 0 {
			s.recommend(e.t, toUnneeded)
		}
	}
	for n := len(t.wants); n > 0; n = len(t.wants) {
		c := t.wants[n-1].c
		t.dropWantAt(n - 1)
		s.out.cancelKeys(c, []taskid.Key{t.key}, "already forgotten", "")
	}
	t.dependents, t.deps = t.dependents[:0], t.deps[:0]
	s.dropTask(t)
}

// newTask returns a released task with a key.
func (s *State) newTask(k taskid.Key, hash uint64, p *pool) *Task {
	t := s.tasks.blank()
	t.key, t.pool, t.group = k, p, s.groups.of(k)
	t.nbytes, t.place = -1, -1
	p.tasks++
	s.counts[Released]++
	t.group.states[Released]++
	t.group.total++
	s.tasks.Put(t, hash)
	return t
}

// dropTask removes a forgotten task from all tables. It is reused after the next event has begun.
func (s *State) dropTask(t *Task) {
	s.tasks.Remove(t)
	if t.pool.tasks--; t.pool.tasks == 0 {
		s.pools.drop(t.pool)
	}
	s.notes.drop(t.notes)
	if g := t.group; g.states[Forgotten] == g.total {
		s.groups.drop(g)
	}
	s.tasks.gone = append(s.tasks.gone, t)
}
