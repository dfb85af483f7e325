package state

import (
	"slices"
	"strings"

	"go.millstream.dev/internal/task/taskid"
)

// poolKey are the capabilities of the workers of a pool, and the requirements of its tasks.
type poolKey struct {
	registry string
	can      Can
}

// runs reports whether workers of the pool run tasks of another. Tasks whose registry names no build run on workers of
// any build with the same functions.
func (p *pool) runs(needs *pool) bool {
	if needs.can&^p.can != 0 {
		return false
	}
	return needs.registry == "" || needs.registry == p.registry || needs.registry == needs.functions &&
		needs.functions == p.functions
}

// poolSet are all pools, and which of them run the tasks of which.
type poolSet struct {
	byKey   map[poolKey]*pool
	list    []*pool // all but any, in order of creation
	any     *pool   // of tasks and workers without registry and abilities
	scratch []*pool
}

func newPoolSet() poolSet {
	p := &pool{emptySince: -1}
	p.by, p.takes = []*pool{p}, []*pool{p}
	return poolSet{byKey: map[poolKey]*pool{}, any: p}
}

// pool is a heap of the running workers with equal capabilities: the least loaded first, among equals the one that has
// waited longest. The queue holds root tasks with the same requirements; workers of other pools run them as well, see
// by.
type pool struct {
	poolKey
	functions string // the first part of the registry, see taskid.SplitHash

	by      []*pool // pools whose workers run its tasks
	takes   []*pool // pools whose tasks its workers run
	heap    []*Worker
	threads int // of all its workers, running or not
	workers int
	tasks   int // number of its tasks
	queue   queue
	// emptySince is the time at which the last running worker was removed while tasks waited, in nanoseconds; -1
	// otherwise.
	emptySince int64
}

func (w *Worker) before(v *Worker) bool {
	if w.load != v.load {
		return w.load < v.load
	}
	return w.assigned < v.assigned
}

func (p *pool) add(w *Worker) {
	w.place = int32(len(p.heap))
	p.heap = append(p.heap, w)
	p.up(int(w.place))
}

func (p *pool) remove(w *Worker) {
	i, last := int(w.place), len(p.heap)-1
	moved := p.heap[last]
	p.heap[last] = nil
	p.heap = p.heap[:last]
	w.place = -1
	if i != last {
		p.heap[i] = moved
		moved.place = int32(i)
		p.fix(moved)
	}
}

// fix restores the heap after w's load has changed.
func (p *pool) fix(w *Worker) {
	p.down(int(w.place))
	p.up(int(w.place))
}

func (p *pool) up(i int) {
	w := p.heap[i]
	for i > 0 {
		parent := (i - 1) / 2
		if !w.before(p.heap[parent]) {
			break
		}
		p.heap[i] = p.heap[parent]
		p.heap[i].place = int32(i)
		i = parent
	}
	p.heap[i] = w
	w.place = int32(i)
}

func (p *pool) down(i int) {
	w := p.heap[i]
	for {
		child := 2*i + 1
		if child >= len(p.heap) {
			break
		}
		if child+1 < len(p.heap) && p.heap[child+1].before(p.heap[child]) {
			child++
		}
		if !p.heap[child].before(w) {
			break
		}
		p.heap[i] = p.heap[child]
		p.heap[i].place = int32(i)
		i = child
	}
	p.heap[i] = w
	w.place = int32(i)
}

// queue are the queued tasks of a pool by priority. Tasks mostly arrive in the order of their priority, and those that
// do are kept in a slice: taking one out of a million costs no more than taking one out of ten. Only tasks that arrive
// out of order are kept in a heap.
type queue struct {
	row   []*Task // ascending; nil for removed ones
	first int     // index of the first task
	heap  []*Task
	n     int
}

// The place of a task: row index r is encoded as r, heap index h as -2-h; -1 is none.

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

// peek returns the first task, nil if there is none.
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
			q.row = q.row[:n-1] // the last one determines what may be appended
		}
		if q.n == 0 {
			q.row, q.heap, q.first = nil, nil, 0 // free the memory of a large queue
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

// list is a doubly linked list of tasks through their own fields. A task is in one list at most.
type list struct {
	head, tail *Task
	n          int
}

func (l *list) push(t *Task) {
	t.prev, t.next = l.tail, nil
	if l.tail != nil {
		l.tail.next = t
	} else {
		l.head = t
	}
	l.tail = t
	l.n++
}

func (l *list) remove(t *Task) {
	if t.prev != nil {
		t.prev.next = t.next
	} else {
		l.head = t.next
	}
	if t.next != nil {
		t.next.prev = t.prev
	} else {
		l.tail = t.prev
	}
	t.prev, t.next = nil, nil
	l.n--
}

// canTake reports whether a running worker meets the requirements of a task.
func (ps *poolSet) canTake(w *Worker, t *Task) bool {
	return w.running() && (t.pool == ps.any || w.pool == t.pool || w.pool.runs(t.pool))
}

// all returns the pools that may have queued tasks; it is valid until the next call.
func (ps *poolSet) all() []*pool {
	ps.scratch = append(append(ps.scratch[:0], ps.any), ps.list...)
	return ps.scratch
}

// next returns the next task for a worker of the pool.
func (p *pool) next() *Task {
	var t *Task
	for _, q := range p.takes {
		if u := q.queue.peek(); u != nil && (t == nil || u.prio.Compare(t.prio) < 0) {
			t = u
		}
	}
	return t
}

// of returns the pool of a registry and abilities and creates it if necessary.
func (ps *poolSet) of(registry string, can Can) *pool {
	k := poolKey{registry, can}
	if k == (poolKey{}) {
		return ps.any
	}
	p := ps.byKey[k]
	if p == nil {
		k.registry = strings.Clone(registry)
		p = &pool{poolKey: k, emptySince: -1}
		p.functions, _ = taskid.SplitHash(k.registry)
		ps.byKey[k] = p
		ps.list = append(ps.list, p)
		ps.link(p)
	}
	return p
}

// link links a new pool with the others. There are few.
func (ps *poolSet) link(p *pool) {
	link := func(q *pool) {
		if q != p && q.runs(p) {
			p.by, q.takes = append(p.by, q), append(q.takes, p)
		}
		if p.runs(q) {
			q.by, p.takes = append(q.by, p), append(p.takes, q)
		}
	}
	link(ps.any)
	for _, q := range ps.list {
		link(q)
	}
}

// drop removes a pool without workers and tasks.
func (ps *poolSet) drop(p *pool) {
	if p == ps.any || ps.byKey[p.poolKey] != p || p.tasks > 0 || p.workers > 0 {
		return
	}
	delete(ps.byKey, p.poolKey)
	without := func(list []*pool) []*pool {
		return slices.DeleteFunc(list, func(q *pool) bool { return q == p })
	}
	ps.list = without(ps.list)
	ps.any.by = without(ps.any.by) // any runs tasks of no other pool
	for _, q := range ps.list {
		q.by, q.takes = without(q.by), without(q.takes)
	}
}

// numBy returns the number of running workers that run the tasks of a pool, at most enough.
func (p *pool) numBy(enough int) int {
	n := 0
	for _, q := range p.by {
		if n += len(q.heap); n >= enough {
			break
		}
	}
	return n
}
