package client

import (
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
	fs := append([]func(Event){}, c.events[e.Topic]...)
	return func() {
		for _, f := range fs {
			f(e)
		}
	}, nil
}
