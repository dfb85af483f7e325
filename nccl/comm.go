package nccl

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/device/hooks"
	"go.millstream.dev/nccl/internal/ncclapi"
)

// Config says how a communicator is made. The zero value is device 0 with NCCL's defaults.
type Config struct {
	// Device is the GPU of this rank.
	Device int
	// CGAClusterSize, MinCTAs, MaxCTAs bound the blocks of a kernel (NCCL_CGA_CLUSTER_SIZE,
	// NCCL_MIN_CTAS, NCCL_MAX_CTAS). Default 0: NCCL chooses.
	CGAClusterSize, MinCTAs, MaxCTAs int
	// NetName is the network plugin to use, such as "IB" or "Socket" (NCCL_NET). Default:
	// NCCL chooses.
	NetName string
	// SplitShare lets communicators of Split and Shrink use this one's resources. Default off.
	SplitShare bool
}

func (cfg *Config) settings() *ncclapi.Settings {
	s := &ncclapi.Settings{CGAClusterSize: cfg.CGAClusterSize, MinCTAs: cfg.MinCTAs, MaxCTAs: cfg.MaxCTAs,
		NetName: cfg.NetName}
	if cfg.SplitShare {
		s.SplitShare = 1
	}
	return s
}

// Comm is one rank of a communicator. Its methods are safe for concurrent use, and take turns.
type Comm struct {
	cfg        Config
	rank, size int
	setCurrent uintptr

	// turn holds one token: who has it may call NCCL for this communicator. It is a channel
	// so that waiting for it ends with a context.
	turn     chan struct{}
	handle   uint64   // owned by the holder of turn; 0 when it is closed or aborted
	cells    []uint64 // of Split and Shrink; owned by the holder of turn
	aborting atomic.Bool

	mu  sync.Mutex
	err error // why it is of no use any more
}

// Init joins a communicator of size ranks as rank. All ranks call it with the same id, in any
// order; it returns when all have joined. When ctx ends earlier this rank gives up and the
// others do not get through either, until their own contexts end.
func Init(ctx context.Context, cfg Config, id UniqueID, rank, size int) (*Comm, error) {
	if size < 1 || rank < 0 || rank >= size {
		return nil, fmt.Errorf("nccl: rank %d of %d: ranks are 0 to size-1", rank, size)
	}
	if err := Available(); err != nil {
		return nil, err
	}
	c, err := newComm(cfg, rank, size)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	raw := [128]byte(id)
	var r ncclapi.Result
	c.handle, r = ncclapi.Init(c.setCurrent, cfg.Device, size, &raw, rank, cfg.settings())
	return c.started(ctx, fmt.Sprintf("init of rank %d of %d", rank, size), r)
}

func newComm(cfg Config, rank, size int) (*Comm, error) {
	if _, err := cuda.DeviceByOrdinal(cfg.Device); err != nil {
		return nil, fmt.Errorf("nccl: %w", err)
	}
	device, ok := hooks.Get()
	if !ok {
		return nil, errors.New("nccl: package cuda has no hooks: it was built without cgo")
	}
	c := &Comm{cfg: cfg, rank: rank, size: size, setCurrent: device.SetCurrent, turn: make(chan struct{}, 1)}
	c.turn <- struct{}{}
	return c, nil
}

// started waits for a communicator that is being made.
func (c *Comm) started(ctx context.Context, op string, r ncclapi.Result) (*Comm, error) {
	<-c.turn
	defer func() { c.turn <- struct{}{} }()
	if err := c.settle(ctx, op, r); err != nil {
		return nil, err
	}
	return c, nil
}

// Rank is this process's number in the communicator, from 0.
func (c *Comm) Rank() int { return c.rank }

// Size is the number of ranks.
func (c *Comm) Size() int { return c.size }

// Handle is the ncclComm_t, for other libraries that call NCCL. It is a non-blocking one: a call
// that returns ncclInProgress is done when ncclCommGetAsyncError no longer says so. Nobody else may
// use the communicator meanwhile. It is valid until Close or Shutdown, so call neither meanwhile.
func (c *Comm) Handle(ctx context.Context) (uintptr, error) {
	if err := c.acquire(ctx); err != nil {
		return 0, err
	}
	defer c.release()
	return uintptr(c.handle), nil
}

// Err is why the communicator is of no use any more, or nil.
func (c *Comm) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// fail keeps the first reason and returns it.
func (c *Comm) fail(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
	return c.err
}

// acquire takes the right to call NCCL; the caller gives it back by release.
func (c *Comm) acquire(ctx context.Context) error {
	select {
	case <-c.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := c.Err(); err != nil {
		c.release()
		return err
	}
	if c.aborting.Load() {
		err := c.abort(ErrAborted)
		c.release()
		return err
	}
	return nil
}

func (c *Comm) release() { c.turn <- struct{}{} }

// abort frees the communicator, with the turn, and returns why.
func (c *Comm) abort(why error) error {
	if c.handle != 0 {
		ncclapi.Abort(c.setCurrent, c.cfg.Device, c.handle)
		c.handle = 0
	}
	return c.fail(why)
}

// Close ends the communicator at once, with whatever is in flight on this rank (ncclCommAbort), and
// frees it. Operations of other ranks that wait for this one end when their contexts do, or when
// NCCL notices. Close returns nil; closing again, or after Shutdown, does nothing.
func (c *Comm) Close() error {
	c.aborting.Store(true) // the holder of the turn sees it
	<-c.turn
	if c.Err() == nil {
		c.fail(c.abort(ErrAborted))
	}
	c.release()
	return nil
}

// Shutdown waits for what this rank has enqueued, ends the communicator and frees it. All ranks
// should call it. When ctx ends earlier it closes the communicator as Close does. Calling it
// again, or on what has failed or was closed, does nothing and returns nil.
func (c *Comm) Shutdown(ctx context.Context) error {
	if c.Err() != nil {
		return nil
	}
	if err := c.acquire(ctx); err != nil {
		if c.Err() != nil {
			return nil
		}
		_ = c.Close()
		return err
	}
	defer c.release()
	if err := c.settle(ctx, "close", ncclapi.Finalize(c.setCurrent, c.cfg.Device, c.handle)); err != nil {
		return err
	}
	r := ncclapi.Destroy(c.setCurrent, c.cfg.Device, c.handle)
	c.handle = 0
	for _, cell := range c.cells {
		ncclapi.Free(cell)
	}
	c.cells = nil
	c.fail(ErrClosed)
	if r != ncclapi.Success {
		return &Error{Op: "close", Result: Result(r)}
	}
	return nil
}
