package scheduler

import (
	"context"
	"fmt"
	"strings"

	"go.millstream.dev/rpc"
	"go.millstream.dev/wire"
	"go.millstream.dev/wire/msgpack"
)

// getMetadata walks down a path of names; a name that is not there is a KeyError, or the
// default where the caller has given one.
func (s *Scheduler) getMetadata(ctx context.Context, r *rpc.Request, in struct {
	Keys    []any `rpc:"keys"`
	Default any   `rpc:"default,optional"`
}) (any, error) {
	raw, given := r.Field("default")
	if given && strings.Contains(string(raw), "no_default") {
		given = false // Python's way to say that there is none
	}
	return ask(ctx, s, func() (any, error) {
		var at any = s.metadata
		for _, k := range in.Keys {
			m, _ := at.(msgpack.Map)
			found := false
			for _, p := range m {
				if msgpack.Equal(p.Key, k) {
					at, found = p.Value, true
				}
			}
			if found {
				continue
			}
			if given {
				return in.Default, nil
			}
			return nil, &rpc.Exception{Type: "KeyError", Message: fmt.Sprint(k)}
		}
		return at, nil
	})
}

func (s *Scheduler) setMetadata(ctx context.Context, _ *rpc.Request, in struct {
	Keys  []any `rpc:"keys"`
	Value any   `rpc:"value,optional"`
}) (any, error) {
	keys, _ := wire.Clone(in.Keys).([]any)
	value := wire.Clone(in.Value)
	if len(keys) == 0 {
		return nil, &rpc.Exception{Type: "IndexError", Message: "set_metadata needs at least one key"}
	}
	return nil, s.change(ctx, func() error {
		s.recordChange("set_metadata", msgpack.MapOf("keys", keys, "value", value))
		s.metadata = setPath(s.metadata, keys, value)
		return nil
	})
}

// setPath sets a value below a path of names. Maps that are there already are not changed:
// answers that are being sent may still have them.
func setPath(m msgpack.Map, keys []any, value any) msgpack.Map {
	out := append(msgpack.Map(nil), m...)
	at := -1
	for i, p := range out {
		if msgpack.Equal(p.Key, keys[0]) {
			at = i
		}
	}
	if at < 0 {
		out = append(out, msgpack.Pair{Key: keys[0]})
		at = len(out) - 1
	}
	if len(keys) > 1 {
		below, _ := out[at].Value.(msgpack.Map)
		value = setPath(below, keys[1:], value)
	}
	out[at].Value = value
	return out
}

func (s *Scheduler) getEvents(ctx context.Context, _ *rpc.Request, in struct {
	Topic any `rpc:"topic,optional"`
}) (any, error) {
	return s.eventsOf(ctx, in.Topic)
}

// eventsOf are the events of a topic, or of all.
func (s *Scheduler) eventsOf(ctx context.Context, topic any) (any, error) {
	return ask(ctx, s, func() (any, error) {
		if name, ok := topic.(string); ok {
			if t := s.topics[name]; t != nil {
				return t.list(), nil
			}
			return []any{}, nil
		}
		out := msgpack.Map{}
		for name, t := range s.topics {
			if len(t.events) > 0 {
				out = append(out, msgpack.Pair{Key: name, Value: t.list()})
			}
		}
		return out, nil
	})
}

func (s *Scheduler) logEventRPC(ctx context.Context, _ *rpc.Request, in struct {
	Topic any `rpc:"topic"`
	Msg   any `rpc:"msg"`
}) (any, error) {
	topic, msg := wire.Clone(in.Topic), wire.Clone(in.Msg)
	_, err := ask(ctx, s, func() (any, error) { return nil, s.logFrom(topic, msg, "") })
	return nil, err
}
