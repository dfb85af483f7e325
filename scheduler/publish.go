package scheduler

import (
	"context"
	"fmt"
	"maps"
	"sort"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/task"
	"go.millstream.dev/wire"
)

// dataset is a published dataset: a value, usually a collection, closed, and the keys that
// it is made of, which stay while it is published.
type dataset struct {
	data  any
	keys  []task.Key
	bytes int64 // that it counts for
}

func (d *dataset) args(name string) msgpack.Map {
	return msgpack.MapOf("name", raw(name), "data", d.data, "keys", rawKeys(d.keys))
}

func rawKeys(keys []task.Key) []any {
	out := make([]any, len(keys))
	for i, k := range keys {
		out[i] = k.Raw()
	}
	return out
}

// flush is the point up to which a client's stream must have been read before its request
// is done: what it publishes was submitted on the stream.
type flush struct {
	received bool
	changed  signal
}

// maxFlushes bounds the flushes that nobody asks for.
const maxFlushes = 10_000

func (s *Scheduler) flushPoint(uid string) *flush {
	f := s.prims.flushed[uid]
	if f == nil {
		if len(s.prims.flushed) >= maxFlushes {
			maps.DeleteFunc(s.prims.flushed, func(_ string, f *flush) bool { return f.received })
		}
		if len(s.prims.flushed) >= maxFlushes {
			clear(s.prims.flushed)
		}
		f = &flush{}
		s.prims.flushed[uid] = f
	}
	return f
}

func (s *Scheduler) flushReceived(uid string) {
	f := s.flushPoint(uid)
	f.received = true
	f.changed.fire()
}

// caughtUp waits until the client's stream has been read up to the flush.
func (s *Scheduler) caughtUp(ctx context.Context, client string, uid any) error {
	id := fmt.Sprint(uid)
	return s.flushed(ctx, id, func(f *flush) bool {
		if !f.received && s.clients[client] != nil {
			return false
		}
		delete(s.prims.flushed, id)
		return true
	})
}

// flushed waits until a flush is done, which the loop is asked each time that it changes.
func (s *Scheduler) flushed(ctx context.Context, id string, done func(*flush) bool) error {
	ok, err := await(ctx, s, 30.0, func() (<-chan struct{}, error) {
		f := s.flushPoint(id)
		if done(f) {
			return nil, nil
		}
		return f.changed.wait(), nil
	})
	if err == nil && !ok {
		err = &rpc.Exception{Type: "TimeoutError", Message: "the client's stream did not say that it has caught up (publish_flush_batched_send)"}
	}
	return err
}

// publishArgs are those of publish_put. Clients up to Dask 2026.3 publish one dataset at a
// time, under name, after publish_wait_flush; newer ones several, with names.
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
		return nil, nil, nil, &rpc.Exception{Type: "ValueError", Message: fmt.Sprintf("%d names, %d lists of keys and %d values", len(in.Names), len(in.Keys), len(data))}
	}
	return in.Names, in.Keys, data, nil
}

func (s *Scheduler) publishPut(ctx context.Context, _ *rpc.Request, in publishArgs) (any, error) {
	called, keys, data, err := in.lists()
	if err != nil {
		return nil, err
	}
	names := make([]string, len(called))
	sets := make([]*dataset, len(called))
	for i := range names {
		if names[i], err = nameOf(called[i]); err != nil {
			return nil, err
		}
		sets[i] = &dataset{data: s.closedValue(data[i])}
		list, ok := keys[i].([]any)
		if !ok {
			return nil, &rpc.Exception{Type: "TypeError", Message: fmt.Sprintf("the keys of %s are no list", label(names[i]))}
		}
		if sets[i].keys, err = keyList(list); err != nil {
			return nil, err
		}
	}
	if in.UID != nil {
		if err := s.caughtUp(ctx, in.Client, in.UID); err != nil {
			return nil, err
		}
	}
	err = s.change(ctx, func() error {
		for i, name := range names {
			if s.prims.datasets[name] != nil && !in.Override {
				return &rpc.Exception{Type: "KeyError", Message: fmt.Sprintf("Dataset %s already exists", label(name))}
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

// publishWait is publish_wait_flush of clients up to Dask 2026.3: several of their requests
// may wait for the same point.
func (s *Scheduler) publishWait(ctx context.Context, _ *rpc.Request, in struct {
	UID any `rpc:"uid"`
}) (any, error) {
	return nil, s.flushed(ctx, fmt.Sprint(in.UID), func(f *flush) bool { return f.received })
}

// closedValue keeps a value beyond its message; one that came closed stays so.
func (s *Scheduler) closedValue(v any) any {
	if c, ok := v.(*wire.Serialized); ok {
		return s.keepClosed(c)
	}
	return wire.Clone(v)
}

func keyList(list []any) ([]task.Key, error) {
	out := make([]task.Key, len(list))
	for i, v := range list {
		var err error
		if _, ok := v.(*wire.Pickled); ok {
			return nil, &rpc.Exception{Type: "TypeError", Message: "a Python object cannot be the key of a task; of a future, pass future.key"}
		}
		if out[i], err = task.KeyOf(v); err != nil {
			return nil, &rpc.Exception{Type: "TypeError", Message: err.Error()}
		}
	}
	return out, nil
}

// publish runs in the loop.
func (s *Scheduler) publish(name string, d *dataset) error {
	var err error
	if d.bytes, err = measured("dataset", d.data); err != nil {
		return err
	}
	for _, k := range d.keys {
		d.bytes += nameSize(string(k))
	}
	d.bytes += nameSize(name)
	if err := s.prims.reserve("dataset", d.bytes); err != nil {
		return err
	}
	s.unpublish(name)
	if err := s.recordChange("publish_put", d.args(name)); err != nil {
		return err
	}
	s.prims.add(d.bytes)
	s.desire("published-"+label(name), d.keys...)
	s.prims.datasets[name] = d
	return nil
}

// unpublish runs in the loop.
func (s *Scheduler) unpublish(name string) {
	d := s.prims.datasets[name]
	if d == nil {
		return
	}
	s.noteChange("publish_delete", msgpack.MapOf("name", raw(name)))
	delete(s.prims.datasets, name)
	s.prims.add(-d.bytes)
	if c := s.clients["published-"+label(name)]; c != nil {
		s.removeClient(c)
	}
}

func (s *Scheduler) replayPublish(name string, args msgpack.Map) error {
	v, _ := args.Get("keys")
	list, _ := v.([]any)
	keys, err := keyList(list)
	if err != nil {
		return err
	}
	data, _ := args.Get("data")
	return s.publish(name, &dataset{data: data, keys: keys})
}

func (s *Scheduler) publishDelete(ctx context.Context, _ *rpc.Request, in struct {
	Names  []any  `rpc:"names,optional"`
	Name   any    `rpc:"name,optional"` // up to Dask 2026.3
	Client string `rpc:"client,optional"`
	UID    any    `rpc:"uid,optional"`
}) (any, error) {
	if in.Names == nil {
		in.Names = []any{in.Name}
	}
	if in.UID != nil {
		if err := s.caughtUp(ctx, in.Client, in.UID); err != nil {
			return nil, err
		}
	}
	return nil, s.change(ctx, func() error {
		for _, v := range in.Names {
			name, err := nameOf(v)
			if err != nil {
				return err
			}
			s.unpublish(name)
		}
		return nil
	})
}

func (s *Scheduler) publishList(ctx context.Context, _ *rpc.Request, _ struct{}) ([]any, error) {
	return ask(ctx, s, func() ([]any, error) {
		names := make([]string, 0, len(s.prims.datasets))
		for name := range s.prims.datasets {
			names = append(names, name)
		}
		sort.Slice(names, func(i, j int) bool { return label(names[i]) < label(names[j]) })
		out := make([]any, len(names))
		for i, name := range names {
			out[i] = raw(name)
		}
		return out, nil
	})
}

func (s *Scheduler) publishGet(ctx context.Context, _ *rpc.Request, in struct {
	Names  []any `rpc:"names,optional"`
	Name   any   `rpc:"name,optional"` // up to Dask 2026.3
	Client any   `rpc:"client,optional"`
}) (any, error) {
	one := in.Names == nil
	if one {
		in.Names = []any{in.Name}
	}
	out, err := ask(ctx, s, func() ([]any, error) {
		out := make([]any, len(in.Names))
		for i, v := range in.Names {
			name, err := nameOf(v)
			if err != nil {
				return nil, err
			}
			if d := s.prims.datasets[name]; d != nil {
				out[i] = msgpack.MapOf("data", d.data, "keys", rawKeys(d.keys))
			}
		}
		return out, nil
	})
	if err != nil || !one {
		return out, err
	}
	return out[0], nil
}
