package collective

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"go.millstream.dev/internal/collective/elem"
	"go.millstream.dev/mem"
)

// deviceCarrier carries device memory for groups over UCX and comms. Where all ranks reach each other's memory by CUDA
// IPC, each does its part with one kernel or a few copies that work on it directly; elsewhere, and for little data, it
// goes through pinned memory and the group's collectives on host memory.
//
// Work of other ranks is never waited for on the device but on the host, between two exchanges of the group: a stream
// that waits for a process that dies would wait for ever.
type deviceCarrier struct {
	g    *Group
	open func(device int) (gpu, error)

	mu      sync.Mutex // guards what follows
	ordinal int        // -1: not known yet
	dev     gpu
	closed  bool
	reason  error // why the last call went through the host

	// What follows belongs to whoever has the group's turn.
	announced map[uint64]bool // allocations that the other ranks know
	seen      map[uint64]bool // allocations that little data was in before
	indirect  bool            // some rank cannot reach another's memory
	failures  int             // to open memory, in a row
	words     []byte          // of all ranks
	stages    [2]stage
}

// NewDeviceCarrier makes the carrier of a group's device memory, on one device; -1 is that of the first buffer that it
// sees. It does nothing before it is used. Give it to the group with SetCarrier.
func NewDeviceCarrier(g *Group, device int) Carrier { return newDeviceCarrier(g, device, openCUDA) }

func newDeviceCarrier(g *Group, device int, open func(int) (gpu, error)) *deviceCarrier {
	return &deviceCarrier{g: g, ordinal: device, open: open, announced: map[uint64]bool{}, seen: map[uint64]bool{}}
}

// directMin is the size of a rank's buffer in bytes from which on ranks reach for each other's memory at once. Smaller
// buffers are worth opening only if the same allocation is used again, as a pool's is: the first time they go through
// the host.
var directMin = 32 << 10

// Name implements Carrier.
func (k *deviceCarrier) Name() string { return "ucx" }

// gpu opens the device at the first use, which is with buffers, of which one at least is not nil.
func (k *deviceCarrier) gpu(bufs ...*mem.Buffer) (gpu, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil, ErrClosed
	}
	k.choose(bufs)
	if k.dev == nil {
		dev, err := k.open(k.ordinal)
		if err != nil {
			return nil, fmt.Errorf("collective: device %d: %w", k.ordinal, err)
		}
		k.dev = dev
	}
	return k.dev, nil
}

// why keeps the reason for which a call goes through the host, nil if it does not.
func (k *deviceCarrier) why(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reason = err
}

// Staged says why large data went through the host the last time; nil if it did not.
func (k *deviceCarrier) Staged() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.reason
}

// Flush returns when all that this rank has put on its device is done. What other ranks do to its memory is over when a
// call returns.
func (k *deviceCarrier) Flush(ctx context.Context) error {
	k.mu.Lock()
	dev := k.dev
	k.mu.Unlock()
	if dev == nil {
		return nil
	}
	return dev.flush(ctx)
}

// choose settles on a device, with mu held.
func (k *deviceCarrier) choose(bufs []*mem.Buffer) {
	for _, b := range bufs {
		if b != nil && k.ordinal < 0 {
			k.ordinal = b.Device()
		}
	}
}

// Check implements Checker.
func (k *deviceCarrier) Check(c *Call) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.choose([]*mem.Buffer{c.Send.Buffer, c.Recv.Buffer})
	for _, b := range [...]*mem.Buffer{c.Send.Buffer, c.Recv.Buffer} {
		if b != nil && b.Len() > 0 && b.Device() != k.ordinal {
			return fmt.Sprintf("a buffer on device %d: this rank's collectives run on device %d", b.Device(), k.ordinal)
		}
	}
	return ""
}

// Run implements Carrier.
func (k *deviceCarrier) Run(ctx context.Context, c *Call) error {
	dev, err := k.gpu(c.Send.Buffer, c.Recv.Buffer)
	if err != nil {
		return err
	}
	if len(k.g.parts) == 1 {
		return k.alone(dev, c)
	}
	count := int(k.g.parts[0].count) // the group's next exchange has other parts
	if k.indirect || len(k.g.parts) > maxFold || count == 0 && !ragged(c) {
		return k.staged(ctx, dev, c, count)
	}
	done, err := k.direct(ctx, dev, c, remember(k.g.parts), count < directMin && !ragged(c))
	if done || err != nil {
		return err
	}
	return k.staged(ctx, dev, c, count)
}

// ragged reports whether each rank has a count of its own.
func ragged(c *Call) bool {
	return c.Code == AllGatherV || c.Code == GatherV || c.Code == ScatterV || c.Code == AllToAllV
}

// alone is a group of one rank.
func (k *deviceCarrier) alone(dev gpu, c *Call) error {
	if c.Recv.Buffer == nil || c.Send.Buffer == nil || c.Send.Buffer.Len() == 0 {
		return nil
	}
	if elem.CodeOf(c.Op) == elem.OpPreMulSum && c.reduces() {
		f := foldCall{count: uint64(c.Send.Buffer.Len() / c.Kind.Size()), sources: 1, targets: 1, ranks: 1}
		f.source[0], f.target[0], f.scale[0] = uint64(c.Send.Buffer.Addr()), uint64(c.Recv.Buffer.Addr()),
			elem.ScaleOf(c.Op)
		_, err := dev.fold(c.Kind, elem.CodeOf(c.Op), &f, []*mem.Buffer{c.Send.Buffer}, []*mem.Buffer{c.Recv.Buffer})
		return err
	}
	if c.Send.Buffer.Addr() == c.Recv.Buffer.Addr() {
		return nil
	}
	_, err := dev.copy(c.Recv.Buffer, c.Send.Buffer)
	return err
}

// Close implements Carrier.
func (k *deviceCarrier) Close() error {
	k.mu.Lock()
	dev := k.dev
	k.dev, k.closed = nil, true
	k.mu.Unlock()
	for i := range k.stages {
		k.stages[i].free()
	}
	if dev == nil {
		return nil
	}
	return dev.close()
}

// waitEvent waits for the device: it spins for as long as collectives usually take, since all ranks wait for the
// slowest.
func waitEvent(ctx context.Context, e mem.Event) error {
	if e == nil {
		return nil
	}
	const spin = 500 * time.Microsecond
	for begin := time.Now(); time.Since(begin) < spin; runtime.Gosched() {
		if done, err := e.Query(); done || err != nil {
			return err
		}
	}
	return e.Wait(ctx)
}

// waitReady waits for the last writes of buffers, which may be nil.
func waitReady(ctx context.Context, bufs ...*mem.Buffer) error {
	for _, b := range bufs {
		if b == nil {
			continue
		}
		if err := waitEvent(ctx, b.Ready()); err != nil {
			return err
		}
	}
	return nil
}
