package client

import (
	"context"
	"slices"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// Event is what somebody logged under a topic: a worker, a task, the scheduler.
type Event struct {
	// Topic is what it was logged under.
	Topic string
	// Time is when, in seconds since 1970.
	Time float64
	// Value is what was logged.
	Value any
}

type subscription struct{ f func(Event) }

// Subscribe calls f for every event of a topic from now on, from the goroutine that hears
// the scheduler: f must return quickly, and not wait for futures. The returned function ends
// it.
func (c *Client) Subscribe(topic string, f func(Event)) (stop func()) {
	s := &subscription{f}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.events[topic]) == 0 && c.closed == nil {
		c.say(topicMessage("subscribe-topic", topic))
	}
	c.events[topic] = append(c.events[topic], s)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		all := slices.DeleteFunc(c.events[topic], func(x *subscription) bool { return x == s })
		c.events[topic] = all
		if len(all) == 0 {
			delete(c.events, topic)
			if c.closed == nil {
				c.say(topicMessage("unsubscribe-topic", topic))
			}
		}
	}
}

func topicMessage(op, topic string) msgpack.Raw {
	b := msgpack.AppendMapHeader(nil, 2)
	return appendField(appendField(b, "op", op), "topic", topic)
}

// LogEvent logs a value under a topic, for those who have subscribed to it and for the
// scheduler's log.
func (c *Client) LogEvent(ctx context.Context, topic string, value any) error {
	v, err := task.Plain(value)
	if err != nil {
		return err
	}
	return c.call(ctx, "log_event", wire.NewDict("topic", topic, "msg", v), nil)
}

// event reads an event of a topic that is subscribed to. What it returns is called without
// the lock. The caller holds mu.
func (c *Client) event(m *wire.Message, raw []byte) (func(), error) {
	d, err := message(m, raw)
	if err != nil {
		return nil, err
	}
	e := Event{Topic: d.GetString("topic")}
	v, _ := d.Get("event")
	if pair, ok := v.([]any); ok && len(pair) == 2 {
		e.Time, _ = pair[0].(float64)
		e.Value = wire.Clone(pair[1])
	}
	all := slices.Clone(c.events[e.Topic])
	return func() {
		for _, s := range all {
			s.f(e)
		}
	}, nil
}
