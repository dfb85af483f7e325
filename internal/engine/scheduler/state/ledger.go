package state

// bitset is a set of worker ids.
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

// manyHolders is from how many holders on they are looked up by id.
const manyHolders = 8

// holds tells whether a worker holds a task's result.
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

// size is what a result counts as in transfers.
func (l *ledger) size(t *Task) int64 {
	if t.nbytes < 0 {
		return l.defaultSize
	}
	return t.nbytes
}

// addReplica notes that a worker holds a task's result. It tells whether that is new.
func (l *ledger) addReplica(t *Task, w *Worker) bool {
	if w.holdsTask(t) || t.actor && len(t.holders) > 0 { // there is one of each actor
		return false
	}
	if len(t.holders) == 0 {
		t.holders = t.holders1[:0]
	}
	t.holders = append(t.holders, holder{w, int32(len(w.holds))})
	w.holds = append(w.holds, held{t, int32(len(t.holders) - 1)})
	w.nbytes += l.size(t)
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
		l.fetched(w, t, n)
	}
	return true
}

func (l *ledger) fetched(w *Worker, t *Task, n need) {
	delete(w.needs, t)
	w.netBytes -= n.nbytes
	l.netBytes -= n.nbytes
}

// dropReplica notes that a worker no longer holds a task's result.
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
	if t.wide != nil {
		t.wide.unset(w.id)
		if last <= manyHolders/2 {
			t.wide = nil
		}
	}
}

// freeReplicas removes all replicas and orders their holders to forget them.
func freeReplicas(s *State, t *Task) {
	for n := len(t.holders); n > 0; n = len(t.holders) {
		w := t.holders[n-1].w
		s.ledger.dropHolder(t, n-1)
		s.out.free(w, t)
	}
}

// duration is the guess in seconds for a task of the prefix.
func (l *ledger) duration(p *Prefix) float64 {
	switch {
	case p.average >= 0:
		return p.average
	case p.longest > 0:
		return 2 * p.longest
	}
	return l.unknown
}

// ledger is what the state reckons with: how long tasks take, how large results are, what workers hold and what they
// have yet to fetch.
type ledger struct {
	unknown     float64   // seconds of a task of which nothing is known
	defaultSize int64     // bytes of a result whose size is not known
	bandwidth   float64   // bytes per second between workers
	netBytes    int64     // that all workers have yet to fetch
	processing  []*Prefix // of tasks that are processing
}

// occupancy is how long a worker will be busy with what it has, in seconds.
func (l *ledger) occupancy(w *Worker) float64 {
	sum := w.othersTime + float64(w.netBytes)/l.bandwidth
	for i := range w.counts {
		sum += float64(w.counts[i].n) * l.duration(w.counts[i].p)
	}
	return sum
}

// total is the occupancy of all workers together, in seconds.
func (l *ledger) total() float64 {
	sum := float64(l.netBytes) / l.bandwidth
	for _, p := range l.processing {
		sum += float64(p.processing) * l.duration(p)
	}
	return sum
}

// need notes that one task more on a worker needs a dependency that the worker does not hold.
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

// unneed notes that one task less on a worker needs a dependency.
func (l *ledger) unneed(w *Worker, d *Task) {
	n, ok := w.needs[d]
	if !ok {
		return
	}
	if n.tasks--; n.tasks == 0 {
		l.fetched(w, d, n)
	} else {
		w.needs[d] = n
	}
}

// mostCounts is how many prefixes a worker's tasks are counted by. Tasks of further ones, which come of keys
// that are all names and no numbers, count with what they were thought to take when they came.
const mostCounts = 32

// count notes that a worker has a task of a prefix more.
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

// fetchTime is the time a worker needs to fetch a task's dependencies, in seconds.
func (l *ledger) fetchTime(t *Task, w *Worker) float64 {
	var nbytes int64
	for i := range t.deps {
		if d := t.deps[i].t; !w.holdsTask(d) {
			nbytes += l.size(d)
		}
	}
	return float64(nbytes) / l.bandwidth
}
