package registration

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.millstream.dev/internal/rpc"
)

// SendHeartbeats sends heartbeats with the status of the worker, at the interval that the scheduler specifies, until
// the worker closes.
func (c *Client) SendHeartbeats() {
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

// heartbeatTime bounds one heartbeat.
const heartbeatTime = 30 * time.Second

// heartbeat sends one heartbeat. The scheduler receives extensions if the argument is true.
func (c *Client) heartbeat(extensions bool) error {
	args, failed := c.w.Heartbeat(extensions)
	ctx, cancel := context.WithTimeout(c.w.Context, heartbeatTime)
	defer cancel()
	begun := time.Now()
	var reply heartbeatReply
	if err := c.Call(ctx, "heartbeat_worker", args, &reply); err != nil {
		failed()
		var remote *rpc.RemoteError
		if !errors.As(err, &remote) {
			return err // if the scheduler is gone, the stream ends too
		}
		return fmt.Errorf("reply of the scheduler: %w", err)
	}
	c.observe(time.Since(begun))
	if reply.Interval > 0 {
		c.interval.Store(int64(reply.Interval * float64(time.Second)))
	}
	if reply.Status == "missing" {
		c.handleUnknown()
	}
	return nil
}

// lastMessagesTime is how long the scheduler's last messages may take after its reply that the worker is unknown.
const lastMessagesTime = 3 * time.Second

// handleUnknown handles the reply that the scheduler does not know the worker: the worker was considered dead, was
// retired, or the scheduler was restarted. The session ends, and the worker registers again with a Millstream
// scheduler. The reply was received on another connection than the stream, on which a message to close may still
// arrive.
func (c *Client) handleUnknown() {
	s := c.w.Session()
	if s == nil {
		return
	}
	t := time.NewTimer(lastMessagesTime)
	defer t.Stop()
	select {
	case <-t.C:
		s.Fail(errors.New("worker is unknown to the scheduler"))
	case <-s.over.Done():
	case <-c.w.Context.Done():
	}
}
