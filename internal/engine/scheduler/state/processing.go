package state

import "math"

// enterProcessing assigns a ready task to a worker, without the order to compute it.
func (s *State) enterProcessing(t *Task, w *Worker) {
	t.worker = w
	s.setState(t, Processing)
	s.count(w, t)
	for i := range t.deps {
		d := t.deps[i].t
		if w.holdsTask(d) {
			continue
		}
		n, ok := w.needs[d]
		if !ok {
			n.nbytes = s.size(d)
			w.netBytes += n.nbytes
			s.netBytes += n.nbytes
			if w.needs == nil {
				w.needs = map[*Task]need{}
			}
		}
		n.tasks++
		w.needs[d] = n
	}
	t.list = s.stealLevel(t)
	w.lists[t.list].push(t)
	w.processing++
	w.take(t.notes, 1)
	if t.actor {
		w.actors++
	}
	s.assignments++
	w.assigned = s.assignments
	s.reload(w)
}

// exitProcessing takes a task from the worker that processes it. The caller sets the next state.
func (s *State) exitProcessing(t *Task) {
	w := t.worker
	t.worker = nil
	t.refused = false
	s.endSteal(t)
	w.lists[t.list].remove(t)
	w.processing--
	if t.seceded {
		t.seceded = false
		w.seceded--
	} else {
		s.uncount(w, t)
	}
	for i := range t.deps {
		s.unneed(w, t.deps[i].t)
	}
	w.take(t.notes, -1)
	s.reload(w)
}

// unneed notes that one task less on a worker needs a dependency.
func (s *State) unneed(w *Worker, d *Task) {
	n, ok := w.needs[d]
	if !ok {
		return
	}
	if n.tasks--; n.tasks == 0 {
		s.fetched(w, d, n)
	} else {
		w.needs[d] = n
	}
}

// mostCounts is how many prefixes a worker's tasks are counted by. Tasks of further ones, which come of keys
// that are all names and no numbers, count with what they were thought to take when they came.
const mostCounts = 32

// count notes that a worker has a task of a prefix more.
func (s *State) count(w *Worker, t *Task) {
	p := t.group.prefix
	if p.processing++; p.processing == 1 {
		p.place = len(s.processing)
		s.processing = append(s.processing, p)
	}
	for i := range w.counts {
		if w.counts[i].p == p {
			w.counts[i].n++
			return
		}
	}
	if len(w.counts) < mostCounts {
		w.counts = append(w.counts, prefixCount{p, 1})
		return
	}
	t.other, t.estimate = true, float32(s.duration(p))
	w.others++
	w.othersTime += float64(t.estimate)
}

// uncount undoes count.
func (s *State) uncount(w *Worker, t *Task) {
	p := t.group.prefix
	if p.processing--; p.processing == 0 {
		last := s.processing[len(s.processing)-1]
		s.processing[p.place] = last
		last.place = p.place
		s.processing[len(s.processing)-1] = nil
		s.processing = s.processing[:len(s.processing)-1]
	}
	if t.other {
		t.other = false
		if w.others--; w.others == 0 {
			w.othersTime = 0
		} else {
			w.othersTime -= float64(t.estimate)
		}
		return
	}
	for i := range w.counts {
		if w.counts[i].p != p {
			continue
		}
		if w.counts[i].n--; w.counts[i].n == 0 {
			last := len(w.counts) - 1
			w.counts[i] = w.counts[last]
			w.counts[last] = prefixCount{}
			w.counts = w.counts[:last]
		}
		return
	}
}

// reload brings the worker's place in its pool up to date.
func (s *State) reload(w *Worker) {
	w.load = float64(w.active()) / float64(w.threads)
	if w.place >= 0 {
		w.pool.fix(w)
	}
}

// Tasks shorter than shortTask are sent ahead of time, as many as take aheadTime but no more than
// aheadMost per thread: a thread that had to ask for each would spend most of its time waiting. Large results are
// never produced ahead.
const (
	shortTask   = 0.005 // seconds
	aheadTime   = 0.010 // seconds
	aheadMost   = 512
	aheadNBytes = 64 << 10
)

// slots is how many tasks of a prefix a worker may have before others of its root tasks wait in the queue:
// base by the worker-saturation, depth if the tasks are short.
func (s *State) slotsFor(w *Worker, p *Prefix) (base, depth int) {
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

// assign sends a ready task to a worker, or puts it where it waits for one.
func (s *State) assign(t *Task) {
	switch t.state {
	case Waiting:
		if t.waitingOn > 0 {
			return
		}
		if s.queueable(t) {
			s.enqueue(t) // fillSlots takes it out again, if it is its turn
			return
		}
		w := s.choose(t)
		if w == nil {
			s.strand(t)
			return
		}
		s.send(t, w)
	case NoWorkerState:
		if w := s.choose(t); w != nil {
			s.stranded.remove(t)
			s.send(t, w)
		}
	}
}

func (s *State) enqueue(t *Task) {
	s.setState(t, Queued)
	if p := t.pool; p.queue.n == 0 && p.emptySince >= 0 {
		p.emptySince = s.nowNs // until now nothing has waited for the workers that left
	}
	t.pool.queue.push(t)
	s.noteEmpty(t.pool)
}

func (s *State) strand(t *Task) {
	s.setState(t, NoWorkerState)
	t.since = s.nowNs
	s.stranded.push(t)
	s.noteEmpty(t.pool)
	if !s.held && s.numRunning > 0 {
		a := s.logEvent("no running worker can take the task: " + t.why())
		a.Task, a.Key = t, t.key
	}
}

// send makes a worker compute a task.
func (s *State) send(t *Task, w *Worker) {
	s.enterProcessing(t, w)
	if s.cfg.MemoryTerminate && w.memoryLimit > 0 && len(t.deps) > 0 {
		var need int64
		for i := range t.deps {
			need += s.size(t.deps[i].t)
		}
		if need > w.memoryLimit {
			s.fail(t, tooLarge(t, w, need))
			return
		}
	}
	s.compute(t)
}

// fillSlots takes tasks from the queues as long as workers have slots for them. Workers that run short tasks
// are filled when they are half empty, so that orders go out in batches.
func (s *State) fillSlots() {
	if s.counts[Queued] == 0 || s.held {
		return
	}
	s.fillPool(s.anyPool)
	for _, p := range s.poolList {
		s.fillPool(p)
	}
}

func (s *State) fillPool(p *pool) {
	for len(p.heap) > 0 {
		w := p.heap[0]
		t := s.nextQueued(p)
		if t == nil {
			return
		}
		base, depth := s.slotsFor(w, t.group.prefix)
		n := base - w.active()
		if depth > base && w.active() <= depth/2 {
			// Not more than a fair share of what is left, so that no worker is left without.
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
			t = s.nextQueued(p)
		}
		s.drain() // a task that is too large for its worker has failed
	}
}

// nextQueued is the task that a worker of the pool would get next.
func (s *State) nextQueued(p *pool) *Task {
	var t *Task
	for _, q := range p.takes {
		if u := q.queue.peek(); u != nil && (t == nil || u.prio.Compare(t.prio) < 0) {
			t = u
		}
	}
	return t
}
