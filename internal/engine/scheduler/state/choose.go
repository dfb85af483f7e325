package state

// sampled is the number of workers that are compared when there is no reason to prefer one.
const sampled = 16

// queueable reports whether a task is one of many that produce data: root-ish in Dask. It may wait on the scheduler, so
// that dependents of earlier ones run first.
func queueable(s *State, t *Task) bool {
	if n := t.notes; n != nil && (n.restricted || n.NotQueued) || t.actor {
		return false
	}
	if s.cfg.WorkerSaturation > maxSaturation {
		return false
	}
	if t.producer {
		return true
	}
	g := t.group
	if g.total <= 2*threadsFor(s, t.pool) || len(g.deps) >= s.cfg.RootishGroups {
		return false
	}
	sum := 0
	for _, d := range g.deps {
		sum += d.total
	}
	return sum < s.cfg.RootishTasks
}

// maxSaturation is the saturation from which on the queue is considered off.
const maxSaturation = 1e6

// threadsFor returns the number of threads that run tasks of a pool.
func threadsFor(s *State, p *pool) int {
	if p == s.pools.any {
		return s.workers.threads
	}
	n := 0
	for _, q := range p.by {
		n += q.threads
	}
	return n
}

// choose returns the worker on which a ready task is likely to start first: among the holders of its dependencies,
// otherwise among all that can run it. It returns nil if there is none.
func choose(s *State, t *Task) *Worker {
	if s.held || s.workers.running == 0 {
		return nil
	}
	if n := t.notes; n != nil && n.restricted {
		if w := chooseValid(s, t, n); w != nil || !n.AllowOtherWorkers {
			return w
		}
	}
	best := choice{s: s, t: t}
	if !t.actor && len(t.deps) > 0 {
		best.considerHolders(nil)
	}
	if best.w == nil {
		best.considerPool(t.pool)
	}
	return best.w
}

// chooseValid chooses among the workers that meet the task's restrictions.
func chooseValid(s *State, t *Task, n *notes) *Worker {
	best := choice{s: s, t: t}
	if !t.actor && len(t.deps) > 0 {
		best.considerHolders(n)
	}
	if best.w != nil {
		return best.w
	}
	valid := s.workers.valid(n)
	// Equal workers take turns: each choice starts where the last has ended.
	for i, seen := 0, 0; i < len(valid) && seen < sampled; i++ {
		if n.turn++; n.turn >= len(valid) {
			n.turn = 0
		}
		if w := valid[n.turn]; s.pools.canTake(w, t) {
			best.consider(w)
			seen++
		}
	}
	return best.w
}

// choice is the best worker so far.
type choice struct {
	s     *State
	t     *Task
	w     *Worker
	start float64 // seconds until the task would start there
	total int64   // bytes of all dependencies that have few holders
}

// considerHolders compares the workers that hold dependencies, subject to restrictions. A dependency with very many
// holders is ignored.
func (b *choice) considerHolders(n *notes) {
	s, t := b.s, b.t
	if len(t.deps) == 1 && len(t.deps[0].t.holders) == 1 { // common case
		if w := t.deps[0].t.holders[0].w; s.pools.canTake(w, t) && (n == nil || n.allows(w)) {
			b.w = w
		}
		return
	}
	s.walk++
	found := s.scratch.workers[:0]
	for i := range t.deps {
		d := t.deps[i].t
		if len(d.holders) > 4*manyHolders {
			continue
		}
		size := s.ledger.size(d)
		b.total += size
		for j := range d.holders {
			w := d.holders[j].w
			if w.mark != s.walk {
				w.mark, w.local = s.walk, 0
				if s.pools.canTake(w, t) && (n == nil || n.allows(w)) {
					found = append(found, w)
				}
			}
			w.local += size
		}
	}
	if len(found) == 1 {
		b.w = found[0]
	} else {
		for _, w := range found {
			b.considerAt(w, b.total-w.local)
		}
	}
	s.scratch.workers = reuse(found)
}

func (b *choice) considerPool(p *pool) {
	for _, q := range p.by {
		b.considerHeap(q)
	}
}

func (b *choice) considerHeap(p *pool) {
	for _, w := range p.heap[:min(len(p.heap), sampled)] {
		b.consider(w)
	}
}

func (b *choice) consider(w *Worker) { b.considerAt(w, b.total) }

// considerAt compares by the time at which the task would start after fetching these bytes; then, for a task with
// dependencies or restrictions, by the bytes that the worker holds; then in turn. As in Dask, a task that could run
// anywhere takes turns, so that each retry runs on another worker.
func (b *choice) considerAt(w *Worker, fetch int64) {
	start := b.s.Occupancy(w)/float64(w.threads) + float64(fetch)/b.s.ledger.bandwidth
	if b.w == nil || b.better(w, start) {
		b.w, b.start = w, start
	}
}

func (b *choice) better(w *Worker, start float64) bool {
	if b.t.actor && w.actors != b.w.actors {
		return w.actors < b.w.actors
	}
	switch {
	case start != b.start:
		return start < b.start
	case w.nbytes != b.w.nbytes && (len(b.t.deps) > 0 || b.t.notes != nil && b.t.notes.restricted):
		return w.nbytes < b.w.nbytes
	}
	return w.assigned < b.w.assigned
}
