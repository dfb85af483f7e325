package scheduler

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.millstream.dev/internal/dask/daskver"
	"go.millstream.dev/internal/dask/pyproc"
	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/val"
	"go.millstream.dev/task"
	"go.millstream.dev/wire"
)

// materialiser turns the graphs of Python clients into tasks, in Python processes of which
// each belongs to one client. Any goroutine uses it.
type materialiser struct {
	mu      sync.Mutex
	pool    *pyproc.Pool            // guarded by mu; nil until the first need
	python  *pyproc.Interpreter     // guarded by mu; nil until it was looked for with success
	closed  bool                    // guarded by mu
	reading map[uint64]*pendingRead // guarded by mu
	known   map[string]bool         // what graphs import and was opened here; guarded by mu
	planner map[string]string       // whose process has opened the graph of a shuffle, by its id; guarded by mu
}

// pendingRead is a graph whose tasks are coming in. Its lock keeps chunks in a row.
type pendingRead struct {
	mu     sync.Mutex
	reader taskReader // guarded by mu
	over   bool       // nobody waits any more; guarded by mu
}

// graphError is an exception that a graph ended with before it had tasks.
type graphError struct {
	text, trace          string
	exception, traceback []byte // pickles
}

func (e *graphError) Error() string { return e.text }

// errNoPython is what clients are told whose graphs need Python where there is none.
var errNoPython = errors.New("this graph can only be opened by Python, which this scheduler was told not to use (--no-python)")

// interpreter is the Python of the scheduler's children. It is looked for once.
func (s *Scheduler) interpreter(ctx context.Context) (pyproc.Interpreter, error) {
	if s.cfg.Python.Off {
		return pyproc.Interpreter{}, errNoPython
	}
	m := &s.materialiser
	m.mu.Lock()
	known := m.python
	m.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	in, err := pyproc.Find(ctx, s.cfg.Python.Interpreter)
	if err != nil {
		return in, err
	}
	switch text := daskver.Scheduler.Message("the scheduler's own Python, "+in.Path+",", in.Distributed); daskver.Scheduler.Check(in.Distributed) {
	case daskver.Older: // it would make other graphs of what clients send than they mean
		return pyproc.Interpreter{}, errors.New(text)
	case daskver.Newer, daskver.Unknown:
		s.log.Warn(text)
	}
	s.log.Info("Python", "path", in.Path, "python", in.Python, "dask", in.Dask, "distributed", in.Distributed, "from", in.From)
	m.mu.Lock()
	m.python = &in
	m.mu.Unlock()
	return in, nil
}

// materialisers returns the pool of processes.
func (s *Scheduler) materialisers(ctx context.Context) (*pyproc.Pool, error) {
	in, err := s.interpreter(ctx)
	if err != nil {
		return nil, err
	}
	m := &s.materialiser
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return nil, s.loop.ClosedError()
	case m.pool == nil:
		cfg := s.sandbox(in, moduleMaterialiser)
		cfg.Name, cfg.MaxCalls, cfg.Threads = "materialiser", 4, 1
		cfg.Handlers = map[string]pyproc.Handler{"tasks": m.tasks}
		m.pool = pyproc.NewPool(pyproc.PoolConfig{
			Config: cfg, Size: s.cfg.Python.Processes, Idle: s.cfg.Python.Idle, Setup: s.setupHelper(moduleMaterialiser),
		})
		m.reading = map[uint64]*pendingRead{}
	}
	return m.pool, nil
}

// tasks takes a chunk of a graph. Numbers of graphs are random: a process that a client
// has taken over cannot write into another client's.
func (m *materialiser) tasks(_ context.Context, msg *pyproc.Message) (any, [][]byte, error) {
	number, err := graphNumber(msg.Body)
	if err != nil {
		return nil, nil, err
	}
	m.mu.Lock()
	p := m.reading[number]
	m.mu.Unlock()
	if p == nil {
		return nil, nil, errors.New("nobody waits for this graph")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return nil, nil, errors.New("nobody waits for this graph any more")
	}
	return nil, nil, p.reader.chunk(msg)
}

func graphNumber(body msgpack.Raw) (uint64, error) {
	r := msgpack.NewReader(body)
	n, err := r.ReadMapLen()
	for i := 0; err == nil && i < n; i++ {
		var name []byte
		if name, err = r.ReadName(); err == nil && string(name) == "graph" {
			return r.ReadUint()
		}
		if err == nil {
			err = r.Skip()
		}
	}
	return 0, errors.Join(errors.New("it does not say which graph"), err)
}

// begin makes a number for a graph whose tasks are expected.
func (m *materialiser) begin() (uint64, *pendingRead) {
	var b [8]byte
	_, _ = rand.Read(b[:])
	n := binary.LittleEndian.Uint64(b[:]) >> 1
	p := &pendingRead{}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reading[n] = p
	return n, p
}

// end returns what has come. Nothing is added afterwards.
func (m *materialiser) end(n uint64, p *pendingRead) *taskReader {
	m.mu.Lock()
	delete(m.reading, n)
	m.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	return &p.reader
}

// openAttempts is how many processes may die over one graph before it is to blame: memory
// runs short for other reasons, too.
const openAttempts = 3

// materialise has Python make the tasks of a graph. It runs outside of the loop.
func (s *Scheduler) materialise(ctx context.Context, owner string, g *graph, expr *wire.Serialized, notes any, priority []byte) ([]state.Node, error) {
	for i := 1; ; i++ {
		nodes, err := s.materialiseOnce(ctx, owner, g, expr, notes, priority)
		if !errors.Is(err, pyproc.ErrExited) || ctx.Err() != nil {
			return nodes, err
		}
		s.log.Warn("a Python process that opened a graph has died", "attempt", i, "owner", owner, "error", err)
		if i == openAttempts {
			return nil, fmt.Errorf("the Python processes that opened the graph have died, %d of them (does the graph crash or take too much memory?): %w", i, err)
		}
	}
}

// materialiseOnce is one attempt.
func (s *Scheduler) materialiseOnce(ctx context.Context, owner string, g *graph, expr *wire.Serialized, notes any, priority []byte) ([]state.Node, error) {
	p, release, err := s.acquire(ctx, owner)
	if err != nil {
		return nil, err
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Python.GraphTimeout)
	defer cancel()
	number, pending := s.materialiser.begin()
	body, frames, err := materialiseRequest(number, g.ev.Keys, expr, notes, priority)
	var reply *pyproc.Message
	if err == nil {
		reply, err = p.Call(ctx, "materialise", body, frames)
	}
	tasks := s.materialiser.end(number, pending)
	if ctx.Err() != nil {
		// The process may be in an endless loop, and it still has the frames.
		err = context.Cause(ctx)
		if err == context.DeadlineExceeded {
			err = s.tooLong()
		}
		p.Kill(fmt.Errorf("killed: %w", err))
		<-p.Done()
	}
	if err != nil {
		return nil, err
	}
	total, err := readMaterialised(reply.Body)
	if err == nil {
		err = tasks.err
	}
	if err == nil && total != int64(len(tasks.nodes)) {
		err = fmt.Errorf("the materialiser speaks of %d tasks and has sent %d", total, len(tasks.nodes))
	}
	return tasks.nodes, err
}

// startGrace is what a process may take to start, beyond the time that graphs before this
// one may take.
const startGrace = time.Minute

// acquire gets a process for a graph.
func (s *Scheduler) acquire(ctx context.Context, owner string) (*pyproc.Process, func(), error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Python.GraphTimeout+startGrace)
	defer cancel()
	pool, err := s.materialisers(ctx)
	if err != nil {
		return nil, nil, err
	}
	p, release, err := pool.Acquire(ctx, owner)
	switch {
	case err == nil:
		return p, release, nil
	case context.Cause(ctx) == context.DeadlineExceeded:
		return nil, nil, s.tooLong()
	case errors.Is(context.Cause(ctx), errClientLeft):
		return nil, nil, errClientLeft
	}
	return nil, nil, fmt.Errorf("no Python process to open the graph: %w", err)
}

func materialiseRequest(number uint64, keys []task.Key, expr *wire.Serialized, notes any, priority []byte) (msgpack.Raw, [][]byte, error) {
	b := msgpack.AppendMapHeader(nil, 6)
	b = msgpack.AppendUint(msgpack.AppendString(b, "graph"), number)
	b = append(msgpack.AppendString(b, "header"), expr.Header...)
	b = msgpack.AppendInt(msgpack.AppendString(b, "frames"), int64(len(expr.Frames)))
	b = val.AppendKeys(msgpack.AppendString(b, "keys"), keys)
	b = msgpack.AppendString(b, "internal_priority")
	if priority == nil {
		b = msgpack.AppendNil(b)
	} else {
		b = append(b, priority...)
	}
	b = msgpack.AppendString(b, "annotations")
	all := expr.Frames
	switch v := notes.(type) {
	case nil:
		b = msgpack.AppendNil(b)
	case *wire.Pickled:
		v, err := v.Open(val.Untrusted)
		if err != nil {
			return nil, nil, fmt.Errorf("annotations: %w", err)
		}
		b = msgpack.AppendBytes(b, v.Data)
		all = append(all[:len(all):len(all)], v.Buffers...)
	default:
		var err error
		if b, err = msgpack.Append(b, v); err != nil {
			return nil, nil, fmt.Errorf("annotations: %w", err)
		}
	}
	frames := make([][]byte, 0, len(all))
	for _, f := range all {
		if f.OnDevice() {
			return nil, nil, errors.New("the graph is in memory of a GPU")
		}
		frames = append(frames, f.Bytes())
	}
	return b, frames, nil
}

// readMaterialised reads the last answer: {"tasks": number} or {"error": {…}}.
func readMaterialised(body msgpack.Raw) (int64, error) {
	v, err := msgpack.Decode(body)
	m, ok := v.(msgpack.Map)
	if err != nil || !ok {
		return 0, fmt.Errorf("the materialiser's answer is not understood: %w", err)
	}
	if e, ok := m.Get("error"); ok {
		d, _ := e.(msgpack.Map)
		exc, _ := d.Get("exception")
		tb, _ := d.Get("traceback")
		out := &graphError{text: d.GetString("exception_text"), trace: d.GetString("traceback_text")}
		out.exception, _ = exc.([]byte)
		out.traceback, _ = tb.([]byte)
		return 0, out
	}
	n, _ := m.Get("tasks")
	total, ok := n.(int64)
	if !ok {
		return 0, errors.New("the materialiser does not say how many tasks it made")
	}
	return total, nil
}

// failure is a graph's error as clients are told.
func (s *Scheduler) graphFailure(why error) *state.Failure {
	f := &state.Failure{Kind: state.BadGraph, ExceptionText: why.Error()}
	var e *graphError
	if !errors.As(why, &e) || e.exception == nil {
		return f
	}
	f.TracebackText = e.trace
	exc, err := wire.EncodeValue(e.exception, wire.EncodeOptions{})
	if err != nil {
		return f
	}
	f.Exception = exc
	if e.traceback != nil {
		if tb, err := wire.EncodeValue(e.traceback, wire.EncodeOptions{}); err == nil {
			f.Traceback = tb
		}
	}
	return f
}

// graphChildren are the processes that open graphs now.
func (s *Scheduler) graphChildren() []*pyproc.Process {
	m := &s.materialiser
	m.mu.Lock()
	pool := m.pool
	m.mu.Unlock()
	if pool == nil {
		return nil
	}
	return pool.Current()
}

// tooLong is what a client is told whose graph Python could not open in time.
func (s *Scheduler) tooLong() error {
	return fmt.Errorf("opening the graph took longer than %v: make it smaller, or raise the scheduler's --graph-timeout", s.cfg.Python.GraphTimeout)
}

// closeMaterialiser ends the processes.
func (s *Scheduler) closeMaterialiser() {
	m := &s.materialiser
	m.mu.Lock()
	m.closed = true
	pool := m.pool
	m.mu.Unlock()
	if pool != nil {
		_ = pool.Close()
	}
}

// PythonConfig says how the scheduler uses Python. It needs one for graphs that are more
// than calls of functions; the graphs of submit and map do without.
type PythonConfig struct {
	// Interpreter is the program ("": MILLSTREAM_PYTHON, that of VIRTUAL_ENV, or the first
	// on PATH that imports distributed; --python).
	Interpreter string
	// Off runs no Python at all: graphs that need it fail (--no-python).
	Off bool
	// Processes is how many open graphs at once (default the number of CPUs, at least 2);
	// each serves one client. While all of them are busy for seconds, there are up to four
	// times as many.
	Processes int
	// Idle is how long a process without work is kept (default 1 min).
	Idle time.Duration
	// GraphTimeout is how long one graph may take to open (default 10 min; --graph-timeout).
	GraphTimeout time.Duration
	// Memory bounds the private memory of a process in bytes (default half of that of the
	// machine or its cgroup; negative: none; --helper-memory), Disk its private folders
	// (default 512 MiB; --helper-disk), MaxProcesses the processes and threads in it (default
	// 256; negative: none).
	Memory, Disk, MaxProcesses int64
	// Hide are files and folders that the processes must not see, such as keys. The journal
	// is always hidden.
	Hide []string
	// AllowUnsafe starts the processes even where they would run as root, or where Hide and
	// the journal cannot be kept from them (--unsafe-python-helpers).
	AllowUnsafe bool
}
