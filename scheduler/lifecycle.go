package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.millstream.dev/rpc"
	"go.millstream.dev/scheduler/state"
	"go.millstream.dev/task"
	"go.millstream.dev/wire/msgpack"
)

// request puts a request that takes the state some time, and waits for its end. make gets
// the number of the request and returns the event; it runs in the loop.
func (s *Scheduler) request(ctx context.Context, make_ func(number uint64) (state.Event, error)) (failed []task.Key, err error) {
	done := make(chan requestDone, 1)
	_, err = ask(ctx, s, func() (any, error) {
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
	case <-s.loopDone:
		return nil, s.closedError()
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
		w := s.find(v)
		if w == nil {
			return nil, &rpc.Exception{Type: "ValueError", Message: fmt.Sprintf("no worker %v", v)}
		}
		out = append(out, w.id)
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
	keys, err := keyList(in.Keys)
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
		return msgpack.MapOf("status", "partial-fail", "keys", rawKeys(failed)), nil
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
	keys, err := keyList(in.Keys)
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
		return msgpack.MapOf("status", "partial-fail", "keys", rawKeys(failed)), nil
	}
	return msgpack.MapOf("status", "OK"), nil
}

// closing are Dask's arguments of workers_to_close.
type closing struct {
	Ratio     any    `rpc:"memory_ratio,optional"`
	N         *int   `rpc:"n"`
	Key       any    `rpc:"key,optional"`
	Minimum   *int   `rpc:"minimum"`
	Target    *int   `rpc:"target"`
	Attribute string `rpc:"attribute,optional"`
}

// choose runs in the loop.
func (in *closing) choose(s *Scheduler) ([]*worker, error) {
	if in.Key != nil {
		return nil, &rpc.Exception{Type: "NotImplementedError", Message: "workers_to_close: key is a Python function, which this scheduler does not run"}
	}
	n, minimum := 0, 0
	if in.N != nil {
		n = max(*in.N, 0)
	} else if in.Target != nil {
		n = max(len(s.workers)-*in.Target, 0)
	}
	if n == 0 && (in.N != nil || in.Target != nil) {
		return nil, nil
	}
	if in.Minimum != nil {
		minimum = *in.Minimum
	}
	var out []*worker
	for _, id := range s.state.WorkersToClose(n, minimum) {
		if w := s.worker(id); w != nil {
			out = append(out, w)
		}
	}
	return out, nil
}

func (s *Scheduler) workersToClose(ctx context.Context, _ *rpc.Request, in closing) ([]any, error) {
	return ask(ctx, s, func() ([]any, error) {
		list, err := in.choose(s)
		out := []any{}
		for _, w := range list {
			switch in.Attribute {
			case "", "address":
				out = append(out, w.address)
			case "name":
				out = append(out, w.name)
			case "host":
				out = append(out, w.host)
			default:
				return nil, &rpc.Exception{Type: "AttributeError", Message: fmt.Sprintf("a worker has no attribute %q (address, name or host)", in.Attribute)}
			}
		}
		return out, err
	})
}

func (s *Scheduler) adaptiveTarget(ctx context.Context, _ *rpc.Request, in struct {
	Duration any `rpc:"target_duration,optional"`
}) (int, error) {
	d, _, err := timeout(in.Duration)
	if err != nil {
		return 0, err
	}
	return ask(ctx, s, func() (int, error) { return s.state.AdaptiveTarget(d), nil })
}

// retireWorkers moves the data of workers elsewhere and lets them go.
func (s *Scheduler) retireWorkers(ctx context.Context, _ *rpc.Request, in struct {
	Workers  []any  `rpc:"workers,optional"`
	Names    []any  `rpc:"names,optional"`
	Close    bool   `rpc:"close_workers,optional"`
	Remove   *bool  `rpc:"remove"`
	Stimulus string `rpc:"stimulus_id,optional"`

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
	var chosen []*worker
	infos := map[string]msgpack.Map{}
	choose := func() error {
		switch {
		case in.Names != nil:
			for _, v := range in.Names {
				for _, w := range s.workers {
					if nameText(w.name) == nameText(v) {
						chosen = append(chosen, w)
					}
				}
			}
		case in.Workers != nil:
			for _, v := range in.Workers {
				if w := s.find(v); w != nil {
					chosen = append(chosen, w)
				}
			}
		default:
			var err error
			c := closing{Ratio: in.Ratio, N: in.N, Key: in.Key, Minimum: in.Minimum, Target: in.Target}
			if chosen, err = c.choose(s); err != nil {
				return err
			}
		}
		return nil
	}
	remove := in.Remove == nil || *in.Remove
	_, err := s.request(ctx, func(number uint64) (state.Event, error) {
		if err := choose(); err != nil || len(chosen) == 0 {
			return nil, err
		}
		ev := &state.RetireWorkers{Request: number, Close: in.Close, Remove: remove}
		for _, w := range chosen {
			ev.Workers = append(ev.Workers, w.id)
			infos[w.address] = s.workerIdentity(w)
		}
		return ev, nil
	})
	if err != nil {
		return nil, err
	}
	return ask(ctx, s, func() (msgpack.Map, error) {
		out := msgpack.Map{}
		var retired, kept []any
		for _, w := range chosen {
			sw := s.state.Worker(w.id)
			if sw != nil && sw.Data == w && sw.Status() == state.StatusRunning {
				kept = append(kept, w.address) // its data could go nowhere
				continue
			}
			retired = append(retired, w.address)
			out = append(out, msgpack.Pair{Key: w.address, Value: infos[w.address]})
		}
		if len(chosen) > 0 {
			s.logEvent(msgpack.MapOf("action", "retire-workers", "retired", retired, "could-not-retire", kept), "all")
		}
		return out, nil
	})
}

func (s *Scheduler) unregister(ctx context.Context, _ *rpc.Request, in struct {
	Address  string `rpc:"address"`
	Stimulus string `rpc:"stimulus_id,optional"`
	Expected bool   `rpc:"expected,optional"`
	Close    *bool  `rpc:"close"`
}) (string, error) {
	return ask(ctx, s, func() (string, error) {
		w := s.find(in.Address)
		if w == nil {
			return "already-removed", nil
		}
		s.removeWorker(w, "it was unregistered", in.Expected, in.Close == nil || *in.Close)
		return "OK", nil
	})
}

// restart forgets all tasks and restarts the workers that have nannies; others end.
func (s *Scheduler) restart(ctx context.Context, r *rpc.Request, in struct {
	Client   any    `rpc:"client,optional"`
	Timeout  any    `rpc:"timeout,optional"`
	Wait     *bool  `rpc:"wait_for_workers"`
	Stimulus string `rpc:"stimulus_id,optional"`
}) (any, error) {
	err := s.do(ctx, func() {
		s.log.Info("restart: all keys are released")
		for name, c := range s.clients {
			if sc := s.state.Client(c.id); sc != nil {
				var keys []task.Key
				for i := range sc.NumWanted() {
					keys = append(keys, sc.Wanted(i).Key())
				}
				s.record(recordRelease, name, keys)
			}
		}
		s.apply(&state.Restart{Client: state.NoClient})
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

func (s *Scheduler) restartWorkersRPC(ctx context.Context, _ *rpc.Request, in restartArgs) (msgpack.Map, error) {
	return s.restartWorkers(ctx, in)
}

func (s *Scheduler) restartWorkers(ctx context.Context, in restartArgs) (msgpack.Map, error) {
	limit, limited, err := timeout(in.Timeout)
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
	var nannies []target
	out := msgpack.Map{}
	err = s.do(ctx, func() {
		before = len(s.workers)
		s.eachWorker(in.Workers, func(w *worker, _ *state.Worker) {
			if nanny, _ := w.nanny.(string); nanny != "" {
				nannies = append(nannies, target{w.address, nanny})
				return
			}
			out = append(out, msgpack.Pair{Key: w.address, Value: "removed"})
		})
		for _, p := range out {
			w := s.workers[p.Key.(string)]
			s.log.Warn("a worker without a nanny ends without being restarted", "worker", w.address)
			s.removeWorker(w, "restart", true, true)
		}
	})
	if err != nil {
		return nil, err
	}
	errs := make([]error, len(nannies))
	var wg sync.WaitGroup
	for i, n := range nannies {
		wg.Go(func() { errs[i] = s.pool.Call(wctx, n.address, "kill", msgpack.MapOf("reason", "restart"), nil) })
	}
	wg.Wait()
	var bad error
	for i, n := range nannies {
		status := "OK"
		if errs[i] != nil {
			status = "timed out"
			bad = errors.Join(bad, fmt.Errorf("the nanny of %s: %w", n.worker, errs[i]))
		}
		out = append(out, msgpack.Pair{Key: n.worker, Value: status})
	}
	if bad != nil && in.OnError != "return" {
		return nil, &rpc.Exception{Type: "TimeoutError", Message: fmt.Sprintf("%d nanny worker(s) did not shut down within %v: %v", len(nannies), limit, bad)}
	}
	if in.Wait != nil && !*in.Wait {
		return out, nil
	}
	left := max(limit-time.Since(began), 0).Seconds()
	ok, err := await(ctx, s, left, func() (<-chan struct{}, error) {
		if len(s.workers) >= before {
			return nil, nil
		}
		return s.prims.workers.wait(), nil
	})
	if err == nil && !ok && in.OnError != "return" {
		err = &rpc.Exception{Type: "TimeoutError", Message: fmt.Sprintf("Waited for %d worker(s) to reconnect after restarting but, after %v, some have not returned. Consider a longer timeout, or wait_for_workers=False. Workers without a nanny are only shut down.", len(out), limit)}
	}
	return out, err
}

// terminate ends the scheduler and its workers: Client.shutdown.
func (s *Scheduler) terminate(_ context.Context, _ *rpc.Request, in struct {
	Timeout any    `rpc:"timeout,optional"`
	Reason  string `rpc:"reason,optional"`
}) (string, error) {
	s.log.Info("scheduler closes", "reason", orText(in.Reason, "unknown"))
	// The answer leaves before the comms do.
	time.AfterFunc(50*time.Millisecond, func() { s.end("terminate") })
	return "OK", nil
}

func (s *Scheduler) retry(ctx context.Context, _ *rpc.Request, in struct {
	Keys   []any `rpc:"keys"`
	Client any   `rpc:"client,optional"`
}) ([]any, error) {
	keys, err := keyList(in.Keys)
	if err != nil {
		return nil, err
	}
	return ask(ctx, s, func() ([]any, error) {
		ev := state.Retry{Client: state.NoClient, Keys: keys}
		if name, ok := in.Client.(string); ok && s.clients[name] != nil {
			ev.Client = s.clients[name].id
		}
		s.apply(&ev)
		return rawKeys(append([]task.Key(nil), ev.Retried...)), nil
	})
}

func (s *Scheduler) setResources(ctx context.Context, _ *rpc.Request, in struct {
	Worker    any         `rpc:"worker"`
	Resources msgpack.Map `rpc:"resources,optional"`
}) (string, error) {
	list, err := resources(in.Resources)
	if err != nil {
		return "", &rpc.Exception{Type: "ValueError", Message: err.Error()}
	}
	return ask(ctx, s, func() (string, error) {
		w := s.find(in.Worker)
		if w == nil {
			return "", &rpc.Exception{Type: "KeyError", Message: fmt.Sprintf("no worker %v", in.Worker)}
		}
		s.apply(&state.SetResources{Worker: w.id, Resources: list})
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
		names, err := texts(p.Value)
		if err != nil {
			return nil, &rpc.Exception{Type: "TypeError", Message: err.Error()}
		}
		list = append(list, one{k, names})
	}
	_, err := ask(ctx, s, func() (any, error) {
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
