package scheduler

import (
	"fmt"

	"go.millstream.dev/internal/wire/msgpack"
)

// What is set once and holds from then on, as the journal has it: plugins, metadata and the
// locks of MultiLock. Changes are recorded as the requests that make them.
const (
	pluginAdded   = "plugin-add"    // name, plugin, nanny
	pluginDropped = "plugin-remove" // name, nanny
)

// replaySetting does a change again, from the journal. It tells whether it was one.
func (s *Scheduler) replaySetting(op string, args msgpack.Map) (bool, error) {
	switch op {
	case pluginAdded, pluginDropped:
		v, _ := args.Get("nanny")
		nanny, _ := v.(bool)
		set, name := s.plugins.of(nanny), args.GetString("name")
		if op == pluginDropped {
			s.prims.add(-set.size(name))
			set.delete(name)
			break
		}
		plugin, _ := args.Get("plugin")
		s.prims.add(pluginSize(name, plugin) - set.size(name))
		set.set(name, plugin)
	case "set_metadata":
		v, _ := args.Get("keys")
		keys, _ := v.([]any)
		if err := checkPath(keys); err != nil {
			return true, fmt.Errorf("%w: %w", errRecord, err)
		}
		value, _ := args.Get("value")
		s.storeMetadata(keys, value)
	case "multi_lock_acquire":
		id, locks, err := lockRecord(args)
		if err != nil {
			return true, err
		}
		if s.prims.locks.users[id] == nil {
			s.prims.locks.hold(id, locks)
			s.prims.add(s.prims.locks.users[id].size(id))
		}
	case "multi_lock_release":
		id, _, err := lockRecord(args)
		if err != nil {
			return true, err
		}
		s.multiLockLeave(id)
	default:
		return false, nil
	}
	return true, nil
}

// eachSetting gives the changes that make all settings what they are now.
func (s *Scheduler) eachSetting(f func(op string, args msgpack.Map)) {
	for _, nanny := range []bool{false, true} {
		for _, p := range s.plugins.of(nanny).asMap() {
			if p.Key != ownPlugin {
				f(pluginAdded, msgpack.MapOf("name", p.Key, "plugin", p.Value, "nanny", nanny))
			}
		}
	}
	for _, p := range s.metadata {
		f("set_metadata", msgpack.MapOf("keys", []any{p.Key}, "value", p.Value))
	}
	for id, u := range s.prims.locks.users {
		if u.left == 0 {
			f("multi_lock_acquire", lockArgs(id, u.locks))
		}
	}
}

// lockArgs is what the journal has of a user that has got its locks. Who still waits is not
// remembered: the request that waits ends with the scheduler.
func lockArgs(id string, locks []string) msgpack.Map {
	list := make([]any, len(locks))
	for i, l := range locks {
		list[i] = raw(l)
	}
	return msgpack.MapOf("id", raw(id), "locks", list)
}

func lockRecord(args msgpack.Map) (id string, locks []string, err error) {
	v, _ := args.Get("id")
	if id, err = nameOf(v); err != nil {
		return "", nil, err
	}
	v, _ = args.Get("locks")
	list, _ := v.([]any)
	for _, l := range list {
		name, err := nameOf(l)
		if err != nil {
			return "", nil, err
		}
		locks = append(locks, name)
	}
	return id, locks, nil
}
