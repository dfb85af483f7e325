package primitives

import (
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/val"
)

// Replay does a change again, from the journal. It reports whether the op is one of primitives.
func (s *Primitives) Replay(op string, args msgpack.Map) (known bool, err error) {
	switch op {
	case "set_metadata":
		return true, s.metadata.replay(args)
	case "multi_lock_acquire", "multi_lock_release":
		return true, s.locks.replay(op, args)
	}
	v, _ := args.Get("name")
	name, err := val.NameOf(v)
	if err != nil {
		return true, err
	}
	var r record
	if args.Has("key") {
		if r.key, err = val.KeyOf(args, "key"); err != nil {
			return true, err
		}
	} else {
		r.data, _ = args.Get("data")
		r.bytes, _ = val.Size(r.data)
	}
	switch op {
	case "variable_set":
		err = s.variables.set(name, r)
	case "variable_delete":
		s.variables.remove(name)
	case "queue_create":
		err = s.queues.create(name, int(val.Field(args, "maxsize")))
	case "queue_release":
		s.queues.release(name)
	case "queue_put":
		err = s.queues.put(name, r)
	case "queue_get":
		s.queues.pop(name)
	case "queue_return":
		s.queues.giveBack(name, []record{r})
	case "queue-future-release":
		s.queues.futureReceived(name, r.key, "")
	case "event_set":
		err = s.events.put(name, true)
	case "event_clear":
		err = s.events.put(name, false)
	case "publish_delete":
		s.datasets.unpublish(name)
	case "publish_put":
		err = s.datasets.replay(name, args)
	default:
		return s.semaphores.replay(op, name, args)
	}
	return true, err
}

// EachChange gives the changes that make all primitives what they are now.
func (s *Primitives) EachChange(f func(op string, args msgpack.Map)) {
	for name, v := range s.variables.byName {
		if v.set {
			f("variable_set", v.record.args(name))
		}
	}
	for name, q := range s.queues.byName {
		for range q.refs {
			f("queue_create", msgpack.MapOf("name", val.Raw(name), "maxsize", q.maxsize))
		}
		for _, r := range q.items {
			f("queue_put", r.args(name))
		}
	}
	for name, e := range s.events.byName {
		if e.set {
			f("event_set", msgpack.MapOf("name", val.Raw(name)))
		}
	}
	for name, x := range s.semaphores.byName {
		f("semaphore_register",
			msgpack.MapOf("name", val.Raw(name), "max_leases", x.max, "lease_timeout", x.timeout.Seconds()))
		for id := range x.leases {
			f("semaphore_acquire", msgpack.MapOf("name", val.Raw(name), "lease_id", id))
		}
	}
	for name, d := range s.datasets.byName {
		f("publish_put", d.args(name))
	}
	for _, p := range s.metadata.tree {
		f("set_metadata", msgpack.MapOf("keys", []any{p.Key}, "value", p.Value))
	}
	for id, u := range s.locks.users {
		if u.left == 0 {
			f("multi_lock_acquire", lockArgs(id, u.locks))
		}
	}
}

// replay sets metadata again, from the journal.
func (s *metadata) replay(args msgpack.Map) error {
	v, _ := args.Get("keys")
	keys, _ := v.([]any)
	if err := checkPath(keys); err != nil {
		return err
	}
	value, _ := args.Get("value")
	s.store(keys, value)
	return nil
}

// replay acquires or releases the locks of a user again, from the journal.
func (s *multiLocks) replay(op string, args msgpack.Map) error {
	id, locks, err := lockRecord(args)
	switch {
	case err != nil:
		return err
	case op == "multi_lock_release":
		s.drop(id)
	case s.users[id] == nil:
		s.hold(id, locks)
		s.Budget.Add(s.users[id].size(id))
	}
	return nil
}

// lockArgs is what the journal has of a user that has got its locks. Who still waits is not recorded: the request that
// waits ends with the scheduler.
func lockArgs(id string, locks []string) msgpack.Map {
	list := make([]any, len(locks))
	for i, l := range locks {
		list[i] = val.Raw(l)
	}
	return msgpack.MapOf("id", val.Raw(id), "locks", list)
}

func lockRecord(args msgpack.Map) (id string, locks []string, err error) {
	v, _ := args.Get("id")
	if id, err = val.NameOf(v); err != nil {
		return "", nil, err
	}
	v, _ = args.Get("locks")
	list, _ := v.([]any)
	for _, l := range list {
		name, err := val.NameOf(l)
		if err != nil {
			return "", nil, err
		}
		locks = append(locks, name)
	}
	return id, locks, nil
}
