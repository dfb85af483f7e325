package nccl

import (
	"context"
	"fmt"
	"time"

	"go.millstream.dev/nccl/internal/ncclapi"
)

// Calls that wait for NCCL or the device poll, with pauses from a few microseconds, the duration of a call on one host,
// to the longest, whose cost is negligible.
const (
	shortestPause = 5 * time.Microsecond
	longestPause  = 500 * time.Microsecond
)

// poll polls until done returns true or check, which checks the communicator, returns an error. When ctx ends first
// giveUp aborts the communicator, as the operation can then never complete, and returns the reason.
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

// await waits, with the turn held, until NCCL has completed a call. Another rank's failure, the end of ctx and Close
// end the communicator.
func (c *Comm) await(ctx context.Context, op string, r ncclapi.Result) error {
	if r == ncclapi.InProgress && c.handle != 0 { // without a handle the call failed before creating one
		err := c.poll(ctx, op, func() (bool, error) {
			r = ncclapi.AsyncError(c.handle)
			return r != ncclapi.InProgress, nil
		}, c.checkAborted, c.abort)
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
			return err // rejected before it started: the communicator is unchanged
		}
	}
	return c.abort(err)
}

// checkAborted returns an error, with the turn held, if Close was called meanwhile.
func (c *Comm) checkAborted() error {
	if c.aborting.Load() {
		return c.abort(ErrAborted)
	}
	return nil
}

// awaitCell waits, with the turn held, until NCCL has written the new communicator of a cell.
func (c *Comm) awaitCell(ctx context.Context, op string, cell uint64) error {
	return c.poll(ctx, op, func() (bool, error) { return ncclapi.Peek(cell) != 0, nil }, func() error {
		if r := ncclapi.AsyncError(c.handle); r != ncclapi.Success && r != ncclapi.InProgress {
			return c.await(ctx, op, r)
		}
		return c.checkAborted()
	}, c.abort)
}

// Wait waits until the operation is done. When another rank fails, or ctx ends, it aborts the communicator, as the
// operation can then never complete. The buffers being written are then undefined.
func (w *Work) Wait(ctx context.Context) error {
	err := w.c.poll(ctx, w.op, w.event.Query, func() error { return w.c.check(w.op) }, w.c.giveUp)
	if err != nil {
		return err
	}
	return w.event.Wait(ctx) // releases the buffers
}

// Check returns an error if the communicator has failed, and aborts it if NCCL reports a failure. Call it from time to
// time if work is enqueued on a stream without a call of Work.Wait.
func (c *Comm) Check() error { return c.check("operation in flight") }

func (c *Comm) check(op string) error {
	select {
	case <-c.turn:
	default:
		return c.Err() // another goroutine calls NCCL and checks
	}
	defer c.release()
	if err := c.Err(); err != nil {
		return err
	}
	if err := c.checkAborted(); err != nil {
		return err
	}
	switch r := ncclapi.AsyncError(c.handle); r {
	case ncclapi.Success, ncclapi.InProgress:
		return nil
	default:
		return c.abort(&Error{Op: op, Result: Result(r), Detail: ncclapi.LastError(c.handle)})
	}
}
