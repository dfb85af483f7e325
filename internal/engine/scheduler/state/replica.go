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
func (s *State) size(t *Task) int64 {
	if t.nbytes < 0 {
		return s.cfg.DefaultDataSize
	}
	return t.nbytes
}

// addReplica notes that a worker holds a task's result. It tells whether that is new.
func (s *State) addReplica(t *Task, w *Worker) bool {
	if w.holdsTask(t) || t.actor && len(t.holders) > 0 { // there is one of each actor
		return false
	}
	if len(t.holders) == 0 {
		t.holders = t.holders1[:0]
	}
	t.holders = append(t.holders, holder{w, int32(len(w.holds))})
	w.holds = append(w.holds, held{t, int32(len(t.holders) - 1)})
	w.nbytes += s.size(t)
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
		s.fetched(w, t, n)
	}
	return true
}

func (s *State) fetched(w *Worker, t *Task, n need) {
	delete(w.needs, t)
	w.netBytes -= n.nbytes
	s.netBytes -= n.nbytes
}

// dropReplica notes that a worker no longer holds a task's result.
func (s *State) dropReplica(t *Task, w *Worker) bool {
	for i := range t.holders {
		if t.holders[i].w == w {
			s.dropHolder(t, i)
			return true
		}
	}
	return false
}

// dropHolder removes the i-th holder from both sides.
func (s *State) dropHolder(t *Task, i int) {
	h := t.holders[i]
	w := h.w
	last := len(w.holds) - 1
	if moved := w.holds[last]; int(h.place) != last {
		w.holds[h.place] = moved
		moved.t.holders[moved.place].place = h.place
	}
	w.holds[last] = held{}
	w.holds = w.holds[:last]
	w.nbytes -= s.size(t)

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
func (s *State) freeReplicas(t *Task) {
	for n := len(t.holders); n > 0; n = len(t.holders) {
		w := t.holders[n-1].w
		s.dropHolder(t, n-1)
		s.free(w, t)
	}
}
