package state

// bitset is a set of worker IDs.
type bitset []uint64

func (b *bitset) set(id WorkerID) {
	for int(id)/64 >= len(*b) {
		*b = append(*b, 0)
	}
	(*b)[id/64] |= 1 << (id % 64)
}

func (b *bitset) unset(id WorkerID) { (*b)[id/64] &^= 1 << (id % 64) }

func (b *bitset) has(id WorkerID) bool {
	return int(id)/64 < len(*b) && (*b)[id/64]&(1<<(id%64)) != 0
}

// manyHolders is the number of holders above which they are looked up by ID.
const manyHolders = 8

// holdsTask reports whether a worker holds a task's result.
func (w *Worker) holdsTask(t *Task) bool {
	if t.wide != nil {
		return t.wide.has(w.id)
	}
	for i := range t.holders {
		if t.holders[i].w == w {
			return true
		}
	}
	return false
}

// size returns the assumed size of a result for transfers.
func (l *ledger) size(t *Task) int64 {
	if t.nbytes < 0 {
		return l.defaultSize
	}
	return t.nbytes
}

// addReplica records that a worker holds a task's result. It reports whether that is new.
func (l *ledger) addReplica(t *Task, w *Worker) bool {
	if w.holdsTask(t) || t.actor && len(t.holders) > 0 { // an actor has one holder
		return false
	}
	if len(t.holders) == 0 {
		t.holders = t.holders1[:0]
	}
	t.holders = append(t.holders, holder{w, int32(len(w.holds))})
	w.holds = append(w.holds, held{t, int32(len(t.holders) - 1)})
	w.nbytes += l.size(t)
	if len(t.holders) == 2 {
		l.replicated.add(t)
	}
	switch {
	case t.wide != nil:
		t.wide.set(w.id)
	case len(t.holders) > manyHolders:
		t.wide = &bitset{}
		for i := range t.holders {
			t.wide.set(t.holders[i].w.id)
		}
	}
	if n, ok := w.needs[t]; ok {
		l.completeFetch(w, t, n)
	}
	return true
}

func (l *ledger) completeFetch(w *Worker, t *Task, n need) {
	delete(w.needs, t)
	w.netBytes -= n.nbytes
	l.netBytes -= n.nbytes
}

// dropReplica records that a worker no longer holds a task's result.
func (l *ledger) dropReplica(t *Task, w *Worker) bool {
	for i := range t.holders {
		if t.holders[i].w == w {
			l.dropHolder(t, i)
			return true
		}
	}
	return false
}

// dropHolder removes the i-th holder from both sides.
func (l *ledger) dropHolder(t *Task, i int) {
	h := t.holders[i]
	w := h.w
	last := len(w.holds) - 1
	if moved := w.holds[last]; int(h.place) != last {
		w.holds[h.place] = moved
		moved.t.holders[moved.place].place = h.place
	}
	w.holds[last] = held{}
	w.holds = w.holds[:last]
	w.nbytes -= l.size(t)

	last = len(t.holders) - 1
	if moved := t.holders[last]; i != last {
		t.holders[i] = moved
		moved.w.holds[moved.place].place = int32(i)
	}
	t.holders[last] = holder{}
	t.holders = t.holders[:last]
	if last == 1 {
		l.replicated.remove(t)
	}
	if t.wide != nil {
		t.wide.unset(w.id)
		if last <= manyHolders/2 {
			t.wide = nil
		}
	}
}

// freeReplicas removes all replicas and orders their holders to release them.
func freeReplicas(s *State, t *Task) {
	delete(s.ledger.kept, t)
	for n := len(t.holders); n > 0; n = len(t.holders) {
		w := t.holders[n-1].w
		s.ledger.dropHolder(t, n-1)
		s.out.free(w, t)
	}
}

// duration returns the estimated duration of a task of the prefix in seconds.
func (l *ledger) duration(p *Prefix) float64 {
	switch {
	case p.average >= 0:
		return p.average
	case p.longest > 0:
		return 2 * p.longest
	}
	return l.unknown
}

// ledger keeps the estimates of the state: durations of tasks, sizes of results, results that workers hold and those
// that they have yet to fetch.
type ledger struct {
	unknown     float64   // seconds of a task of unknown duration
	defaultSize int64     // bytes of a result of unknown size
	bandwidth   float64   // bytes per second between workers
	netBytes    int64     // that all workers have yet to fetch
	processing  []*Prefix // of tasks that are processing
	replicated  replicated
	kept        map[*Task]int // replicas that ReduceReplicas keeps; not iterated
}

// occupancy returns the estimated time that a worker needs for its tasks, in seconds.
func (l *ledger) occupancy(w *Worker) float64 {
	sum := w.othersTime + float64(w.netBytes)/l.bandwidth
	for i := range w.counts {
		sum += float64(w.counts[i].n) * l.duration(w.counts[i].p)
	}
	return sum
}

// total returns the occupancy of all workers together, in seconds.
func (l *ledger) total() float64 {
	sum := float64(l.netBytes) / l.bandwidth
	for _, p := range l.processing {
		sum += float64(p.processing) * l.duration(p)
	}
	return sum
}

// need records that one more task on a worker needs a dependency that the worker does not hold.
func (l *ledger) need(w *Worker, d *Task) {
	n, ok := w.needs[d]
	if !ok {
		n.nbytes = l.size(d)
		w.netBytes += n.nbytes
		l.netBytes += n.nbytes
		if w.needs == nil {
			w.needs = map[*Task]need{}
		}
	}
	n.tasks++
	w.needs[d] = n
}

// unneed undoes need.
func (l *ledger) unneed(w *Worker, d *Task) {
	n, ok := w.needs[d]
	if !ok {
		return
	}
	if n.tasks--; n.tasks == 0 {
		l.completeFetch(w, d, n)
	} else {
		w.needs[d] = n
	}
}

// mostCounts is the number of prefixes by which a worker's tasks are counted. Tasks of further prefixes, which result
// from keys without numbers, count with their estimated duration at the time of assignment.
const mostCounts = 32

// count records one more task of a prefix on a worker.
func (l *ledger) count(w *Worker, t *Task) {
	p := t.group.prefix
	if p.processing++; p.processing == 1 {
		p.place = len(l.processing)
		l.processing = append(l.processing, p)
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
	t.other, t.estimate = true, float32(l.duration(p))
	w.others++
	w.othersTime += float64(t.estimate)
}

// uncount undoes count.
func (l *ledger) uncount(w *Worker, t *Task) {
	p := t.group.prefix
	if p.processing--; p.processing == 0 {
		last := l.processing[len(l.processing)-1]
		l.processing[p.place] = last
		last.place = p.place
		l.processing[len(l.processing)-1] = nil
		l.processing = l.processing[:len(l.processing)-1]
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

// fetchTime returns the time a worker needs to fetch a task's dependencies, in seconds.
func (l *ledger) fetchTime(t *Task, w *Worker) float64 {
	var nbytes int64
	for i := range t.deps {
		if d := t.deps[i].t; !w.holdsTask(d) {
			nbytes += l.size(d)
		}
	}
	return float64(nbytes) / l.bandwidth
}

// replicated lists the tasks that have more than one holder. Its order depends on the events only.
type replicated struct {
	list  []*Task
	place map[*Task]int // index in list; not iterated
}

func (r *replicated) add(t *Task) {
	if r.place == nil {
		r.place = map[*Task]int{}
	}
	r.place[t] = len(r.list)
	r.list = append(r.list, t)
}

func (r *replicated) remove(t *Task) {
	i, last := r.place[t], len(r.list)-1
	if moved := r.list[last]; i != last {
		r.list[i], r.place[moved] = moved, i
	}
	r.list[last] = nil
	r.list = r.list[:last]
	delete(r.place, t)
}

// keepReplicas sets the number of replicas of a task that ReduceReplicas keeps.
func (l *ledger) keepReplicas(t *Task, n int) {
	if n < 2 {
		delete(l.kept, t)
		return
	}
	if l.kept == nil {
		l.kept = map[*Task]int{}
	}
	l.kept[t] = n
}
