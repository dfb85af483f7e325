package state

// queue is the queued tasks of a pool by priority. Tasks mostly come in the order in which they are to go, so
// those that do are kept in a plain row: taking one out of a million costs no more than taking one out of ten.
// Only those that come out of order pay for a heap.
type queue struct {
	row   []*Task // ascending; nil where one was removed
	first int     // index of the first that is there
	heap  []*Task
	n     int
}

// place of a task: row index r is encoded as r, heap index h as -2-h; -1 is nowhere.

func (q *queue) push(t *Task) {
	q.n++
	if q.first == len(q.row) {
		q.row, q.first = q.row[:0], 0
	}
	if n := len(q.row); n == 0 || q.row[n-1] != nil && q.row[n-1].prio.Compare(t.prio) <= 0 {
		if n == cap(q.row) && q.first > n/2 {
			q.shift()
		}
		t.place = int32(len(q.row))
		q.row = append(q.row, t)
		return
	}
	q.heap = append(q.heap, t)
	q.up(len(q.heap) - 1)
}

// shift moves the row to the front of its memory instead of growing it.
func (q *queue) shift() {
	n := copy(q.row, q.row[q.first:])
	clear(q.row[n:])
	q.row, q.first = q.row[:n], 0
	for i, t := range q.row {
		if t != nil {
			t.place = int32(i)
		}
	}
}

// peek returns the first task, nil when there is none.
func (q *queue) peek() *Task {
	if q.n == 0 {
		return nil
	}
	var t *Task
	if q.first < len(q.row) {
		t = q.row[q.first]
	}
	if len(q.heap) > 0 && (t == nil || q.heap[0].prio.Compare(t.prio) < 0) {
		t = q.heap[0]
	}
	return t
}

func (q *queue) remove(t *Task) {
	q.n--
	place := int(t.place)
	t.place = -1
	if place >= 0 {
		q.row[place] = nil
		for q.first < len(q.row) && q.row[q.first] == nil {
			q.first++
		}
		for n := len(q.row); n > q.first && q.row[n-1] == nil; n-- {
			q.row = q.row[:n-1] // so that the last one tells what may follow
		}
		if q.n == 0 {
			q.row, q.heap, q.first = nil, nil, 0 // a queue of a million is not kept for ever
		}
		return
	}
	i, last := -2-place, len(q.heap)-1
	moved := q.heap[last]
	q.heap[last] = nil
	q.heap = q.heap[:last]
	if i != last {
		q.heap[i] = moved
		moved.place = int32(-2 - i)
		q.down(i)
		q.up(-2 - int(moved.place))
	}
}

func (q *queue) up(i int) {
	t := q.heap[i]
	for i > 0 {
		parent := (i - 1) / 2
		if q.heap[parent].prio.Compare(t.prio) <= 0 {
			break
		}
		q.heap[i] = q.heap[parent]
		q.heap[i].place = int32(-2 - i)
		i = parent
	}
	q.heap[i] = t
	t.place = int32(-2 - i)
}

func (q *queue) down(i int) {
	t := q.heap[i]
	for {
		child := 2*i + 1
		if child >= len(q.heap) {
			break
		}
		if child+1 < len(q.heap) && q.heap[child+1].prio.Compare(q.heap[child].prio) < 0 {
			child++
		}
		if t.prio.Compare(q.heap[child].prio) <= 0 {
			break
		}
		q.heap[i] = q.heap[child]
		q.heap[i].place = int32(-2 - i)
		i = child
	}
	q.heap[i] = t
	t.place = int32(-2 - i)
}

// each calls f for every queued task: the row first.
func (q *queue) each(f func(*Task)) {
	for _, t := range q.row[q.first:] {
		if t != nil {
			f(t)
		}
	}
	for _, t := range q.heap {
		f(t)
	}
}
