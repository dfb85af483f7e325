package primitives

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/val"
)

// datasets are Dask's published datasets, by name. The loop owns them.
type datasets struct {
	*base
	byName  map[string]*dataset
	flushes map[string]*flush
}

func newDatasets(b *base) *datasets { return &datasets{b, map[string]*dataset{}, map[string]*flush{}} }

func (s *datasets) register(r *rpc.Server) {
	rpc.Handle(r, "publish_put", s.putRPC)
	rpc.Handle(r, "publish_get", s.getRPC)
	rpc.Handle(r, "publish_wait_flush", s.waitRPC)
	rpc.Handle(r, "publish_list", s.listRPC)
	rpc.Handle(r, "publish_delete", s.deleteRPC)
}

// dataset is a published dataset: a serialized value, usually a collection, and its keys, which are held while it is
// published.
type dataset struct {
	data  any
	keys  []task.Key
	bytes int64 // of the budget
}

func (d *dataset) args(name string) msgpack.Map {
	return msgpack.MapOf("name", val.Raw(name), "data", d.data, "keys", val.RawKeys(d.keys))
}

// flush is the point up to which a client's stream must have been read before its request is served: the keys of a
// dataset were submitted on the stream.
type flush struct {
	received bool
	changed  loop.Signal
}

// maxFlushes bounds the flushes that no request waits for.
const maxFlushes = 10_000

func (s *datasets) flushPoint(uid string) *flush {
	f := s.flushes[uid]
	if f == nil {
		if len(s.flushes) >= maxFlushes {
			maps.DeleteFunc(s.flushes, func(_ string, f *flush) bool { return f.received })
		}
		if len(s.flushes) >= maxFlushes {
			clear(s.flushes)
		}
		f = &flush{}
		s.flushes[uid] = f
	}
	return f
}

func (s *datasets) flushReceived(uid string) {
	f := s.flushPoint(uid)
	f.received = true
	f.changed.Fire()
}

// caughtUp waits until the client's stream has been read up to the flush.
func (s *datasets) catchUp(ctx context.Context, client string, uid any) error {
	id := fmt.Sprint(uid)
	return s.awaitFlush(ctx, id, func(f *flush) bool {
		if !f.received && s.Clients.Registered(client) {
			return false
		}
		delete(s.flushes, id)
		return true
	})
}

// awaitFlush waits until done reports true, which is called in the loop after each change of the flush.
func (s *datasets) awaitFlush(ctx context.Context, id string, done func(*flush) bool) error {
	ok, err := loop.Await(ctx, s.Loop, 30.0, func() (<-chan struct{}, error) {
		f := s.flushPoint(id)
		if done(f) {
			return nil, nil
		}
		return f.changed.Wait(), nil
	})
	if err == nil && !ok {
		err = &rpc.Exception{Type: "TimeoutError",
			Message: "no publish_flush_batched_send on the client's stream"}
	}
	return err
}

// publishArgs are the arguments of publish_put. Clients up to Dask 2026.3 publish one dataset at a time, with name,
// after publish_wait_flush; newer ones several, with names.
type publishArgs struct {
	Names    []any  `rpc:"names,optional"`
	Name     any    `rpc:"name,optional"`
	Keys     []any  `rpc:"keys"`
	Data     any    `rpc:"data"`
	Override bool   `rpc:"override,optional"`
	Client   string `rpc:"client,optional"`
	UID      any    `rpc:"uid,optional"`
}

func (in *publishArgs) lists() (names, keys, data []any, err error) {
	if in.Names == nil {
		return []any{in.Name}, []any{in.Keys}, []any{in.Data}, nil
	}
	data, ok := in.Data.([]any)
	if !ok || len(in.Names) != len(in.Keys) || len(in.Names) != len(data) {
		return nil, nil, nil, &rpc.Exception{Type: "ValueError",
			Message: fmt.Sprintf("%d names, %d lists of keys and %d values", len(in.Names), len(in.Keys), len(data))}
	}
	return in.Names, in.Keys, data, nil
}

func (s *datasets) putRPC(ctx context.Context, _ *rpc.Request, in publishArgs) (any, error) {
	called, keys, data, err := in.lists()
	if err != nil {
		return nil, err
	}
	names := make([]string, len(called))
	sets := make([]*dataset, len(called))
	for i := range names {
		if names[i], err = val.NameOf(called[i]); err != nil {
			return nil, err
		}
		sets[i] = &dataset{data: val.ClosedValue(data[i])}
		list, ok := keys[i].([]any)
		if !ok {
			return nil, &rpc.Exception{Type: "TypeError",
				Message: fmt.Sprintf("keys of %s are not a list", val.Label(names[i]))}
		}
		if sets[i].keys, err = val.KeyList(list); err != nil {
			return nil, err
		}
	}
	if in.UID != nil {
		if err := s.catchUp(ctx, in.Client, in.UID); err != nil {
			return nil, err
		}
	}
	err = s.change(ctx, func() error {
		for i, name := range names {
			if s.byName[name] != nil && !in.Override {
				return &rpc.Exception{Type: "KeyError",
					Message: fmt.Sprintf("Dataset %s already exists", val.Label(name))}
			}
			if err := s.publish(name, sets[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || in.Names != nil {
		return nil, err
	}
	return msgpack.MapOf("status", "OK", "name", in.Name), nil
}

// waitRPC serves publish_wait_flush of clients up to Dask 2026.3. Several requests may wait for the same point.
func (s *datasets) waitRPC(ctx context.Context, _ *rpc.Request, in struct {
	UID any `rpc:"uid"`
}) (any, error) {
	return nil, s.awaitFlush(ctx, fmt.Sprint(in.UID), func(f *flush) bool { return f.received })
}

// publish publishes a dataset and replaces one of the same name. It runs in the loop. Its record replaces the old one
// at a replay too: if the record is rejected the old dataset stays published, and keys that both have are never
// released.
func (s *datasets) publish(name string, d *dataset) error {
	var err error
	if d.bytes, err = val.CheckSize("dataset", d.data); err != nil {
		return err
	}
	for _, k := range d.keys {
		d.bytes += val.NameSize(string(k))
	}
	d.bytes += val.NameSize(name)
	if err := s.Budget.Reserve("dataset", d.bytes); err != nil {
		return err
	}
	if err := s.Journal.Change("publish_put", d.args(name)); err != nil {
		return err
	}
	s.Budget.Add(d.bytes)
	holder := "published-" + val.Label(name)
	s.Clients.Desire(holder, d.keys...)
	if old := s.byName[name]; old != nil {
		s.Budget.Add(-old.bytes)
		kept := make(map[task.Key]bool, len(d.keys))
		for _, k := range d.keys {
			kept[k] = true
		}
		gone := slices.DeleteFunc(slices.Clone(old.keys), func(k task.Key) bool { return kept[k] })
		s.Clients.Release(holder, gone...)
	}
	s.byName[name] = d
	return nil
}

// unpublish removes a dataset. It runs in the loop.
func (s *datasets) unpublish(name string) {
	d := s.byName[name]
	if d == nil {
		return
	}
	s.Journal.Note("publish_delete", msgpack.MapOf("name", val.Raw(name)))
	delete(s.byName, name)
	s.Budget.Add(-d.bytes)
	s.Clients.Forget("published-" + val.Label(name))
}

func (s *datasets) replay(name string, c *change) error {
	keys, err := val.KeyList(c.Keys)
	if err != nil {
		return err
	}
	return s.publish(name, &dataset{data: c.Data, keys: keys})
}

func (s *datasets) deleteRPC(ctx context.Context, _ *rpc.Request, in struct {
	Names  []any  `rpc:"names,optional"`
	Name   any    `rpc:"name,optional"` // up to Dask 2026.3
	Client string `rpc:"client,optional"`
	UID    any    `rpc:"uid,optional"`
}) (any, error) {
	if in.Names == nil {
		in.Names = []any{in.Name}
	}
	if in.UID != nil {
		if err := s.catchUp(ctx, in.Client, in.UID); err != nil {
			return nil, err
		}
	}
	return nil, s.change(ctx, func() error {
		for _, v := range in.Names {
			name, err := val.NameOf(v)
			if err != nil {
				return err
			}
			s.unpublish(name)
		}
		return nil
	})
}

func (s *datasets) listRPC(ctx context.Context, _ *rpc.Request, _ struct{}) ([]any, error) {
	return loop.Ask(ctx, s.Loop, func() ([]any, error) {
		names := make([]string, 0, len(s.byName))
		for name := range s.byName {
			names = append(names, name)
		}
		sort.Slice(names, func(i, j int) bool { return val.Label(names[i]) < val.Label(names[j]) })
		out := make([]any, len(names))
		for i, name := range names {
			out[i] = val.Raw(name)
		}
		return out, nil
	})
}

func (s *datasets) getRPC(ctx context.Context, _ *rpc.Request, in struct {
	Names  []any `rpc:"names,optional"`
	Name   any   `rpc:"name,optional"` // up to Dask 2026.3
	Client any   `rpc:"client,optional"`
}) (any, error) {
	one := in.Names == nil
	if one {
		in.Names = []any{in.Name}
	}
	out, err := loop.Ask(ctx, s.Loop, func() ([]any, error) {
		out := make([]any, len(in.Names))
		for i, v := range in.Names {
			name, err := val.NameOf(v)
			if err != nil {
				return nil, err
			}
			if d := s.byName[name]; d != nil {
				out[i] = msgpack.MapOf("data", d.data, "keys", val.RawKeys(d.keys))
			}
		}
		return out, nil
	})
	if err != nil || !one {
		return out, err
	}
	return out[0], nil
}
