package primitives

import (
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/val"
)

// change are the arguments of changes of primitives in the journal; each op has some of them.
type change struct {
	Name, Data, Value any
	Keys              []any
	Maxsize           int
	ID                any   // of the holder of Locks
	Locks             []any // names
	MaxLeases         int
	LeaseTimeout      any
	LeaseID           string
}

// Replay applies a change from the journal. It reports whether the op is one of primitives.
func (s *Primitives) Replay(op string, args msgpack.Map) (known bool, err error) {
	var c change
	if err := rpc.Assign(args, &c); err != nil {
		return true, err
	}
	switch op {
	case "set_metadata":
		return true, s.metadata.replay(&c)
	case "multi_lock_acquire", "multi_lock_release":
		return true, s.locks.replay(op, &c)
	}
	name, err := val.NameOf(c.Name)
	if err != nil {
		return true, err
	}
	r := record{data: c.Data}
	if args.Has("key") {
		r.data = nil
		if r.key, err = val.KeyOf(args, "key"); err != nil {
			return true, err
		}
	} else {
		r.bytes, _ = val.Size(r.data)
	}
	switch op {
	case "variable_set":
		err = s.variables.set(name, r)
	case "variable_delete":
		s.variables.remove(name)
	case "queue_create":
		err = s.queues.create(name, c.Maxsize)
	case "queue_release":
		s.queues.release(name)
	case "queue_put":
		err = s.queues.put(name, r)
	case "queue_get":
		s.queues.pop(name)
	case "queue_return":
		s.queues.putBack(name, []record{r})
	case "queue-future-release":
		s.queues.futureReceived(name, r.key, "")
	case "event_set":
		err = s.events.put(name, true)
	case "event_clear":
		err = s.events.put(name, false)
	case "publish_delete":
		s.datasets.unpublish(name)
	case "publish_put":
		err = s.datasets.replay(name, &c)
	default:
		return s.semaphores.replay(op, name, &c)
	}
	return true, err
}

// EachChange calls f with changes that recreate all current primitives.
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

// replay sets metadata from the journal.
func (s *metadata) replay(c *change) error {
	if err := checkPath(c.Keys); err != nil {
		return err
	}
	s.store(c.Keys, c.Value)
	return nil
}

// replay acquires or releases the locks of a user from the journal.
func (s *multiLocks) replay(op string, c *change) error {
	id, locks, err := lockRecord(c)
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

// lockArgs returns the record of a user that holds its locks. Waiters are not recorded: their requests end with the
// scheduler.
func lockArgs(id string, locks []string) msgpack.Map {
	list := make([]any, len(locks))
	for i, l := range locks {
		list[i] = val.Raw(l)
	}
	return msgpack.MapOf("id", val.Raw(id), "locks", list)
}

func lockRecord(c *change) (id string, locks []string, err error) {
	if id, err = val.NameOf(c.ID); err != nil {
		return "", nil, err
	}
	for _, l := range c.Locks {
		name, err := val.NameOf(l)
		if err != nil {
			return "", nil, err
		}
		locks = append(locks, name)
	}
	return id, locks, nil
}
