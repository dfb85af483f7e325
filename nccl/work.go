package nccl

import (
	"context"
	"fmt"
	"time"

	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/ncclapi"
	"go.millstream.dev/mem"
)

// Work is an operation that is on its way on a stream.
type Work struct {
	c     *Comm
	op    string
	event *cuda.Event
}

// Event is done when the operation is, for other streams to wait on. It is the ready event of
// the buffers that the operation writes.
func (w *Work) Event() *cuda.Event { return w.event }

// Wait returns when the operation is done. When another rank fails, or ctx ends, it aborts the
// communicator: the operation can then never end. What it was writing to is of no use then.
func (w *Work) Wait(ctx context.Context) error {
	const longest = 500 * time.Microsecond
	for pause := 5 * time.Microsecond; ; pause = min(2*pause, longest) {
		done, err := w.event.Query()
		if err != nil {
			return err
		}
		if done {
			return w.event.Wait(ctx) // lets go of the buffers
		}
		if err := w.c.watch(ctx, w.op); err != nil {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return w.c.giveUp(fmt.Errorf("nccl: %s: %w: %w", w.op, context.Cause(ctx), ErrAborted))
		case <-timer.C:
		}
	}
}

// watch looks whether the communicator still works.
func (c *Comm) watch(ctx context.Context, op string) error {
	select {
	case <-c.turn:
	default:
		return c.Err() // somebody else is with NCCL and looks
	}
	defer c.release()
	if err := c.Err(); err != nil {
		return err
	}
	if c.aborting.Load() {
		return c.abort(ErrAborted)
	}
	switch r := ncclapi.AsyncError(c.handle); r {
	case ncclapi.Success, ncclapi.InProgress:
		return ctx.Err()
	default:
		return c.abort(&Error{Op: op, Result: Result(r), Detail: ncclapi.LastError(c.handle)})
	}
}

// giveUp aborts from outside of a turn.
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
func (c *Comm) run(ctx context.Context, s *cuda.Stream, op string, ops []ncclapi.Op, reads, writes []*mem.Buffer) (*Work, error) {
	if s == nil || s.Device() != c.cfg.Device {
		return nil, fmt.Errorf("nccl: %s: give a stream of device %d, the communicator's", op, c.cfg.Device)
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
		return c.settle(ctx, op, ncclapi.Run(c.setCurrent, c.cfg.Device, c.handle, stream, ops))
	}, reads, writes)
	if err != nil {
		return nil, err
	}
	return &Work{c, op, e}, nil
}
