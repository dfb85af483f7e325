package execution

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/worker/internal/memory"
)

func TestMain(m *testing.M) {
	task.Freeze()
	os.Exit(leak.Main(m))
}

var (
	errSpoilt = errors.New("the milk is spoilt")
	errClosed = errors.New("the worker is closed")
)

// The functions of the tests.
var (
	inc   = task.Register1("execution.inc", func(_ context.Context, x int) (int, error) { return x + 1, nil })
	minus = task.Register2("execution.minus", func(_ context.Context, x, y int) (int, error) { return x - y, nil })
	spoil = task.Register0("execution.spoil", func(context.Context) (int, error) { return 0, errSpoilt })
	fall  = task.Register0("execution.fall", func(context.Context) (int, error) { panic("over the edge") })
	again = task.Register0("execution.again", func(context.Context) (int, error) { return 0, task.ErrReschedule })
	wait  = task.Register0("execution.wait", func(ctx context.Context) (int, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	})
	// keeps passes on its context.
	keeps = task.Register1("execution.keeps", func(ctx context.Context, name string) (string, error) {
		kept <- ctx
		return name, nil
	})
	// deaf ignores its context until the gate opens.
	deaf = task.Register1("execution.deaf", func(_ context.Context, name string) (string, error) {
		g := gateOf(name)
		close(g.entered)
		<-g.open
		return name, nil
	})
	// leaves secedes, waits for the gate and rejoins.
	leaves = task.Register1("execution.leaves", func(ctx context.Context, name string) (string, error) {
		g, info := gateOf(name), task.FromContext(ctx)
		if err := info.Thread.Secede(ctx); err != nil {
			return "", err
		}
		close(g.entered)
		<-g.open
		if err := info.Thread.Rejoin(ctx); err != nil {
			return "", err
		}
		close(g.rejoined)
		return name, nil
	})
	// lingers secedes and ignores its context until the gate opens. With rejoin it then rejoins.
	lingers = task.Register2("execution.lingers", func(ctx context.Context, name string, rejoin bool) (string, error) {
		g, info := gateOf(name), task.FromContext(ctx)
		if err := info.Thread.Secede(ctx); err != nil {
			return "", err
		}
		close(g.entered)
		<-g.open
		if rejoin {
			return name, info.Thread.Rejoin(context.WithoutCancel(ctx))
		}
		return name, nil
	})
	counter = task.Register1("execution.counter", func(_ context.Context, n int) (*int, error) { return &n, nil })
	grow    = task.RegisterMethod("execution.grow", func(_ context.Context, n *int, by int) (int, error) {
		old := *n // not safe for concurrent calls
		time.Sleep(time.Microsecond)
		*n = old + by
		return *n, nil
	})
)

// kept has the contexts of keeps.
var kept = make(chan context.Context, 1)

type gate struct{ entered, open, rejoined chan struct{} }

var (
	gateMu sync.Mutex
	gates  = map[string]*gate{}
)

// gateOf returns the gate of a name.
func gateOf(name string) *gate {
	gateMu.Lock()
	defer gateMu.Unlock()
	if gates[name] == nil {
		gates[name] = &gate{make(chan struct{}), make(chan struct{}), make(chan struct{})}
	}
	return gates[name]
}

// rig is a Pool with the state machine of a worker: a worker without a network.
type rig struct {
	*Pool
	t       *testing.T
	s       *state.State
	logs    logText
	all     sync.WaitGroup
	live    atomic.Int64 // goroutines of the pool
	stopped chan struct{}
	stop    context.CancelCauseFunc

	turn    sync.Mutex
	actions state.Actions
	ends    chan end
	runID   int64
}

// end is the report of a task to the scheduler.
type end struct {
	key, what, text string
	parts           []string
}

// logText is a log that may be read concurrently.
type logText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func newRig(t *testing.T, cfg Config) *rig {
	t.Helper()
	gateMu.Lock()
	clear(gates) // of an earlier run of the test
	gateMu.Unlock()
	r := &rig{t: t, stopped: make(chan struct{}), ends: make(chan end, 1000)}
	if cfg.Threads == 0 {
		cfg.Threads = 1
	}
	cfg.Logger = slog.New(slog.NewTextHandler(&r.logs, nil))
	var err error
	if cfg.Memory == nil {
		cfg.Memory, err = memory.New(memory.Config{Logger: cfg.Logger, Directory: t.TempDir(), Records: 10,
			Fractions: memory.Fractions{Usage: func() int64 { return 0 }}.WithDefaults()})
		if err != nil {
			t.Fatal(err)
		}
	}
	r.s = state.New(state.Config{Address: "tcp://127.0.0.1:1", Threads: cfg.Threads, Validate: true})
	ctx, stop := context.WithCancelCause(context.Background())
	r.stop = stop
	cfg.Records, cfg.Host = 100, &task.Host{}
	cfg.Worker = Worker{Tasks: ctx, Stopped: r.stopped, Closed: errClosed,
		Go: func(f func()) {
			r.live.Add(1)
			r.all.Go(func() {
				defer r.live.Add(-1)
				f()
			})
		},
		NoPython: func() error { return errors.New("no Python here") },
		Do: func(f func()) bool {
			select {
			case <-r.stopped:
				return false
			default:
			}
			r.do(nil, f)
			return true
		},
		Locked: func(f func()) {
			r.turn.Lock()
			defer r.turn.Unlock()
			f()
		},
		Apply:     r.apply,
		Stimulus:  func() string { return "test" },
		FinishRun: r.runEnded,
		ReturnRun: func(e *Executor, run *Run) { r.do(e, func() { r.runEnded(run) }) },
		Post:      func(run *Run) { r.do(nil, func() { r.runEnded(run) }) },
	}
	r.Pool = New(cfg)
	r.Start()
	t.Cleanup(func() {
		stop(errClosed)
		close(r.stopped)
		r.all.Wait()
		cfg.Memory.Close()
	})
	return r
}

func (r *rig) do(by *Executor, f func()) {
	r.turn.Lock()
	defer r.turn.Unlock()
	r.Begin(by, time.Now())
	f()
	r.End()
}

func (r *rig) apply(ev state.Event) {
	r.s.Apply(r.now, ev, &r.actions)
	list := r.actions.List()
	for i := range list {
		switch a := &list[i]; a.Kind {
		case state.DoExecute:
			r.Execute(a.Task)
		case state.DoCancel:
			r.Cancel(a.Key)
		case state.DoDelete:
			r.data.Delete(a.Key)
			r.Forget(a.Key)
		case state.SendTaskFinished:
			e := end{key: a.Task.Key().String(), what: "finished", text: a.Task.TypeName()}
			p := r.Parts(a.Task)
			p.Each(func(action string, _, _ int64) { e.parts = append(e.parts, action) })
			r.ends <- e
		case state.SendTaskErred:
			r.ends <- end{key: a.Task.Key().String(), what: "erred", text: a.Task.Failure().ExceptionText}
		case state.SendReschedule:
			r.ends <- end{key: a.Key.String(), what: "reschedule"}
		case state.SendLongRunning:
			r.ends <- end{key: a.Key.String(), what: "long-running"}
		}
	}
}

func (r *rig) runEnded(run *Run) {
	ev, lost := r.Finish(run, "test")
	if lost != "" {
		r.apply(&state.DataLost{Key: lost})
	}
	r.apply(ev)
	r.ClearFinished()
}

// compute assigns a task whose dependencies are on the worker.
func (r *rig) compute(key string, spec []byte, change func(*state.ComputeTask), deps ...string) {
	r.t.Helper()
	r.runID++
	ev := &state.ComputeTask{Key: task.NewKey(key), RunID: r.runID, Spec: spec,
		Priority: state.Priority{0, 0, float64(r.runID)}}
	for _, d := range deps {
		ev.Deps = append(ev.Deps, state.Dep{Key: task.NewKey(d), NBytes: 10, WhoHas: []string{"tcp://127.0.0.1:1"}})
	}
	if change != nil {
		change(ev)
	}
	r.do(nil, func() { r.apply(ev) })
}

// next returns the next report of a task.
func (r *rig) next() end {
	r.t.Helper()
	select {
	case e := <-r.ends:
		return e
	case <-time.After(time.Minute):
		r.t.Fatal("timeout: no task has ended")
		return end{}
	}
}

// value returns the result of a task.
func (r *rig) value(key string) any {
	r.t.Helper()
	e := r.data.Hold(task.NewKey(key))
	if e == nil {
		return nil
	}
	defer r.data.Release(e)
	v, err := e.Open()
	if err != nil {
		r.t.Fatal(err)
	}
	x, _ := v.Live()
	return x
}

// spec encodes a call.
func spec(t testing.TB, f *task.Func, args ...func(*task.Builder) error) []byte {
	t.Helper()
	var b task.Builder
	b.Begin(f)
	for _, a := range args {
		if err := a(&b); err != nil {
			t.Fatal(err)
		}
	}
	return b.Append(nil)
}

func val[T any](v T) func(*task.Builder) error {
	return func(b *task.Builder) error { return task.NewParam[T]().Val(b, v) }
}

func ref[T any](key string) func(*task.Builder) error {
	return func(b *task.Builder) error { return task.NewParam[T]().Arg(b, task.RefTo[T](task.NewKey(key))) }
}
