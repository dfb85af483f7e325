// Package sidecar is the Python process of a worker: it runs the tasks that are not Go's and keeps what they make.
package sidecar

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.millstream.dev/internal/dask/pyproc"
	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/engine/worker/store"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
)

// Config describes a Sidecar.
type Config struct {
	// Interpreter is the Python to start, see Find.
	Interpreter pyproc.Interpreter
	// Env is its environment, as os.Environ has it; nil for that of this process.
	Env []string
	// AllowedFailures is in how many deaths of sidecars a task may have a part before it fails for good.
	AllowedFailures int
	// StartTimeout bounds the start of a process.
	StartTimeout time.Duration
	// MemoryLimit is the worker's in bytes, for messages.
	MemoryLimit int64
	Logger      *slog.Logger
	// Data holds the results of the worker.
	Data *store.Store
	// Worker is what the Sidecar needs of its worker.
	Worker Worker
}

// Worker is what a Sidecar needs of its worker. All fields must be set; the functions are not called before the first
// process is started.
type Worker struct {
	// Context ends with the worker, Tasks with its tasks.
	Context, Tasks context.Context
	// Go starts a goroutine that the end of the worker waits for.
	Go func(func())
	// Closed is the error of calls after Close.
	Closed error
	// Address returns the worker's address.
	Address func() string
	// Settings returns what a process is told about its worker.
	Settings func() msgpack.Map
	// Send sends a message to the scheduler, with the frames that it refers to.
	Send func(message []byte, frames [][]byte)
	// Store puts a value into the worker's data.
	Store func(v *task.Value, s state.Stored)
	// SetResources changes what the worker has to offer.
	SetResources func([]state.Resource)
	// Lost reports the keys whose values have gone with a process. still, if not nil, is called in the worker's turn
	// and reports whether the value of keys[i] is still the one that is lost.
	Lost func(keys []task.Key, still func(i int) bool)
	// End ends the worker, as code in the process asks for. It does not wait.
	End func(graceful bool, reason string)
}

// Sidecar is the Python process of a worker: an executor of tasks that are not Go's, and the home of what they make. It
// is started when it is needed and again after it has died. The worker's state stays with the holder of the turn; the
// sidecar gets tasks to run, and is notified when a value is no longer needed. Any goroutine may use it.
type Sidecar struct {
	cfg   Config
	w     Worker
	log   *slog.Logger
	data  *store.Store
	types typePickles

	mu       sync.Mutex // owns all below; never held across a call
	current  *incarnation
	starting *starting
	closed   bool
	failures int // starts in a row that failed, and deaths soon after a start
	plugins  []Plugin
	handle   uint64 // the last one that was given out; even, as Python's own are odd
	runs     map[uint64]*Call
	suspects map[task.Key]int // in how many deaths a task had a part
	lastTrim time.Time
}

// incarnation is one life of the sidecar, with the values that live in it.
type incarnation struct {
	s     *Sidecar
	p     *pyproc.Process
	began time.Time // does not change once it is the current one

	mu      sync.Mutex // owns all below
	values  map[uint64]*value
	free    []uint64 // of which Python has not been notified yet
	dead    bool
	orders  [][][]byte // of the scheduler, to be passed on
	sending bool       // some of them are on their way

	turn chan struct{} // holds a token while orders are sent
}

// starting is a start in flight. Its result is valid when done is closed.
type starting struct {
	done chan struct{}
	inc  *incarnation
	err  error
}

// Plugin is one of the scheduler's worker plugins, which each process gets.
type Plugin struct {
	Name   string
	Pickle []byte
}

// New returns a Sidecar. It starts no process.
func New(cfg Config) *Sidecar {
	return &Sidecar{cfg: cfg, w: cfg.Worker, log: cfg.Logger, data: cfg.Data, runs: map[uint64]*Call{},
		suspects: map[task.Key]int{}}
}

// Running reports whether there is a process now.
func (s *Sidecar) Running() bool { return s.running() != nil }

// running is the sidecar if there is one now.
func (s *Sidecar) running() *incarnation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// get returns the sidecar, which it starts if need be.
func (s *Sidecar) get(ctx context.Context) (*incarnation, error) {
	s.mu.Lock()
	if inc := s.current; inc != nil {
		if !inc.p.Ending() {
			s.mu.Unlock()
			return inc, nil
		}
		s.current = nil // died follows; a task that comes meanwhile is not to go down with it
	}
	if s.closed {
		s.mu.Unlock()
		return nil, s.w.Closed
	}
	st := s.starting
	if st == nil {
		st = &starting{done: make(chan struct{})}
		s.starting = st
		wait := s.pause()
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

// pause is how long to wait before the next start: one that fails or dies again and again
// is not to take the whole machine. The caller holds mu.
func (s *Sidecar) pause() time.Duration {
	if s.failures == 0 {
		return 0
	}
	return min(50*time.Millisecond<<min(s.failures, 6), time.Second)
}

// quickDeath is how soon after its start a sidecar must die for the next start to wait.
const quickDeath = 10 * time.Second

func (s *Sidecar) start(st *starting, wait time.Duration) {
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
		err = fmt.Errorf("worker: the Python process of %s (%s) did not start: %w", s.w.Address(),
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
			s.died(inc)
		})
	} else if s.w.Context.Err() == nil {
		s.log.Error("the Python process did not start", "error", err)
	}
	close(st.done)
}

// spawn starts a process and makes it ready for tasks.
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
		s.log.Error("plugins of the scheduler failed in the Python process", "plugins", failed)
	}
	s.log.Info("the Python process runs", "pid", p.PID(), "python", p.Version(), "distributed",
		s.cfg.Interpreter.Distributed, "took", time.Since(begun).Round(time.Millisecond))
	return inc, nil
}

// settings returns what a process is told about its worker.
func (s *Sidecar) settings(plugins []Plugin) msgpack.Map {
	names := make([]any, len(plugins))
	for i, p := range plugins {
		names[i] = []any{p.Name}
	}
	m := s.w.Settings()
	m.Set("plugins", names)
	return m
}

// died forgets a sidecar that has ended. Its runs end by themselves, as their calls fail;
// the keys whose only values were in it are reported lost, so that they are made again.
func (s *Sidecar) died(inc *incarnation) {
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
	lost := inc.lose()
	if closed {
		return
	}
	s.log.Error("the Python process died; another one is started when it is needed", "error", inc.p.Err(), "keys lost",
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

// Close ends the process: plugins are torn down first, if they are quick about it.
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
		s.log.Info("the Python process did not end in order", "error", err)
	}
	_ = inc.p.Close()
}

// failedPlugins reads the answer to start.
func failedPlugins(body []byte) string {
	v, err := msgpack.Decode(body)
	var answer struct{ Failed []any }
	if err != nil || rpc.Assign(v, &answer) != nil || len(answer.Failed) == 0 {
		return ""
	}
	return fmt.Sprint(answer.Failed)
}
