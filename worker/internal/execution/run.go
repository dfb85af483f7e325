package execution

import (
	"errors"
	"sync/atomic"
	"time"

	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/engine/worker/store"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/task/taskid/keysplit"
	"go.millstream.dev/worker/internal/pyspec"
	"go.millstream.dev/worker/internal/record"
)

var errCancelled = errors.New("worker: task canceled: its result is no longer needed")

// Run is one run of a task. It is created and finished in turns; in between it is owned by its executor. Its memory is
// reused, see Pool.recycle: what the function of the task may keep is in runContext.
type Run struct {
	p           *Pool
	key         task.Key
	spec        []byte
	annotations []byte
	actor       bool
	broken      error // why the task cannot run
	deps        []*store.Entry
	opened      []*task.Value // of deps
	values      []*task.Value // of deps, in the order of the call's keys
	parsed      specCall      // the parsed spec of a Go client
	c           *runContext
	task        *state.Task // may be reused for another key, see state.ExecuteSuccess
	canceled    bool        // by Cancel; guarded by the turn

	lost task.Key // a dependency whose file is damaged

	began    atomic.Int64           // when the function was called, ns since 1970
	function atomic.Pointer[string] // name of the function
	ended    atomic.Bool            // returned by the executor, or abandoned
	left     bool                   // seceded; guarded by the turn, as is replaced
	replaced bool                   // another executor has replaced it, see abandon

	inSidecar atomic.Bool // runs in the Python process

	name        string // of the function
	reserved    int64  // room in the store
	result      *task.Value
	nbytes      int64
	typeName    string
	err         error
	start, stop int64         // ns since 1970
	load        int64         // start of opening the dependencies
	ready       int64         // time when all dependencies were here
	idle        int64         // time since when the task was ready and its executor waited; 0 if it did not wait
	queued      int64         // time when the task was to run
	moved       record.Period // transfer of dependencies that no earlier task has used
	thread      int64

	span any // of traceCompute
}

// run calls the function and records the run.
func (r *Run) run() {
	p := r.p
	p.active.Add(1)
	defer p.active.Add(-1)
	p.profile.Begin(keysplit.Prefix(keysplit.Group(r.key)))
	r.err = r.call()
	p.profile.End()
	if r.stop == 0 {
		r.stop = time.Now().UnixNano()
	}
	r.c.cancel(nil)
	for _, e := range r.deps {
		if e != nil {
			p.data.Release(e)
		}
	}
	clear(r.deps)
	clear(r.opened)
	clear(r.values)
	r.deps, r.opened, r.values = r.deps[:0], r.opened[:0], r.values[:0]
	status := "OK"
	switch {
	case r.err == nil:
	case errors.Is(r.err, task.ErrReschedule):
		status = "reschedule"
	case errors.Is(r.c.endCause(), errCancelled):
		status = "cancelled"
	default:
		status = "error"
	}
	p.timelines.Add(record.Run{Key: string(r.key), Name: r.name, Thread: r.thread, Status: status, NBytes: r.nbytes,
		Parts: r.parts()})
	r.traceRan(status)
}

// leastWait is the minimum time for which a ready task and an idle thread have waited for each other that is reported.
const leastWait = int64(time.Millisecond)

// parts returns the parts of the time of the run.
func (r *Run) parts() record.Parts {
	p := record.Parts{Moved: r.moved, Load: r.load, Start: r.start, Stop: r.stop, Python: r.inSidecar.Load()}
	if r.idle > 0 && r.load-r.idle >= leastWait {
		p.Waited = r.load - r.idle
	}
	return p
}

// call is not inlined: CallStacks finds it on the goroutine's stack.
//
//go:noinline
func (r *Run) call() error {
	r.start = time.Now().UnixNano()
	r.load = r.start
	if r.broken != nil {
		return r.broken
	}
	if why := r.c.endCause(); why != nil {
		return why // canceled before the start
	}
	if pyspec.Is(r.spec) {
		return r.callPickled()
	}
	return r.callSpec(r.spec)
}
