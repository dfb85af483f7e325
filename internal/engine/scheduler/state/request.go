package state

import (
	"slices"
	"time"

	"go.millstream.dev/internal/task/taskid"
)

// request is a Replicate, Rebalance or RetireWorkers in progress.
type request struct {
	number   uint64
	deadline time.Time
	again    time.Time // when missing copies are requested again
	copies   map[copyID]*Worker
	order    []copyID // of copies, in order of request; some may be complete
	retire   *retirement
	failed   []taskid.Key
	done     bool
}

// copyID is a replica that is expected on a worker. Its value in request.copies is the worker that then drops its own
// replica; nil for none.
type copyID struct {
	key taskid.Key
	to  *Worker
}

// retirement is the part of a request that only RetireWorkers has.
type retirement struct {
	workers       []*Worker
	close, remove bool
}

// askAgain is how long a copy may take before it is checked again.
const askAgain = 5 * time.Second

func newRequest(s *State, number uint64) *request {
	r := &request{number: number, deadline: s.now.Add(s.cfg.MaxReplicateTime), again: s.now.Add(askAgain),
		copies: map[copyID]*Worker{}}
	s.requests = append(s.requests, r)
	return r
}

// expect records that a copy of a task is expected on a worker.
func (r *request) expect(t *Task, to, from *Worker) {
	id := copyID{t.key, to}
	if _, ok := r.copies[id]; !ok {
		r.order = append(r.order, id)
	}
	r.copies[id] = from
}

// acquire collects the orders for copies per worker.
type acquire struct {
	workers []*Worker
	tasks   map[*Worker][]*Task // not iterated
}

func (a *acquire) add(t *Task, w *Worker) {
	if a.tasks == nil {
		a.tasks = map[*Worker][]*Task{}
	}
	if len(a.tasks[w]) == 0 {
		a.workers = append(a.workers, w)
	}
	a.tasks[w] = append(a.tasks[w], t)
}

func (a *acquire) send(s *State) {
	for _, w := range a.workers {
		act := s.out.add(AcquireReplicas)
		act.Worker, act.Tasks = w.id, s.out.copyTasks(a.tasks[w])
	}
}

// completeCopy records that a worker has a replica that a request may wait for.
func completeCopy(s *State, k taskid.Key, w *Worker) {
	for i := 0; i < len(s.requests); i++ {
		r := s.requests[i]
		id := copyID{k, w}
		from, ok := r.copies[id]
		if !ok || r.done {
			continue
		}
		delete(r.copies, id)
		if t := s.tasks.Get(k); from != nil && !from.removed && t != nil && len(t.holders) > 1 && from.holdsTask(t) {
			removeReplica(s, t, from)
		}
		if len(r.copies) == 0 {
			r.step(s)
		}
	}
}

// removeReplica orders a worker to drop a replica that is not the last.
func removeReplica(s *State, t *Task, w *Worker) {
	s.ledger.dropReplica(t, w)
	a := s.out.add(RemoveReplicas)
	a.Worker, a.Keys = w.id, s.out.copyKeys([]taskid.Key{t.key})
}

// stepRequests advances all requests, after time has passed or workers have changed.
func stepRequests(s *State) {
	for i := 0; i < len(s.requests); i++ {
		s.requests[i].step(s)
	}
}

// step advances a request.
func (r *request) step(s *State) {
	if r.done {
		return
	}
	late := s.now.After(r.deadline)
	again := s.now.After(r.again)
	if again {
		r.again = s.now.Add(askAgain)
	}
	var ask acquire
	kept := r.order[:0]
	for _, id := range r.order {
		from, ok := r.copies[id]
		if !ok {
			continue
		}
		t := s.tasks.Get(id.key)
		switch {
		case t == nil || t.state != Memory || id.to.removed || r.retire != nil && id.to.retiring != nil:
			// Nothing to copy, or no worker to copy to; a retiring worker takes nothing from another.
			delete(r.copies, id)
			if r.retire == nil {
				r.failed = append(r.failed, id.key)
			}
			continue
		case late:
			delete(r.copies, id)
			r.failed = append(r.failed, id.key)
			continue
		case again && !id.to.holdsTask(t):
			ask.add(t, id.to)
		}
		r.copies[id] = from
		kept = append(kept, id)
	}
	clear(r.order[len(kept):])
	r.order = kept
	ask.send(s)
	switch {
	case len(r.copies) > 0:
	case r.retire == nil:
		r.end(s, r.failed)
	case late:
		r.finishRetire(s, r.failed)
	default:
		r.stepRetire(s)
	}
}

// end answers a request. It stays in the list until the end of the event, because the list may be in use.
func (r *request) end(s *State, failed []taskid.Key) {
	r.done = true
	a := s.out.add(RequestDone)
	a.Number, a.Keys = r.number, s.out.copyKeys(failed)
}

func (ev *Replicate) apply(s *State) {
	r := newRequest(s, ev.Request)
	targets := newFillers(s.workers.among(ev.Workers), (*Worker).NBytes)
	n := ev.N
	if n <= 0 || n > len(targets) {
		n = len(targets)
	}
	var ask acquire
	for _, k := range ev.Keys {
		t := s.tasks.Get(k)
		if t == nil || t.state != Memory || t.actor || len(targets) == 0 {
			r.failed = append(r.failed, taskid.Key([]byte(k)))
			continue
		}
		have := 0
		for i := range targets {
			if targets[i].w.holdsTask(t) {
				have++
			}
		}
		if ev.Keep {
			s.ledger.keepReplicas(t, n)
		}
		if have > n && ev.Delete {
			thin(s, t, targets, have-n)
		}
		for ; have < n; have++ {
			w := targets.next(s.ledger.size(t), func(w *Worker) bool { return !w.holdsTask(t) && !r.expects(t, w) })
			if w == nil {
				break
			}
			r.expect(t, w, nil)
			ask.add(t, w)
		}
	}
	ask.send(s)
	r.step(s)
}

func (r *request) expects(t *Task, w *Worker) bool {
	_, ok := r.copies[copyID{t.key, w}]
	return ok
}

// thin removes replicas, from the fullest workers first.
func thin(s *State, t *Task, among fillers, n int) {
	var holders []*Worker
	for _, f := range among {
		if f.w.holdsTask(t) {
			holders = append(holders, f.w)
		}
	}
	slices.SortStableFunc(holders, func(a, b *Worker) int { return int(min(max(b.nbytes-a.nbytes, -1), 1)) })
	for _, w := range holders[:min(n, len(t.holders)-1, len(holders))] {
		removeReplica(s, t, w)
	}
}

// fillers are workers that are being filled, as a heap: the emptiest first.
type fillers []filler

type filler struct {
	w      *Worker
	nbytes int64 // held and in flight
}

// newFillers returns the workers with their present fill.
func newFillers(ws []*Worker, fill func(*Worker) int64) fillers {
	f := make(fillers, len(ws))
	for i, w := range ws {
		f[i] = filler{w, fill(w)}
	}
	slices.SortStableFunc(f, func(a, b filler) int { return int(min(max(a.nbytes-b.nbytes, -1), 1)) })
	return f
}

// next returns the emptiest suitable worker, and adds nbytes to its fill. It iterates over all of them only if the
// first is not suitable.
func (f fillers) next(nbytes int64, ok func(*Worker) bool) *Worker {
	best := -1
	for i := range f {
		if (best < 0 || f[i].nbytes < f[best].nbytes) && ok(f[i].w) {
			best = i
			if i == 0 {
				break
			}
		}
	}
	if best < 0 {
		return nil
	}
	w := f[best].w
	f[best].nbytes += nbytes
	f.down(best)
	return w
}

func (f fillers) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(f) {
			return
		}
		if child+1 < len(f) && f[child+1].nbytes < f[child].nbytes {
			child++
		}
		if f[i].nbytes <= f[child].nbytes {
			return
		}
		f[i], f[child] = f[child], f[i]
		i = child
	}
}
