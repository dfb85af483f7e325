package ops

import (
	"context"
	"fmt"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
	"go.millstream.dev/worker/internal/execution"
	"go.millstream.dev/worker/internal/transfer"
)

// findActor returns the actor of a request, found by its key.
func (h *handlers) findActor(r *rpc.Request) (*execution.Actor, task.Key, error) {
	raw, ok := r.Field("actor")
	if !ok {
		return nil, "", &rpc.ArgumentError{Op: r.Op, Name: "actor", Reason: "missing"}
	}
	key, err := task.ParseKey(raw)
	if err != nil {
		return nil, "", &rpc.ArgumentError{Op: r.Op, Name: "actor", Reason: err.Error()}
	}
	var a *execution.Actor
	if !h.w.Do(func() { a = h.cfg.Exec.Actor(key) }) {
		return nil, "", h.w.Closed
	}
	if a == nil {
		return nil, key,
			&rpc.Exception{Type: "KeyError",
				Message: fmt.Sprintf("no actor %v on %s: the actor was released, or its worker was lost", key,
					h.w.Address())}
	}
	return a, key, nil
}

// actorExecute calls a method of an actor.
func (h *handlers) actorExecute(ctx context.Context, r *rpc.Request) (any, error) {
	a, key, err := h.findActor(r)
	if err != nil {
		return actorError(err)
	}
	var method string
	if _, err := r.Arg("function", &method); err != nil {
		return nil, err
	}
	args, err := actorArgs(r)
	if err != nil {
		return actorError(err)
	}
	v, err := a.Call(ctx, &task.Info{Key: key, Host: h.cfg.Host}, method, args)
	if err != nil {
		return actorError(err)
	}
	return resultMessage(v)
}

// actorArgs returns the arguments of a call, which must be positional.
func actorArgs(r *rpc.Request) ([]*task.Value, error) {
	if raw, ok := r.Field("kwargs"); ok {
		k := msgpack.NewReader(raw)
		if !k.TryNil() {
			if n, err := k.ReadMapLen(); err != nil || n > 0 {
				return nil, &rpc.ArgumentError{Op: r.Op, Name: "kwargs",
					Reason: "Go methods take no keyword arguments"}
			}
		}
	}
	raw, ok := r.Field("args")
	if !ok {
		return nil, nil
	}
	list := msgpack.NewReader(raw)
	if list.TryNil() {
		return nil, nil
	}
	n, err := list.ReadArrayLen()
	if err != nil {
		return nil, &rpc.ArgumentError{Op: r.Op, Name: "args", Reason: err.Error()}
	}
	args := make([]*task.Value, 0, n)
	for range n {
		item, err := list.ReadRaw()
		if err != nil {
			return nil, &rpc.ArgumentError{Op: r.Op, Name: "args", Reason: err.Error()}
		}
		v, err := transfer.ReadValue(r.Message(), item)
		if err != nil {
			return nil, &rpc.ArgumentError{Op: r.Op, Name: "args", Reason: err.Error()}
		}
		args = append(args, v)
	}
	return args, nil
}

// actorAttribute handles Python's getattr: a Go actor is accessed through methods only.
func actorAttribute(_ context.Context, r *rpc.Request) (any, error) {
	var attribute string
	if _, err := r.Arg("attribute", &attribute); err != nil {
		return nil, err
	}
	return actorError(&rpc.Exception{Type: "AttributeError",
		Message: fmt.Sprintf("attribute %q: actors of Go workers have methods only", attribute)})
}

// actorError returns {status: error, exception}: unlike in other error replies of Dask the exception is an object, not
// its pickled bytes.
func actorError(err error) (any, error) {
	m, err := rpc.ErrorMessage(execution.WithStack(err), "error")
	if err != nil {
		return nil, err
	}
	x, _ := m.Get("exception")
	if s, ok := x.(wire.Serialize); ok {
		if b, ok := s.Value.([]byte); ok {
			header, err := msgpack.Append(nil, msgpack.MapOf("serializer", "pickle", "writeable", []any{},
				"num-sub-frames", 1))
			if err != nil {
				return nil, err
			}
			m.Set("exception", &wire.Serialized{Header: header, Frames: []wire.Frame{wire.HeapFrame(b)}})
		}
	}
	return m, nil
}
