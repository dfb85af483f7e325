// Package topics keeps the events of a scheduler that its peers log, query and subscribe to, by topic.
package topics

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/val"
	"go.millstream.dev/wire"
)

// Max bounds the number of topics that peers can create. Beyond it, one without subscribers is removed.
const Max = 100_000

// Host is the part of the scheduler that Topics uses.
type Host struct {
	Loop loop.Loop
	Log  *slog.Logger
	// Send sends a message to a client, if it is connected. It runs in the loop.
	Send func(client string, msg msgpack.Map)
	// Logged is called for each message of a topic, in the loop. It may be nil.
	Logged func(topic string, msg any)
	// Length is the number of events that are kept for each topic, Bytes the number of bytes for all of them, an eighth
	// of that for one.
	Length int
	Bytes  int64
}

// Topics are all topics of a scheduler, by name. The loop owns them; requests run in goroutines of their own.
type Topics struct {
	Host
	byName map[string]*topic
	bytes  int64 // of the events of all topics
}

// New returns Topics without events.
func New(h Host) *Topics { return &Topics{Host: h, byName: map[string]*topic{}} }

// Register sets the handlers of requests.
func (s *Topics) Register(r *rpc.Server) {
	rpc.Handle(r, "events", s.eventsRPC)
	rpc.Handle(r, "log_event", s.logRPC)
}

// topic has the events of one name and its subscribers. The loop owns it.
type topic struct {
	events      []event // oldest first, from index first on
	first       int
	count       int64
	bytes       int64 // of events
	subscribers map[string]bool
}

type event struct {
	at    time.Time
	msg   any
	bytes int64
}

// add appends an event and drops the oldest beyond the limits. It returns the number of bytes by which the topic has
// grown.
func (t *topic) add(e event, limit int, limitBytes int64) int64 {
	before := t.bytes
	t.count++
	t.events = append(t.events, e)
	t.bytes += e.bytes
	for t.len() > limit || t.bytes > limitBytes && t.len() > 1 {
		t.drop()
	}
	return t.bytes - before
}

func (t *topic) len() int { return len(t.events) - t.first }

// drop removes the oldest event.
func (t *topic) drop() {
	t.bytes -= t.events[t.first].bytes
	t.events[t.first] = event{}
	if t.first++; t.first > 16 && t.first > len(t.events)/2 {
		n := copy(t.events, t.events[t.first:])
		clear(t.events[n:])
		t.events, t.first = t.events[:n], 0
	}
}

func (t *topic) list() []any {
	out := make([]any, 0, t.len())
	for _, e := range t.events[t.first:] {
		out = append(out, []any{val.Seconds(e.at), e.msg})
	}
	return out
}

// named returns the topic of a name and creates it if necessary; nil if there are too many with subscribers.
func (s *Topics) named(name string) *topic {
	t := s.byName[name]
	if t != nil {
		return t
	}
	if len(s.byName) >= Max && !s.dropOne() {
		return nil
	}
	t = &topic{subscribers: map[string]bool{}}
	s.byName[name] = t
	return t
}

// dropOne removes some topic that no client has subscribed to.
func (s *Topics) dropOne() bool {
	tried := 0
	for name, t := range s.byName { // in no order
		if len(t.subscribers) == 0 && name != "all" && name != "scheduler" {
			s.bytes -= t.bytes
			delete(s.byName, name)
			return true
		}
		if tried++; tried > 1000 {
			return false
		}
	}
	return false
}

// Publish logs a message, which must not change any more, to topics and sends it to the subscribers. It runs in the
// loop.
func (s *Topics) Publish(msg any, topics ...string) {
	size, _ := val.Size(msg)
	limit := s.Bytes
	for _, name := range topics {
		t := s.named(name)
		if t == nil {
			continue
		}
		e := event{s.Loop.Now(), msg, size + val.NameSize("")}
		if size <= limit/16 { // larger ones are sent, not kept
			s.bytes += t.add(e, s.Length, limit/8)
		}
		if s.Logged != nil {
			s.Logged(name, msg)
		}
		for c := range t.subscribers {
			s.Send(c, msgpack.MapOf("op", "event", "topic", name, "event", []any{val.Seconds(e.at), msg}))
		}
	}
	if s.bytes > limit {
		s.thin()
	}
}

// thin drops the older half of the events of each topic when all of them exceed the limit.
func (s *Topics) thin() {
	before := s.bytes
	for s.bytes > s.Bytes/2 {
		s.bytes = 0
		for name, t := range s.byName {
			for range (t.len() + 1) / 2 {
				t.drop()
			}
			s.bytes += t.bytes
			if t.len() == 0 && len(t.subscribers) == 0 {
				delete(s.byName, name)
			}
		}
	}
	s.Log.Warn("events dropped: limit in bytes exceeded", "before", before, "after", s.bytes, "limit", s.Bytes)
}

// Subscribe subscribes a client to the events of a topic.
func (s *Topics) Subscribe(topic, client string) error {
	t := s.named(topic)
	if t == nil {
		return fmt.Errorf("topic %.60q: too many topics with subscribers: %d", topic, len(s.byName))
	}
	t.subscribers[client] = true
	return nil
}

// Unsubscribe undoes Subscribe.
func (s *Topics) Unsubscribe(topic, client string) {
	if t := s.byName[topic]; t != nil {
		delete(t.subscribers, client)
	}
}

// UnsubscribeAll removes all subscriptions of a client.
func (s *Topics) UnsubscribeAll(client string) {
	for _, t := range s.byName {
		delete(t.subscribers, client)
	}
}

// PublishFrom logs a message of a peer to one topic or a list of them. worker is the address of the worker that sent
// it, "" for others.
func (s *Topics) PublishFrom(names, msg any, worker string) error {
	topics, err := val.Texts(wire.Clone(names))
	if err != nil {
		return fmt.Errorf("topic: %w", err)
	}
	for _, t := range topics {
		if d, ok := msg.(msgpack.Map); ok && worker != "" && worker != t {
			d.Set("worker", worker)
			msg = d
		}
	}
	s.Publish(msg, topics...)
	return nil
}

func (s *Topics) eventsRPC(ctx context.Context, _ *rpc.Request, in struct {
	Topic any `rpc:"topic,optional"`
}) (any, error) {
	return s.Events(ctx, in.Topic)
}

// Events returns the events of a topic, or of all.
func (s *Topics) Events(ctx context.Context, topic any) (any, error) {
	return loop.Ask(ctx, s.Loop, func() (any, error) {
		if name, ok := topic.(string); ok {
			return s.List(name), nil
		}
		out := msgpack.Map{}
		for name, t := range s.byName {
			if t.len() > 0 {
				out = append(out, msgpack.Pair{Key: name, Value: t.list()})
			}
		}
		return out, nil
	})
}

func (s *Topics) logRPC(ctx context.Context, _ *rpc.Request, in struct {
	Topic any `rpc:"topic"`
	Msg   any `rpc:"msg"`
}) (any, error) {
	topic, msg := wire.Clone(in.Topic), wire.Clone(in.Msg)
	_, err := loop.Ask(ctx, s.Loop, func() (any, error) { return nil, s.PublishFrom(topic, msg, "") })
	return nil, err
}

// List returns the events of a topic as pairs of time and message, oldest first.
func (s *Topics) List(name string) []any {
	if t := s.byName[name]; t != nil {
		return t.list()
	}
	return []any{}
}

// Forget removes a topic with its events and subscribers.
func (s *Topics) Forget(name string) {
	if t := s.byName[name]; t != nil {
		s.bytes -= t.bytes
		delete(s.byName, name)
	}
}

// Subscribers returns the number of clients that have subscribed to a topic, and whether the topic exists.
func (s *Topics) Subscribers(name string) (n int, known bool) {
	t := s.byName[name]
	if t == nil {
		return 0, false
	}
	return len(t.subscribers), true
}
