package ops

import (
	"context"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
)

// inPython wraps the handler of an op: the request goes to Python if the worker has one and the request is Python's (or
// if isPython is nil), else to mine.
func (h *handlers) inPython(mine rpc.Handler, isPython func(*rpc.Request) bool) rpc.Handler {
	return func(ctx context.Context, r *rpc.Request) (any, error) {
		if h.cfg.Sidecar == nil || isPython != nil && !isPython(r) {
			return mine(ctx, r)
		}
		return h.cfg.Sidecar.Answer(ctx, r)
	}
}

// runsPython reports whether a function is one of Python, which comes as a pickle, and not a registered one.
func runsPython(r *rpc.Request) bool {
	var spec []byte
	_, err := r.Arg("function", &spec)
	return err == nil && !task.IsSpec(spec)
}

// isPythonActor reports whether an actor is in the sidecar.
func (h *handlers) isPythonActor(r *rpc.Request) bool {
	raw, ok := r.Field("actor")
	if !ok {
		return false
	}
	key, err := task.ParseKey(raw)
	if err != nil {
		return false
	}
	var mine bool
	h.w.Do(func() { mine = h.cfg.Exec.Actor(key) != nil })
	return !mine
}

// onlyPythonRuns reports whether no task of Go runs, whose stack Python would not know.
func (h *handlers) onlyPythonRuns(*rpc.Request) bool {
	only := h.cfg.Sidecar.Running()
	h.w.Do(func() { only = only && h.cfg.Exec.OnlyPython() })
	return only
}
