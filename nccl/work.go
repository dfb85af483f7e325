package nccl

import (
	"context"
	"fmt"

	"go.millstream.dev/cuda"
	"go.millstream.dev/mem"
	"go.millstream.dev/nccl/internal/ncclapi"
)

// Work is an operation in flight on a stream.
type Work struct {
	c     *Comm
	op    string
	event *cuda.Event
}

// Event returns an event that is done when the operation is, for other streams to wait on. It is the ready event of the
// buffers that the operation writes.
func (w *Work) Event() *cuda.Event { return w.event }

// giveUp aborts without holding the turn.
func (c *Comm) giveUp(why error) error {
	c.aborting.Store(true)
	<-c.turn
	defer c.release()
	if err := c.Err(); err != nil {
		return err
	}
	return c.abort(why)
}

// run enqueues operations as one and returns their Work.
func (c *Comm) run(ctx context.Context, s *cuda.Stream, op string, ops []ncclapi.Op, reads,
	writes []*mem.Buffer) (*Work, error) {
	if s == nil || s.Device() != c.cfg.Device {
		return nil, fmt.Errorf("nccl: %s: want a stream of device %d, the communicator's", op, c.cfg.Device)
	}
	for _, b := range append(append([]*mem.Buffer{}, reads...), writes...) {
		if b.Kind() == mem.Host || b.Kind() == mem.Pinned {
			return nil, fmt.Errorf("nccl: %s: %v is host memory: copy it to the device first", op, b)
		}
	}
	if err := c.acquire(ctx); err != nil {
		return nil, err
	}
	defer c.release()
	e, err := s.Enqueue(ctx, func(stream uintptr) error {
		return c.await(ctx, op, ncclapi.Run(c.setCurrent, c.cfg.Device, c.handle, stream, ops))
	}, reads, writes)
	if err != nil {
		return nil, err
	}
	return &Work{c, op, e}, nil
}
