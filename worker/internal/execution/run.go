package execution

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.millstream.dev/internal/engine/worker/store"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/worker/internal/pyspec"
	"go.millstream.dev/worker/internal/record"
)

var errCancelled = errors.New("worker: nobody waits for the task any more")

// Run is one run of a task. The turn makes it and takes it back at its end; between these it belongs to the executor
// that runs it.
type Run struct {
	p           *Pool
	key         task.Key
	spec        []byte
	annotations []byte
	actor       bool
	broken      error // why it cannot be run
	deps        []*store.Entry
	values      []*task.Value

	info task.Info
	base lazyContext
	ctx  context.Context // base, with info

	lost     task.Key // a dependency whose file is damaged
	seceded  atomic.Bool
	rejoined atomic.Bool

	began    atomic.Int64           // when the function was called, ns since 1970
	function atomic.Pointer[string] // its name
	ended    atomic.Bool            // the executor has returned it, or the task was ended without it
	left     bool                   // it has seceded; the turn owns it, and replaced
	replaced bool                   // another executor has its place; see abandon

	inSidecar atomic.Bool // it runs in the Python process

	name        string // of the function
	reserved    int64  // room in the store
	result      *task.Value
	nbytes      int64
	typeName    string
	err         error
	start, stop int64         // ns since 1970
	load        int64         // when it began to open its dependencies
	queued      int64         // when it was ready
	moved       record.Period // when its dependencies came from peers, as far as no other task has used them before
	thread      int64
}

// run calls the function. Nothing that it does gets past here but the result.
func (r *Run) run() {
	p := r.p
	p.active.Add(1)
	defer p.active.Add(-1)
	r.err = r.call()
	if r.stop == 0 {
		r.stop = time.Now().UnixNano()
	}
	r.base.cancel(nil)
	for _, e := range r.deps {
		if e != nil {
			p.data.Release(e)
		}
	}
	r.deps, r.values = nil, nil
	status := "OK"
	switch {
	case r.err == nil:
	case errors.Is(r.err, task.ErrReschedule):
		status = "reschedule"
	case errors.Is(r.base.why(), errCancelled):
		status = "cancelled"
	default:
		status = "error"
	}
	p.timelines.Add(record.Run{Key: string(r.key), Name: r.name, Thread: r.thread, Status: status, NBytes: r.nbytes,
		Parts: record.Parts{Moved: r.moved, Load: r.load, Start: r.start, Stop: r.stop}})
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
	if why := r.base.why(); why != nil {
		return why // it was cancelled before it began
	}
	if pyspec.Is(r.spec) {
		return r.callPickled()
	}
	return r.callSpec(r.spec)
}
