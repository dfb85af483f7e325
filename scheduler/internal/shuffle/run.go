package shuffle

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/peers"
	"go.millstream.dev/wire"
)

// planned is the input of a run of a shuffle.
type planned struct {
	id       string
	run      int64
	barrier  task.Key
	spec     []byte   // of the barrier task
	shared   []byte   // first part of the spec
	workers  []string // that may receive partitions
	existing [][]byte // maps of shuffles that share outputs with this one
}

// getOrCreateRPC serves shuffle_get_or_create: a worker with the first partition to send requests the run, which is
// created if there is none.
func (s *Shuffles) getOrCreateRPC(ctx context.Context, _ *rpc.Request, in struct {
	ID     string `rpc:"shuffle_id"`
	Key    any    `rpc:"key"`
	Worker string `rpc:"worker"`
}) (msgpack.Map, error) {
	id, worker := strings.Clone(in.ID), strings.Clone(in.Worker)
	key, err := task.KeyOf(wire.Clone(in.Key))
	if err != nil {
		return nil, err
	}
	for {
		var plan *planned
		var others <-chan struct{}
		answer, err := loop.Ask(ctx, s.Loop, func() (msgpack.Map, error) {
			x, err := s.takePart(id, worker)
			if x != nil {
				return x.answer(), nil
			}
			if err != nil {
				return nil, err
			}
			if others = s.creating; others != nil {
				return nil, nil
			}
			if plan, err = s.plan(id, key); err == nil {
				s.creating = make(chan struct{})
			}
			return nil, err
		})
		if err != nil || answer != nil {
			return answerOf(answer, err)
		}
		if others == nil {
			answer, err = s.create(ctx, plan, key, worker)
			if err != nil || answer != nil {
				return answerOf(answer, err)
			}
			continue // workers were removed meanwhile
		}
		select {
		case <-others:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-s.Loop.Done():
			return nil, s.Loop.ClosedError()
		}
	}
}

// plan collects the input of a new run of a shuffle. It runs in the loop.
func (s *Shuffles) plan(id string, key task.Key) (*planned, error) {
	barrier := task.NewKey(BarrierPrefix + id)
	b := s.State.Task(barrier)
	if b == nil {
		return nil,
			inconsistent("Barrier task with key %q does not exist. This may be caused by task fusion during graph "+
				"generation.", barrier)
	}
	t := s.State.Task(key)
	if t == nil || t.State() != state.Processing {
		return nil, inconsistent("Expected task %s to be processing", key)
	}
	p := &planned{id: id, barrier: barrier, spec: b.Spec(), shared: b.Shared()}
	var only []any
	if a := b.Annotations(); a != nil {
		for _, w := range a.Workers {
			only = append(only, w)
		}
	}
	s.Workers.Each(only, func(w *peers.Worker, _ *state.Worker) { p.workers = append(p.workers, w.Address) })
	if len(p.workers) == 0 {
		return nil, inconsistent("no worker can take part in shuffle %s", id)
	}
	// Concurrent small shuffles start on different workers.
	at := s.shift % len(p.workers)
	s.shift++
	p.workers = slices.Concat(p.workers[at:], p.workers[:at])
	seen := map[*state.Task]bool{b: true}
	for i := range b.NumDependents() {
		for j, d := 0, b.Dependent(i); j < d.NumDeps(); j++ {
			other := d.Dep(j)
			if seen[other] {
				continue
			}
			seen[other] = true
			if x := s.active[Of(other.Key())]; x != nil {
				p.existing = append(p.existing, x.workerFor)
			}
		}
	}
	s.lastRun++
	p.run = s.lastRun
	return p, nil
}

// create creates a run. It returns nil if the new run is obsolete because workers were removed.
func (s *Shuffles) create(ctx context.Context, p *planned, key task.Key, worker string) (msgpack.Map, error) {
	x, err := s.makeRun(ctx, p)
	answer, e := loop.Ask(context.WithoutCancel(ctx), s.Loop, func() (msgpack.Map, error) {
		close(s.creating)
		s.creating = nil
		if err != nil {
			return nil, err
		}
		for w := range x.Workers {
			if s.Workers.ByAddress[w] == nil {
				return nil, nil
			}
		}
		b := s.State.Task(p.barrier)
		if b == nil {
			return nil, inconsistent("barrier of shuffle %s was released", p.id)
		}
		if s.Workers.Find(worker) == nil {
			return nil, unaware(worker)
		}
		s.Add(x)
		if _, err := s.takePart(p.id, worker); err != nil {
			return nil, err
		}
		s.Apply(&state.Unqueue{Keys: dependents(s.State.Task(p.barrier))})
		s.Log.Info("shuffle started", "shuffle", p.id, "run", x.Number, "task", key.String(), "worker", worker)
		return x.answer(), nil
	})
	if e != nil {
		return nil, e
	}
	return answer, nil
}

func dependents(t *state.Task) []task.Key {
	keys := make([]task.Key, 0, t.NumDependents())
	for i := range t.NumDependents() {
		keys = append(keys, t.Dependent(i).Key())
	}
	return keys
}

// inputsDone notifies the workers of a run that no more partitions follow, and waits until they have sent their shards.
// A worker that cannot be reached is retried.
func (s *Shuffles) inputsDone(ctx context.Context, x *Run) error {
	left, err := loop.Ask(ctx, s.Loop, func() ([]string, error) { return slices.Sorted(maps.Keys(x.Workers)), nil })
	if err != nil {
		return err
	}
	for stuck := 0; len(left) > 0; {
		failed, err := s.askInputsDone(ctx, x, left)
		if err != nil || len(failed) == 0 {
			return err
		}
		gone, err := loop.Ask(ctx, s.Loop, func() ([]string, error) {
			return slices.DeleteFunc(slices.Clone(failed),
				func(w string) bool { return s.Workers.ByAddress[w] != nil }), nil
		})
		if err != nil {
			return err
		}
		if len(gone) > 0 {
			return fmt.Errorf("workers %s left during %v", strings.Join(gone, ", "), x)
		}
		if stuck++; len(failed) < len(left) {
			stuck = 0
		}
		if stuck >= 3 {
			return fmt.Errorf("%v makes no progress: workers %s cannot be reached; they may be overloaded, see "+
				"distributed.comm.timeouts.connect", x, strings.Join(failed, ", "))
		}
		s.Log.Warn("retrying workers of a shuffle", "shuffle", x.ID, "workers", failed)
		left = failed
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// askInputsDone notifies workers once. failed are those that could not be reached.
func (s *Shuffles) askInputsDone(ctx context.Context, x *Run, workers []string) (failed []string, err error) {
	errs := make([]error, len(workers))
	var wg sync.WaitGroup
	for i, w := range workers {
		wg.Go(func() {
			errs[i] = s.Call(ctx, w, msgpack.MapOf("op", "shuffle_inputs_done", "shuffle_id", x.ID, "run_id", x.Number))
		})
	}
	wg.Wait()
	for i, e := range errs {
		var remote *rpc.RemoteError
		switch {
		case e == nil:
		case errors.As(e, &remote):
			err = errors.Join(err, fmt.Errorf("worker %s at the barrier of %v: %w", workers[i], x, e))
		default:
			failed = append(failed, workers[i])
		}
	}
	return failed, err
}
