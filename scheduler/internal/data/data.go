// Package data moves results and scattered data between clients and workers, and forwards requests to workers.
package data

import (
	"context"
	"fmt"
	"log/slog"
	"sort"
	"sync"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/peers"
	"go.millstream.dev/scheduler/internal/primitives"
	"go.millstream.dev/scheduler/internal/recovery"
	"go.millstream.dev/scheduler/internal/val"
	"go.millstream.dev/wire"
)

// Host is the part of the scheduler that Data uses.
type Host struct {
	Loop     loop.Loop
	Log      *slog.Logger
	State    *state.State
	Apply    func(state.Event)
	Workers  *peers.Workers
	Clients  *peers.Clients
	Journal  *recovery.Log
	Pool     *rpc.Pool
	Relay    *Relay
	Requests *Requests
	// Tasks is fired when tasks are added, WorkersChanged when a worker is added, removed or changed.
	Tasks, WorkersChanged *loop.Signal
	// Client returns the client of a name and creates it if necessary; Publish publishes an event to topics. Both run
	// in the loop.
	Client  func(name string) *peers.Client
	Publish func(msg any, topics ...string)
}

// Data moves results and scattered data: scatter, gather, replicate, rebalance. The loop owns it; requests run in
// goroutines of their own.
type Data struct {
	Host
	first int // index of the first worker of the next scatter
}

// New returns a Data.
func New(h Host) *Data { return &Data{Host: h} }

// Register sets the handlers of requests.
func (s *Data) Register(r *rpc.Server) {
	rpc.Handle(r, "gather", s.gatherRPC)
	rpc.Handle(r, "scatter", s.scatterRPC)
	rpc.Handle(r, "update_data", s.updateRPC)
	rpc.Handle(r, "add_keys", s.addKeysRPC)
	rpc.Handle(r, "replicate", s.replicateRPC)
	rpc.Handle(r, "rebalance", s.rebalanceRPC)
}

// scatterRPC sends data to workers in turn and registers it.
func (s *Data) scatterRPC(ctx context.Context, r *rpc.Request, in struct {
	Data      msgpack.Map `rpc:"data"`
	Workers   []any       `rpc:"workers,optional"`
	Client    string      `rpc:"client,optional"`
	Broadcast any         `rpc:"broadcast,optional"`
	Timeout   any         `rpc:"timeout,optional"`
}) ([]any, error) {
	if in.Timeout == nil {
		in.Timeout = 2.0
	}
	keys := make([]any, len(in.Data))
	list := make([]task.Key, len(in.Data))
	for i, p := range in.Data {
		var err error
		if list[i], err = task.KeyOf(p.Key); err != nil {
			return nil, &rpc.Exception{Type: "TypeError", Message: err.Error()}
		}
		keys[i] = list[i].Raw()
	}
	var to []string
	first := 0
	ok, err := loop.Await(ctx, s.Loop, in.Timeout, func() (<-chan struct{}, error) {
		to = to[:0]
		s.Workers.Each(in.Workers, func(w *peers.Worker, sw *state.Worker) {
			if sw.Status() == state.StatusRunning {
				to = append(to, w.Address)
			}
		})
		if err := s.checkClient(in.Client); err != nil {
			return nil, err
		}
		if len(to) == 0 {
			return s.WorkersChanged.Wait(), nil
		}
		first = s.first
		s.first += len(keys)
		return nil, nil
	})
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, &rpc.Exception{Type: "TimeoutError", Message: "No valid workers found"}
	}
	sort.Strings(to)
	if err := s.scatterTo(ctx, in.Data, list, to, first, string([]byte(in.Client))); err != nil {
		return nil, err
	}
	if n := copies(in.Broadcast, len(to)); n > 1 {
		names := make([]any, len(to))
		for i, w := range to {
			names[i] = w
		}
		if _, err := s.replicateKeys(ctx, list, n, names, false, keepsReplicas(r)); err != nil {
			return nil, err
		}
	}
	_ = s.Loop.Do(ctx, func() {
		s.Publish(msgpack.MapOf("action", "scatter", "client", string([]byte(in.Client)), "count", len(keys)),
			in.Client, "all")
	})
	return keys, nil
}

// copies returns the number of replicas that the argument broadcast specifies.
func copies(v any, workers int) int {
	switch v := v.(type) {
	case bool:
		if v {
			return workers
		}
	case int64:
		return min(int(max(v, 0)), workers)
	}
	return 1
}

func (s *Data) scatterTo(ctx context.Context, data msgpack.Map, keys []task.Key, to []string, first int,
	client string) error {
	parts := make([]msgpack.Map, len(to))
	for i, p := range data {
		at := (first + i) % len(to)
		parts[at] = append(parts[at], p)
	}
	var a Answers
	defer a.Release()
	var mu sync.Mutex
	sizes := map[task.Key]int64{}
	errs := make([]error, len(to))
	var wg sync.WaitGroup
	for i, part := range parts {
		if len(part) == 0 {
			continue
		}
		wg.Go(func() {
			v, err := s.Relay.Call(ctx, to[i], msgpack.MapOf("op", "update_data", "data", part), &a)
			if errs[i] = err; err != nil {
				return
			}
			d, _ := v.(msgpack.Map)
			n, _ := d.Get("nbytes")
			m, _ := n.(msgpack.Map)
			mu.Lock()
			defer mu.Unlock()
			for _, p := range m {
				if k, err := task.KeyOf(p.Key); err == nil {
					sizes[k], _ = val.Integer(p.Value)
				}
			}
		})
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			return fmt.Errorf("scatter to %s: %w", to[i], err)
		}
	}
	return primitives.Change(ctx, s.Loop, s.Journal, func() error {
		var in []datum
		for i, k := range keys {
			size, known := sizes[k]
			if !known {
				size = -1
			}
			in = append(in, datum{k, size, []any{to[(first+i)%len(to)]}})
		}
		if err := s.checkClient(client); err != nil {
			return err
		}
		s.update(client, in)
		return nil
	})
}

// checkClient returns an error if no client of this name is registered: the name would be kept without limit. It runs
// in the loop.
func (s *Data) checkClient(name string) error {
	if name != "" && (s.Clients.ByName[name] == nil || peers.IsPart(name)) {
		return &rpc.Exception{Type: "KeyError", Message: fmt.Sprintf("client %.100q is not registered", name)}
	}
	return nil
}

// datum is scattered data and its holders.
type datum struct {
	key     task.Key
	size    int64
	holders []any
}

// update registers data. It runs in the loop. Workers that were removed meanwhile hold nothing.
func (s *Data) update(name string, in []datum) {
	ev := state.UpdateData{Client: state.NoClient}
	if name != "" {
		ev.Client = s.Client(name).ID
	}
	var keys []task.Key
	for _, d := range in {
		n := state.NewData{Key: d.key, NBytes: d.size}
		for _, h := range d.holders {
			if w := s.Workers.Find(h); w != nil {
				n.Workers = append(n.Workers, w.ID)
			}
		}
		if len(n.Workers) > 0 {
			ev.Data = append(ev.Data, n)
			keys = append(keys, d.key)
		}
	}
	if name != "" {
		s.Journal.Data(name, keys)
	}
	s.Apply(&ev)
	s.Tasks.Fire()
}

// readData reads who_has and nbytes of update_data.
func readData(whoHas, nbytes msgpack.Map) ([]datum, error) {
	sizes := map[task.Key]int64{}
	for _, p := range nbytes {
		k, err := task.KeyOf(p.Key)
		if err != nil {
			return nil, err
		}
		sizes[k], _ = val.Integer(p.Value)
	}
	out := make([]datum, 0, len(whoHas))
	for _, p := range whoHas {
		k, err := task.KeyOf(p.Key)
		if err != nil {
			return nil, err
		}
		size, known := sizes[k]
		if !known {
			size = -1
		}
		list, _ := p.Value.([]any)
		out = append(out, datum{k, size, list})
	}
	return out, nil
}

func (s *Data) updateRPC(ctx context.Context, _ *rpc.Request, in struct {
	WhoHas msgpack.Map `rpc:"who_has"`
	NBytes msgpack.Map `rpc:"nbytes"`
	Client string      `rpc:"client,optional"`
}) (any, error) {
	list, err := readData(in.WhoHas, in.NBytes)
	if err != nil {
		return nil, err
	}
	client := string([]byte(in.Client))
	return nil, primitives.Change(ctx, s.Loop, s.Journal, func() error {
		if err := s.checkClient(client); err != nil {
			return err
		}
		s.update(client, list)
		return nil
	})
}

func (s *Data) UpdateOp(c *peers.Client, ops *message.Ops, m *wire.Message) error {
	var f message.UpdateData
	if err := f.Read(ops); err != nil {
		return err
	}
	who, err := f.WhoHas.Decode(m, val.KeepClosed)
	if err != nil {
		return err
	}
	sizes, err := f.NBytes.Decode(m, val.KeepClosed)
	if err != nil {
		return err
	}
	w, _ := who.(msgpack.Map)
	n, _ := sizes.(msgpack.Map)
	list, err := readData(w, n)
	if err != nil {
		return err
	}
	s.update(c.Name, list)
	return nil
}

func (s *Data) addKeysRPC(ctx context.Context, _ *rpc.Request, in struct {
	Worker   string `rpc:"worker"`
	Keys     []any  `rpc:"keys,optional"`
	Stimulus string `rpc:"stimulus_id,optional"`
}) (string, error) {
	keys, err := val.KeyList(in.Keys)
	if err != nil {
		return "", err
	}
	return loop.Ask(ctx, s.Loop, func() (string, error) {
		w := s.Workers.Find(in.Worker)
		if w == nil {
			return "not found", nil
		}
		s.Apply(&state.AddKeys{Worker: w.ID, Keys: keys})
		return "OK", nil
	})
}
