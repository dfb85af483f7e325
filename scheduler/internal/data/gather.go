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

// gatherRPC collects results from workers and forwards them serialized.
func (s *Data) gatherRPC(ctx context.Context, r *rpc.Request, in inspect.KeysArg) (any, error) {
	missing, err := val.KeyList(in.Keys)
	if err != nil {
		return nil, err
	}
	var a Answers
	data := msgpack.Map{}
	failed := []any{}
	bad := map[string]bool{} // workers that sent no reply, or not all of their results
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
		s.Log.Warn("results not gathered", "keys", len(failed))
		return msgpack.MapOf("status", "error", "keys", failed), nil
	}
	return a.reply(r.Comm, msgpack.MapOf("status", "OK", "data", data))
}

// gatherPlan returns the keys to fetch from each worker; lost are the keys without a holder.
func (s *Data) gatherPlan(ctx context.Context, keys []task.Key, bad map[string]bool) (plan map[string][]task.Key,
	lost []task.Key, err error) {
	plan = map[string][]task.Key{}
	err = s.Loop.Do(ctx, func() {
		for _, k := range keys {
			t := s.State.Task(k)
			best := ""
			for i := range holderCount(t) {
				// Of several holders, use the one with the fewest keys so far.
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

// gatherFrom fetches the results of a plan and returns the keys that are missing.
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
				s.Log.Warn("get_data failed", "worker", address, "error", err)
				bad[address] = true
				missing = append(missing, keys...)
				return
			}
			// Keys that were not requested are ignored: another worker has the result of that key.
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
			s.Log.Warn("worker lacks results that it has reported", "worker", address, "keys",
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

// getData fetches results of one worker with Dask's get_data, which the caller confirms with "OK".
func (s *Relay) getData(ctx context.Context, address string, keys []task.Key, a *Answers) (msgpack.Map, error) {
	for {
		got, busy, err := s.GetDataOnce(ctx, address, keys, a)
		if err != nil || !busy {
			return got, err
		}
		t := time.NewTimer(150 * time.Millisecond) // as in Dask workers
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
	if err := peers.Send(ctx, c, msgpack.MapOf("op", "get_data", "keys", val.RawKeys(keys), "who", nil, "reply",
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
		// Only a reply with data is confirmed.
		if err := peers.Send(ctx, c, "OK"); err != nil {
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
