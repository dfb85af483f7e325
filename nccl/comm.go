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

// Config configures a communicator. The zero value is device 0 with NCCL's defaults.
type Config struct {
	// Device is the GPU of this rank.
	Device int
	// CGAClusterSize, MinCTAs, MaxCTAs bound the blocks of a kernel (NCCL_CGA_CLUSTER_SIZE,
	// NCCL_MIN_CTAS, NCCL_MAX_CTAS). Default 0: NCCL chooses.
	CGAClusterSize, MinCTAs, MaxCTAs int
	// NetName is the network plugin to use, such as "IB" or "Socket" (NCCL_NET). Default:
	// NCCL chooses.
	NetName string
	// SplitShare lets communicators of Split and Shrink share resources with this one. Default off.
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

// Comm is one rank of a communicator. Its methods are safe for concurrent use and run one at a time.
type Comm struct {
	cfg        Config
	rank, size int
	setCurrent uintptr

	// turn holds one token: its holder may call NCCL for this communicator. It is a channel so that waiting for it ends
	// with a context.
	turn     chan struct{}
	handle   uint64   // owned by the holder of turn; 0 when it is closed or aborted
	cells    []uint64 // of Split and Shrink; owned by the holder of turn
	aborting atomic.Bool

	mu  sync.Mutex
	err error // why it failed or was closed
}

// Init joins a communicator of size ranks as rank. All ranks call it with the same id, in any order; it returns when
// all have joined. When ctx ends earlier this rank gives up and the others fail when their own contexts end.
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
	return c.awaitInit(ctx, fmt.Sprintf("init of rank %d of %d", rank, size), r)
}

func newComm(cfg Config, rank, size int) (*Comm, error) {
	if _, err := cuda.DeviceByOrdinal(cfg.Device); err != nil {
		return nil, fmt.Errorf("nccl: %w", err)
	}
	device, ok := hooks.Get()
	if !ok {
		return nil, errors.New("nccl: built without cgo: build with CGO_ENABLED=1 and a C compiler")
	}
	c := &Comm{cfg: cfg, rank: rank, size: size, setCurrent: device.SetCurrent, turn: make(chan struct{}, 1)}
	c.turn <- struct{}{}
	return c, nil
}

// awaitInit waits for a communicator that is being created.
func (c *Comm) awaitInit(ctx context.Context, op string, r ncclapi.Result) (*Comm, error) {
	<-c.turn
	defer func() { c.turn <- struct{}{} }()
	if err := c.await(ctx, op, r); err != nil {
		return nil, err
	}
	return c, nil
}

// Rank returns this process's number in the communicator, from 0.
func (c *Comm) Rank() int { return c.rank }

// Size returns the number of ranks.
func (c *Comm) Size() int { return c.size }

// Handle returns the ncclComm_t, for other libraries that call NCCL. It is non-blocking: a call that returns
// ncclInProgress is complete when ncclCommGetAsyncError returns another result. The communicator must not be used
// otherwise at the same time. The handle is valid until Close or Shutdown.
func (c *Comm) Handle(ctx context.Context) (uintptr, error) {
	if err := c.acquire(ctx); err != nil {
		return 0, err
	}
	defer c.release()
	return uintptr(c.handle), nil
}

// Err returns why the communicator has failed or was closed, or nil.
func (c *Comm) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// fail stores the first reason and returns it.
func (c *Comm) fail(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
	return c.err
}

// acquire acquires the right to call NCCL; the caller returns it with release.
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

// abort frees the communicator, with the turn held, and returns why.
func (c *Comm) abort(why error) error {
	if c.handle != 0 {
		ncclapi.Abort(c.setCurrent, c.cfg.Device, c.handle)
		c.handle = 0
	}
	return c.fail(why)
}

// Close aborts the communicator, with all operations in flight on this rank (ncclCommAbort), and frees it. Operations
// of other ranks that wait for this one end when their contexts end, or when NCCL detects it. Close returns nil;
// closing again, or after Shutdown, does nothing.
func (c *Comm) Close() error {
	c.aborting.Store(true) // the holder of the turn sees it
	<-c.turn
	if c.Err() == nil {
		c.fail(c.abort(ErrAborted))
	}
	c.release()
	return nil
}

// Shutdown waits for all operations enqueued by this rank, then closes and frees the communicator. All ranks should
// call it. When ctx ends earlier it aborts the communicator as Close does. Calling it again, or after a failure or
// Close, does nothing and returns nil.
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
	if err := c.await(ctx, "close", ncclapi.Finalize(c.setCurrent, c.cfg.Device, c.handle)); err != nil {
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
