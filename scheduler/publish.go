package scheduler

import (
	"context"
	"fmt"
	"sort"

	"go.millstream.dev/rpc"
	"go.millstream.dev/task"
	"go.millstream.dev/wire"
	"go.millstream.dev/wire/msgpack"
)

// dataset is a published dataset: a value, usually a collection, closed, and the keys that
// it is made of, which stay while it is published.
type dataset struct {
	data any
	keys []task.Key
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
	ok, err := await(ctx, s, 30.0, func() (<-chan struct{}, error) {
		f := s.flushPoint(id)
		if f.received || s.clients[client] == nil {
			delete(s.prims.flushed, id)
			return nil, nil
		}
		return f.changed.wait(), nil
	})
	if err == nil && !ok {
		err = &rpc.Exception{Type: "TimeoutError", Message: "the client's stream did not say that it has caught up (publish_flush_batched_send)"}
	}
	return err
}

func (s *Scheduler) publishPut(ctx context.Context, _ *rpc.Request, in struct {
	Names    []any   `rpc:"names"`
	Keys     [][]any `rpc:"keys"`
	Data     []any   `rpc:"data"`
	Override bool    `rpc:"override,optional"`
	Client   string  `rpc:"client,optional"`
	UID      any     `rpc:"uid,optional"`
}) (any, error) {
	if len(in.Names) != len(in.Keys) || len(in.Names) != len(in.Data) {
		return nil, &rpc.Exception{Type: "ValueError", Message: fmt.Sprintf("%d names, %d lists of keys and %d values", len(in.Names), len(in.Keys), len(in.Data))}
	}
	names := make([]string, len(in.Names))
	sets := make([]*dataset, len(in.Names))
	for i := range names {
		var err error
		if names[i], err = nameOf(in.Names[i]); err != nil {
			return nil, err
		}
		sets[i] = &dataset{data: s.closedValue(in.Data[i])}
		if sets[i].keys, err = keyList(in.Keys[i]); err != nil {
			return nil, err
		}
	}
	if in.UID != nil {
		if err := s.caughtUp(ctx, in.Client, in.UID); err != nil {
			return nil, err
		}
	}
	return nil, s.change(ctx, func() error {
		for i, name := range names {
			if s.prims.datasets[name] != nil && !in.Override {
				return &rpc.Exception{Type: "KeyError", Message: fmt.Sprintf("Dataset %s already exists", label(name))}
			}
			s.publish(name, sets[i])
		}
		return nil
	})
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
		if out[i], err = task.KeyOf(v); err != nil {
			return nil, &rpc.Exception{Type: "TypeError", Message: err.Error()}
		}
	}
	return out, nil
}

// publish runs in the loop.
func (s *Scheduler) publish(name string, d *dataset) {
	s.unpublish(name)
	s.recordChange("publish_put", d.args(name))
	s.desire("published-"+label(name), d.keys...)
	s.prims.datasets[name] = d
}

// unpublish runs in the loop.
func (s *Scheduler) unpublish(name string) {
	d := s.prims.datasets[name]
	if d == nil {
		return
	}
	s.recordChange("publish_delete", msgpack.MapOf("name", raw(name)))
	delete(s.prims.datasets, name)
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
	s.publish(name, &dataset{data: data, keys: keys})
	return nil
}

func (s *Scheduler) publishDelete(ctx context.Context, _ *rpc.Request, in struct {
	Names  []any  `rpc:"names"`
	Client string `rpc:"client,optional"`
	UID    any    `rpc:"uid,optional"`
}) (any, error) {
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
	Names []any `rpc:"names"`
}) ([]any, error) {
	return ask(ctx, s, func() ([]any, error) {
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
}
