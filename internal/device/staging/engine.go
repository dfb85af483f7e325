package staging

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.millstream.dev/internal/device/copier"
	"go.millstream.dev/mem"
)

// Unit is the chunk size of the comms' protocol: both ends of a transfer must use the same. Chunks of 0.5, 1, 2 and 4
// MiB over four stripes moved 8.6, 11.2, 12.2 and 13.1 GB/s on an H200.
const Unit = 2 << 20

// DefaultDepth is the default of Config.Depth.
const DefaultDepth = 3

// idleTime is how long unused pinned memory is kept.
const idleTime = 30 * time.Second

// Copier is a queue of copies of one device.
type Copier = copier.Copier

// Config configures an engine.
type Config struct {
	// Down copies from the device to the host, Up to the device. They should be separate queues, so that the directions
	// do not wait for each other.
	Down, Up Copier
	// Pinned allocates the memory of chunks. The engine uses a pool on it.
	Pinned mem.Resource
	// Chunk is the length of a chunk in bytes (default Unit). Both ends of a transfer must have the same.
	Chunk int
	// Depth is how many chunks of a stripe may be in flight on this side (default 3, at least 2).
	Depth int
}

// Engine moves memory of one device. It is safe for concurrent use; transfers do not wait for each other but share the
// copy engine.
type Engine struct {
	down, up     Copier
	pool         *mem.Pool
	chunk, depth int

	mu     sync.Mutex  // guards what follows
	active int         // transfers in progress
	idle   *time.Timer // frees the pinned memory; nil during a transfer
}

// New returns an engine. No memory is pinned before the first transfer.
func New(cfg Config) (*Engine, error) {
	e := &Engine{down: cfg.Down, up: cfg.Up, chunk: cmp.Or(cfg.Chunk, Unit), depth: cmp.Or(cfg.Depth, DefaultDepth)}
	if e.down == nil || e.up == nil || cfg.Pinned == nil {
		return nil, errors.New("staging: Down, Up and Pinned are required")
	}
	if e.chunk < 1 || e.depth < 2 {
		return nil, fmt.Errorf("staging: chunks of %d bytes, depth %d: want at least 1 and 2", e.chunk, e.depth)
	}
	var err error
	// A slab holds the chunks of one transfer: pinning costs about a millisecond for each 4 MiB.
	e.pool, err = mem.NewPool(cfg.Pinned, mem.PoolConfig{SlabBytes: e.chunk * e.depth})
	return e, err
}

// Chunk returns the length of a chunk in bytes.
func (e *Engine) Chunk() int { return e.chunk }

// PinnedBytes returns the size of the engine's pinned memory, used or kept for the next transfer.
func (e *Engine) PinnedBytes() int64 { return e.pool.Stats().Reserved }

// Trim frees unused pinned memory, which otherwise happens after half a minute without transfers.
func (e *Engine) Trim() { e.pool.Trim() }

// begin and end count the transfers, so that pinned memory is freed when there have been none for a while.
func (e *Engine) begin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.active++
	if e.idle != nil {
		e.idle.Stop()
		e.idle = nil
	}
}

func (e *Engine) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.active--
	if e.active == 0 {
		e.idle = time.AfterFunc(idleTime, e.Trim)
	}
}

// slot allocates pinned memory for n bytes, ready for use.
func (e *Engine) slot(ctx context.Context, n int) (*mem.Buffer, error) {
	b, err := e.pool.Alloc(ctx, n)
	if err != nil {
		return nil, fmt.Errorf("staging: pinned memory for a chunk of %d bytes: %w", n, err)
	}
	return b, nil
}

// plan specifies the chunks of a transfer that are sent over one stripe.
type plan struct {
	total, chunk int
	line, lines  int
}

// count returns the number of chunks of the stripe.
func (p plan) count() int {
	all := (p.total + p.chunk - 1) / p.chunk
	return (all - p.line + p.lines - 1) / p.lines
}

// at returns the range of the stripe's chunk k.
func (p plan) at(k int) (off, n int) {
	off = (p.line + k*p.lines) * p.chunk
	return off, min(p.chunk, p.total-off)
}
