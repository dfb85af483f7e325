// Package topics manages the subscriptions of a client to topics of events.
package topics

import (
	"slices"
	"strings"
	"sync"

	"go.millstream.dev/client/internal/tracker"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/wire"
)

// Event is a value that was logged under a topic; package client documents its fields.
type Event struct {
	Topic string
	Time  float64
	Value any
}

// Topics is a set of subscriptions. It is safe for concurrent use.
type Topics struct {
	send func(tracker.Message) // queues a message; it does not block

	mu   sync.Mutex // guards subs; held while messages are queued, so that their order is that of the subscriptions
	subs map[string][]*subscription
}

type subscription struct{ f func(Event) }

// New returns Topics without subscriptions. queue queues a message to the scheduler and must not block.
func New(queue func(tracker.Message)) *Topics {
	return &Topics{subs: map[string][]*subscription{}, send: queue}
}

// Subscribe calls f for every future event of a topic. The returned function ends the subscription.
func (t *Topics) Subscribe(topic string, f func(Event)) (stop func()) {
	s := &subscription{f}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.subs[topic]) == 0 {
		t.send(&message.SubscribeTopic{Topic: topic})
	}
	t.subs[topic] = append(t.subs[topic], s)
	return sync.OnceFunc(func() { t.unsubscribe(topic, s) })
}

func (t *Topics) unsubscribe(topic string, s *subscription) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := slices.DeleteFunc(t.subs[topic], func(x *subscription) bool { return x == s })
	t.subs[topic] = all
	if len(all) == 0 {
		delete(t.subs, topic)
		t.send(&message.UnsubscribeTopic{Topic: topic})
	}
}

// Resume subscribes to all topics again, after a reconnect.
func (t *Topics) Resume() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for topic := range t.subs {
		t.send(&message.SubscribeTopic{Topic: topic})
	}
}

// Deliver calls the subscribers of a topic with an event as the scheduler sends it: a list of time and value. No lock
// is held meanwhile.
func (t *Topics) Deliver(topic string, event any) {
	e := Event{Topic: strings.Clone(topic)}
	if pair, ok := event.([]any); ok && len(pair) == 2 {
		e.Time, _ = pair[0].(float64)
		e.Value = wire.Clone(pair[1])
	}
	t.mu.Lock()
	all := slices.Clone(t.subs[e.Topic])
	t.mu.Unlock()
	for _, s := range all {
		s.f(e)
	}
}
