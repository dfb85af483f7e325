// Package execution runs the tasks of a worker: in goroutines of its own, never more at once than the worker has
// threads but for those that seceded, each with a context that ends when the task is cancelled. Go functions run here,
// others in the sidecar.
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
	"go.millstream.dev/internal/task"
	"go.millstream.dev/worker/internal/memory"
	"go.millstream.dev/worker/internal/record"
	"go.millstream.dev/worker/internal/sidecar"
)

// Config describes a Pool.
type Config struct {
	// Threads is how many tasks run at once.
	Threads int
	// CancelGrace is how long the function of a cancelled task may take to return, see worker.Config.
	CancelGrace time.Duration
	// Records is how many runs are remembered.
	Records int
	Logger  *slog.Logger
	// Memory keeps the results within the worker's limit.
	Memory *memory.Manager
	// Sidecar runs tasks of Python, nil if there is none.
	Sidecar *sidecar.Sidecar
	// Host is what tasks know of their worker.
	Host *task.Host
	// Worker is what the Pool needs of its worker.
	Worker Worker
}

// Worker is what a Pool needs of its worker. All fields must be set.
type Worker struct {
	// Tasks is the parent of the tasks' contexts.
	Tasks context.Context
	// Stopped is closed when there are no more turns.
	Stopped <-chan struct{}
	// Go starts a goroutine that the end of the worker waits for.
	Go func(func())
	// Closed is the error of a worker that has ended.
	Closed error
	// NoPython returns the error of a Python task where there is no sidecar.
	NoPython func() error
	// Do runs a function in a turn, and reports false if the worker has ended. Locked does so with the lock alone, also
	// when the worker has ended.
	Do     func(func()) bool
	Locked func(func())
	// Apply applies an event, Stimulus returns the name of the turn, RunEnded takes a run back. The caller holds the
	// turn.
	Apply    func(state.Event)
	Stimulus func() string
	RunEnded func(*Run)
	// Finished takes back a run in a turn of its executor, which may get the next run there, or in another one. Post
	// takes it back in another turn.
	Finished func(*Executor, *Run)
	Post     func(*Run)
}

// Pool runs tasks. The holder of the worker's turn calls its methods, but for those that say that any goroutine may.
type Pool struct {
	cfg    Config
	w      Worker
	log    *slog.Logger
	data   *store.Store
	memory *memory.Manager

	timelines      *record.Ring[record.Run]
	active         atomic.Int64 // runs in flight
	abandonedTotal atomic.Int64 // tasks that were ended without their functions
	actors         sync.Map     // task.Key to *Actor: results that do not travel

	runs    chan *Run
	leave   chan chan struct{} // a task that rejoins takes the place of an executor
	threads atomic.Int64       // executors that were ever started: numbers them

	// The turn's:
	by        *Executor
	now       time.Time
	executing map[task.Key]*Run
	abandoned map[*Run]*abandoned
	arrived   record.Arrivals
	ended     *Run // the run whose end is being told
	numActors int
	running   int // runs that count against the threads
	success   state.ExecuteSuccess
}

// New returns a Pool without executors.
func New(cfg Config) *Pool {
	return &Pool{cfg: cfg, w: cfg.Worker, log: cfg.Logger, data: cfg.Memory.Store(), memory: cfg.Memory,
		timelines: record.NewRing[record.Run](cfg.Records), runs: make(chan *Run, 2*cfg.Threads+64),
		leave: make(chan chan struct{}), executing: map[task.Key]*Run{}, abandoned: map[*Run]*abandoned{}}
}

// Start starts the executors.
func (p *Pool) Start() {
	for range p.cfg.Threads {
		p.startExecutor()
	}
}

// Executor is one of the goroutines that run tasks.
type Executor struct {
	thread int64
	next   *Run // given to it in its own turn
}

// Busy reports whether the executor has got its next run.
func (e *Executor) Busy() bool { return e.next != nil }

// Begin starts a turn, End ends it. by is the executor that has the turn, nil for another goroutine.
func (p *Pool) Begin(by *Executor, now time.Time) { p.by, p.now = by, now }

// End ends a turn.
func (p *Pool) End() { p.by = nil }

// Full reports whether every thread has a task.
func (p *Pool) Full() bool { return p.running >= p.cfg.Threads }

// Execute starts a task.
func (p *Pool) Execute(t *state.Task) {
	r := &Run{p: p, key: t.Key(), spec: t.Spec(), annotations: t.Annotations(), actor: t.Actor(),
		queued: p.now.UnixNano()}
	if err, ok := t.Data().(error); ok {
		r.broken = err
	}
	if n := t.NumDeps(); n > 0 {
		r.deps = make([]*store.Entry, n)
		for i := range r.deps {
			p.arrived.Use(t.Dep(i).Key(), &r.moved)
			if r.deps[i] = p.data.Hold(t.Dep(i).Key()); r.deps[i] == nil {
				r.broken = fmt.Errorf("worker: the result of %v, which %v needs, is not here", t.Dep(i).Key(), r.key)
			}
		}
	}
	r.info = task.Info{Key: r.key, Host: p.cfg.Host, Secede: r.Secede, Rejoin: r.rejoin}
	r.base.parent = p.w.Tasks
	r.ctx = task.WithInfo(&r.base, &r.info)
	p.running++
	p.executing[r.key] = r
	if p.by != nil && p.by.next == nil {
		p.by.next = r
		return
	}
	p.dispatch(r)
}

// Cancel ends the context of a task that runs. Its function gets some time to return.
func (p *Pool) Cancel(key task.Key) {
	// Not what the task says of itself: that may be of the next order already.
	if r := p.executing[key]; r != nil {
		r.base.cancel(errCancelled)
		p.abandonLater(r)
	}
}

// Arrived notes when results came from a peer: the first task that uses one has waited for it.
func (p *Pool) Arrived(stored []state.Stored, took record.Period) { p.arrived.Add(stored, took) }

// dispatch hands a run to the executors. It never blocks: the state starts no more than there are threads, for which
// the channel has room.
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

// execute runs tasks until the worker ends, or the executor's place is given to another.
func (p *Pool) execute(e *Executor) {
	for {
		r := e.next
		e.next = nil
		if r == nil {
			select {
			case r = <-p.runs:
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
		if !r.ended.CompareAndSwap(false, true) {
			if p.returned(r) {
				return
			}
			continue
		}
		if r.seceded.Load() && !r.rejoined.Load() {
			p.w.Post(r) // another executor has its place
			return
		}
		p.w.Finished(e, r)
	}
}

// Ended takes back a run that is over and returns the event for the state; lost is a dependency that cannot be read, ""
// for none. The event is valid until the next call. Told must follow when it was applied.
func (p *Pool) Ended(r *Run, stimulus string) (ev state.Event, lost task.Key) {
	if !r.seceded.Load() {
		p.running--
	}
	if p.executing[r.key] == r {
		delete(p.executing, r.key)
	}
	p.ended = r
	switch {
	case r.err == nil:
		p.keep(r)
		p.success = state.ExecuteSuccess{Stimulus: stimulus, Start: r.start, Stop: r.stop, Thread: r.thread,
			Stored: state.Stored{Key: r.key, NBytes: r.nbytes, TypeName: r.typeName}}
		return &p.success, ""
	case errors.Is(r.err, task.ErrReschedule):
		return &state.Reschedule{Stimulus: stimulus, Key: r.key}, r.lost
	}
	return &state.ExecuteFailure{Stimulus: stimulus, Key: r.key, Failure: Failure(r.err), Start: r.start, Stop: r.stop,
		Thread: r.thread}, ""
}

// Told forgets the run of the last Ended.
func (p *Pool) Told() { p.ended = nil }

// Err returns why a run has failed.
func (r *Run) Err() error { return r.err }

// keep puts the result of a run into the store.
func (p *Pool) keep(r *Run) {
	if !r.actor {
		p.data.Put(r.key, r.result, r.nbytes)
		return
	}
	p.data.PutPinned(r.key, r.result, r.nbytes)
	if !r.inSidecar.Load() { // those live in the sidecar, and travel as proxies
		p.actors.Store(r.key, &Actor{r.result, make(chan struct{}, 1)})
		p.numActors++
	}
}

// Parts returns the parts of a task that has ended in this turn, or its computation alone.
func (p *Pool) Parts(t *state.Task) record.Parts {
	start, stop, _ := t.Times()
	if r := p.ended; r != nil && r.key == t.Key() && r.start == start {
		return record.Parts{Moved: r.moved, Load: r.load, Start: start, Stop: stop}
	}
	return record.Parts{Start: start, Stop: stop}
}

// Executing returns since when each task runs or waits for a thread, in ns since 1970.
func (p *Pool) Executing() map[task.Key]int64 {
	out := make(map[task.Key]int64, len(p.executing))
	for k, r := range p.executing {
		out[k] = r.queued
	}
	return out
}

// OnlyPython reports whether no task of Go runs.
func (p *Pool) OnlyPython() bool {
	for _, r := range p.executing {
		if !r.inSidecar.Load() {
			return false
		}
	}
	return true
}

// Abandoned returns how many functions run beyond their tasks.
func (p *Pool) Abandoned() int { return len(p.abandoned) }

// AbandonedTotal returns how many tasks were ended without their functions. Any goroutine may call it.
func (p *Pool) AbandonedTotal() int64 { return p.abandonedTotal.Load() }

// Active returns how many runs are in flight. Any goroutine may call it.
func (p *Pool) Active() int64 { return p.active.Load() }

// Timelines returns the last runs, oldest first. Any goroutine may call it.
func (p *Pool) Timelines() []record.Run { return p.timelines.All() }
