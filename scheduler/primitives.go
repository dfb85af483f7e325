package scheduler

import (
	"fmt"
	"time"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/task"
	"go.millstream.dev/wire"
)

// primitives are what clients and tasks coordinate with, Dask's extensions of the same
// names. The loop owns them.
type primitives struct {
	variables  map[string]*variable
	queues     map[string]*queue
	semaphores map[string]*semaphore
	events     map[string]*flag
	locks      multiLocks
	datasets   map[string]*dataset
	flushed    map[string]*flush
	leasesSeen time.Time
	bytes      int64  // that all of them hold, and metadata and plugins
	limit      int64  // of bytes; 0 while the journal is read
	tasks      signal // a task has become known
	workers    signal // a worker has come, gone or changed
}

func (p *primitives) init() {
	p.variables, p.queues = map[string]*variable{}, map[string]*queue{}
	p.semaphores, p.events = map[string]*semaphore{}, map[string]*flag{}
	p.datasets, p.flushed = map[string]*dataset{}, map[string]*flush{}
	p.locks.init()
}

func (s *Scheduler) signalWorkers() { s.prims.workers.fire() }

// name is how a primitive is known: whatever Python can hash, as msgpack.
func nameOf(v any) (string, error) {
	b, err := msgpack.KeyBytes(v)
	if err != nil {
		return "", &rpc.Exception{Type: "TypeError", Message: fmt.Sprintf("name %v: %v", v, err)}
	}
	return string(b), nil
}

// label is a name for people and for the names of parts of the scheduler, such as
// variable-x.
func label(name string) string { return task.Key(name).String() }

// future is a record of a variable or a queue: a future, or plain data.
type record struct {
	key   task.Key // "" for data
	data  any
	bytes int64 // of data
}

// size is what a record under a name counts for, in bytes.
func (r *record) size(name string) int64 { return r.bytes + nameSize(string(r.key)) + nameSize(name) }

// nameSize is what a name counts for, with what is kept around it.
func nameSize(name string) int64 { return int64(len(name)) + 64 }

// reserve refuses a change that would make the primitives larger than their limit.
func (p *primitives) reserve(what string, more int64) error {
	if p.limit <= 0 || more <= 0 || p.bytes+more <= p.limit {
		return nil
	}
	return &rpc.Exception{Type: "MemoryError", Message: fmt.Sprintf(
		"%s: variables, queues, datasets, locks and metadata have %d bytes, %d more are above the limit of %d (millstream.scheduler.primitives)",
		what, p.bytes, more, p.limit)}
}

// add counts what was kept, or released.
func (p *primitives) add(more int64) { p.bytes += more }

// reply is Dask's form of a record.
func (s *Scheduler) recordReply(r record) msgpack.Map {
	if r.key == "" {
		return msgpack.MapOf("type", "msgpack", "value", r.data)
	}
	m := msgpack.MapOf("type", "Future", "value", r.key.Raw())
	t := s.state.Task(r.key)
	if t == nil {
		return append(m, msgpack.Pair{Key: "state", Value: "lost"})
	}
	m = append(m, msgpack.Pair{Key: "state", Value: t.State().String()})
	if f := t.Failure(); f != nil {
		exc, trace := s.exception(f, true)
		m = append(m, msgpack.Pair{Key: "exception", Value: orNil(exc)}, msgpack.Pair{Key: "traceback", Value: orNil(trace)})
	}
	return m
}

func orNil(s *wire.Serialized) any {
	if s == nil {
		return nil
	}
	return s
}

// parseKey reads a key argument; nil is none.
func parseKey(raw msgpack.Raw) (task.Key, error) {
	if len(raw) == 0 || raw[0] == 0xc0 {
		return "", nil
	}
	return task.ParseKey(raw)
}

// primitiveOp does a message about a primitive on a stream.
func (s *Scheduler) primitiveOp(st *stream, ops *wire.Ops, m *wire.Message) error {
	op := string(ops.Op())
	switch op {
	case "variable-future-received-confirm", "variable_delete", "queue-future-release", "queue_release", "publish_flush_batched_send":
	default:
		return rpc.ErrUnknownOp
	}
	values, err := opValues(ops, m)
	if err != nil {
		return err
	}
	if op == "publish_flush_batched_send" {
		uid, _ := values.Get("uid")
		s.flushReceived(fmt.Sprint(uid))
		return nil
	}
	v, _ := values.Get("name")
	name, err := nameOf(v)
	if err != nil {
		return err
	}
	client := ""
	if st.client != nil {
		client = st.client.name
	}
	switch op {
	case "variable_delete":
		s.variableDelete(name)
		return nil
	case "queue_release":
		s.queueRelease(name)
		return nil
	}
	key, err := keyOf(values, "key")
	if err != nil {
		return err
	}
	if op == "queue-future-release" {
		s.queueFutureRelease(name, key, client)
		return nil
	}
	s.variableReceived(name, key, values.GetString("token"), client)
	return nil
}

// replayChange does a change of a primitive again, from the journal.
func (s *Scheduler) replayChange(op string, args msgpack.Map) error {
	if done, err := s.replaySetting(op, args); done {
		return err
	}
	v, _ := args.Get("name")
	name, err := nameOf(v)
	if err != nil {
		return err
	}
	var r record
	if args.Has("key") {
		if r.key, err = keyOf(args, "key"); err != nil {
			return err
		}
	} else {
		r.data, _ = args.Get("data")
		r.bytes, _ = measure(r.data)
	}
	switch op {
	case "variable_set":
		return s.variableSet(name, r)
	case "variable_delete":
		s.variableDelete(name)
	case "queue_create":
		return s.queueCreate(name, int(field(args, "maxsize")))
	case "queue_release":
		s.queueRelease(name)
	case "queue_put":
		return s.queuePut(name, r)
	case "queue_get":
		s.queuePop(name)
	case "queue_return":
		s.queueReturn(name, []record{r})
	case "queue-future-release":
		s.queueFutureRelease(name, r.key, "")
	case "event_set":
		return s.eventSet(name, true)
	case "event_clear":
		return s.eventSet(name, false)
	case "publish_delete":
		s.unpublish(name)
	case "publish_put":
		return s.replayPublish(name, args)
	default:
		return s.replaySemaphore(op, name, args)
	}
	return nil
}

// eachChange gives the changes that make all primitives what they are now.
func (s *Scheduler) eachChange(f func(op string, args msgpack.Map)) {
	for name, v := range s.prims.variables {
		if v.set {
			f("variable_set", v.record.args(name))
		}
	}
	for name, q := range s.prims.queues {
		for range q.refs {
			f("queue_create", msgpack.MapOf("name", raw(name), "maxsize", q.maxsize))
		}
		for _, r := range q.items {
			f("queue_put", r.args(name))
		}
	}
	for name, e := range s.prims.events {
		if e.set {
			f("event_set", msgpack.MapOf("name", raw(name)))
		}
	}
	for name, x := range s.prims.semaphores {
		f("semaphore_register", msgpack.MapOf("name", raw(name), "max_leases", x.max, "lease_timeout", x.timeout.Seconds()))
		for id := range x.leases {
			f("semaphore_acquire", msgpack.MapOf("name", raw(name), "lease_id", id))
		}
	}
	for name, d := range s.prims.datasets {
		f("publish_put", d.args(name))
	}
	s.eachSetting(f)
}

func raw(name string) msgpack.Raw { return msgpack.Raw(name) }

func (r record) args(name string) msgpack.Map {
	if r.key != "" {
		return msgpack.MapOf("name", raw(name), "key", r.key.Raw())
	}
	return msgpack.MapOf("name", raw(name), "data", r.data)
}
