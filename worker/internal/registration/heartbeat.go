package registration

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.millstream.dev/internal/rpc"
)

// Heartbeats tells the scheduler that the worker lives and how it is, as often as the scheduler wants it, until the
// worker ends.
func (c *Client) Heartbeats() {
	for {
		wait := time.Duration(c.interval.Load())
		if wait <= 0 {
			wait = time.Second
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-c.w.Context.Done():
			t.Stop()
			return
		}
		s := c.w.Session()
		if s == nil {
			continue
		}
		if err := c.heartbeat(s.Millstream); err != nil && c.w.Context.Err() == nil {
			c.log.Warn("heartbeat failed", "error", err)
		}
	}
}

type heartbeatReply struct {
	Status   string  `rpc:"status"`
	Interval float64 `rpc:"heartbeat-interval,optional"`
}

// heartbeatTime bounds one heartbeat: the scheduler may be busy, but not for ever.
const heartbeatTime = 30 * time.Second

// heartbeat sends one.
func (c *Client) heartbeat(extensions bool) error {
	args, failed := c.w.Beat(extensions)
	ctx, cancel := context.WithTimeout(c.w.Context, heartbeatTime)
	defer cancel()
	begun := time.Now()
	var reply heartbeatReply
	if err := c.Call(ctx, "heartbeat_worker", args, &reply); err != nil {
		failed()
		var remote *rpc.RemoteError
		if !errors.As(err, &remote) {
			return err // the stream's end tells whether the scheduler is gone
		}
		return fmt.Errorf("the scheduler: %w", err)
	}
	c.observe(time.Since(begun))
	if reply.Interval > 0 {
		c.interval.Store(int64(reply.Interval * float64(time.Second)))
	}
	if reply.Status == "missing" {
		c.unknown()
	}
	return nil
}

// lastWordsTime is how long the scheduler's last messages may take after its reply that the worker is unknown.
const lastWordsTime = 3 * time.Second

// unknown handles the scheduler's reply that it does not know the worker: it took the worker for dead, retired it, or
// was restarted. The session ends, and a Millstream scheduler gets a new registration. The reply has come by another
// connection than the stream, on which an order to close may still arrive.
func (c *Client) unknown() {
	s := c.w.Session()
	if s == nil {
		return
	}
	t := time.NewTimer(lastWordsTime)
	defer t.Stop()
	select {
	case <-t.C:
		s.Fail(errors.New("the scheduler does not know this worker"))
	case <-s.over.Done():
	case <-c.w.Context.Done():
	}
}
