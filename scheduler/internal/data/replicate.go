package data

import (
	"context"
	"fmt"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/val"
)

// ids returns the IDs of workers by their names; unknown names are an error.
func (s *Data) ids(names []any) ([]state.WorkerID, error) {
	var out []state.WorkerID
	for _, v := range names {
		w := s.Workers.Find(v)
		if w == nil {
			return nil, &rpc.Exception{Type: "ValueError", Message: fmt.Sprintf("no worker %v", v)}
		}
		out = append(out, w.ID)
	}
	return out, nil
}

func (s *Data) replicateRPC(ctx context.Context, r *rpc.Request, in struct {
	Keys      []any  `rpc:"keys"`
	N         *int   `rpc:"n"`
	Workers   []any  `rpc:"workers,optional"`
	Branching any    `rpc:"branching_factor,optional"`
	Delete    *bool  `rpc:"delete"`
	Stimulus  string `rpc:"stimulus_id,optional"`
}) (any, error) {
	keys, err := val.KeyList(in.Keys)
	if err != nil {
		return nil, err
	}
	n := 0
	if in.N != nil {
		if n = *in.N; n < 1 {
			return nil, &rpc.Exception{Type: "ValueError", Message: "Can not use replicate to delete data"}
		}
	}
	failed, err := s.replicateKeys(ctx, keys, n, in.Workers, in.Delete == nil || *in.Delete, keepsReplicas(r))
	if err != nil {
		return nil, err
	}
	if len(failed) > 0 {
		return msgpack.MapOf("status", "partial-fail", "keys", val.RawKeys(failed)), nil
	}
	return nil, nil
}

// keepsReplicas reports whether the active memory manager keeps the replicas that a request makes. Clients of Dask
// expect that it drops them.
func keepsReplicas(r *rpc.Request) bool { return r.Comm.Info().Millstream != nil }

func (s *Data) replicateKeys(ctx context.Context, keys []task.Key, n int, workers []any, del, keep bool) ([]task.Key,
	error) {
	return s.Requests.Do(ctx, func(number uint64) (state.Event, error) {
		ids, err := s.ids(workers)
		return &state.Replicate{Request: number, Keys: keys, N: n, Workers: ids, Delete: del, Keep: keep}, err
	})
}

func (s *Data) rebalanceRPC(ctx context.Context, _ *rpc.Request, in struct {
	Keys     []any  `rpc:"keys,optional"`
	Workers  []any  `rpc:"workers,optional"`
	Stimulus string `rpc:"stimulus_id,optional"`
}) (msgpack.Map, error) {
	keys, err := val.KeyList(in.Keys)
	if err != nil {
		return nil, err
	}
	if in.Keys != nil && len(keys) == 0 || in.Workers != nil && len(in.Workers) == 0 {
		return msgpack.MapOf("status", "OK"), nil
	}
	failed, err := s.Requests.Do(ctx, func(number uint64) (state.Event, error) {
		ids, err := s.ids(in.Workers)
		return &state.Rebalance{Request: number, Keys: keys, Workers: ids}, err
	})
	if err != nil {
		return nil, err
	}
	if len(failed) > 0 {
		return msgpack.MapOf("status", "partial-fail", "keys", val.RawKeys(failed)), nil
	}
	return msgpack.MapOf("status", "OK"), nil
}
