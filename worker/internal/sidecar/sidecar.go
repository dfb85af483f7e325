// Package sidecar manages the Python process of a worker, which runs Python tasks and holds their results.
package sidecar

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/pprof"
	"sync"
	"time"

	"go.millstream.dev/internal/dask/pyproc"
	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/engine/worker/store"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
)

// Config configures a Sidecar.
type Config struct {
	// Interpreter is the Python to start, see Find.
	Interpreter pyproc.Interpreter
	// Env is the environment of the process, in the form of os.Environ; nil selects that of this process.
	Env []string
	// AllowedFailures is the number of sidecar crashes during which a task may run; with the next one the task fails.
	AllowedFailures int
	// StartTimeout bounds the start of a process.
	StartTimeout time.Duration
	// MemoryLimit is that of the worker in bytes, for messages.
	MemoryLimit int64
	Logger      *slog.Logger
	// Data holds the results of the worker.
	Data *store.Store
	// Worker has the functions of the worker.
	Worker Worker
}

// Worker has the functions of a worker that a Sidecar uses. All fields must be set; the functions are not called before
// the first process is started.
type Worker struct {
	// Context ends when the worker closes, Tasks when its tasks are canceled.
	Context, Tasks context.Context
	// Go starts a goroutine for which the worker waits when it closes.
	Go func(func())
	// Closed is the error of calls after Close.
	Closed error
	// Address returns the address of the worker.
	Address func() string
	// Settings returns the settings of the worker that are sent to a process.
	Settings func() msgpack.Map
	// State returns the state of the worker for code in a process: see millstream/sidecar_state.py.
	State func() (msgpack.Map, error)
	// Send sends a message to the scheduler, with the frames that it refers to.
	Send func(message []byte, frames [][]byte)
	// Store stores a value in the data of the worker.
	Store func(v *task.Value, s state.Stored)
	// SetResources sets the resources of the worker.
	SetResources func([]state.Resource)
	// Lost reports the keys whose values were lost with a process. still, if not nil, is called in the worker's turn
	// and reports whether the value of keys[i] is still the lost one.
	Lost func(keys []task.Key, still func(i int) bool)
	// End closes the worker at the request of code in the process. It does not wait.
	End func(graceful bool, reason string)
}

// Sidecar is the Python process of a worker, which runs Python tasks and holds their results. It is started on demand
// and restarted after it has died. The worker keeps the state of tasks; the sidecar receives tasks to run, and handles
// of values to free. Any goroutine may use it.
type Sidecar struct {
	cfg   Config
	w     Worker
	log   *slog.Logger
	data  *store.Store
	types typePickles

	mu       sync.Mutex // guards the fields below; never held across a call
	current  *incarnation
	starting *starting
	closed   bool
	failures int // failed starts in a row, and exits soon after a start
	plugins  []Plugin
	handle   uint64 // the last handle assigned; even, because those of Python are odd
	runs     map[uint64]*Call
	suspects map[task.Key]int // number of crashes while a task ran
	lastTrim time.Time
}

// incarnation is one process of the sidecar, with the values in it.
type incarnation struct {
	s     *Sidecar
	p     *pyproc.Process
	began time.Time // set before it is the current one

	mu        sync.Mutex // guards the fields below
	values    map[uint64]*value
	free      []uint64 // handles not yet sent to Python
	dead      bool
	forwarded [][][]byte // messages of the scheduler to send
	sending   bool       // some are being sent

	turn chan struct{} // holds a token while messages are sent
}

// starting is a start in progress. Its result is valid when done is closed.
type starting struct {
	done chan struct{}
	inc  *incarnation
	err  error
}

// Plugin is a worker plugin of the scheduler, which each process loads.
type Plugin struct {
	Name   string
	Pickle []byte
}

// New returns a Sidecar. It starts no process.
func New(cfg Config) *Sidecar {
	return &Sidecar{cfg: cfg, w: cfg.Worker, log: cfg.Logger, data: cfg.Data, runs: map[uint64]*Call{},
		suspects: map[task.Key]int{}}
}

// Running reports whether the process is running.
func (s *Sidecar) Running() bool { return s.running() != nil }

// running returns the current process, nil without one.
func (s *Sidecar) running() *incarnation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// Warm starts the process before the first task needs it. Errors are logged, and returned to the first task.
func (s *Sidecar) Warm(ctx context.Context) { _, _ = s.get(ctx) }

// get returns the process. It starts one if necessary.
func (s *Sidecar) get(ctx context.Context) (*incarnation, error) {
	s.mu.Lock()
	if inc := s.current; inc != nil {
		if !inc.p.Ending() {
			s.mu.Unlock()
			return inc, nil
		}
		s.current = nil // handleExit follows; new tasks use the next process
	}
	if s.closed {
		s.mu.Unlock()
		return nil, s.w.Closed
	}
	st := s.starting
	if st == nil {
		st = &starting{done: make(chan struct{})}
		s.starting = st
		wait := s.backoff()
		s.w.Go(func() { s.start(st, wait) })
	}
	s.mu.Unlock()
	select {
	case <-st.done:
		return st.inc, st.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// backoff returns the delay before the next start, which grows with failures in a row. The caller holds mu.
func (s *Sidecar) backoff() time.Duration {
	if s.failures == 0 {
		return 0
	}
	return min(50*time.Millisecond<<min(s.failures, 6), time.Second)
}

// quickDeath is the lifetime of a process below which its end counts as a failure.
const quickDeath = 10 * time.Second

func (s *Sidecar) start(st *starting, wait time.Duration) {
	// The goroutines of the process outlive the task that needed it first: profiles must not count them for it.
	pprof.SetGoroutineLabels(context.Background())
	t := time.NewTimer(wait)
	defer t.Stop()
	var inc *incarnation
	var err error
	select {
	case <-t.C:
		inc, err = s.spawn()
	case <-s.w.Context.Done():
		err = context.Cause(s.w.Context)
	}
	s.mu.Lock()
	s.starting = nil
	switch {
	case err != nil:
		s.failures++
		err = fmt.Errorf("worker: cannot start the Python process of %s (%s): %w", s.w.Address(),
			s.cfg.Interpreter.Path, err)
	case s.closed:
		err = s.w.Closed
	default:
		inc.began = time.Now()
		s.current = inc
	}
	st.inc, st.err = inc, err
	s.mu.Unlock()
	if err != nil && inc != nil {
		_ = inc.p.Close()
	}
	if err == nil {
		s.w.Go(func() {
			<-inc.p.Done()
			s.handleExit(inc)
		})
	} else if s.w.Context.Err() == nil {
		s.log.Error("cannot start Python process", "error", err)
	}
	close(st.done)
}

// spawn starts a process and prepares it for tasks.
func (s *Sidecar) spawn() (*incarnation, error) {
	inc := &incarnation{s: s, values: map[uint64]*value{}, turn: make(chan struct{}, 1)}
	begun := time.Now()
	p, err := pyproc.Start(s.w.Context, pyproc.Config{
		Python: s.cfg.Interpreter.Path, Module: "millstream.sidecar", Name: "sidecar", Env: s.cfg.Env,
		Handlers: s.handlers(inc), StartTimeout: s.cfg.StartTimeout, Logger: s.log,
		MaxMessage: 64 << 30, MaxCalls: 1 << 16,
	})
	if err != nil {
		return nil, err
	}
	inc.p = p
	ctx, cancel := context.WithTimeout(s.w.Context, s.cfg.StartTimeout)
	defer cancel()
	s.mu.Lock()
	plugins := append([]Plugin(nil), s.plugins...)
	s.mu.Unlock()
	reply, err := p.Call(ctx, "start", s.settings(plugins), pluginFrames(plugins))
	if err != nil {
		_ = p.Close()
		return nil, err
	}
	if failed := failedPlugins(reply.Body); failed != "" {
		s.log.Error("plugins failed in Python process", "plugins", failed)
	}
	s.log.Info("Python process started", "pid", p.PID(), "python", p.Version(), "distributed",
		s.cfg.Interpreter.Distributed, "took", time.Since(begun).Round(time.Millisecond))
	return inc, nil
}

// settings returns the settings that are sent to a process.
func (s *Sidecar) settings(plugins []Plugin) msgpack.Map {
	names := make([]any, len(plugins))
	for i, p := range plugins {
		names[i] = []any{p.Name}
	}
	m := s.w.Settings()
	m.Set("plugins", names)
	return m
}

// handleExit removes a process that has ended. Its runs end because their calls fail; keys whose only values were in it
// are reported as lost, so that they are computed again.
func (s *Sidecar) handleExit(inc *incarnation) {
	s.mu.Lock()
	if s.current == inc {
		s.current = nil
	}
	if time.Since(inc.began) < quickDeath {
		s.failures++
	} else {
		s.failures = 0
	}
	closed := s.closed
	s.mu.Unlock()
	lost := inc.markDead()
	if closed {
		return
	}
	s.log.Error("Python process died", "error", inc.p.Err(), "lost_keys",
		len(lost))
	keys := make([]task.Key, len(lost))
	for i, v := range lost {
		keys[i] = v.key
	}
	s.w.Lost(keys, func(i int) bool { return s.holds(lost[i]) })
}

// holds reports whether the store has a value under its key. The caller holds the worker's turn.
func (s *Sidecar) holds(v *value) bool {
	e := s.data.Hold(v.key)
	if e == nil {
		return false
	}
	defer s.data.Release(e)
	held, err := e.Open()
	return err == nil && held == v.value
}

// Close closes the process. It waits up to limit for the teardown of plugins.
func (s *Sidecar) Close(limit time.Duration) {
	s.mu.Lock()
	s.closed = true
	inc := s.current
	s.mu.Unlock()
	if inc == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if _, err := inc.p.Call(ctx, "close", nil, nil); err != nil && !errors.Is(err, pyproc.ErrExited) {
		s.log.Info("Python process not closed cleanly", "error", err)
	}
	_ = inc.p.Close()
}

// failedPlugins reads the reply to start.
func failedPlugins(body []byte) string {
	v, err := msgpack.Decode(body)
	var answer struct{ Failed []any }
	if err != nil || rpc.Assign(v, &answer) != nil || len(answer.Failed) == 0 {
		return ""
	}
	return fmt.Sprint(answer.Failed)
}
