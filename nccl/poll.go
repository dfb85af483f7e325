package nccl

import (
	"context"
	"fmt"
	"time"

	"go.millstream.dev/nccl/internal/ncclapi"
)

// Everything that waits for NCCL or the device asks again and again, with pauses from a few
// microseconds, which a call on its own host takes, to the longest, which costs nothing.
const (
	shortestPause = 5 * time.Microsecond
	longestPause  = 500 * time.Microsecond
)

// poll asks until done says so or look, which sees to the communicator, has an error. When ctx
// ends first giveUp aborts the communicator, as what was begun can then never end, and says why.
func (c *Comm) poll(ctx context.Context, op string, done func() (bool, error), look func() error,
	giveUp func(why error) error) error {
	for pause := shortestPause; ; pause = min(2*pause, longestPause) {
		if ok, err := done(); ok || err != nil {
			return err
		}
		if err := look(); err != nil {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return giveUp(fmt.Errorf("nccl: %s: %w: %w", op, context.Cause(ctx), ErrAborted))
		case <-timer.C:
		}
	}
}

// settle waits, with the turn, until NCCL has done what a call began. Another rank's failure,
// the end of ctx and Abort end the communicator.
func (c *Comm) settle(ctx context.Context, op string, r ncclapi.Result) error {
	if r == ncclapi.InProgress && c.handle != 0 { // without one the call failed without making it
		err := c.poll(ctx, op, func() (bool, error) {
			r = ncclapi.AsyncError(c.handle)
			return r != ncclapi.InProgress, nil
		}, c.told, c.abort)
		if err != nil {
			return err
		}
	}
	if r == ncclapi.Success {
		return nil
	}
	err := &Error{Op: op, Result: Result(r), Detail: ncclapi.LastError(c.handle)}
	if r == ncclapi.InvalidArgument || r == ncclapi.NoSymbol {
		if c.handle != 0 && ncclapi.AsyncError(c.handle) == ncclapi.Success {
			return err // refused before anything was begun: the communicator is as it was
		}
	}
	return c.abort(err)
}

// told looks, with the turn, whether Abort was called meanwhile.
func (c *Comm) told() error {
	if c.aborting.Load() {
		return c.abort(ErrAborted)
	}
	return nil
}

// appears waits, with the turn, until NCCL has written the new communicator of a cell.
func (c *Comm) appears(ctx context.Context, op string, cell uint64) error {
	return c.poll(ctx, op, func() (bool, error) { return ncclapi.Peek(cell) != 0, nil }, func() error {
		if r := ncclapi.AsyncError(c.handle); r != ncclapi.Success && r != ncclapi.InProgress {
			return c.settle(ctx, op, r)
		}
		return c.told()
	}, c.abort)
}

// Wait returns when the operation is done. When another rank fails, or ctx ends, it aborts the
// communicator: the operation can then never end. What it was writing to is of no use then.
func (w *Work) Wait(ctx context.Context) error {
	err := w.c.poll(ctx, w.op, w.event.Query, func() error { return w.c.check(w.op) }, w.c.giveUp)
	if err != nil {
		return err
	}
	return w.event.Wait(ctx) // lets go of the buffers
}

// Check looks whether the communicator still works, and aborts it if NCCL has found that it does
// not: who has put work on a stream and does not call Work.Wait calls it from time to time.
func (c *Comm) Check() error { return c.check("an operation in flight") }

func (c *Comm) check(op string) error {
	select {
	case <-c.turn:
	default:
		return c.Err() // another goroutine calls NCCL and looks
	}
	defer c.release()
	if err := c.Err(); err != nil {
		return err
	}
	if err := c.told(); err != nil {
		return err
	}
	switch r := ncclapi.AsyncError(c.handle); r {
	case ncclapi.Success, ncclapi.InProgress:
		return nil
	default:
		return c.abort(&Error{Op: op, Result: Result(r), Detail: ncclapi.LastError(c.handle)})
	}
}
