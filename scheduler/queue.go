package scheduler

import (
	"context"
	"fmt"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/task"
)

// queue is Dask's Queue: records in order, for many who put and many who get.
type queue struct {
	items   []record
	maxsize int // 0: no bound
	refs    int // clients that have it
	futures map[task.Key]int
	changed signal
}

func (s *Scheduler) queueNamed(v any) (string, *queue, error) {
	name, err := nameOf(v)
	if err != nil {
		return "", nil, err
	}
	q := s.prims.queues[name]
	if q == nil {
		return "", nil, &rpc.Exception{Type: "KeyError", Message: label(name)}
	}
	return name, q, nil
}

func (s *Scheduler) queueCreateRPC(ctx context.Context, _ *rpc.Request, in struct {
	Name    any `rpc:"name"`
	Client  any `rpc:"client,optional"`
	MaxSize int `rpc:"maxsize,optional"`
}) (any, error) {
	name, err := nameOf(in.Name)
	if err != nil {
		return nil, err
	}
	return nil, s.change(ctx, func() error { return s.queueCreate(name, in.MaxSize) })
}

func (s *Scheduler) queueCreate(name string, maxsize int) error {
	q := s.prims.queues[name]
	if q == nil {
		if err := s.prims.reserve("queue", nameSize(name)); err != nil {
			return err
		}
		s.prims.add(nameSize(name))
		q = &queue{maxsize: max(maxsize, 0), futures: map[task.Key]int{}}
		s.prims.queues[name] = q
	}
	q.refs++
	s.noteChange("queue_create", msgpack.MapOf("name", raw(name), "maxsize", q.maxsize))
	return nil
}

// queueRelease runs in the loop: one client less has the queue.
func (s *Scheduler) queueRelease(name string) {
	q := s.prims.queues[name]
	if q == nil {
		return
	}
	s.noteChange("queue_release", msgpack.MapOf("name", raw(name)))
	if q.refs--; q.refs > 0 {
		return
	}
	delete(s.prims.queues, name)
	s.prims.add(-nameSize(name))
	for i := range q.items {
		s.prims.add(-q.items[i].size(""))
	}
	q.changed.fire()
	if c := s.clients["queue-"+label(name)]; c != nil {
		s.removeClient(c)
	}
}

func (s *Scheduler) queuePutRPC(ctx context.Context, _ *rpc.Request, in putArgs) (any, error) {
	name, r, err := in.record(ctx, s)
	if err != nil {
		return nil, err
	}
	var position uint64
	ok, err := await(ctx, s, in.Timeout, func() (<-chan struct{}, error) {
		q := s.prims.queues[name]
		if q == nil {
			return nil, &rpc.Exception{Type: "KeyError", Message: label(name)}
		}
		if q.maxsize > 0 && len(q.items) >= q.maxsize {
			return q.changed.wait(), nil
		}
		if err := s.queuePut(name, r); err != nil {
			return nil, err
		}
		position = s.position
		return nil, nil
	})
	if err == nil && !ok {
		err = &rpc.Exception{Type: "TimeoutError", Message: fmt.Sprintf("the queue %s is full", label(name))}
	}
	if err != nil {
		return nil, err
	}
	return nil, s.kept(ctx, position)
}

// queuePut runs in the loop.
func (s *Scheduler) queuePut(name string, r record) error {
	q := s.prims.queues[name]
	if q == nil {
		return nil
	}
	if err := s.prims.reserve("queue", r.size("")); err != nil {
		return err
	}
	if err := s.recordChange("queue_put", r.args(name)); err != nil {
		return err
	}
	s.prims.add(r.size(""))
	if r.key != "" {
		q.futures[r.key]++
		s.desire("queue-"+label(name), r.key)
	}
	q.items = append(q.items, r)
	q.changed.fire()
	return nil
}

// queuePop runs in the loop; the queue has an item.
func (s *Scheduler) queuePop(name string) (record, bool) {
	q := s.prims.queues[name]
	if q == nil || len(q.items) == 0 {
		return record{}, false
	}
	s.noteChange("queue_get", msgpack.MapOf("name", raw(name)))
	r := q.items[0]
	s.prims.add(-r.size(""))
	q.items[0] = record{}
	q.items = q.items[1:]
	q.changed.fire()
	return r, true
}

// queueFutureRelease is the confirmation that a client wants a future that it has got.
func (s *Scheduler) queueFutureRelease(name string, key task.Key, client string) {
	if client != "" {
		s.desire(client, key)
	}
	q := s.prims.queues[name]
	if q == nil || q.futures[key] == 0 {
		return
	}
	s.noteChange("queue-future-release", msgpack.MapOf("name", raw(name), "key", key.Raw()))
	if q.futures[key]--; q.futures[key] == 0 {
		delete(q.futures, key)
		s.release("queue-"+label(name), key)
	}
}

// queueGetRPC is queue_get. batch is false for one record, true for all that are there, or
// a number to wait for.
func (s *Scheduler) queueGetRPC(ctx context.Context, _ *rpc.Request, in struct {
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
			return nil, &rpc.Exception{Type: "NotImplementedError", Message: "Dask queues don't support simultaneous use of integer batch sizes and timeouts"}
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
	// A caller that has left or gets an error instead of its records has not had them.
	giveBack := func() {
		if len(taken) > 0 {
			_ = s.do(context.WithoutCancel(ctx), func() { s.queueReturn(from, taken) })
		}
	}
	ok, err := await(ctx, s, in.Timeout, func() (<-chan struct{}, error) {
		name, q, err := s.queueNamed(in.Name)
		if err != nil {
			return nil, err
		}
		for len(q.items) > 0 && (all || len(out) < want) {
			r, _ := s.queuePop(name)
			taken, from = append(taken, r), name
			out = append(out, s.recordReply(r))
		}
		position = s.position
		if !all && len(out) < want {
			return q.changed.wait(), nil
		}
		return nil, nil
	})
	if err == nil && !ok {
		err = &rpc.Exception{Type: "TimeoutError", Message: "the queue is empty"}
	}
	if err == nil {
		err = s.kept(ctx, position)
	}
	if err != nil {
		giveBack()
		return nil, err
	}
	if all || batch {
		if out == nil {
			out = []any{}
		}
		return rpc.Delivery{Value: out, Lost: giveBack}, nil
	}
	return rpc.Delivery{Value: out[0], Lost: giveBack}, nil
}

// queueReturn puts records back that were taken and not delivered, before those that are
// there. It runs in the loop.
func (s *Scheduler) queueReturn(name string, records []record) {
	q := s.prims.queues[name]
	if q == nil {
		return
	}
	for i := len(records) - 1; i >= 0; i-- {
		s.noteChange("queue_return", records[i].args(name))
		s.prims.add(records[i].size(""))
		q.items = append([]record{records[i]}, q.items...)
	}
	q.changed.fire()
}

func (s *Scheduler) queueSizeRPC(ctx context.Context, _ *rpc.Request, in struct {
	Name   any `rpc:"name"`
	Client any `rpc:"client,optional"`
}) (int, error) {
	return ask(ctx, s, func() (int, error) {
		_, q, err := s.queueNamed(in.Name)
		if err != nil {
			return 0, err
		}
		return len(q.items), nil
	})
}
