package state

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"go.millstream.dev/internal/taskid"
)

// poolOf returns the pool of a registry and abilities, new if need be.
func (s *State) poolOf(registry string, can Can) *pool {
	k := poolKey{registry, can}
	if k == (poolKey{}) {
		return s.anyPool
	}
	p := s.pools[k]
	if p == nil {
		k.registry = strings.Clone(registry)
		p = &pool{poolKey: k, emptySince: -1}
		p.functions, _ = taskid.SplitHash(k.registry)
		s.pools[k] = p
		s.poolList = append(s.poolList, p)
		s.linkPool(p)
	}
	return p
}

// linkPool tells a new pool and the others of each other. There are few.
func (s *State) linkPool(p *pool) {
	link := func(q *pool) {
		if q != p && q.runs(p) {
			p.by, q.takes = append(p.by, q), append(q.takes, p)
		}
		if p.runs(q) {
			q.by, p.takes = append(q.by, p), append(p.takes, q)
		}
	}
	link(s.anyPool)
	for _, q := range s.poolList {
		link(q)
	}
}

// dropPool forgets a pool that has neither workers nor tasks.
func (s *State) dropPool(p *pool) {
	if p == s.anyPool || s.pools[p.poolKey] != p || p.tasks > 0 || p.workers > 0 {
		return
	}
	delete(s.pools, p.poolKey)
	without := func(list []*pool) []*pool {
		return slices.DeleteFunc(list, func(q *pool) bool { return q == p })
	}
	s.poolList = without(s.poolList)
	s.anyPool.by = without(s.anyPool.by) // nothing takes of one that has nothing
	for _, q := range s.poolList {
		q.by, q.takes = without(q.by), without(q.takes)
	}
}

// numBy is how many running workers run the tasks of a pool, up to a number that is enough.
func (p *pool) numBy(enough int) int {
	n := 0
	for _, q := range p.by {
		if n += len(q.heap); n >= enough {
			break
		}
	}
	return n
}

func (s *State) addWorker(ev *AddWorker) {
	ev.Worker, ev.Err = NoWorker, nil
	switch {
	case ev.Address == "":
		ev.Err = fmt.Errorf("scheduler: worker %q has no address", ev.Name)
	case ev.Threads < 1:
		ev.Err = fmt.Errorf("scheduler: worker %s has %d threads: at least 1 is needed", ev.Address, ev.Threads)
	case s.byAddress[ev.Address] != nil:
		ev.Err = fmt.Errorf("scheduler: worker %s already exists", ev.Address)
	case ev.Name != "" && s.byName[ev.Name] != nil:
		ev.Err = fmt.Errorf("scheduler: name taken, %s: worker %s has it", ev.Name, s.byName[ev.Name].address)
	}
	if ev.Err != nil {
		return
	}
	w := &Worker{
		address: strings.Clone(ev.Address), name: strings.Clone(ev.Name), host: strings.Clone(ev.Host),
		threads: ev.Threads, memoryLimit: ev.MemoryLimit, status: ev.Status, Data: ev.Data,
		place: -1, returning: ev.Returning, token: strings.Clone(ev.Token),
	}
	w.setResources(ev.Resources)
	s.comeBack(w)
	if n := len(s.freeWorkers); n > 0 {
		w.id = s.freeWorkers[n-1]
		s.freeWorkers = s.freeWorkers[:n-1]
		s.workers[w.id] = w
	} else {
		w.id = WorkerID(len(s.workers))
		s.workers = append(s.workers, w)
	}
	if w.name == "" {
		w.name = w.address
	}
	s.byAddress[w.address] = w
	s.byName[w.name] = w
	w.pool = s.poolOf(ev.Registry, ev.Can)
	w.registry = w.pool.registry
	w.pool.workers++
	w.pool.threads += w.threads
	s.numWorkers++
	s.threads += w.threads
	s.workersGen++
	s.added++
	ev.Worker = w.id
	s.assignments++
	w.assigned = s.assignments
	if w.running() {
		s.startWorker(w)
	}
}

// startWorker lets a worker take tasks: first those that have waited for one like it.
func (s *State) startWorker(w *Worker) {
	s.numRunning++
	w.pool.add(w)
	for _, p := range w.pool.takes {
		p.emptySince = -1
	}
	s.retryStranded(func(t *Task) bool {
		return s.canTake(w, t) && (t.notes == nil || !t.notes.restricted || t.notes.AllowOtherWorkers || t.notes.allows(w))
	})
}

// stopWorker keeps tasks from a worker.
func (s *State) stopWorker(w *Worker) {
	w.stopped = s.now
	s.numRunning--
	w.pool.remove(w)
	for _, p := range w.pool.takes {
		s.noteEmpty(p)
	}
}

// retryStranded tries again to find workers for tasks that have none, the most urgent first.
func (s *State) retryStranded(which func(*Task) bool) {
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

// noteEmpty notes since when tasks of a pool have had no running worker.
func (s *State) noteEmpty(p *pool) {
	if p.numBy(1) > 0 {
		p.emptySince = -1
	} else if p.emptySince < 0 {
		p.emptySince = s.nowNs
		switch {
		case s.numRunning == 0 || p.tasks == 0:
		case p.registry != "":
			s.logEvent("no running worker has the functions of registry " + p.registry + ": its tasks wait; start workers of the same program as the client")
		default:
			s.logEvent("no running worker runs " + p.can.String() + ": such tasks wait; start workers that do")
		}
	}
}

func (s *State) setStatus(w *Worker, to WorkerStatus) {
	was := w.running()
	if to == StatusRunning && w.retiring != nil {
		return // it has not heard yet that it is to leave
	}
	w.status = to
	switch now := w.running(); {
	case now && !was:
		s.startWorker(w)
	case was && !now:
		s.stopWorker(w)
		s.stepRequests()
	}
}

func (w *Worker) setResources(r []Resource) {
	w.resources = make([]Resource, len(r))
	for i := range r {
		w.resources[i] = Resource{strings.Clone(r[i].Name), r[i].Amount}
	}
	w.used = make([]float64, len(r))
}

func (s *State) setResources(ev *SetResources) {
	w := s.Worker(ev.Worker)
	if w == nil {
		return
	}
	w.setResources(ev.Resources)
	for t := range w.Processing() {
		w.take(t.notes, 1)
	}
	s.workersGen++
	if w.running() {
		s.retryStranded(func(t *Task) bool { return s.canTake(w, t) && (t.notes == nil || t.notes.allows(w)) })
	}
}

// removeWorker takes a worker out. What it processed goes back, what only it held is lost.
func (s *State) removeWorker(w *Worker, ev *RemoveWorker) {
	if ev.Close {
		a := s.out.add(CloseWorker)
		a.Worker, a.Text = w.id, ev.Reason
	}
	if w.running() {
		s.stopWorker(w)
	}
	w.removed = true
	w.status = StatusClosed
	delete(s.byAddress, w.address)
	delete(s.byName, w.name)
	s.workers[w.id] = nil
	s.leftWorkers = append(s.leftWorkers, w.id)
	s.numWorkers--
	s.threads -= w.threads
	s.workersGen++
	s.removed++
	w.pool.workers--
	w.pool.threads -= w.threads

	processing := make([]*Task, 0, w.processing)
	for t := range w.Processing() {
		processing = append(processing, t)
	}
	slices.SortStableFunc(processing, func(a, b *Task) int { return a.prio.Compare(b.prio) })
	s.depart(w, processing)
	blamed := 0
	// From the last to the first: the stack then starts with the first.
	for i := len(processing) - 1; i >= 0; i-- {
		t := processing[i]
		// Only what may have been running is suspicious: long-running tasks and the first in line.
		if !ev.Safe && (t.seceded || i < 2*w.threads) {
			blamed++
			t.failures = min(t.failures, math.MaxUint16-1) + 1
			t.group.prefix.suspicious++
			if int(t.failures) > s.cfg.AllowedFailures {
				s.fail(t, killedWorker(t, w, ev.Reason))
				continue
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
			s.dropReplica(t, w)
			continue
		}
		switch {
		case len(t.spec) > 0:
			lost++
		case ev.Await > 0 && w.token != "" && !t.actor && t.needed():
			ev.Awaited++
			s.await(t, w, ev.Await)
			continue
		default:
			gone++
		}
		s.lose(t, w)
	}
	s.netBytes -= w.netBytes
	w.netBytes, w.needs = 0, nil
	s.dropPool(w.pool)
	a := s.logEvent(fmt.Sprintf("worker %s removed (%s): %d tasks go elsewhere, %d of them suspicious; %d results are lost and computed again, %d pieces of data are lost for good",
		w.address, ev.Reason, len(processing), blamed, lost, gone) + awaitedText(ev.Awaited))
	a.Worker = w.id
	for v := range s.Workers() {
		a := s.out.add(ForgetPeer)
		a.Worker, a.Text = v.id, w.address
	}
	s.stepRequests()
}

func awaitedText(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", %d wait for its return", n)
}

func (s *State) heartbeat(ev *Heartbeat) {
	w := s.Worker(ev.Worker)
	if w == nil {
		return
	}
	w.memory, w.managed, w.spilled = ev.Memory, ev.Managed, ev.Spilled
	if ev.Bandwidth > 0 {
		part := 1 / float64(s.numWorkers)
		s.bandwidth += (ev.Bandwidth - s.bandwidth) * part
	}
	for _, e := range ev.Executing {
		if t := s.tasks.get(e.Key); t != nil && t.worker == w && !t.seceded {
			t.group.prefix.running(e.For.Seconds())
		}
	}
}
