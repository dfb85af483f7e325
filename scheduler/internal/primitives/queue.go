package primitives

import (
	"context"
	"fmt"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/val"
)

// queues are Dask's Queues, by name. The loop owns them.
type queues struct {
	*base
	byName map[string]*queue
}

func newQueues(b *base) *queues { return &queues{b, map[string]*queue{}} }

func (s *queues) register(r *rpc.Server) {
	rpc.Handle(r, "queue_create", s.createRPC)
	rpc.Handle(r, "queue_put", s.putRPC)
	rpc.Handle(r, "queue_get", s.getRPC)
	rpc.Handle(r, "queue_qsize", s.sizeRPC)
}

// queue is Dask's Queue: records in order, for several producers and consumers.
type queue struct {
	items   []record
	maxsize int // 0: no bound
	refs    int // number of clients that use it
	futures map[task.Key]int
	changed loop.Signal
}

func (s *queues) named(v any) (string, *queue, error) {
	name, err := val.NameOf(v)
	if err != nil {
		return "", nil, err
	}
	q := s.byName[name]
	if q == nil {
		return "", nil, &rpc.Exception{Type: "KeyError", Message: val.Label(name)}
	}
	return name, q, nil
}

func (s *queues) createRPC(ctx context.Context, _ *rpc.Request, in struct {
	Name    any `rpc:"name"`
	Client  any `rpc:"client,optional"`
	MaxSize int `rpc:"maxsize,optional"`
}) (any, error) {
	name, err := val.NameOf(in.Name)
	if err != nil {
		return nil, err
	}
	return nil, s.change(ctx, func() error { return s.create(name, in.MaxSize) })
}

func (s *queues) create(name string, maxsize int) error {
	q := s.byName[name]
	if q == nil {
		if err := s.Budget.Reserve("queue", val.NameSize(name)); err != nil {
			return err
		}
		s.Budget.Add(val.NameSize(name))
		q = &queue{maxsize: max(maxsize, 0), futures: map[task.Key]int{}}
		s.byName[name] = q
	}
	q.refs++
	s.Journal.Note("queue_create", msgpack.MapOf("name", val.Raw(name), "maxsize", q.maxsize))
	return nil
}

// release removes one reference of a client. It runs in the loop.
func (s *queues) release(name string) {
	q := s.byName[name]
	if q == nil {
		return
	}
	s.Journal.Note("queue_release", msgpack.MapOf("name", val.Raw(name)))
	if q.refs--; q.refs > 0 {
		return
	}
	delete(s.byName, name)
	s.Budget.Add(-val.NameSize(name))
	for i := range q.items {
		s.Budget.Add(-q.items[i].size(""))
	}
	q.changed.Fire()
	s.Clients.Forget("queue-" + val.Label(name))
}

func (s *queues) putRPC(ctx context.Context, _ *rpc.Request, in putArgs) (any, error) {
	name, r, err := in.record(ctx, s.base)
	if err != nil {
		return nil, err
	}
	var position uint64
	ok, err := loop.Await(ctx, s.Loop, in.Timeout, func() (<-chan struct{}, error) {
		q := s.byName[name]
		if q == nil {
			return nil, &rpc.Exception{Type: "KeyError", Message: val.Label(name)}
		}
		if q.maxsize > 0 && len(q.items) >= q.maxsize {
			return q.changed.Wait(), nil
		}
		if err := s.put(name, r); err != nil {
			return nil, err
		}
		position = s.Journal.Position()
		return nil, nil
	})
	if err == nil && !ok {
		err = &rpc.Exception{Type: "TimeoutError", Message: fmt.Sprintf("queue %s is full", val.Label(name))}
	}
	if err != nil {
		return nil, err
	}
	return nil, s.Journal.Kept(ctx, position)
}

// put appends a record. It runs in the loop.
func (s *queues) put(name string, r record) error {
	q := s.byName[name]
	if q == nil {
		return nil
	}
	if err := s.Budget.Reserve("queue", r.size("")); err != nil {
		return err
	}
	if err := s.Journal.Change("queue_put", r.args(name)); err != nil {
		return err
	}
	s.Budget.Add(r.size(""))
	if r.key != "" {
		q.futures[r.key]++
		s.Clients.Desire("queue-"+val.Label(name), r.key)
	}
	q.items = append(q.items, r)
	q.changed.Fire()
	return nil
}

// pop removes the first record of a queue that is not empty. It runs in the loop.
func (s *queues) pop(name string) (record, bool) {
	q := s.byName[name]
	if q == nil || len(q.items) == 0 {
		return record{}, false
	}
	s.Journal.Note("queue_get", msgpack.MapOf("name", val.Raw(name)))
	r := q.items[0]
	s.Budget.Add(-r.size(""))
	q.items[0] = record{}
	q.items = q.items[1:]
	q.changed.Fire()
	return r, true
}

// futureReceived handles the confirmation of a client that holds a future of the queue.
func (s *queues) futureReceived(name string, key task.Key, client string) {
	if client != "" {
		s.Clients.Desire(client, key)
	}
	q := s.byName[name]
	if q == nil || q.futures[key] == 0 {
		return
	}
	s.Journal.Note("queue-future-release", msgpack.MapOf("name", val.Raw(name), "key", key.Raw()))
	if q.futures[key]--; q.futures[key] == 0 {
		delete(q.futures, key)
		s.Clients.Release("queue-"+val.Label(name), key)
	}
}

// getRPC serves queue_get. batch is false for one record, true for all that are present, or a number to wait for.
func (s *queues) getRPC(ctx context.Context, _ *rpc.Request, in struct {
	Name    any `rpc:"name"`
	Client  any `rpc:"client,optional"`
	Timeout any `rpc:"timeout,optional"`
	Batch   any `rpc:"batch,optional"`
}) (any, error) {
	want, all := 1, false
	switch b := in.Batch.(type) {
	case nil:
	case bool:
		all = b
	case int64:
		if in.Timeout != nil {
			return nil, &rpc.Exception{Type: "NotImplementedError",
				Message: "Dask queues don't support simultaneous use of integer batch sizes and timeouts"}
		}
		want = int(b)
	default:
		return nil, &rpc.Exception{Type: "TypeError", Message: "batch: want a bool or a number"}
	}
	_, batch := in.Batch.(int64)
	var out []any
	var taken []record
	var from string
	var position uint64
	// Records are put back if the caller has disconnected or receives an error.
	undo := func() {
		if len(taken) > 0 {
			_ = s.Loop.Do(context.WithoutCancel(ctx), func() { s.putBack(from, taken) })
		}
	}
	ok, err := loop.Await(ctx, s.Loop, in.Timeout, func() (<-chan struct{}, error) {
		name, q, err := s.named(in.Name)
		if err != nil {
			return nil, err
		}
		for len(q.items) > 0 && (all || len(out) < want) {
			r, _ := s.pop(name)
			taken, from = append(taken, r), name
			out = append(out, s.recordReply(r))
		}
		position = s.Journal.Position()
		if !all && len(out) < want {
			return q.changed.Wait(), nil
		}
		return nil, nil
	})
	if err == nil && !ok {
		err = &rpc.Exception{Type: "TimeoutError", Message: "queue is empty"}
	}
	if err == nil {
		err = s.Journal.Kept(ctx, position)
	}
	if err != nil {
		undo()
		return nil, err
	}
	if all || batch {
		if out == nil {
			out = []any{}
		}
		return rpc.Delivery{Value: out, Lost: undo}, nil
	}
	return rpc.Delivery{Value: out[0], Lost: undo}, nil
}

// putBack returns records that were taken and not delivered to the front of the queue. It runs in the loop.
func (s *queues) putBack(name string, records []record) {
	q := s.byName[name]
	if q == nil {
		return
	}
	for i := len(records) - 1; i >= 0; i-- {
		s.Journal.Note("queue_return", records[i].args(name))
		s.Budget.Add(records[i].size(""))
		q.items = append([]record{records[i]}, q.items...)
	}
	q.changed.Fire()
}

func (s *queues) sizeRPC(ctx context.Context, _ *rpc.Request, in struct {
	Name   any `rpc:"name"`
	Client any `rpc:"client,optional"`
}) (int, error) {
	return loop.Ask(ctx, s.Loop, func() (int, error) {
		_, q, err := s.named(in.Name)
		if err != nil {
			return 0, err
		}
		return len(q.items), nil
	})
}
