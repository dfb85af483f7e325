package data

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/inspect"
	"go.millstream.dev/scheduler/internal/peers"
	"go.millstream.dev/scheduler/internal/val"
	"go.millstream.dev/wire"
)

// gatherRPC collects results from workers and passes them on unopened.
func (s *Data) gatherRPC(ctx context.Context, r *rpc.Request, in inspect.KeysArg) (any, error) {
	missing, err := val.KeyList(in.Keys)
	if err != nil {
		return nil, err
	}
	var a Answers
	data := msgpack.Map{}
	failed := []any{}
	bad := map[string]bool{} // workers that did not answer, or not with all that they should have
	for len(missing) > 0 {
		plan, lost, err := s.gatherPlan(ctx, missing, bad)
		if err != nil {
			a.Release()
			return nil, err
		}
		failed = append(failed, val.RawKeys(lost)...)
		missing = s.gatherFrom(ctx, plan, &a, &data, bad)
		if err := ctx.Err(); err != nil {
			a.Release()
			return nil, err
		}
	}
	_ = s.Loop.Do(ctx, func() { s.Publish(msgpack.MapOf("action", "gather", "count", len(in.Keys)), "all") })
	if len(failed) > 0 {
		a.Release()
		s.Log.Warn("results could not be gathered", "keys", len(failed))
		return msgpack.MapOf("status", "error", "keys", failed), nil
	}
	return a.reply(r.Comm, msgpack.MapOf("status", "OK", "data", data))
}

// gatherPlan says which worker to ask for which keys; lost are those that nobody has.
func (s *Data) gatherPlan(ctx context.Context, keys []task.Key, bad map[string]bool) (plan map[string][]task.Key,
	lost []task.Key, err error) {
	plan = map[string][]task.Key{}
	err = s.Loop.Do(ctx, func() {
		for _, k := range keys {
			t := s.State.Task(k)
			best := ""
			for i := range holderCount(t) {
				// Of several the one that is asked for the least so far.
				w := t.Holder(i).Address()
				if !bad[w] && (best == "" || len(plan[w]) < len(plan[best])) {
					best = w
				}
			}
			if best == "" {
				lost = append(lost, k)
			} else {
				plan[best] = append(plan[best], k)
			}
		}
	})
	return plan, lost, err
}

func holderCount(t *state.Task) int {
	if t == nil {
		return 0
	}
	return t.NumHolders()
}

// gatherFrom asks the workers of a plan and returns the keys that did not come.
func (s *Data) gatherFrom(ctx context.Context, plan map[string][]task.Key, a *Answers, data *msgpack.Map,
	bad map[string]bool) (missing []task.Key) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for address, keys := range plan {
		wg.Go(func() {
			got, err := s.Relay.getData(ctx, address, keys, a)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				s.Log.Warn("a worker did not give its results", "worker", address, "error", err)
				bad[address] = true
				missing = append(missing, keys...)
				return
			}
			// What was not asked for is no answer: another worker has the result of that key.
			waiting := make(map[task.Key]bool, len(keys))
			for _, k := range keys {
				waiting[k] = true
			}
			for _, p := range got {
				if k, err := task.KeyOf(p.Key); err == nil && waiting[k] {
					delete(waiting, k)
					*data = append(*data, p)
				}
			}
			if len(waiting) == 0 {
				return
			}
			s.Log.Warn("a worker does not have the results that it has told of", "worker", address, "keys",
				len(waiting))
			bad[address] = true
			for _, k := range keys {
				if waiting[k] {
					missing = append(missing, k)
				}
			}
		})
	}
	wg.Wait()
	return missing
}

// getData fetches results of one worker: Dask's get_data, which the caller confirms with a
// bare "OK".
func (s *Relay) getData(ctx context.Context, address string, keys []task.Key, a *Answers) (msgpack.Map, error) {
	for {
		got, busy, err := s.GetDataOnce(ctx, address, keys, a)
		if err != nil || !busy {
			return got, err
		}
		t := time.NewTimer(150 * time.Millisecond) // as Dask's workers do
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, context.Cause(ctx)
		}
	}
}

func (s *Relay) GetDataOnce(ctx context.Context, address string, keys []task.Key, a *Answers) (got msgpack.Map,
	busy bool, err error) {
	c, err := s.Pool.Acquire(ctx, address)
	if err != nil {
		return nil, false, err
	}
	done := false
	defer func() {
		if !done {
			c.Abort()
		}
		s.Pool.Release(address, c)
	}()
	if err := peers.Say(ctx, c, msgpack.MapOf("op", "get_data", "keys", val.RawKeys(keys), "who", nil, "reply",
		true)); err != nil {
		return nil, false, err
	}
	m, err := c.Read(ctx)
	if err != nil {
		return nil, false, err
	}
	a.keep(m)
	v, err := wire.Decode(m, val.KeepClosed)
	if err != nil {
		return nil, false, err
	}
	var reply struct {
		Status string
		Data   msgpack.Map
	}
	if err := rpc.Assign(v, &reply); err != nil {
		return nil, false, fmt.Errorf("%s: answer to get_data: %w", address, err)
	}
	switch reply.Status {
	case "OK":
		// Only an answer with data is confirmed.
		if err := peers.Say(ctx, c, "OK"); err != nil {
			return nil, false, err
		}
		got = reply.Data
	case "busy":
		busy = true
	default:
		err = rpc.ReplyError("get_data", address, v)
		if err == nil {
			err = fmt.Errorf("%s answered get_data with status %q", address, reply.Status)
		}
		return nil, false, err
	}
	done = true
	return got, busy, nil
}
