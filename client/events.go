package client

import (
	"context"
	"fmt"

	"go.millstream.dev/client/internal/topics"
	"go.millstream.dev/internal/task"
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

// Subscribe calls f for every event of a topic from now on, from the goroutine that hears
// the scheduler: f must return quickly, and not wait for futures. The returned function ends
// it.
func (c *Client) Subscribe(topic string, f func(Event)) (stop func()) {
	return c.topics.Subscribe(topic, func(e topics.Event) { f(Event(e)) })
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

// Events are those that the scheduler has kept of a topic, oldest first.
func (c *Client) Events(ctx context.Context, topic string) ([]Event, error) {
	var reply []any
	if err := c.call(ctx, "events", wire.NewDict("topic", topic), &reply); err != nil {
		return nil, fmt.Errorf("client: events of %s: %w", topic, err)
	}
	out := make([]Event, 0, len(reply))
	for _, x := range reply {
		e := Event{Topic: topic}
		pair, ok := x.([]any)
		if !ok || len(pair) != 2 {
			return nil, fmt.Errorf("client: an event of %s is %.100v", topic, x)
		}
		e.Time, _ = pair[0].(float64)
		e.Value = wire.Clone(pair[1])
		out = append(out, e)
	}
	return out, nil
}
