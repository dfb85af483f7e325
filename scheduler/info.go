package scheduler

import (
	"context"
	"fmt"
	"slices"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/peers"
	"go.millstream.dev/scheduler/internal/specs"
	"go.millstream.dev/scheduler/internal/val"
	"go.millstream.dev/wire"
)

func (s *Scheduler) identityRPC(ctx context.Context, _ *rpc.Request, in struct {
	Workers *int `rpc:"n_workers"`
}) (msgpack.Map, error) {
	n := -1
	if in.Workers != nil {
		n = *in.Workers
	}
	return loop.Ask(ctx, s.loop, func() (msgpack.Map, error) { return s.identity(n), nil })
}

// identity runs in the loop. n bounds the workers that are listed; -1 lists all.
func (s *Scheduler) identity(n int) msgpack.Map {
	var memory int64
	workers := msgpack.Map{}
	for sw := range s.state.Workers() {
		memory += sw.MemoryLimit()
		if w, ok := sw.Data.(*peers.Worker); ok && (n < 0 || len(workers) < n) {
			workers = append(workers, msgpack.Pair{Key: w.Address, Value: s.workerIdentity(w)})
		}
	}
	services := msgpack.Map{}
	if s.http != nil {
		services = append(services, msgpack.Pair{Key: "dashboard", Value: s.http.port})
	}
	return msgpack.MapOf("type", "Scheduler", "id", s.id, "address", s.contact, "services", services, "started", val.Seconds(s.started),
		"n_workers", len(s.workers.ByAddress), "total_threads", s.state.TotalThreads(), "total_memory", memory, "workers", workers, "millstream", msgpack.MapOf("v", 1, "tasks", s.taskCounts()))
}

func (s *Scheduler) workerIdentity(w *peers.Worker) msgpack.Map {
	m := msgpack.MapOf("type", "Worker", "id", w.Name, "host", w.Host)
	if sw := s.state.Worker(w.ID); sw != nil && sw.Data == w {
		supplied, _ := sw.Resources()
		res := msgpack.Map{}
		for _, r := range supplied {
			res = append(res, msgpack.Pair{Key: r.Name, Value: r.Amount})
		}
		m = append(m, msgpack.MapOf("resources", res, "nthreads", sw.Threads(), "memory_limit", sw.MemoryLimit(), "status", sw.Status().String())...)
	}
	m = append(m, msgpack.MapOf("local_directory", w.Dir, "name", w.Name, "last_seen", val.Seconds(w.LastSeen), "services", w.Services,
		"metrics", w.Metrics, "nanny", w.Nanny)...)
	return append(m, w.Extra...)
}

type keysArg struct {
	Keys []any `rpc:"keys,optional"`
}

type workersArg struct {
	Workers []any `rpc:"workers,optional"`
}

func (s *Scheduler) whoHas(ctx context.Context, _ *rpc.Request, in keysArg) (msgpack.Map, error) {
	keys, err := val.KeyList(in.Keys)
	if err != nil {
		return nil, err
	}
	return loop.Ask(ctx, s.loop, func() (msgpack.Map, error) {
		out := make(msgpack.Map, 0, len(keys))
		if in.Keys == nil {
			for t := range s.state.Tasks() {
				out = append(out, msgpack.Pair{Key: t.Key().Value(), Value: holders(t)})
			}
			return out, nil
		}
		for i, k := range keys {
			out = append(out, msgpack.Pair{Key: in.Keys[i], Value: holders(s.state.Task(k))})
		}
		return out, nil
	})
}

func holders(t *state.Task) []any {
	out := []any{}
	if t != nil {
		for i := range t.NumHolders() {
			out = append(out, t.Holder(i).Address())
		}
	}
	return out
}

func (s *Scheduler) hasWhat(ctx context.Context, _ *rpc.Request, in workersArg) (msgpack.Map, error) {
	return s.perWorker(ctx, in.Workers, func(_ *peers.Worker, sw *state.Worker) any {
		keys := make([]any, sw.NumHeld())
		for i := range keys {
			keys[i] = sw.Held(i).Key().Raw()
		}
		return keys
	})
}

func (s *Scheduler) perWorker(ctx context.Context, names []any, f func(*peers.Worker, *state.Worker) any) (msgpack.Map, error) {
	return loop.Ask(ctx, s.loop, func() (msgpack.Map, error) {
		out := msgpack.Map{}
		s.workers.Each(names, func(w *peers.Worker, sw *state.Worker) {
			if v := f(w, sw); v != nil {
				out = append(out, msgpack.Pair{Key: w.Address, Value: v})
			}
		})
		return out, nil
	})
}

func (s *Scheduler) ncores(ctx context.Context, _ *rpc.Request, in workersArg) (msgpack.Map, error) {
	return s.perWorker(ctx, in.Workers, func(_ *peers.Worker, sw *state.Worker) any { return sw.Threads() })
}

func (s *Scheduler) ncoresRunning(ctx context.Context, _ *rpc.Request, in workersArg) (msgpack.Map, error) {
	return s.perWorker(ctx, in.Workers, func(_ *peers.Worker, sw *state.Worker) any {
		if sw.Status() != state.StatusRunning {
			return nil
		}
		return sw.Threads()
	})
}

func (s *Scheduler) processing(ctx context.Context, _ *rpc.Request, in workersArg) (msgpack.Map, error) {
	return s.perWorker(ctx, in.Workers, func(_ *peers.Worker, sw *state.Worker) any {
		keys := []any{}
		for t := range sw.Processing() {
			keys = append(keys, t.Key().Raw())
		}
		return keys
	})
}

func (s *Scheduler) nbytes(ctx context.Context, _ *rpc.Request, in struct {
	Keys    []any `rpc:"keys,optional"`
	Summary *bool `rpc:"summary"`
}) (msgpack.Map, error) {
	keys, err := val.KeyList(in.Keys)
	if err != nil {
		return nil, err
	}
	return loop.Ask(ctx, s.loop, func() (msgpack.Map, error) {
		out := msgpack.Map{}
		sums := map[string]int64{}
		add := func(t *state.Task) {
			if in.Summary == nil || *in.Summary {
				sums[t.Prefix().Name()] += t.NBytes()
			} else {
				out = append(out, msgpack.Pair{Key: t.Key().Value(), Value: t.NBytes()})
			}
		}
		if in.Keys == nil {
			for t := range s.state.Tasks() {
				if t.NBytes() >= 0 {
					add(t)
				}
			}
		}
		for _, k := range keys {
			t := s.state.Task(k)
			if t == nil {
				return nil, &rpc.Exception{Type: "KeyError", Message: k.String()}
			}
			add(t)
		}
		for name, n := range sums {
			out = append(out, msgpack.Pair{Key: name, Value: n})
		}
		return out, nil
	})
}

func (s *Scheduler) taskStatus(ctx context.Context, _ *rpc.Request, in keysArg) (msgpack.Map, error) {
	keys, err := val.KeyList(in.Keys)
	if err != nil {
		return nil, err
	}
	return loop.Ask(ctx, s.loop, func() (msgpack.Map, error) {
		out := make(msgpack.Map, len(keys))
		for i, k := range keys {
			out[i].Key = in.Keys[i]
			if t := s.state.Task(k); t != nil {
				out[i].Value = t.State().String()
			}
		}
		return out, nil
	})
}

// prefixCounts are the tasks of each prefix by state.
func (s *Scheduler) prefixCounts() map[string][]int {
	states := state.TaskStates()
	out := map[string][]int{}
	for g := range s.state.Groups() {
		counts := out[g.Prefix().Name()]
		if counts == nil {
			counts = make([]int, len(states))
			out[g.Prefix().Name()] = counts
		}
		for i, st := range states {
			counts[i] += g.Count(st)
		}
	}
	return out
}

func (s *Scheduler) prefixStates(ctx context.Context, _ *rpc.Request, _ struct{}) (msgpack.Map, error) {
	return loop.Ask(ctx, s.loop, func() (msgpack.Map, error) {
		out := msgpack.Map{}
		for name, counts := range s.prefixCounts() {
			m, sum := msgpack.Map{}, 0
			for i, st := range state.TaskStates() {
				if st == state.Queued || st.String() == "no-worker" { // Dask does not count these
					continue
				}
				m = append(m, msgpack.Pair{Key: st.String(), Value: counts[i]})
				sum += counts[i]
			}
			if sum == 0 {
				continue
			}
			out = append(out, msgpack.Pair{Key: name, Value: m})
		}
		return out, nil
	})
}

// errorCause is the task that is to blame for the first of the keys that is erred.
func (s *Scheduler) errorCause(ctx context.Context, _ *rpc.Request, in keysArg) (any, error) {
	keys, err := val.KeyList(in.Keys)
	if err != nil {
		return nil, err
	}
	return loop.Ask(ctx, s.loop, func() (any, error) {
		for _, k := range keys {
			if t := s.state.Task(k); t != nil && t.Failure() != nil {
				return t.Failure().Key.Raw(), nil
			}
		}
		return nil, nil
	})
}

func (s *Scheduler) runspec(ctx context.Context, _ *rpc.Request, in struct {
	Key any `rpc:"key"`
}) (any, error) {
	key, err := task.KeyOf(in.Key)
	if err != nil {
		return nil, err
	}
	return loop.Ask(ctx, s.loop, func() (any, error) {
		t := s.state.Task(key)
		if t == nil {
			return nil, &rpc.Exception{Type: "KeyError", Message: key.String()}
		}
		if spec, err := specs.Read(t.Spec()); err == nil { // Python's clients run it themselves
			out := &wire.Pickled{Data: slices.Concat(t.Shared(), spec.Pickle)}
			spec.Buffers(func(b []byte) { out.Buffers = append(out.Buffers, wire.HeapFrame(b)) })
			return out, nil
		}
		deps := make([]any, t.NumDeps())
		for i := range deps {
			deps[i] = t.Dep(i).Key().Raw()
		}
		return msgpack.MapOf("task", t.Spec(), "deps", deps), nil
	})
}

func (s *Scheduler) story(ctx context.Context, _ *rpc.Request, in struct {
	Keys []any `rpc:"keys_or_stimuli"`
}) ([]any, error) {
	// Dask looks for what it is given among keys and stimuli: other objects, such as futures, have no story.
	named := slices.DeleteFunc(slices.Clone(in.Keys), func(v any) bool { _, err := task.KeyOf(v); return err != nil })
	keys, err := val.KeyList(named)
	if err != nil {
		return nil, err
	}
	return loop.Ask(ctx, s.loop, func() ([]any, error) {
		out := []any{}
		if len(keys) == 0 {
			return out, nil
		}
		for _, t := range s.state.Story(keys...) {
			out = append(out, []any{t.Key.Raw(), t.From.String(), t.To.String(), msgpack.Map{}, t.Cause + "-" + fmt.Sprint(t.Event), val.Seconds(t.When)})
		}
		return out, nil
	})
}

// checkIdleRPC is since when nothing happens, None if something does.
func (s *Scheduler) checkIdleRPC(ctx context.Context, _ *rpc.Request, _ struct{}) (any, error) {
	return loop.Ask(ctx, s.loop, func() (any, error) {
		s.checkIdle()
		if s.idle.since.IsZero() {
			return nil, nil
		}
		return val.Seconds(s.idle.since), nil
	})
}
