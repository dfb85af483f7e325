package state

// poolKey is what the workers of a pool have, and what its tasks need.
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
	return needs.registry == "" || needs.registry == p.registry || needs.registry == needs.functions && needs.functions == p.functions
}

// pool is the running workers that have the same, as a heap: the least loaded first, among equals the one that
// has waited longest. The queue holds root tasks that need just that; others run them as well, see by.
type pool struct {
	poolKey
	functions string // the first part of the registry, see taskid.SplitHash

	by      []*pool // whose workers run its tasks
	takes   []*pool // whose tasks its workers run
	heap    []*Worker
	threads int // of all its workers, running or not
	workers int
	tasks   int // that need the registry
	queue   queue
	// emptySince is when the last running worker left while tasks waited, in nanoseconds; -1 otherwise.
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
