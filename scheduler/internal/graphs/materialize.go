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
	// Processes is how many Python processes open graphs at once, Idle how long one without work is kept, and Timeout
	// how long one graph may take.
	Processes     int
	Idle, Timeout time.Duration
	// Record reports whether graphs get the form that a journal keeps, see graph.expr.
	Record func() bool
	// ShuffleOf returns the id of the shuffle whose barrier a key is; "" for others.
	ShuffleOf func(task.Key) string
	// Closed returns the error of calls after Close.
	Closed func() error
}

// Opener reads the graphs of clients. Those of Python that are more than calls of functions become tasks in Python
// processes, of which each belongs to one client. Any goroutine uses it.
type Opener struct {
	cfg     Config
	opening chan struct{} // full of the readers that open graphs

	mu      sync.Mutex
	pool    *pyproc.Pool            // guarded by mu; nil until the first need
	closed  bool                    // guarded by mu
	reading map[uint64]*pendingRead // guarded by mu
	known   map[string]bool         // what graphs import and was opened here; guarded by mu
	planner map[string]string       // whose process has opened the graph of a shuffle, by its id; guarded by mu
}

// New returns an opener without processes.
func New(cfg Config) *Opener {
	return &Opener{cfg: cfg, opening: make(chan struct{}, max(runtime.GOMAXPROCS(0), 2))}
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
		cfg.Name, cfg.MaxCalls, cfg.Threads = "materialiser", 4, 1
		cfg.Handlers = map[string]pyproc.Handler{"tasks": m.tasks}
		m.pool = pyproc.NewPool(pyproc.PoolConfig{
			Config: cfg, Size: m.cfg.Processes, Idle: m.cfg.Idle, Setup: m.cfg.Helpers.Setup(helpers.Materializer),
		})
		m.reading = map[uint64]*pendingRead{}
	}
	return m.pool, nil
}

// tasks takes a chunk of a graph. Numbers of graphs are random: a process that a client
// has taken over cannot write into another client's.
func (m *Opener) tasks(_ context.Context, msg *pyproc.Message) (any, [][]byte, error) {
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

// end returns what has come. Nothing is added afterwards.
func (m *Opener) end(n uint64, p *pendingRead) *taskReader {
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

// materialize has Python make the tasks of a graph. It runs outside of the loop.
func (m *Opener) materialize(ctx context.Context, owner string, g *Graph, expr *wire.Serialized, notes any,
	priority []byte) ([]state.Node, error) {
	for i := 1; ; i++ {
		nodes, err := m.materializeOnce(ctx, owner, g, expr, notes, priority)
		if !errors.Is(err, pyproc.ErrExited) || ctx.Err() != nil {
			return nodes, err
		}
		m.cfg.Log.Warn("a Python process that opened a graph has died", "attempt", i, "owner", owner, "error", err)
		if i == openAttempts {
			return nil,
				fmt.Errorf("the Python processes that opened the graph have died, %d of them (does the graph crash "+
					"or take too much memory?): %w", i, err)
		}
	}
}

// materializeOnce is one attempt.
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
		reply, err = p.Call(ctx, "materialise", body, frames)
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
		err = fmt.Errorf("the materialiser speaks of %d tasks and has sent %d", total, len(tasks.nodes))
	}
	return tasks.nodes, err
}

// startGrace is what a process may take to start, beyond the time that graphs before this
// one may take.
const startGrace = time.Minute

// acquire gets a process for a graph.
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
			return nil, nil, errors.New("the graph is in memory of a GPU")
		}
		frames = append(frames, f.Bytes())
	}
	return b, frames, nil
}

// readMaterialized reads the last answer: {"tasks": number} or {"error": {…}}.
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
		return 0, fmt.Errorf("the materialiser's answer is not understood: %w", err)
	case e != nil:
		return 0, &graphError{text: e.ExceptionText, trace: e.TracebackText, exception: e.Exception,
			traceback: e.Traceback}
	case answer.Tasks == nil:
		return 0, errors.New("the materialiser does not say how many tasks it made")
	}
	return *answer.Tasks, nil
}

// Children returns the processes that open graphs now.
func (m *Opener) Children() []*pyproc.Process {
	m.mu.Lock()
	pool := m.pool
	m.mu.Unlock()
	if pool == nil {
		return nil
	}
	return pool.Current()
}

// tooLong is what a client is told whose graph Python could not open in time.
func (m *Opener) tooLong() error {
	return fmt.Errorf("opening the graph took longer than %v: make it smaller, or raise the scheduler's "+
		"--graph-timeout", m.cfg.Timeout)
}

// Close ends the processes.
func (m *Opener) Close() {
	m.mu.Lock()
	m.closed = true
	pool := m.pool
	m.mu.Unlock()
	if pool != nil {
		_ = pool.Close()
	}
}

// Warm has a process started: Python will be needed soon, and takes a second or two to start. Its absence is told to
// those whose graphs need it.
func (m *Opener) Warm(ctx context.Context) {
	if pool, err := m.processes(ctx); err == nil {
		pool.Spare()
	}
}

// PlannerOf returns an idle process that has opened the graph of a shuffle, and so has imported what its plan needs. It
// is nil if there is none, or if the process is busy; else the caller must call release.
func (m *Opener) PlannerOf(shuffle string) (p *pyproc.Process, release func()) {
	m.mu.Lock()
	pool, owner := m.pool, m.planner[shuffle]
	m.mu.Unlock()
	if pool == nil || owner == "" {
		return nil, nil
	}
	return pool.AcquireIdle(owner)
}

// maxPlanners is of how many shuffles it is remembered whose process has opened the graph.
const maxPlanners = 10_000

// plans remembers whose process has opened the graph of the shuffles that are in it.
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

// ErrClientLeft is the cause of the end of an opening whose client has gone.
var ErrClientLeft = errors.New("scheduler: client left while its graph was opened")

// FailureOf returns the error of a graph as clients are told.
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
