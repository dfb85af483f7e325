package control

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/peers"
	"go.millstream.dev/scheduler/internal/val"
)

// restartRPC releases all tasks and restarts the workers that have nannies; other workers close.
func (s *Control) restartRPC(ctx context.Context, r *rpc.Request, in struct {
	Client   any    `rpc:"client,optional"`
	Timeout  any    `rpc:"timeout,optional"`
	Wait     *bool  `rpc:"wait_for_workers"`
	Stimulus string `rpc:"stimulus_id,optional"`
}) (any, error) {
	err := s.Loop.Do(ctx, func() {
		s.Log.Info("restart: releasing all keys")
		for name, c := range s.Clients.ByName {
			if sc := s.State.Client(c.ID); sc != nil {
				var keys []task.Key
				for i := range sc.NumWanted() {
					keys = append(keys, sc.Wanted(i).Key())
				}
				s.Journal.Release(name, keys)
			}
		}
		s.Apply(&state.Restart{Client: state.NoClient})
		if s.Restarted != nil {
			s.Restarted()
		}
	})
	if err != nil {
		return nil, err
	}
	_, err = s.restartWorkers(ctx, restartArgs{Timeout: in.Timeout, Wait: in.Wait, OnError: "raise"})
	return nil, err
}

type restartArgs struct {
	Workers  []any  `rpc:"workers,optional"`
	Client   any    `rpc:"client,optional"`
	Timeout  any    `rpc:"timeout,optional"`
	Wait     *bool  `rpc:"wait_for_workers"`
	OnError  string `rpc:"on_error,optional"`
	Stimulus string `rpc:"stimulus_id,optional"`
}

func (s *Control) restartWorkersRPC(ctx context.Context, _ *rpc.Request, in restartArgs) (msgpack.Map, error) {
	return s.restartWorkers(ctx, in)
}

// nanny is the nanny of a worker, by their addresses.
type nanny struct{ worker, address string }

func (s *Control) restartWorkers(ctx context.Context, in restartArgs) (msgpack.Map, error) {
	limit, limited, err := loop.Timeout(in.Timeout)
	if err != nil {
		return nil, err
	}
	if !limited {
		limit = 30 * time.Second
	}
	began := time.Now()
	wctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var before int
	var nannies []nanny
	out := msgpack.Map{}
	err = s.Loop.Do(ctx, func() {
		before = len(s.Workers.ByAddress)
		seen := map[*peers.Worker]bool{}
		s.Workers.Each(in.Workers, func(w *peers.Worker, _ *state.Worker) {
			if seen[w] {
				return // named twice
			}
			seen[w] = true
			if at, _ := w.Nanny.(string); at != "" {
				nannies = append(nannies, nanny{w.Address, at})
				return
			}
			out = append(out, msgpack.Pair{Key: w.Address, Value: "removed"})
		})
		for _, p := range out {
			w := s.Workers.ByAddress[p.Key.(string)]
			if w == nil {
				continue // removed together with another one
			}
			s.Log.Warn("worker without nanny closes without restart", "worker", w.Address)
			s.RemoveWorker(w, "restart", true, true)
		}
	})
	if err != nil {
		return nil, err
	}
	errs := make([]error, len(nannies))
	var wg sync.WaitGroup
	for i, n := range nannies {
		wg.Go(func() { errs[i] = s.Pool.Call(wctx, n.address, "kill", msgpack.MapOf("reason", "restart"), nil) })
	}
	wg.Wait()
	var bad error
	for i, n := range nannies {
		status := "OK"
		if errs[i] != nil {
			status = "timed out"
			bad = errors.Join(bad, fmt.Errorf("nanny of %s: %w", n.worker, errs[i]))
		}
		out = append(out, msgpack.Pair{Key: n.worker, Value: status})
	}
	if bad != nil && in.OnError != "return" {
		return nil, &rpc.Exception{Type: "TimeoutError",
			Message: fmt.Sprintf("%d nanny worker(s) did not shut down within %v: %v", len(nannies), limit, bad)}
	}
	if in.Wait != nil && !*in.Wait {
		return out, nil
	}
	left := max(limit-time.Since(began), 0).Seconds()
	ok, err := loop.Await(ctx, s.Loop, left, func() (<-chan struct{}, error) {
		if len(s.Workers.ByAddress) >= before {
			return nil, nil
		}
		return s.WorkersChanged.Wait(), nil
	})
	if err == nil && !ok && in.OnError != "return" {
		err = &rpc.Exception{Type: "TimeoutError",
			Message: fmt.Sprintf("Waited for %d worker(s) to reconnect after restarting but, after %v, some have "+
				"not returned. Consider a longer timeout, or wait_for_workers=False. Workers without a nanny are "+
				"only shut down.", len(out), limit)}
	}
	return out, err
}

// terminateRPC closes the scheduler and its workers: Client.shutdown.
func (s *Control) terminateRPC(_ context.Context, r *rpc.Request, in struct {
	Timeout any    `rpc:"timeout,optional"`
	Reason  string `rpc:"reason,optional"`
}) (string, error) {
	s.Log.Info("scheduler closes", "reason", val.OrText(in.Reason, "unknown"), "peer", r.Comm.PeerAddr())
	// The reply is sent before the comms are closed.
	time.AfterFunc(50*time.Millisecond, func() { s.End("terminate") })
	return "OK", nil
}
