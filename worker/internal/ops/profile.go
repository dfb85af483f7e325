package ops

import (
	"context"
	"slices"

	"go.millstream.dev/internal/proc/profile"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/internal/wire/msgpack"
)

type profileArgs struct {
	Start  *float64 `rpc:"start"`
	Stop   *float64 `rpc:"stop"`
	Key    *string  `rpc:"key"`
	Server bool     `rpc:"server,optional"`
}

// profile handles Dask's profile: the call tree of the tasks with a prefix or of all, Go and Python, or that of the
// worker's own goroutines.
func (h *handlers) profile(ctx context.Context, _ *rpc.Request, in profileArgs) (msgpack.Raw, error) {
	q := profile.Query{Start: in.Start, Stop: in.Stop, Key: in.Key}
	var t profile.Tree
	if in.Server {
		h.cfg.Exec.Profile().AddServerTo(&t, q)
		return t.Encoded(), nil
	}
	h.cfg.Exec.Profile().AddTo(&t, q)
	if h.cfg.Sidecar != nil {
		if err := h.cfg.Sidecar.AddProfile(ctx, &t, q); err != nil {
			h.log.Warn("profile of Python tasks not available", "error", err)
		}
	}
	return t.Encoded(), nil
}

type profileCountsArgs struct {
	Start float64  `rpc:"start,optional"`
	Stop  *float64 `rpc:"stop"`
}

// profileMetadata handles Dask's profile_metadata: the numbers of samples by cycle.
func (h *handlers) profileMetadata(ctx context.Context, _ *rpc.Request, in profileCountsArgs) (msgpack.Map, error) {
	list := h.cfg.Exec.Profile().Counts(in.Start, in.Stop)
	if h.cfg.Sidecar != nil {
		more, err := h.cfg.Sidecar.ProfileCounts(ctx, in.Start, in.Stop)
		if err != nil {
			h.log.Warn("profile of Python tasks not available", "error", err)
		}
		list = append(list, more...)
		slices.SortStableFunc(list, func(a, b profile.Counts) int {
			if a.Time < b.Time {
				return -1
			}
			return 1
		})
	}
	counts, keys := make([]any, len(list)), make([]any, len(list))
	for i, c := range list {
		byKey := msgpack.Map{}
		for k, n := range c.Keys {
			byKey = append(byKey, msgpack.Pair{Key: k, Value: n})
		}
		counts[i], keys[i] = []any{c.Time, c.Count}, []any{c.Time, byKey}
	}
	return msgpack.MapOf("counts", counts, "keys", keys), nil
}

// callStack handles call_stack: the stacks of the running tasks with the requested keys, or of all, Go and Python.
func (h *handlers) callStack(ctx context.Context, r *rpc.Request) (any, error) {
	var wanted map[task.Key]bool
	if raw, ok := r.Field("keys"); ok && !(len(raw) == 1 && raw[0] == 0xc0) {
		wanted = map[task.Key]bool{}
		if err := message.EachKey(raw, func(k []byte) error { wanted[task.Key(k)] = true; return nil }); err != nil {
			return nil, &rpc.ArgumentError{Op: r.Op, Name: "keys", Reason: err.Error()}
		}
	}
	stacks, python := h.cfg.Exec.CallStacks(wanted)
	if len(python) > 0 && h.cfg.Sidecar != nil {
		more, err := h.cfg.Sidecar.CallStacks(ctx, python)
		if err != nil {
			h.log.Warn("call stacks of Python tasks not available", "error", err)
		}
		stacks = append(stacks, more...)
	}
	return stacks, nil
}
