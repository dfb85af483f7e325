package state

import (
	"iter"
	"slices"
	"strings"
	"time"

	"go.millstream.dev/internal/task/taskid"
)

// Worker is a worker: WorkerState in Dask. The State owns it; others may read it until the next Apply.
type Worker struct {
	id                  WorkerID
	address, name, host string
	registry            string
	threads             int
	memoryLimit         int64
	status              WorkerStatus
	// Data belongs to the server; the state does not use it.
	Data any

	pool     *pool
	place    int32   // in the pool's heap; -1 if not running
	load     float64 // active tasks per thread
	assigned uint64  // sequence number of its last task: equals take turns

	lists      [numLists]list // tasks that it processes, by the cost of stealing
	processing int
	seceded    int
	counts     []prefixCount // tasks that it processes, without long-running ones, by prefix
	others     int           // other tasks that it processes, see count
	othersTime float64       // their estimated time in seconds
	needs      map[*Task]need
	netBytes   int64 // bytes yet to fetch
	holds      []held
	nbytes     int64 // of its results
	actors     int

	resources []Resource
	used      []float64 // amounts in use, by index of resources

	memory, managed, spilled int64

	freeing   []taskid.Key // keys to be freed, see outbox
	inFlight  int          // tasks that are being stolen for it, negative: from it
	inFlightS float64      // the same in seconds of occupancy
	retiring  *request
	stopped   time.Time // when it last stopped accepting tasks
	removed   bool
	returning bool                    // see AddWorker
	values    bool                    // see AddWorker
	ahead     bool                    // see AddWorker
	token     string                  // see AddWorker
	former    map[taskid.Key]struct{} // held or run before it was removed and added again, see departed
	mark      uint64                  // of the last choice that visited it
	local     int64                   // bytes of dependencies here, of that choice
}

// prefixCount is the number of tasks of a prefix that a worker processes.
type prefixCount struct {
	p *Prefix
	n int
}

// need is a dependency that a worker has yet to fetch, for a number of tasks.
type need struct {
	tasks  int32
	nbytes int64
}

// held is a result on a worker: place is the index in the task's list of holders.
type held struct {
	t     *Task
	place int32
}

// ID returns the ID of the worker.
func (w *Worker) ID() WorkerID { return w.id }

// Address returns the address of the worker.
func (w *Worker) Address() string { return w.address }

// Name returns the name of the worker.
func (w *Worker) Name() string { return w.name }

// Host returns the host of the worker.
func (w *Worker) Host() string { return w.host }

// Registry returns the hash of the worker's functions.
func (w *Worker) Registry() string { return w.registry }

// Threads returns the number of tasks that the worker runs at once.
func (w *Worker) Threads() int { return w.threads }

// MemoryLimit returns the memory limit in bytes; 0 is none.
func (w *Worker) MemoryLimit() int64 { return w.memoryLimit }

// Status returns the status of the worker.
func (w *Worker) Status() WorkerStatus { return w.status }

// Resources returns the resources of the worker, and the amount of each that is in use.
func (w *Worker) Resources() (supplied []Resource, used []float64) { return w.resources, w.used }

// NumProcessing returns the number of tasks that the worker processes, including long-running ones.
func (w *Worker) NumProcessing() int { return w.processing }

// Processing returns the tasks that the worker processes.
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

// NumHeld returns the number of results that the worker holds.
func (w *Worker) NumHeld() int { return len(w.holds) }

// Held returns the i-th result that the worker holds.
func (w *Worker) Held(i int) *Task { return w.holds[i].t }

// NBytes returns the size of all results that the worker holds.
func (w *Worker) NBytes() int64 { return w.nbytes }

// Actors returns the number of actors that the worker holds or creates.
func (w *Worker) Actors() int { return w.actors }

// Retiring reports whether the worker's data is being moved to others.
func (w *Worker) Retiring() bool { return w.retiring != nil }

func (w *Worker) running() bool { return w.status == StatusRunning && !w.removed }

// active returns the number of tasks of the worker that occupy a thread.
func (w *Worker) active() int { return w.processing - w.seceded }

// workerSet are all workers, by ID, address and name. IDs of removed workers are reused from the next event on.
type workerSet struct {
	all        []*Worker // by ID; nil for removed ones
	free, left []WorkerID
	byAddress  map[string]*Worker
	byName     map[string]*Worker
	n          int
	running    int
	threads    int    // of all workers
	gen        uint64 // incremented when restrictions may match other workers

	added, removed uint64 // since the start
}

func newWorkerSet() workerSet {
	return workerSet{byAddress: map[string]*Worker{}, byName: map[string]*Worker{}}
}

// get returns the worker with an ID, nil if there is none.
func (ws *workerSet) get(id WorkerID) *Worker {
	if id < 0 || int(id) >= len(ws.all) {
		return nil
	}
	return ws.all[id]
}

// each yields all workers by ID.
func (ws *workerSet) each() iter.Seq[*Worker] {
	return func(yield func(*Worker) bool) {
		for _, w := range ws.all {
			if w != nil && !yield(w) {
				return
			}
		}
	}
}

// add assigns an ID to a new worker. Its address and name must not be in use.
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

// remove removes a worker that is not running.
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

// reclaim frees the IDs of workers that the last event removed.
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

// named reports whether an entry of a worker restriction matches the worker: by address, name or host.
func (w *Worker) named(entry string) bool {
	if entry == w.address || entry == w.name || entry == w.host {
		return true
	}
	_, bare, ok := strings.Cut(w.address, "://")
	return ok && entry == bare
}

// supply returns the amount of a resource that a worker has; -1 if it has none.
func (w *Worker) supply(name string) float64 {
	for _, r := range w.resources {
		if r.Name == name {
			return r.Amount
		}
	}
	return -1
}

// take changes the amounts of the worker's resources in use.
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

// updateLoad updates the worker's load and its place in its pool.
func (w *Worker) updateLoad() {
	w.load = float64(w.active()) / float64(w.threads)
	if w.place >= 0 {
		w.pool.fix(w)
	}
}

// fill returns how full a worker is: the results that it holds, and the other memory of its process by the last
// heartbeat. The latter counts from a tenth of its memory limit on, Dask's gap between sender and recipient: every
// process has some, which moving results does not balance.
func (w *Worker) fill() int64 {
	if other := w.memory - w.managed; w.memoryLimit > 0 && other > w.memoryLimit/10 {
		return w.nbytes + other
	}
	return w.nbytes
}

// fraction returns a number of bytes as a fraction of the memory limit; -1 for workers without a limit, which have no
// thresholds.
func (w *Worker) fraction(nbytes int64) float64 {
	if w.memoryLimit <= 0 {
		return -1
	}
	return float64(nbytes) / float64(w.memoryLimit)
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
