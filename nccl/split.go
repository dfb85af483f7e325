package nccl

import (
	"context"
	"fmt"

	"go.millstream.dev/nccl/internal/ncclapi"
)

// Split partitions the communicator into new ones: ranks with the same color are in one, ordered by key, then by their
// rank here. All ranks call it. A rank with a negative color is in none and gets nil. This communicator is not changed.
// Split requires NCCL 2.18.
func (c *Comm) Split(ctx context.Context, color, key int, cfg Config) (*Comm, error) {
	color = max(color, -1) // NCCL_SPLIT_NOCOLOR
	return c.derive(ctx, fmt.Sprintf("split with color %d", color), cfg, color >= 0, func() (uint64, ncclapi.Result) {
		return ncclapi.Split(c.setCurrent, c.cfg.Device, c.handle, color, key, cfg.settings())
	})
}

// Shrink returns a communicator of all ranks except those given; only the remaining ranks call it. With abort,
// operations in flight (with a failed rank, for example) are ended first; call it then instead of waiting for them.
// Shrink requires NCCL 2.27.
func (c *Comm) Shrink(ctx context.Context, without []int, abort bool, cfg Config) (*Comm, error) {
	list := make([]int32, len(without))
	for i, rank := range without {
		if err := c.checkRank("shrink", "rank", rank); err != nil {
			return nil, err
		}
		if rank == c.rank {
			return nil, fmt.Errorf("nccl: shrink without rank %d: called by that rank", rank)
		}
		list[i] = int32(rank)
	}
	if len(list) == 0 || len(list) >= c.size {
		return nil, fmt.Errorf("nccl: shrink of %d ranks without %d: exclude at least one rank and not all", c.size,
			len(list))
	}
	return c.derive(ctx, "shrink", cfg, true, func() (uint64, ncclapi.Result) {
		return ncclapi.Shrink(c.setCurrent, c.cfg.Device, c.handle, list, abort, cfg.settings())
	})
}

// derive creates a communicator from this one, or none if this rank is not part of it.
func (c *Comm) derive(ctx context.Context, op string, cfg Config, part bool,
	begin func() (cell uint64, r ncclapi.Result)) (*Comm, error) {
	if err := c.acquire(ctx); err != nil {
		return nil, err
	}
	cell, r := begin()
	err := c.await(ctx, op, r)
	if err == nil && part {
		err = c.awaitCell(ctx, op, cell)
	}
	handle := ncclapi.Peek(cell)
	// NCCL may still use the cell, and does not report when it no longer does: for a rank that is not part of the new
	// communicator it writes NULL into it later (seen with 2.28). The cell is freed with this communicator.
	c.cells = append(c.cells, cell)
	c.release()
	if err != nil || !part {
		return nil, err
	}
	cfg.Device = c.cfg.Device
	made, err := newComm(cfg, 0, 0)
	if err != nil {
		return nil, err
	}
	made.handle = handle
	if made, err = made.awaitInit(ctx, op, ncclapi.InProgress); err != nil {
		return nil, err
	}
	if made.rank, made.size, r = ncclapi.Place(handle); r != ncclapi.Success {
		_ = made.Close()
		return nil, &Error{Op: op, Result: Result(r)}
	}
	return made, nil
}
