package state

import (
	"iter"
	"time"

	"go.millstream.dev/internal/taskid"
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
