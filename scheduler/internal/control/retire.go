package control

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/peers"
	"go.millstream.dev/scheduler/internal/val"
)

// closing are the arguments of workers_to_close in Dask.
type closing struct {
	Ratio     any    `rpc:"memory_ratio,optional"`
	N         *int   `rpc:"n"`
	Key       any    `rpc:"key,optional"`
	Minimum   *int   `rpc:"minimum"`
	Target    *int   `rpc:"target"`
	Attribute string `rpc:"attribute,optional"`
}

// allowed returns a filter of the workers that plugins allow to be closed.
func (s *Control) allowed(ctx context.Context) (func(state.WorkerID) bool, error) {
	all := func(state.WorkerID) bool { return true }
	if s.Removable == nil {
		return all, nil
	}
	addresses, err := loop.Ask(ctx, s.Loop, func() ([]string, error) {
		return slices.Collect(maps.Keys(s.Workers.ByAddress)), nil
	})
	if err != nil {
		return nil, err
	}
	list, ok := s.Removable(ctx, addresses)
	if !ok {
		return all, nil
	}
	return func(id state.WorkerID) bool {
		w := s.Workers.ByID(id)
		return w != nil && list[w.Address]
	}, nil
}

// choose returns the workers to close. It runs in the loop.
func (in *closing) choose(s *Control, allowed func(state.WorkerID) bool) ([]*peers.Worker, error) {
	if in.Key != nil {
		return nil, &rpc.Exception{Type: "NotImplementedError",
			Message: "workers_to_close: key is a Python function, which this scheduler does not run"}
	}
	n, minimum := 0, 0
	if in.N != nil {
		n = max(*in.N, 0)
	} else if in.Target != nil {
		n = max(len(s.Workers.ByAddress)-*in.Target, 0)
	}
	if n == 0 && (in.N != nil || in.Target != nil) {
		return nil, nil
	}
	if in.Minimum != nil {
		minimum = *in.Minimum
	}
	ratio := 0.0
	if in.Ratio != nil {
		var ok bool
		if ratio, ok = val.Number(in.Ratio); !ok || !(ratio > 0) {
			return nil, &rpc.Exception{Type: "ValueError",
				Message: fmt.Sprintf("workers_to_close: memory_ratio is %v, want a number above 0", in.Ratio)}
		}
	}
	var out []*peers.Worker
	for _, id := range s.State.WorkersToClose(n, minimum, ratio, allowed) {
		if w := s.Workers.ByID(id); w != nil {
			out = append(out, w)
		}
	}
	return out, nil
}

func (s *Control) toCloseRPC(ctx context.Context, _ *rpc.Request, in closing) ([]any, error) {
	allowed, err := s.allowed(ctx)
	if err != nil {
		return nil, err
	}
	return loop.Ask(ctx, s.Loop, func() ([]any, error) {
		list, err := in.choose(s, allowed)
		out := []any{}
		for _, w := range list {
			switch in.Attribute {
			case "", "address":
				out = append(out, w.Address)
			case "name":
				out = append(out, w.Name)
			case "host":
				out = append(out, w.Host)
			default:
				return nil, &rpc.Exception{Type: "AttributeError",
					Message: fmt.Sprintf("a worker has no attribute %q (address, name or host)", in.Attribute)}
			}
		}
		return out, err
	})
}

func (s *Control) targetRPC(ctx context.Context, _ *rpc.Request, in struct {
	Duration any `rpc:"target_duration,optional"`
}) (int, error) {
	d, _, err := loop.Timeout(in.Duration)
	if err != nil {
		return 0, err
	}
	return loop.Ask(ctx, s.Loop, func() (int, error) { return s.State.AdaptiveTarget(d), nil })
}

// retireRPC moves the data of workers to others and closes them.
func (s *Control) retireRPC(ctx context.Context, r *rpc.Request, in struct {
	Workers  []any  `rpc:"workers,optional"`
	Names    []any  `rpc:"names,optional"`
	Close    bool   `rpc:"close_workers,optional"`
	Remove   *bool  `rpc:"remove"`
	Stimulus string `rpc:"stimulus_id,optional"`
	// Incarnation is the secret of a Millstream worker that retires itself.
	Incarnation string `rpc:"incarnation,optional"`

	Ratio     any    `rpc:"memory_ratio,optional"`
	N         *int   `rpc:"n"`
	Key       any    `rpc:"key,optional"`
	Minimum   *int   `rpc:"minimum"`
	Target    *int   `rpc:"target"`
	Attribute string `rpc:"attribute,optional"`
}) (msgpack.Map, error) {
	if in.Workers != nil && in.Names != nil {
		return nil, &rpc.Exception{Type: "TypeError", Message: "names and workers are mutually exclusive"}
	}
	if err := s.checkRetire(ctx, r.Comm, in.Workers, in.Names != nil, in.Incarnation); err != nil {
		return nil, err
	}
	var allowed func(state.WorkerID) bool
	if in.Workers == nil && in.Names == nil {
		var err error
		if allowed, err = s.allowed(ctx); err != nil {
			return nil, err
		}
	}
	var chosen []*peers.Worker
	infos := map[string]msgpack.Map{}
	choose := func() error {
		switch {
		case in.Names != nil:
			for _, v := range in.Names {
				for _, w := range s.Workers.ByAddress {
					if peers.NameText(w.Name) == peers.NameText(v) {
						chosen = append(chosen, w)
					}
				}
			}
		case in.Workers != nil:
			for _, v := range in.Workers {
				if w := s.Workers.Find(v); w != nil {
					chosen = append(chosen, w)
				}
			}
		default:
			var err error
			c := closing{Ratio: in.Ratio, N: in.N, Key: in.Key, Minimum: in.Minimum, Target: in.Target}
			if chosen, err = c.choose(s, allowed); err != nil {
				return err
			}
		}
		return nil
	}
	remove := in.Remove == nil || *in.Remove
	_, err := s.Requests.Do(ctx, func(number uint64) (state.Event, error) {
		if err := choose(); err != nil || len(chosen) == 0 {
			return nil, err
		}
		ev := &state.RetireWorkers{Request: number, Close: in.Close, Remove: remove}
		for _, w := range chosen {
			ev.Workers = append(ev.Workers, w.ID)
			infos[w.Address] = s.Identity(w)
		}
		return ev, nil
	})
	if err != nil {
		return nil, err
	}
	return loop.Ask(ctx, s.Loop, func() (msgpack.Map, error) {
		out := msgpack.Map{}
		var retired, kept []any
		for _, w := range chosen {
			sw := s.State.Worker(w.ID)
			if sw != nil && sw.Data == w && sw.Status() == state.StatusRunning {
				kept = append(kept, w.Address) // no other worker could take its data
				continue
			}
			retired = append(retired, w.Address)
			out = append(out, msgpack.Pair{Key: w.Address, Value: infos[w.Address]})
		}
		if len(chosen) > 0 {
			s.Publish(msgpack.MapOf("action", "retire-workers", "retired", retired, "could-not-retire", kept), "all")
		}
		return out, nil
	})
}
