package ops

import (
	"context"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
)

// orPython wraps the handler of an op: the sidecar handles the request if there is one and isPython returns true or is
// nil; otherwise handle does.
func (h *handlers) orPython(handle rpc.Handler, isPython func(*rpc.Request) bool) rpc.Handler {
	return func(ctx context.Context, r *rpc.Request) (any, error) {
		if h.cfg.Sidecar == nil || isPython != nil && !isPython(r) {
			return handle(ctx, r)
		}
		return h.cfg.Sidecar.ForwardRequest(ctx, r)
	}
}

// runsPython reports whether the function of a request is a pickled Python function, not a registered one.
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
	var isGo bool
	h.w.Do(func() { isGo = h.cfg.Exec.Actor(key) != nil })
	return !isGo
}
