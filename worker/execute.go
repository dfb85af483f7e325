package worker

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/engine/worker/store"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/task"
	"go.millstream.dev/worker/internal/pyspec"
	"go.millstream.dev/worker/internal/record"
)

var errCancelled = errors.New("worker: nobody waits for the task any more")

// run is one run of a task. The turn makes it and takes it back at its end; between these it
// belongs to the executor that runs it.
type run struct {
	w           *Worker
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
	moved       record.Period // when its dependencies came from peers, as far as nobody has used them before
	thread      int64
}

// executor is one of the goroutines that run tasks.
type executor struct {
	thread int64
	next   *run // given to it in its own turn
}

// execute starts a task. The caller holds the turn.
func (w *Worker) execute(t *state.Task) {
	r := &run{w: w, key: t.Key(), spec: t.Spec(), annotations: t.Annotations(), actor: t.Actor(), queued: w.now.UnixNano()}
	if err, ok := t.Data().(error); ok {
		r.broken = err
	}
	if n := t.NumDeps(); n > 0 {
		r.deps = make([]*store.Entry, n)
		for i := range r.deps {
			w.arrived.Use(t.Dep(i).Key(), &r.moved)
			if r.deps[i] = w.data.Hold(t.Dep(i).Key()); r.deps[i] == nil {
				r.broken = fmt.Errorf("worker: the result of %v, which %v needs, is not here", t.Dep(i).Key(), r.key)
			}
		}
	}
	r.info = task.Info{Key: r.key, Host: &w.host, Secede: r.Secede, Rejoin: r.rejoin}
	r.base.parent = w.taskCtx
	r.ctx = task.WithInfo(&r.base, &r.info)
	w.running++
	w.executing[r.key] = r
	if w.by != nil && w.by.next == nil {
		w.by.next = r
		return
	}
	w.dispatch(r)
}

// dispatch hands a run to the executors. It never blocks: the state starts no more than
// there are threads, for which the channel has room.
func (w *Worker) dispatch(r *run) {
	select {
	case w.runs <- r:
	default:
		w.tasks.Go(func() {
			select {
			case w.runs <- r:
			case <-w.stopped:
			}
		})
	}
}

// executor runs tasks until the worker ends, or its place is given to another.
func (w *Worker) executor(e *executor) {
	for {
		r := e.next
		e.next = nil
		if r == nil {
			select {
			case r = <-w.runs:
			case place := <-w.leave:
				close(place)
				return
			case <-w.stopped:
				return
			}
		} else {
			select {
			case place := <-w.leave:
				w.dispatch(r)
				close(place)
				return
			default:
			}
		}
		r.thread = e.thread
		r.run()
		if !r.ended.CompareAndSwap(false, true) {
			if w.returned(r) {
				return
			}
			continue
		}
		if r.seceded.Load() && !r.rejoined.Load() {
			w.post(item{run: r}) // another executor has its place
			return
		}
		// Who finishes a task looks at once whether there is another one, unless somebody
		// else is at it.
		if w.turn.TryLock() {
			w.begin(e)
			w.runEnded(r)
			w.drain(e)
			w.finish()
			w.turn.Unlock()
		} else {
			w.post(item{run: r})
		}
	}
}

// run calls the function. Nothing that it does gets past here but the result.
func (r *run) run() {
	w := r.w
	w.active.Add(1)
	defer w.active.Add(-1)
	r.err = r.call()
	if r.stop == 0 {
		r.stop = time.Now().UnixNano()
	}
	r.base.cancel(nil)
	for _, e := range r.deps {
		if e != nil {
			w.data.Release(e)
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
	w.timelines.Add(record.Run{Key: string(r.key), Name: r.name, Thread: r.thread, Status: status, NBytes: r.nbytes,
		Parts: record.Parts{Moved: r.moved, Load: r.load, Start: r.start, Stop: r.stop}})
}

// call is not inlined: callStack finds it on the goroutine's stack.
//
//go:noinline
func (r *run) call() error {
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

// callSpec calls what a Go client has encoded.
func (r *run) callSpec(spec []byte) error {
	c := new(specCall)
	if err := c.Parse(spec); err != nil {
		return err
	}
	return r.invoke(c.Func.Name(), c)
}

// invocation is a function and its arguments, however the task says so.
type invocation interface {
	// arrange opens the dependencies and puts them where they belong.
	arrange(r *run) error
	// call calls the function.
	call(ctx context.Context, r *run) (any, error)
}

// specCall is the call of a Go client.
type specCall struct{ task.Call }

func (c *specCall) arrange(r *run) error { return r.arrange(c.Deps) }

func (c *specCall) call(ctx context.Context, r *run) (any, error) { return c.Run(ctx, r.values) }

// invoke runs a Go function within the limits of memory and time, and keeps its result.
func (r *run) invoke(name string, c invocation) error {
	r.name = name
	r.function.Store(&name)
	limited := r.w.memory.Limited() && !r.actor
	if limited {
		if err := r.reserve(); err != nil {
			return err
		}
		defer r.unreserve()
	}
	if err := c.arrange(r); err != nil {
		return err
	}
	ctx := r.ctx
	if r.annotations != nil {
		limit, err := timeout(r.annotations)
		if err != nil {
			return err
		}
		if limit > 0 {
			var stop context.CancelFunc
			late := timeoutError(name, limit)
			ctx, stop = context.WithTimeoutCause(ctx, limit, late)
			defer stop()
			defer time.AfterFunc(limit+timeoutGrace, func() { r.w.abandon(r, late) }).Stop()
		}
	}
	r.start = time.Now().UnixNano()
	r.began.Store(r.start)
	v, err := c.call(ctx, r)
	r.stop = time.Now().UnixNano()
	r.unreserve()
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && errors.Is(err, ctx.Err()) && !errors.Is(err, cause) {
			err = errors.Join(err, cause)
		}
		return err
	}
	task.Handover(v, r.values)
	r.result = task.NewValue(v)
	if err := r.keep(limited); err != nil {
		r.result.Release() // of memory that is counted nobody else gives it back
		r.result = nil
		return err
	}
	return nil
}

// keep makes room for the result.
func (r *run) keep(limited bool) error {
	r.nbytes, r.typeName = r.result.Size(), r.result.Type()
	if err := r.w.data.MakeRoomFor(r.ctx, r.result, r.nbytes); err != nil {
		return err
	}
	if limited && !r.w.memory.OnDevice(r.result) {
		return r.w.memory.Keep(r.ctx, r.key, r.name, r.nbytes)
	}
	return nil
}

// reserve makes room for what the task will make.
func (r *run) reserve() (err error) {
	r.reserved, err = r.w.memory.Reserve(r.ctx, r.name, r.deps)
	return err
}

func (r *run) unreserve() {
	r.w.memory.Unreserve(r.reserved)
	r.reserved = 0
}

// arrange opens the dependencies, and puts their values into the order of the call's keys.
func (r *run) arrange(keys []task.Key) error {
	if len(keys) == 0 {
		return nil
	}
	opened := make([]*task.Value, len(r.deps))
	for i, e := range r.deps {
		v, err := e.Open() // which may read from disk
		if err != nil {
			// The file is damaged: the result is computed or fetched again, and the task runs
			// elsewhere or later.
			r.lost = e.Key()
			return errors.Join(task.ErrReschedule, fmt.Errorf("worker: %v needs %v: %w", r.key, e.Key(), err))
		}
		opened[i] = v
	}
	r.values = make([]*task.Value, len(keys))
	var index map[task.Key]int
	for i, k := range keys {
		if i < len(r.deps) && r.deps[i].Key() == k { // the usual case
			r.values[i] = opened[i]
			continue
		}
		if index == nil {
			index = make(map[task.Key]int, len(r.deps))
			for j, e := range r.deps {
				index[e.Key()] = j
			}
		}
		j, ok := index[k]
		if !ok {
			return fmt.Errorf("worker: %v refers to %v, which the scheduler did not name among its dependencies", r.key, k)
		}
		r.values[i] = opened[j]
	}
	return nil
}

// timeout reads the annotation of that name: seconds that the task may take.
func timeout(annotations []byte) (time.Duration, error) {
	m := msgpack.NewReader(annotations)
	n, err := m.ReadMapLen()
	for ; err == nil && n > 0; n-- {
		var k []byte
		if k, err = m.ReadName(); err != nil {
			break
		}
		if string(k) != "timeout" {
			err = m.Skip()
			continue
		}
		s, err := m.ReadFloat()
		if err != nil || !(s > 0 && s < 1e9) {
			return 0, fmt.Errorf("worker: the annotation timeout must be a positive number of seconds")
		}
		return time.Duration(s * float64(time.Second)), nil
	}
	if err != nil {
		return 0, fmt.Errorf("worker: annotations: %w", err)
	}
	return 0, nil
}

// runEnded tells the state of a run that is over. The caller holds the turn.
func (w *Worker) runEnded(r *run) {
	if !r.seceded.Load() {
		w.running--
	}
	if w.executing[r.key] == r {
		delete(w.executing, r.key)
	}
	w.ended = r
	defer func() { w.ended = nil }()
	switch {
	case r.err == nil:
		if r.actor {
			w.data.PutPinned(r.key, r.result, r.nbytes)
			if !r.inSidecar.Load() { // those live in the sidecar, and travel as proxies
				w.actors[r.key] = newActor(r.result)
				w.actorKeys.Store(r.key, true)
			}
		} else {
			w.data.Put(r.key, r.result, r.nbytes)
		}
		w.success = state.ExecuteSuccess{Stimulus: w.stimulus, Stored: state.Stored{Key: r.key, NBytes: r.nbytes, TypeName: r.typeName}, Start: r.start, Stop: r.stop, Thread: r.thread}
		w.apply(&w.success)
	case errors.Is(r.err, task.ErrReschedule):
		if r.lost != "" {
			w.dataLost(r.lost, r.err)
		}
		w.apply(&state.Reschedule{Stimulus: w.stimulus, Key: r.key})
	default:
		w.apply(&state.ExecuteFailure{Stimulus: w.stimulus, Key: r.key, Failure: failure(r.err), Start: r.start, Stop: r.stop, Thread: r.thread})
	}
}
