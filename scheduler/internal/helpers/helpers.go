// Package helpers runs the Python helpers of a scheduler: they run functions that clients send, plan shuffles, and, for
// package graphs, open graphs that are more than calls of functions.
package helpers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"go.millstream.dev/internal/dask/daskver"
	"go.millstream.dev/internal/dask/pyproc"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/wire"
)

// Config specifies the helpers of a scheduler.
type Config struct {
	Log *slog.Logger
	// Interpreter is the Python program, "" to search for one; Off runs no Python at all.
	Interpreter string
	Off         bool
	// Limits bound each process. Hide are files and folders that the processes must not read; "" is ignored.
	Limits      pyproc.Limits
	Hide        []string
	AllowUnsafe bool
	// Facade returns the calls of the scheduler that functions of clients can make.
	Facade func() map[string]pyproc.Handler
	// Restored is called with each new process of Service before it is used, Exited when one has ended. Both may be
	// nil.
	Restored func(context.Context, *pyproc.Process)
	Exited   func()
	// Closed returns the error of calls after Close.
	Closed func() error
}

// Helpers are the Python helpers of a scheduler: one for the functions that clients send, one for shuffles, so that a
// crash of one does not affect the other, and those of package graphs. They are started on demand. Any goroutine may
// use them.
type Helpers struct {
	cfg    Config
	logged sync.Map // modules whose sandbox was logged

	mu      sync.Mutex
	byName  map[string]*pyproc.Supervisor // guarded by mu
	closed  bool                          // guarded by mu
	uploads []Upload                      // files for graphs and functions, in order of upload; guarded by mu
	python  *pyproc.Interpreter           // guarded by mu; nil until found
}

// New returns Helpers. None is running yet.
func New(cfg Config) *Helpers { return &Helpers{cfg: cfg} }

// ErrNoPython is returned for graphs that need Python if the scheduler runs without.
var ErrNoPython = errors.New("this graph can only be opened by Python, which is turned off on this scheduler " +
	"(--no-python)")

// Off reports whether no Python is run at all.
func (h *Helpers) Off() bool { return h.cfg.Off }

// Interpreter returns the Python of the helpers. It is searched for once.
func (h *Helpers) Interpreter(ctx context.Context) (pyproc.Interpreter, error) {
	if h.cfg.Off {
		return pyproc.Interpreter{}, ErrNoPython
	}
	if known := h.Known(); known != nil {
		return *known, nil
	}
	in, err := pyproc.Find(ctx, h.cfg.Interpreter)
	if err != nil {
		return in, err
	}
	text := daskver.Scheduler.Message("the scheduler's own Python, "+in.Path+",", in.Distributed)
	switch daskver.Scheduler.Check(in.Distributed) {
	case daskver.Older: // it would open graphs of clients in another way
		return pyproc.Interpreter{}, errors.New(text)
	case daskver.Newer, daskver.Unknown:
		h.cfg.Log.Warn(daskver.Untested, "detail", text)
	}
	h.cfg.Log.Info("Python", "path", in.Path, "python", in.Python, "dask", in.Dask, "distributed", in.Distributed,
		"from", in.From)
	h.mu.Lock()
	h.python = &in
	h.mu.Unlock()
	return in, nil
}

// Known returns the Python of the helpers, nil until one was needed.
func (h *Helpers) Known() *pyproc.Interpreter {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.python
}

// Modules of helpers.
const (
	Service = "millstream.service"
	Shuffle = "millstream.shuffle"
)

// helper returns the supervisor of a helper.
func (h *Helpers) helper(ctx context.Context, module string) (*pyproc.Supervisor, error) {
	in, err := h.Interpreter(ctx)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, h.cfg.Closed()
	}
	v := h.byName[module]
	if v == nil {
		cfg := h.Sandbox(in, module)
		cfg.MaxMessage = 1 << 30
		if module == Service {
			cfg.Handlers, cfg.Threads = h.cfg.Facade(), 64
		}
		v = pyproc.NewSupervisor(pyproc.SupervisorConfig{Config: cfg, Setup: h.Setup(module), Exited: func(err error) {
			h.cfg.Log.Error("Python helper ended; restarting it on demand", "module", module,
				"error", err)
			if module == Service && h.cfg.Exited != nil {
				h.cfg.Exited()
			}
		}})
		if h.byName == nil {
			h.byName = map[string]*pyproc.Supervisor{}
		}
		h.byName[module] = v
	}
	return v, nil
}

// Call calls a function of a helper. A Python exception is returned as an error that Python peers raise.
func (h *Helpers) Call(ctx context.Context, module, op string, body any, frames [][]byte) (*pyproc.Message, error) {
	if h.cfg.Off {
		return nil, &rpc.Exception{Type: "NotImplementedError", Message: op +
			" needs Python, which is turned off on this scheduler (--no-python)"}
	}
	v, err := h.helper(ctx, module)
	if err != nil {
		return nil, err
	}
	p, err := v.Process(ctx)
	if err != nil {
		return nil, fmt.Errorf("start Python helper %s: %w", module, err)
	}
	m, err := p.Call(ctx, op, body, frames)
	return m, Raised(err)
}

// Raised returns the error of a call, with a Python exception in the form that Python peers raise.
func Raised(err error) error {
	var raised *pyproc.Exception
	if !errors.As(err, &raised) {
		return err
	}
	if e, err := pickle.LoadException(raised.Pickled, pickle.Limits{}); err == nil && raised.Pickled != nil {
		return e
	}
	return &rpc.Exception{Type: "RuntimeError", Message: raised.Error()}
}

// Close closes the helpers.
func (h *Helpers) Close() {
	h.mu.Lock()
	h.closed = true
	list := h.byName
	h.byName = nil
	h.mu.Unlock()
	for _, v := range list {
		_ = v.Close()
	}
}

// Message returns the Dask message that a helper has encoded.
func Message(frames [][]byte) (*wire.Message, error) {
	if len(frames) == 0 {
		return nil, ErrNoBody
	}
	out := &wire.Message{Frames: make([]wire.Frame, len(frames))}
	for i, f := range frames {
		out.Frames[i] = wire.HeapFrame(f)
	}
	return out, nil
}

// ErrNoBody is returned for a reply of a helper without a message.
var ErrNoBody = errors.New("message has no body in host memory")
