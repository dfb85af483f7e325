package client

import (
	"context"
	"fmt"

	"go.millstream.dev/client/internal/topics"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/wire"
)

// Event is a value that a worker, a task, a client or the scheduler has logged under a topic.
type Event struct {
	// Topic is the topic of the event.
	Topic string
	// Time is the time of the event in seconds since 1970.
	Time float64
	// Value is the logged value.
	Value any
}

// Subscribe calls f for every future event of a topic. The goroutine that receives messages of the scheduler calls f,
// which must return quickly and must not wait for futures. The returned function ends the subscription.
func (c *Client) Subscribe(topic string, f func(Event)) (stop func()) {
	return c.topics.Subscribe(topic, func(e topics.Event) { f(Event(e)) })
}

// LogEvent logs a value under a topic, for its subscribers and the event log of the scheduler.
func (c *Client) LogEvent(ctx context.Context, topic string, value any) error {
	v, err := task.Plain(value)
	if err != nil {
		return err
	}
	return c.call(ctx, "log_event", wire.NewDict("topic", topic, "msg", v), nil)
}

// Events returns the events of a topic that the scheduler has kept, oldest first.
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
			return nil, fmt.Errorf("client: events of %s: malformed event %.100v", topic, x)
		}
		e.Time, _ = pair[0].(float64)
		e.Value = wire.Clone(pair[1])
		out = append(out, e)
	}
	return out, nil
}
