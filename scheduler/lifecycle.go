package scheduler

import (
	"context"
	"fmt"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/peers"
	"go.millstream.dev/scheduler/internal/val"
)

// request puts a request that takes the state some time, and waits for its end. make gets
// the number of the request and returns the event; it runs in the loop.
func (s *Scheduler) request(ctx context.Context, make_ func(number uint64) (state.Event, error)) (failed []task.Key, err error) {
	done := make(chan requestDone, 1)
	_, err = loop.Ask(ctx, s.loop, func() (any, error) {
		s.lastReq++
		ev, err := make_(s.lastReq)
		if err != nil || ev == nil {
			done <- requestDone{}
			return nil, err
		}
		s.requests[s.lastReq] = done
		s.apply(ev)
		return nil, nil
	})
	if err != nil {
		return nil, err
	}
	select {
	case d := <-done:
		return d.failed, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-s.loop.Done():
		return nil, s.loop.ClosedError()
	}
}

// requestDone is the state's answer to a request.
func (s *Scheduler) requestDone(number uint64, failed []task.Key) {
	if done := s.requests[number]; done != nil {
		delete(s.requests, number)
		done <- requestDone{append([]task.Key(nil), failed...)}
	}
}

// ids are the workers that names mean; unknown names are an error.
func (s *Scheduler) ids(names []any) ([]state.WorkerID, error) {
	var out []state.WorkerID
	for _, v := range names {
		w := s.workers.Find(v)
		if w == nil {
			return nil, &rpc.Exception{Type: "ValueError", Message: fmt.Sprintf("no worker %v", v)}
		}
		out = append(out, w.ID)
	}
	return out, nil
}

func (s *Scheduler) replicate(ctx context.Context, _ *rpc.Request, in struct {
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
	failed, err := s.replicateKeys(ctx, keys, n, in.Workers, in.Delete == nil || *in.Delete)
	if err != nil {
		return nil, err
	}
	if len(failed) > 0 {
		return msgpack.MapOf("status", "partial-fail", "keys", val.RawKeys(failed)), nil
	}
	return nil, nil
}

func (s *Scheduler) replicateKeys(ctx context.Context, keys []task.Key, n int, workers []any, del bool) ([]task.Key, error) {
	return s.request(ctx, func(number uint64) (state.Event, error) {
		ids, err := s.ids(workers)
		return &state.Replicate{Request: number, Keys: keys, N: n, Workers: ids, Delete: del}, err
	})
}

func (s *Scheduler) rebalance(ctx context.Context, _ *rpc.Request, in struct {
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
	failed, err := s.request(ctx, func(number uint64) (state.Event, error) {
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

func (s *Scheduler) unregister(ctx context.Context, _ *rpc.Request, in struct {
	Address  string `rpc:"address"`
	Stimulus string `rpc:"stimulus_id,optional"`
	Expected bool   `rpc:"expected,optional"`
	Close    *bool  `rpc:"close"`
}) (string, error) {
	return loop.Ask(ctx, s.loop, func() (string, error) {
		w := s.workers.Find(in.Address)
		if w == nil {
			return "already-removed", nil
		}
		s.removeWorker(w, "it was unregistered", in.Expected, in.Close == nil || *in.Close)
		return "OK", nil
	})
}

func (s *Scheduler) retry(ctx context.Context, _ *rpc.Request, in struct {
	Keys   []any `rpc:"keys"`
	Client any   `rpc:"client,optional"`
}) ([]any, error) {
	keys, err := val.KeyList(in.Keys)
	if err != nil {
		return nil, err
	}
	return loop.Ask(ctx, s.loop, func() ([]any, error) {
		for _, k := range keys {
			if s.state.Task(k) == nil {
				return nil, &rpc.Exception{Type: "KeyError", Message: k.String()}
			}
		}
		ev := state.Retry{Client: state.NoClient, Keys: keys}
		if name, ok := in.Client.(string); ok && s.clients.ByName[name] != nil {
			ev.Client = s.clients.ByName[name].ID
		}
		s.apply(&ev)
		return val.RawKeys(append([]task.Key(nil), ev.Retried...)), nil
	})
}

func (s *Scheduler) setResources(ctx context.Context, _ *rpc.Request, in struct {
	Worker    any         `rpc:"worker"`
	Resources msgpack.Map `rpc:"resources,optional"`
}) (string, error) {
	list, err := peers.Resources(in.Resources)
	if err != nil {
		return "", &rpc.Exception{Type: "ValueError", Message: err.Error()}
	}
	return loop.Ask(ctx, s.loop, func() (string, error) {
		w := s.workers.Find(in.Worker)
		if w == nil {
			return "", &rpc.Exception{Type: "KeyError", Message: fmt.Sprintf("no worker %v", in.Worker)}
		}
		s.apply(&state.SetResources{Worker: w.ID, Resources: list})
		return "OK", nil
	})
}

func (s *Scheduler) setRestrictions(ctx context.Context, _ *rpc.Request, in struct {
	Worker msgpack.Map `rpc:"worker"`
}) (any, error) {
	type one struct {
		key     task.Key
		workers []string
	}
	var list []one
	for _, p := range in.Worker {
		k, err := task.KeyOf(p.Key)
		if err != nil {
			return nil, err
		}
		names, err := val.Texts(p.Value)
		if err != nil {
			return nil, &rpc.Exception{Type: "TypeError", Message: err.Error()}
		}
		list = append(list, one{k, names})
	}
	_, err := loop.Ask(ctx, s.loop, func() (any, error) {
		for _, x := range list {
			if s.state.Task(x.key) == nil {
				return nil, &rpc.Exception{Type: "KeyError", Message: x.key.String()}
			}
			s.apply(&state.SetRestrictions{Keys: []task.Key{x.key}, Workers: x.workers})
		}
		return nil, nil
	})
	return nil, err
}
