package state

import (
	"iter"
	"slices"
	"strings"
	"time"

	"go.millstream.dev/internal/task/taskid"
)

// Worker is one worker: what Dask calls WorkerState. The State owns it; others read it, until the next Apply.
type Worker struct {
	id                  WorkerID
	address, name, host string
	registry            string
	threads             int
	memoryLimit         int64
	status              WorkerStatus
	// Data is the server's own: the state does not look at it.
	Data any

	pool     *pool
	place    int32   // in the pool's heap; -1 when not running
	load     float64 // active tasks per thread
	assigned uint64  // when it got its last task, as a count: equals take turns

	lists      [numLists]list // what it processes: by the cost to steal it
	processing int
	seceded    int
	counts     []prefixCount // what it processes, without long-running, by prefix
	others     int           // what else it processes, see count
	othersTime float64       // what it takes, in seconds
	needs      map[*Task]need
	netBytes   int64 // that it has yet to fetch
	holds      []held
	nbytes     int64 // of what it holds
	actors     int

	resources []Resource
	used      []float64 // of resources, the same indices

	memory, managed, spilled int64

	freeing   []taskid.Key // keys to be freed, see outbox.go
	inFlight  int          // tasks that stealing is about to move here, negative: away
	inFlightS float64      // the same in seconds of occupancy
	retiring  *request
	stopped   time.Time // when it last ceased to take tasks
	removed   bool
	returning bool                    // see AddWorker
	token     string                  // see AddWorker
	former    map[taskid.Key]struct{} // held or run before it was removed and added again, see departed
	mark      uint64                  // of the last choice that came by
	local     int64                   // bytes that the choice found here
}

// prefixCount is how many tasks of a prefix a worker processes.
type prefixCount struct {
	p *Prefix
	n int
}

// need is a dependency that a worker has yet to fetch, for so many tasks.
type need struct {
	tasks  int32
	nbytes int64
}

// held is a result on a worker: place is the index in the task's list of holders.
type held struct {
	t     *Task
	place int32
}

// ID of the worker.
func (w *Worker) ID() WorkerID { return w.id }

// Address of the worker.
func (w *Worker) Address() string { return w.address }

// Name of the worker.
func (w *Worker) Name() string { return w.name }

// Host of the worker.
func (w *Worker) Host() string { return w.host }

// Registry is the hash of the worker's functions.
func (w *Worker) Registry() string { return w.registry }

// Threads is how many tasks the worker runs at once.
func (w *Worker) Threads() int { return w.threads }

// MemoryLimit in bytes; 0 is none.
func (w *Worker) MemoryLimit() int64 { return w.memoryLimit }

// Status of the worker.
func (w *Worker) Status() WorkerStatus { return w.status }

// Resources that the worker supplies, and how much of the i-th is taken.
func (w *Worker) Resources() (supplied []Resource, used []float64) { return w.resources, w.used }

// NumProcessing is how many tasks the worker processes, long-running ones included.
func (w *Worker) NumProcessing() int { return w.processing }

// Processing are the tasks that the worker processes.
func (w *Worker) Processing() iter.Seq[*Task] {
	return func(yield func(*Task) bool) {
		for i := range w.lists {
			for t := w.lists[i].head; t != nil; t = t.next {
				if !yield(t) {
					return
				}
			}
		}
	}
}

// NumHeld is how many results the worker holds, and Held the i-th.
func (w *Worker) NumHeld() int { return len(w.holds) }

// Held is the i-th result that the worker holds.
func (w *Worker) Held(i int) *Task { return w.holds[i].t }

// NBytes is the size of all results that the worker holds.
func (w *Worker) NBytes() int64 { return w.nbytes }

// Actors is how many actors the worker holds or makes.
func (w *Worker) Actors() int { return w.actors }

// Retiring tells that the worker is giving its data away.
func (w *Worker) Retiring() bool { return w.retiring != nil }

func (w *Worker) running() bool { return w.status == StatusRunning && !w.removed }

// active is how many tasks of the worker take a thread.
func (w *Worker) active() int { return w.processing - w.seceded }

// workerSet is all workers, by id, address and name. Ids of workers that have left are given out again from the next
// event on.
type workerSet struct {
	all        []*Worker // by id; nil where one has left
	free, left []WorkerID
	byAddress  map[string]*Worker
	byName     map[string]*Worker
	n          int
	running    int
	threads    int    // of all workers
	gen        uint64 // changes when a restriction may mean other workers

	added, removed uint64 // since the start
}

func newWorkerSet() workerSet {
	return workerSet{byAddress: map[string]*Worker{}, byName: map[string]*Worker{}}
}

// get returns the worker with an id, nil if there is none.
func (ws *workerSet) get(id WorkerID) *Worker {
	if id < 0 || int(id) >= len(ws.all) {
		return nil
	}
	return ws.all[id]
}

// each yields all workers by their ids.
func (ws *workerSet) each() iter.Seq[*Worker] {
	return func(yield func(*Worker) bool) {
		for _, w := range ws.all {
			if w != nil && !yield(w) {
				return
			}
		}
	}
}

// add gives a new worker its id. Its address and name are not taken.
func (ws *workerSet) add(w *Worker) {
	if n := len(ws.free); n > 0 {
		w.id = ws.free[n-1]
		ws.free = ws.free[:n-1]
		ws.all[w.id] = w
	} else {
		w.id = WorkerID(len(ws.all))
		ws.all = append(ws.all, w)
	}
	ws.byAddress[w.address] = w
	ws.byName[w.name] = w
	ws.n++
	ws.threads += w.threads
	ws.gen++
	ws.added++
}

// remove takes out a worker that is not running.
func (ws *workerSet) remove(w *Worker) {
	delete(ws.byAddress, w.address)
	delete(ws.byName, w.name)
	ws.all[w.id] = nil
	ws.left = append(ws.left, w.id)
	ws.n--
	ws.threads -= w.threads
	ws.gen++
	ws.removed++
}

// reclaim makes the ids of workers that left during the last event free.
func (ws *workerSet) reclaim() {
	if len(ws.left) > 0 {
		ws.free = append(ws.free, ws.left...)
		ws.left = ws.left[:0]
	}
}

// valid returns the workers that meet the restrictions, running or not.
func (ws *workerSet) valid(n *notes) []*Worker {
	if n.gen == ws.gen {
		return n.valid
	}
	n.gen = ws.gen
	n.valid = n.valid[:0]
	for w := range ws.each() {
		if n.allows(w) {
			n.valid = append(n.valid, w)
		}
	}
	return n.valid
}

// named tells whether an entry of a worker restriction means the worker: by address, name or host.
func (w *Worker) named(entry string) bool {
	if entry == w.address || entry == w.name || entry == w.host {
		return true
	}
	_, bare, ok := strings.Cut(w.address, "://")
	return ok && entry == bare
}

// supply is how much of a resource a worker has; -1 when it has none.
func (w *Worker) supply(name string) float64 {
	for _, r := range w.resources {
		if r.Name == name {
			return r.Amount
		}
	}
	return -1
}

// take changes what of the worker's resources is in use.
func (w *Worker) take(n *notes, sign float64) {
	if n == nil {
		return
	}
	for _, r := range n.Resources {
		for i := range w.resources {
			if w.resources[i].Name == r.Name {
				w.used[i] += sign * r.Amount
			}
		}
	}
}

// reload brings the worker's place in its pool up to date.
func (w *Worker) reload() {
	w.load = float64(w.active()) / float64(w.threads)
	if w.place >= 0 {
		w.pool.fix(w)
	}
}

// fill is how full a worker is: the results that it holds, and what its process has beside them by the last
// heartbeat. The latter counts from a tenth of its memory limit on, Dask's gap between sender and recipient: less
// is what any process has, and moving a few bytes does not even that out.
func (w *Worker) fill() int64 {
	if other := w.memory - w.managed; w.memoryLimit > 0 && other > w.memoryLimit/10 {
		return w.nbytes + other
	}
	return w.nbytes
}

// among returns the running workers of a list, of all workers if it is empty.
func (ws *workerSet) among(ids []WorkerID) []*Worker {
	var found []*Worker
	if len(ids) == 0 {
		for w := range ws.each() {
			if w.running() {
				found = append(found, w)
			}
		}
		return found
	}
	for _, id := range ids {
		if w := ws.get(id); w != nil && w.running() && !slices.Contains(found, w) {
			found = append(found, w)
		}
	}
	return found
}

func (w *Worker) setResources(r []Resource) {
	w.resources = make([]Resource, len(r))
	for i := range r {
		w.resources[i] = Resource{strings.Clone(r[i].Name), r[i].Amount}
	}
	w.used = make([]float64, len(r))
}
