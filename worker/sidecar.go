package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"go.millstream.dev/internal/dask/pyproc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/task"
)

// sidecar is the Python process beside a worker: an executor of tasks that are not Go's,
// and the home of what they make. It is started when it is needed and again after it has
// died. The worker's state stays with whoever holds the turn; the sidecar is told what to
// run and hears when a value is no longer needed.
type sidecar struct {
	w  *Worker
	in pyproc.Interpreter

	mu       sync.Mutex // owns all below; never held across a call
	current  *incarnation
	starting *starting
	closed   bool
	failures int // starts in a row that failed, and deaths soon after a start
	plugins  []pyPlugin
	handle   uint64 // the last one that was given out; even, as Python's own are odd
	runs     map[uint64]*run
	suspects map[task.Key]int // in how many deaths a task had a part
	lastTrim time.Time
}

// incarnation is one life of the sidecar, with the values that live in it.
type incarnation struct {
	s     *sidecar
	p     *pyproc.Process
	began time.Time // does not change once it is the current one

	mu      sync.Mutex // owns all below
	values  map[uint64]*pyValue
	free    []uint64 // of which Python has not been told yet
	dead    bool
	orders  [][][]byte // of the scheduler, to be passed on
	sending bool       // some of them are on their way

	turn chan struct{} // holds a token while orders are sent
}

// starting is a start that is under way. Its result is valid when done is closed.
type starting struct {
	done chan struct{}
	inc  *incarnation
	err  error
}

// pyPlugin is one of the scheduler's worker plugins, which each sidecar gets anew.
type pyPlugin struct {
	name   string
	pickle []byte
}

func newSidecar(w *Worker, in pyproc.Interpreter) *sidecar {
	return &sidecar{w: w, in: in, runs: map[uint64]*run{}, suspects: map[task.Key]int{}}
}

// running is the sidecar if there is one now.
func (s *sidecar) running() *incarnation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// get returns the sidecar, which it starts if need be.
func (s *sidecar) get(ctx context.Context) (*incarnation, error) {
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
		return nil, errEnded
	}
	st := s.starting
	if st == nil {
		st = &starting{done: make(chan struct{})}
		s.starting = st
		wait := s.pause()
		s.w.tasks.Go(func() { s.start(st, wait) })
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
func (s *sidecar) pause() time.Duration {
	if s.failures == 0 {
		return 0
	}
	return min(50*time.Millisecond<<min(s.failures, 6), time.Second)
}

// quickDeath is how soon after its start a sidecar must die for the next start to wait.
const quickDeath = 10 * time.Second

func (s *sidecar) start(st *starting, wait time.Duration) {
	t := time.NewTimer(wait)
	defer t.Stop()
	var inc *incarnation
	var err error
	select {
	case <-t.C:
		inc, err = s.spawn()
	case <-s.w.ctx.Done():
		err = context.Cause(s.w.ctx)
	}
	s.mu.Lock()
	s.starting = nil
	switch {
	case err != nil:
		s.failures++
		err = fmt.Errorf("worker: the Python process of %s (%s) did not start: %w", s.w.address, s.in.Path, err)
	case s.closed:
		err = errEnded
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
		s.w.tasks.Go(func() {
			<-inc.p.Done()
			s.died(inc)
		})
	} else if s.w.ctx.Err() == nil {
		s.w.log.Error("the Python process did not start", "error", err)
	}
	close(st.done)
}

// spawn starts a process and makes it ready for tasks.
func (s *sidecar) spawn() (*incarnation, error) {
	w := s.w
	inc := &incarnation{s: s, values: map[uint64]*pyValue{}, turn: make(chan struct{}, 1)}
	begun := time.Now()
	p, err := pyproc.Start(w.ctx, pyproc.Config{
		Python: s.in.Path, Module: "millstream.sidecar", Name: "sidecar", Env: w.cfg.Python.Env,
		Handlers: s.handlers(inc), StartTimeout: w.cfg.Python.StartTimeout, Logger: w.log,
		MaxMessage: 64 << 30, MaxCalls: 1 << 16,
	})
	if err != nil {
		return nil, err
	}
	inc.p = p
	ctx, cancel := context.WithTimeout(w.ctx, w.cfg.Python.StartTimeout)
	defer cancel()
	s.mu.Lock()
	plugins := append([]pyPlugin(nil), s.plugins...)
	s.mu.Unlock()
	reply, err := p.Call(ctx, "start", s.settings(plugins), pluginFrames(plugins))
	if err != nil {
		_ = p.Close()
		return nil, err
	}
	if failed := failedPlugins(reply.Body); failed != "" {
		w.log.Error("plugins of the scheduler failed in the Python process", "plugins", failed)
	}
	w.log.Info("the Python process runs", "pid", p.PID(), "python", p.Version(), "distributed", s.in.Distributed, "took", time.Since(begun).Round(time.Millisecond))
	return inc, nil
}

// settings is what the sidecar is told about its worker.
func (s *sidecar) settings(plugins []pyPlugin) msgpack.Map {
	w := s.w
	names := make([]any, len(plugins))
	for i, p := range plugins {
		names[i] = []any{p.name}
	}
	resources, security := msgpack.Map{}, msgpack.Map{}
	for k, v := range w.cfg.Resources {
		resources.Set(k, v)
	}
	for k, v := range w.cfg.Python.Security {
		security.Set(k, v)
	}
	port := 0
	if w.http != nil {
		port = w.http.port
	}
	return msgpack.MapOf("scheduler", w.cfg.Scheduler, "http_port", port, "address", w.address, "name", w.name, "id", w.id, "nthreads", w.cfg.Threads,
		"memory_limit", w.cfg.MemoryLimit, "directory", w.memory.Directory(), "resources", resources, "security", security, "plugins", names, "pid", os.Getpid())
}

// died forgets a sidecar that has ended. Its runs end by themselves, as their calls fail;
// the keys whose only values were in it are reported lost, so that they are made again.
func (s *sidecar) died(inc *incarnation) {
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
	s.w.log.Error("the Python process died; another one is started when it is needed", "error", inc.p.Err(), "keys lost", len(lost))
	s.w.do(func() {
		for _, v := range lost {
			s.w.lostRemote(v)
		}
	})
}

// close ends the sidecar: plugins are torn down first, if they are quick about it.
func (s *sidecar) close(limit time.Duration) {
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
		s.w.log.Info("the Python process did not end in order", "error", err)
	}
	_ = inc.p.Close()
}

// failedPlugins reads the answer to start.
func failedPlugins(body []byte) string {
	v, err := msgpack.Decode(body)
	if err != nil {
		return ""
	}
	m, _ := v.(msgpack.Map)
	list, _ := m.Get("failed")
	if l, ok := list.([]any); !ok || len(l) == 0 {
		return ""
	}
	return fmt.Sprint(list)
}
