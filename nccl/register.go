package nccl

import (
	"context"
	"fmt"

	"go.millstream.dev/internal/ncclapi"
	"go.millstream.dev/mem"
)

// Register makes a buffer's region known to the communicator, so that NCCL can skip copies
// through buffers of its own (it does so for memory that the network or NVLink SHARP can reach;
// elsewhere it changes nothing). All ranks should register theirs. The returned function undoes
// it, and must be called before the memory is freed or the communicator closed. It needs NCCL
// 2.19.
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
	if err := c.settle(ctx, "register memory", r); err != nil {
		held.Release()
		return nil, err
	}
	return func(ctx context.Context) error {
		if held == nil {
			return nil
		}
		if err := c.acquire(ctx); err != nil {
			if c.Err() != nil { // the registration went with the communicator
				held.Release()
				held = nil
			}
			return err
		}
		defer c.release()
		err := c.settle(ctx, "deregister memory", ncclapi.Deregister(c.setCurrent, c.cfg.Device, c.handle, handle))
		held.Release()
		held = nil
		return err
	}, nil
}
