package nccl

import (
	"context"
	"fmt"

	"go.millstream.dev/mem"
	"go.millstream.dev/nccl/internal/ncclapi"
)

// Register registers a buffer's region with the communicator, so that NCCL can skip copies through its own buffers (it
// does so for memory that the network or NVLink SHARP can access; otherwise it has no effect). All ranks should
// register their buffers. The returned function undoes it, and must be called before the memory is freed or the
// communicator closed. Register requires NCCL 2.19.
func (c *Comm) Register(ctx context.Context, b *mem.Buffer) (undo func(context.Context) error, err error) {
	if b == nil || b.Kind() != mem.Device {
		return nil, fmt.Errorf("nccl: register %v: only device memory can be registered", b)
	}
	if err := c.acquire(ctx); err != nil {
		return nil, err
	}
	defer c.release()
	held := b.Retain()
	handle, r := ncclapi.Register(c.setCurrent, c.cfg.Device, c.handle, b.Region().Addr(), b.Region().Len())
	if err := c.await(ctx, "register memory", r); err != nil {
		held.Release()
		return nil, err
	}
	return func(ctx context.Context) error {
		if held == nil {
			return nil
		}
		if err := c.acquire(ctx); err != nil {
			if c.Err() != nil { // the registration ended with the communicator
				held.Release()
				held = nil
			}
			return err
		}
		defer c.release()
		err := c.await(ctx, "deregister memory", ncclapi.Deregister(c.setCurrent, c.cfg.Device, c.handle, handle))
		held.Release()
		held = nil
		return err
	}, nil
}

// RegisterWindow registers a buffer's region, and those of the same length of the other ranks, as a window: memory that
// NCCL's kernels may read and write on all ranks (symmetric memory). All ranks call it, and undo, which must be called
// before the memory is freed or the communicator closed. ok is false if NCCL cannot use the memory as a window: then
// nothing is registered. RegisterWindow requires NCCL 2.27.
func (c *Comm) RegisterWindow(ctx context.Context, b *mem.Buffer) (undo func(context.Context) error, ok bool,
	err error) {
	if b == nil || b.Kind() != mem.Device {
		return nil, false, fmt.Errorf("nccl: register %v: only device memory can be a window", b)
	}
	if err := c.acquire(ctx); err != nil {
		return nil, false, err
	}
	defer c.release()
	held := b.Retain()
	cell, r := ncclapi.RegisterWindow(c.setCurrent, c.cfg.Device, c.handle, b.Region().Addr(), b.Region().Len())
	if cell != 0 {
		c.cells = append(c.cells, cell) // freed with the communicator, like those of Split
	}
	if err := c.await(ctx, "register a window", inProgress(r)); err != nil {
		held.Release()
		return nil, false, err
	}
	ok = ncclapi.PeekWindow(cell) != 0
	return func(ctx context.Context) error {
		if held == nil {
			return nil
		}
		err := c.acquire(ctx)
		if err == nil {
			err = c.await(ctx, "deregister a window", inProgress(ncclapi.DeregisterWindow(c.setCurrent, c.cfg.Device,
				c.handle, cell)))
			c.release()
		} else if c.Err() == nil {
			return err // the window is still registered
		}
		held.Release()
		held = nil
		return err
	}, ok, nil
}

// inProgress converts the success of a call that NCCL may continue in the background (seen with 2.28) to InProgress, so
// that its state is always polled.
func inProgress(r ncclapi.Result) ncclapi.Result {
	if r == ncclapi.Success {
		return ncclapi.InProgress
	}
	return r
}
