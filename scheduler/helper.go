package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"go.millstream.dev/internal/dask/pyproc"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/wire"
)

// helpers are the Python children that do what only Python can: one for the functions that
// clients send, one for shuffles, so that neither takes the other down. They are started
// when they are needed. Any goroutine may use them.
type helpers struct {
	mu     sync.Mutex
	byName map[string]*pyproc.Supervisor // guarded by mu
	closed bool                          // guarded by mu
	// uploads are files that graphs and functions may import, by name, the latest last.
	uploads []upload // guarded by mu
	logged  sync.Map // modules whose sandbox was logged
}

const (
	moduleService = "millstream.service"
	moduleShuffle = "millstream.shuffle"
)

// helper returns the supervisor of a helper.
func (s *Scheduler) helper(ctx context.Context, module string) (*pyproc.Supervisor, error) {
	in, err := s.interpreter(ctx)
	if err != nil {
		return nil, err
	}
	h := &s.helpers
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, s.loop.ClosedError()
	}
	v := h.byName[module]
	if v == nil {
		cfg := s.sandbox(in, module)
		cfg.MaxMessage = 1 << 30
		if module == moduleService {
			cfg.Handlers, cfg.Threads = s.facade(), 64
		}
		v = pyproc.NewSupervisor(pyproc.SupervisorConfig{Config: cfg, Setup: s.setupHelper(module), Exited: func(err error) {
			s.log.Error("a Python helper has ended; it is started again when it is needed", "module", module, "error", err)
		}})
		if h.byName == nil {
			h.byName = map[string]*pyproc.Supervisor{}
		}
		h.byName[module] = v
	}
	return v, nil
}

// callHelper calls a function of a helper. What Python raises comes as an exception that
// Python peers raise.
func (s *Scheduler) callHelper(ctx context.Context, module, op string, body any, frames [][]byte) (*pyproc.Message, error) {
	if s.cfg.Python.Off {
		return nil, &rpc.Exception{Type: "NotImplementedError", Message: op + " needs Python, which this scheduler was told not to use (--no-python)"}
	}
	v, err := s.helper(ctx, module)
	if err != nil {
		return nil, err
	}
	p, err := v.Process(ctx)
	if err != nil {
		return nil, fmt.Errorf("the Python helper %s cannot be started: %w", module, err)
	}
	m, err := p.Call(ctx, op, body, frames)
	return m, helperError(err)
}

// helperError makes an exception of Python's one that can be sent on.
func helperError(err error) error {
	var raised *pyproc.Exception
	if !errors.As(err, &raised) {
		return err
	}
	if e, err := wire.UnpickleException(raised.Pickled, pickle.Limits{}); err == nil && raised.Pickled != nil {
		return e
	}
	return &rpc.Exception{Type: "RuntimeError", Message: raised.Error()}
}

// closeHelpers ends the helpers.
func (s *Scheduler) closeHelpers() {
	h := &s.helpers
	h.mu.Lock()
	h.closed = true
	list := h.byName
	h.byName = nil
	h.mu.Unlock()
	for _, v := range list {
		_ = v.Close()
	}
}
