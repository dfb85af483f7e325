package graphs

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"go.millstream.dev/internal/dask/pyproc"
	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/helpers"
	"go.millstream.dev/scheduler/internal/val"
	"go.millstream.dev/wire"
)

// Config specifies how graphs are opened.
type Config struct {
	Log     *slog.Logger
	Helpers *helpers.Helpers
	// Processes is the number of Python processes that open graphs, Idle how long one without work is kept, and Timeout
	// how long one graph may take.
	Processes     int
	Idle, Timeout time.Duration
	// Record reports whether graphs are converted to the form of the journal, see Graph.Expr.
	Record func() bool
	// ShuffleOf returns the ID of the shuffle whose barrier a key is; "" for others.
	ShuffleOf func(task.Key) string
	// Closed returns the error of calls after Close.
	Closed func() error
}

// Opener reads the graphs of clients. Python graphs that are more than calls of functions are opened in Python
// processes, each of which belongs to one client. Any goroutine may use it.
type Opener struct {
	cfg     Config
	opening chan struct{} // semaphore of readers that open graphs

	mu      sync.Mutex
	pool    *pyproc.Pool            // guarded by mu; nil until first used
	closed  bool                    // guarded by mu
	reading map[uint64]*pendingRead // guarded by mu
	known   map[string]bool         // imports of graphs that were opened here; guarded by mu
	planner map[string]string       // owner of the process that opened a shuffle's graph, by shuffle ID; guarded by mu
}

// New returns an Opener without processes.
func New(cfg Config) *Opener {
	return &Opener{cfg: cfg, opening: make(chan struct{}, max(runtime.GOMAXPROCS(0), 2))}
}

// pendingRead is a graph whose tasks are being received. Its lock serializes chunks.
type pendingRead struct {
	mu     sync.Mutex
	reader taskReader // guarded by mu
	over   bool       // the caller has stopped waiting; guarded by mu
}

// graphError is an exception that Python raised while it opened a graph.
type graphError struct {
	text, trace          string
	exception, traceback []byte // pickles
}

func (e *graphError) Error() string { return e.text }

// processes returns the pool of processes.
func (m *Opener) processes(ctx context.Context) (*pyproc.Pool, error) {
	in, err := m.cfg.Helpers.Interpreter(ctx)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return nil, m.cfg.Closed()
	case m.pool == nil:
		cfg := m.cfg.Helpers.Sandbox(in, helpers.Materializer)
		cfg.Name, cfg.MaxCalls, cfg.Threads = "materializer", 4, 1
		cfg.Handlers = map[string]pyproc.Handler{"tasks": m.tasks}
		m.pool = pyproc.NewPool(pyproc.PoolConfig{
			Config: cfg, Size: m.cfg.Processes, Idle: m.cfg.Idle, Setup: m.cfg.Helpers.Setup(helpers.Materializer),
		})
		m.reading = map[uint64]*pendingRead{}
	}
	return m.pool, nil
}

// tasks receives a chunk of a graph. Numbers of graphs are random: a process that a client has compromised cannot write
// to the graph of another client.
func (m *Opener) tasks(_ context.Context, msg *pyproc.Message) (any, [][]byte, error) {
	number, err := graphNumber(msg.Body)
	if err != nil {
		return nil, nil, err
	}
	m.mu.Lock()
	p := m.reading[number]
	m.mu.Unlock()
	if p == nil {
		return nil, nil, errors.New("unknown graph number")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return nil, nil, errors.New("graph is closed")
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
	return 0, errors.Join(errors.New("graph number is missing"), err)
}

// begin returns a number for a graph whose tasks are expected.
func (m *Opener) begin() (uint64, *pendingRead) {
	var b [8]byte
	_, _ = rand.Read(b[:])
	n := binary.LittleEndian.Uint64(b[:]) >> 1
	p := &pendingRead{}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reading[n] = p
	return n, p
}

// end returns the received tasks. None are added afterwards.
func (m *Opener) end(n uint64, p *pendingRead) *taskReader {
	m.mu.Lock()
	delete(m.reading, n)
	m.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	return &p.reader
}

// openAttempts is the number of processes that may crash while they open one graph before the graph fails. Memory may
// run short for other reasons.
const openAttempts = 3

// materialize opens a graph in a Python process. It runs outside of the loop.
func (m *Opener) materialize(ctx context.Context, owner string, g *Graph, expr *wire.Serialized, notes any,
	priority []byte) ([]state.Node, error) {
	for i := 1; ; i++ {
		nodes, err := m.materializeOnce(ctx, owner, g, expr, notes, priority)
		if !errors.Is(err, pyproc.ErrExited) || ctx.Err() != nil {
			return nodes, err
		}
		m.cfg.Log.Warn("Python process crashed while opening a graph", "attempt", i, "owner", owner, "error", err)
		if i == openAttempts {
			return nil,
				fmt.Errorf("%d Python processes crashed while opening the graph (does it crash Python "+
					"or take too much memory?): %w", i, err)
		}
	}
}

// materializeOnce makes one attempt.
func (m *Opener) materializeOnce(ctx context.Context, owner string, g *Graph, expr *wire.Serialized, notes any,
	priority []byte) ([]state.Node, error) {
	p, release, err := m.acquire(ctx, owner)
	if err != nil {
		return nil, err
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, m.cfg.Timeout)
	defer cancel()
	number, pending := m.begin()
	body, frames, err := materializeRequest(number, g.Event.Keys, expr, notes, priority)
	var reply *pyproc.Message
	if err == nil {
		reply, err = p.Call(ctx, "materialize", body, frames)
	}
	tasks := m.end(number, pending)
	if ctx.Err() != nil {
		// The process may be in an endless loop, and it still has the frames.
		err = context.Cause(ctx)
		if err == context.DeadlineExceeded {
			err = m.tooLong()
		}
		p.Kill(fmt.Errorf("killed: %w", err))
		<-p.Done()
	}
	if err != nil {
		return nil, err
	}
	total, err := readMaterialized(reply.Body)
	if err == nil {
		err = tasks.err
	}
	if err == nil && total != int64(len(tasks.nodes)) {
		err = fmt.Errorf("materializer announced %d tasks and sent %d", total, len(tasks.nodes))
	}
	return tasks.nodes, err
}

// startGrace is the time that a process may take to start, in addition to the time that earlier graphs may take.
const startGrace = time.Minute

// acquire returns a process for a graph.
func (m *Opener) acquire(ctx context.Context, owner string) (*pyproc.Process, func(), error) {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.Timeout+startGrace)
	defer cancel()
	pool, err := m.processes(ctx)
	if err != nil {
		return nil, nil, err
	}
	p, release, err := pool.Acquire(ctx, owner)
	switch {
	case err == nil:
		return p, release, nil
	case context.Cause(ctx) == context.DeadlineExceeded:
		return nil, nil, m.tooLong()
	case errors.Is(context.Cause(ctx), ErrClientLeft):
		return nil, nil, ErrClientLeft
	}
	return nil, nil, fmt.Errorf("no Python process to open the graph: %w", err)
}

func materializeRequest(number uint64, keys []task.Key, expr *wire.Serialized, notes any,
	priority []byte) (msgpack.Raw, [][]byte, error) {
	b := msgpack.AppendMapHeader(nil, 6)
	b = msgpack.AppendUint(msgpack.AppendString(b, "graph"), number)
	b = append(msgpack.AppendString(b, "header"), expr.Header...)
	b = msgpack.AppendInt(msgpack.AppendString(b, "frames"), int64(len(expr.Frames)))
	b = message.AppendKeys(msgpack.AppendString(b, "keys"), keys)
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
			return nil, nil, errors.New("graph is in GPU memory")
		}
		frames = append(frames, f.Bytes())
	}
	return b, frames, nil
}

// readMaterialized reads the last reply: {"tasks": number} or {"error": {…}}.
func readMaterialized(body msgpack.Raw) (int64, error) {
	v, err := msgpack.Decode(body)
	var answer struct {
		Tasks *int64
		Error *struct {
			Exception, Traceback         []byte
			ExceptionText, TracebackText string
		}
	}
	if err == nil {
		err = rpc.Assign(v, &answer)
	}
	switch e := answer.Error; {
	case err != nil:
		return 0, fmt.Errorf("invalid reply from the materializer: %w", err)
	case e != nil:
		return 0, &graphError{text: e.ExceptionText, trace: e.TracebackText, exception: e.Exception,
			traceback: e.Traceback}
	case answer.Tasks == nil:
		return 0, errors.New("number of tasks is missing in the reply of the materializer")
	}
	return *answer.Tasks, nil
}

// Children returns the processes that are opening graphs.
func (m *Opener) Children() []*pyproc.Process {
	m.mu.Lock()
	pool := m.pool
	m.mu.Unlock()
	if pool == nil {
		return nil
	}
	return pool.Current()
}

// tooLong returns the error of a graph that Python could not open in time.
func (m *Opener) tooLong() error {
	return fmt.Errorf("opening the graph took longer than %v: make it smaller, or raise the scheduler's "+
		"--graph-timeout", m.cfg.Timeout)
}

// Close closes the processes.
func (m *Opener) Close() {
	m.mu.Lock()
	m.closed = true
	pool := m.pool
	m.mu.Unlock()
	if pool != nil {
		_ = pool.Close()
	}
}

// Warm starts a process in advance, because Python takes a second or two to start. An error is reported to clients
// whose graphs need Python.
func (m *Opener) Warm(ctx context.Context) {
	if pool, err := m.processes(ctx); err == nil {
		pool.Spare()
	}
}

// PlannerOf returns an idle process that has opened the graph of a shuffle, and so has imported the modules of its
// plan. It is nil if there is none, or if the process is busy; otherwise the caller must call release.
func (m *Opener) PlannerOf(shuffle string) (p *pyproc.Process, release func()) {
	m.mu.Lock()
	pool, owner := m.pool, m.planner[shuffle]
	m.mu.Unlock()
	if pool == nil || owner == "" {
		return nil, nil
	}
	return pool.AcquireIdle(owner)
}

// maxPlanners bounds the number of shuffles in Opener.planner.
const maxPlanners = 10_000

// plans records the owner of the process that opened the graph of the shuffles in nodes.
func (m *Opener) plans(owner string, nodes []state.Node) {
	for i := range nodes {
		id := m.cfg.ShuffleOf(nodes[i].Key)
		if id == "" {
			continue
		}
		m.mu.Lock()
		if m.planner == nil || len(m.planner) >= maxPlanners {
			m.planner = map[string]string{}
		}
		m.planner[id] = owner
		m.mu.Unlock()
	}
}

// ErrClientLeft is returned for a graph whose client has disconnected while it was opened.
var ErrClientLeft = errors.New("scheduler: client disconnected while its graph was opened")

// FailureOf returns the error of a graph in the form that is sent to clients.
func FailureOf(why error) *state.Failure {
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
