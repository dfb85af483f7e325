package state

// heap holds tasks by priority, the lowest first; among equal ones that assigned last. Four children per node and the
// keys in the entries keep it in few cache lines. Each task has its position, so that it can be removed from anywhere.
type heap struct{ entries []heapEntry }

type heapEntry struct {
	priority   Priority
	generation int64
	task       *Task
	// slot is the index of the holder to which this heap belongs; -1 for a heap of ready tasks.
	slot int32
}

func (e *heapEntry) less(f *heapEntry) bool {
	for i := range e.priority {
		if e.priority[i] != f.priority[i] {
			return e.priority[i] < f.priority[i]
		}
	}
	return e.generation < f.generation
}

// before compares tasks as the heap does.
func (t *Task) before(u *Task) bool {
	e := heapEntry{priority: t.priority, generation: t.generation}
	f := heapEntry{priority: u.priority, generation: u.generation}
	return e.less(&f)
}

func (h *heap) len() int { return len(h.entries) }

func (h *heap) top() *Task { return h.entries[0].task }

func (h *heap) setPos(i int) {
	e := &h.entries[i]
	if e.slot < 0 {
		e.task.pos = int32(i)
	} else {
		e.task.whoHas[e.slot].heap = int32(i)
	}
}

func (h *heap) push(t *Task, slot int32) {
	h.entries = append(h.entries, heapEntry{t.priority, t.generation, t, slot})
	h.up(len(h.entries) - 1)
}

// remove removes the entry at i. The caller resets the position in the task.
func (h *heap) remove(i int) {
	last := len(h.entries) - 1
	if i != last {
		h.entries[i] = h.entries[last]
	}
	h.entries[last] = heapEntry{}
	h.entries = h.entries[:last]
	if i != last && !h.up(i) {
		h.down(i)
	}
}

func (h *heap) pop() *Task {
	t := h.entries[0].task
	h.remove(0)
	return t
}

// up reports whether the entry moved.
func (h *heap) up(i int) bool {
	e := h.entries[i]
	start := i
	for i > 0 {
		parent := (i - 1) / 4
		if !e.less(&h.entries[parent]) {
			break
		}
		h.entries[i] = h.entries[parent]
		h.setPos(i)
		i = parent
	}
	h.entries[i] = e
	h.setPos(i)
	return i != start
}

func (h *heap) down(i int) {
	e := h.entries[i]
	n := len(h.entries)
	for {
		first := 4*i + 1
		if first >= n {
			break
		}
		best := first
		for c := first + 1; c < min(first+4, n); c++ {
			if h.entries[c].less(&h.entries[best]) {
				best = c
			}
		}
		if !h.entries[best].less(&e) {
			break
		}
		h.entries[i] = h.entries[best]
		h.setPos(i)
		i = best
	}
	h.entries[i] = e
	h.setPos(i)
}

// list is a set of tasks in a deterministic order; each task has its position in it.
type list struct{ tasks []*Task }

func (l *list) len() int { return len(l.tasks) }

func (l *list) add(t *Task) {
	t.pos = int32(len(l.tasks))
	l.tasks = append(l.tasks, t)
}

func (l *list) remove(t *Task) {
	last := len(l.tasks) - 1
	moved := l.tasks[last]
	l.tasks[t.pos] = moved
	moved.pos = t.pos
	l.tasks[last] = nil
	l.tasks = l.tasks[:last]
	t.pos = -1
}
