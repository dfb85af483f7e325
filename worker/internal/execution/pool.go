// Package execution runs the tasks of a worker in goroutines, at most as many at once as the worker has threads, not
// counting those that seceded. Each task has a context that ends when the task is canceled. Go functions run here,
// Python functions in the sidecar.
package execution

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/engine/worker/store"
	"go.millstream.dev/internal/proc/profile"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/worker/internal/memory"
	"go.millstream.dev/worker/internal/record"
	"go.millstream.dev/worker/internal/sidecar"
)

// Config configures a Pool.
type Config struct {
	// Threads is the maximum number of tasks that run at once.
	Threads int
	// CancelGrace is how long the function of a canceled task may take to return, see worker.Config.
	CancelGrace time.Duration
	// Records is the number of runs that are recorded.
	Records int
	Logger  *slog.Logger
	// Memory keeps the results within the worker's limit.
	Memory *memory.Manager
	// Sidecar runs Python tasks, nil without Python.
	Sidecar *sidecar.Sidecar
	// Host is the environment of tasks.
	Host *task.Host
	// Profile configures the profile of tasks; its Active is set by New.
	Profile profile.Config
	// Worker has the functions of the worker.
	Worker Worker
}

// Worker has the functions of a worker that a Pool uses. All fields must be set.
type Worker struct {
	// Tasks is the parent of the contexts of tasks.
	Tasks context.Context
	// Stopped is closed when there are no more turns.
	Stopped <-chan struct{}
	// Go starts a goroutine for which the worker waits when it closes.
	Go func(func())
	// Closed is the error to return after the worker has closed.
	Closed error
	// NoPython returns the error of a Python task on a worker without a sidecar.
	NoPython func() error
	// Do runs a function in a turn. It returns false if the worker has closed. Locked only holds the lock, also after
	// the worker has closed.
	Do     func(func()) bool
	Locked func(func())
	// Apply applies an event, Stimulus returns the stimulus of the turn, FinishRun applies the result of a run. The
	// caller holds the turn.
	Apply     func(state.Event)
	Stimulus  func() string
	FinishRun func(*Run)
	// ReturnRun applies the result of a run in a turn of its executor, which may take the next run there, or in another
	// turn. Post applies it in another turn.
	ReturnRun func(*Executor, *Run)
	Post      func(*Run)
}

// Pool runs tasks. Its methods are called by the holder of the worker's turn, except for those that any goroutine may
// call.
type Pool struct {
	cfg    Config
	w      Worker
	log    *slog.Logger
	data   *store.Store
	memory *memory.Manager
	// profile samples the stacks of tasks.
	profile *profile.Recorder

	timelines      *record.Ring[record.Run]
	active         atomic.Int64 // runs in progress
	abandonedTotal atomic.Int64 // tasks ended without their functions
	actors         sync.Map     // task.Key to *Actor

	runs    chan *Run
	leave   chan chan struct{} // a task that rejoins replaces an executor
	threads atomic.Int64       // number of executors started; numbers them

	// Guarded by the turn:
	by        *Executor
	now       time.Time
	executing map[task.Key]*Run
	abandoned map[*Run]*abandoned
	arrived   record.Arrivals
	finished  *Run // the run whose event is being applied
	numActors int
	running   int // runs that count against the threads
	success   state.ExecuteSuccess
	short     []byte // memory of ShortValue
	free      []*Run // for reuse
}

// New returns a Pool without executors.
func New(cfg Config) *Pool {
	p := &Pool{cfg: cfg, w: cfg.Worker, log: cfg.Logger, data: cfg.Memory.Store(), memory: cfg.Memory,
		timelines: record.NewRing[record.Run](cfg.Records), runs: make(chan *Run, 2*cfg.Threads+64),
		leave: make(chan chan struct{}), executing: map[task.Key]*Run{}, abandoned: map[*Run]*abandoned{}}
	cfg.Profile.Active = func() bool { return p.active.Load() > 0 }
	p.profile = profile.New(cfg.Profile)
	return p
}

// Profile returns the profile of the tasks. The worker runs it.
func (p *Pool) Profile() *profile.Recorder { return p.profile }

// Start starts the executors.
func (p *Pool) Start() {
	for range p.cfg.Threads {
		p.startExecutor()
	}
}

// Executor is one of the goroutines that run tasks.
type Executor struct {
	thread int64
	next   *Run  // assigned in a turn of the executor
	free   int64 // end of its last run, ns since 1970
}

// Busy reports whether the executor has its next run.
func (e *Executor) Busy() bool { return e.next != nil }

// Begin starts a turn. by is the executor that holds the turn, nil for another goroutine.
func (p *Pool) Begin(by *Executor, now time.Time) { p.by, p.now = by, now }

// End ends a turn.
func (p *Pool) End() { p.by = nil }

// Full reports whether every thread has a task.
func (p *Pool) Full() bool { return p.running >= p.cfg.Threads }

// Execute starts a task.
func (p *Pool) Execute(t *state.Task) {
	r := p.newRun()
	r.key, r.spec, r.annotations, r.actor, r.task = t.Key(), t.Spec(), t.Annotations(), t.Actor(), t
	r.queued, r.ready = p.now.UnixNano(), t.Ready()
	if err, ok := t.Data().(error); ok {
		r.broken = err
	}
	if n := t.NumDeps(); n > 0 {
		for i := range n {
			p.arrived.Use(t.Dep(i).Key(), &r.moved)
			e := p.data.Hold(t.Dep(i).Key())
			r.deps = append(r.deps, e)
			if e == nil {
				r.broken = fmt.Errorf("worker: dependency %v of %v is missing", t.Dep(i).Key(), r.key)
			}
		}
	}
	r.c = &runContext{p: p}
	r.c.parent = p.w.Tasks
	r.c.info = task.Info{Key: r.key, Host: p.cfg.Host, Thread: r.c}
	p.running++
	p.executing[r.key] = r
	if p.by != nil && p.by.next == nil {
		p.by.next = r
		return
	}
	p.dispatch(r)
}

// Cancel cancels the context of a running task. Its function has CancelGrace to return.
func (p *Pool) Cancel(key task.Key) {
	// The state of the task is not used: it may already belong to a later request.
	if r := p.executing[key]; r != nil {
		r.canceled = true
		r.c.cancel(errCancelled)
		p.abandonAfterGrace(r)
	}
}

// RecordArrivals records when results were received from a peer: the first task that uses a result has waited for it.
func (p *Pool) RecordArrivals(stored []state.Stored, took record.Period) { p.arrived.Add(stored, took) }

// dispatch passes a run to the executors. It never blocks: the state starts at most as many runs as there are threads,
// for which the channel has capacity.
func (p *Pool) dispatch(r *Run) {
	select {
	case p.runs <- r:
	default:
		p.w.Go(func() {
			select {
			case p.runs <- r:
			case <-p.w.Stopped:
			}
		})
	}
}

// startExecutor starts one more executor.
func (p *Pool) startExecutor() {
	e := &Executor{thread: p.threads.Add(1) - 1}
	p.w.Go(func() { p.execute(e) })
}

// execute runs tasks until the worker closes, or another goroutine takes the place of the executor.
func (p *Pool) execute(e *Executor) {
	for {
		r := e.next
		e.next = nil
		if r == nil {
			select {
			case r = <-p.runs:
				r.idle = max(r.ready, e.free)
			case place := <-p.leave:
				close(place)
				return
			case <-p.w.Stopped:
				return
			}
		} else {
			select {
			case place := <-p.leave:
				p.dispatch(r)
				close(place)
				return
			default:
			}
		}
		r.thread = e.thread
		r.run()
		e.free = r.stop
		if !r.ended.CompareAndSwap(false, true) {
			if p.finishAbandoned(r) {
				return
			}
			continue
		}
		if r.c.seceded.Load() && !r.c.rejoined.Load() {
			p.w.Post(r) // another executor has replaced this one
			return
		}
		p.w.ReturnRun(e, r)
	}
}

// Finish accepts a run that has ended and returns the event for the state; lost is a dependency that cannot be read, ""
// for none. The event is valid until the next call. ClearFinished must follow when the event was applied.
func (p *Pool) Finish(r *Run, stimulus string) (ev state.Event, lost task.Key) {
	if !r.c.seceded.Load() {
		p.running--
	}
	if p.executing[r.key] == r {
		delete(p.executing, r.key)
	}
	p.finished = r
	switch {
	case r.err == nil:
		p.keep(r)
		p.success = state.ExecuteSuccess{Stimulus: stimulus, Hint: r.task, Start: r.start, Stop: r.stop,
			Thread: r.thread, Stored: state.Stored{Key: r.key, NBytes: r.nbytes, TypeName: r.typeName}}
		return &p.success, ""
	case errors.Is(r.err, task.ErrReschedule):
		return &state.Reschedule{Stimulus: stimulus, Key: r.key}, r.lost
	}
	return &state.ExecuteFailure{Stimulus: stimulus, Key: r.key, Failure: Failure(r.err), Start: r.start, Stop: r.stop,
		Thread: r.thread}, ""
}

// ClearFinished drops the run of the last Finish.
func (p *Pool) ClearFinished() {
	r := p.finished
	p.finished = nil
	if r != nil {
		p.recycle(r)
	}
}

// maxFree is the maximum number of runs that are kept for reuse.
const maxFree = 256

// newRun returns a run with no fields set except p.
func (p *Pool) newRun() *Run {
	n := len(p.free)
	if n == 0 {
		return &Run{p: p}
	}
	r := p.free[n-1]
	p.free[n-1] = nil
	p.free = p.free[:n-1]
	return r
}

// recycle keeps the memory of a run that has ended for another one, unless another goroutine may still refer to it: a
// timer of its timeout or cancellation, or the sidecar.
func (p *Pool) recycle(r *Run) {
	if r.err != nil || r.canceled || r.annotations != nil || r.actor || r.inSidecar.Load() || r.c.seceded.Load() ||
		len(p.free) >= maxFree || cap(r.deps) > maxFree {
		return
	}
	*r = Run{p: p, deps: r.deps[:0], opened: r.opened[:0], values: r.values[:0]}
	p.free = append(p.free, r)
}

// Err returns the error of a failed run.
func (r *Run) Err() error { return r.err }

// keep stores the result of a run.
func (p *Pool) keep(r *Run) {
	if !r.actor {
		p.data.Put(r.key, r.result, r.nbytes)
		return
	}
	p.data.PutPinned(r.key, r.result, r.nbytes)
	if !r.inSidecar.Load() { // Python actors are in the sidecar, and are sent as proxies
		p.actors.Store(r.key, &Actor{r.result, make(chan struct{}, 1)})
		p.numActors++
	}
}

// Parts returns the parts of the time of a task that has ended in this turn, or else its computation only.
func (p *Pool) Parts(t *state.Task) record.Parts {
	start, stop, _ := t.Times()
	if r := p.finished; r != nil && r.key == t.Key() && r.start == start {
		return r.parts()
	}
	return record.Parts{Start: start, Stop: stop}
}

// maxShort is the length of encoded results up to which they are sent with the report of their task.
const maxShort = 128

// ShortValue returns the encoded result of a task that has ended in this turn if it is short and can be sent in the
// body of a message; otherwise nil. It is valid until the next call.
func (p *Pool) ShortValue(t *state.Task) []byte {
	r := p.finished
	if r == nil || r.err != nil || r.actor || r.key != t.Key() {
		return nil
	}
	var ok bool
	if p.short, ok = r.result.AppendBody(p.short[:0]); !ok || len(p.short) > maxShort {
		return nil
	}
	return p.short
}

// Executing returns the time since which each task runs or waits for a thread, in ns since 1970.
func (p *Pool) Executing() map[task.Key]int64 {
	out := make(map[task.Key]int64, len(p.executing))
	for k, r := range p.executing {
		out[k] = r.queued
	}
	return out
}

// Abandoned returns the number of functions that outlive their tasks.
func (p *Pool) Abandoned() int { return len(p.abandoned) }

// AbandonedTotal returns the number of tasks that were ended without their functions. Any goroutine may call it.
func (p *Pool) AbandonedTotal() int64 { return p.abandonedTotal.Load() }

// Active returns the number of runs in progress. Any goroutine may call it.
func (p *Pool) Active() int64 { return p.active.Load() }

// Timelines returns the last runs, oldest first. Any goroutine may call it.
func (p *Pool) Timelines() []record.Run { return p.timelines.All() }
