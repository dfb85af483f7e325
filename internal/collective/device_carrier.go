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

// deviceCarrier moves device memory for groups over UCX and comms. If all ranks can access each other's memory by CUDA
// IPC, each does its part with one kernel or a few copies on that memory. Otherwise, and for small data, it stages data
// through pinned memory and runs the collectives of the group on host memory.
//
// Work of other ranks is waited for on the host, between two exchanges of the group, and not on the device: a stream
// that waits for a lost process would never continue.
type deviceCarrier struct {
	g    *Group
	open func(device int) (gpu, error)

	mu      sync.Mutex // guards the fields below
	ordinal int        // -1 until a buffer is used
	dev     gpu
	closed  bool
	reason  error // why the last call was staged

	// The fields below belong to the goroutine that has the turn of the group.
	announced map[uint64]bool // allocations that the other ranks have opened
	seen      map[uint64]bool // allocations that held small data before
	indirect  bool            // some rank cannot access the memory of another
	failures  int             // consecutive failures to open memory
	infos     []byte          // encoded, of all ranks
	stages    [2]stage
}

// NewDeviceCarrier returns a carrier for the device memory of a group on one device; -1 selects the device of the first
// buffer. It allocates nothing before its first use. Pass it to SetCarrier.
func NewDeviceCarrier(g *Group, device int) Carrier { return newDeviceCarrier(g, device, openCUDA) }

func newDeviceCarrier(g *Group, device int, open func(int) (gpu, error)) *deviceCarrier {
	return &deviceCarrier{g: g, ordinal: device, open: open, announced: map[uint64]bool{}, seen: map[uint64]bool{}}
}

// directMin is the size of a rank's buffer, in bytes, from which ranks open each other's memory immediately. Smaller
// buffers are staged the first time: opening them pays off only if the allocation is used again, as that of a pool.
var directMin = 32 << 10

// Name implements Carrier.
func (k *deviceCarrier) Name() string { return "ucx" }

// gpu opens the device at the first use. At least one of the buffers is not nil.
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

// setReason records why a call is staged, nil if it is not.
func (k *deviceCarrier) setReason(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reason = err
}

// Staged returns why large data was staged in the last call, nil if it was not.
func (k *deviceCarrier) Staged() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.reason
}

// Flush waits for all work of this rank on its device. Other ranks have finished with its memory when a call returns.
func (k *deviceCarrier) Flush(ctx context.Context) error {
	k.mu.Lock()
	dev := k.dev
	k.mu.Unlock()
	if dev == nil {
		return nil
	}
	return dev.flush(ctx)
}

// choose selects the device of the first buffer. The caller holds mu.
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
			return fmt.Sprintf("buffer on device %d, but collectives of this rank run on device %d", b.Device(),
				k.ordinal)
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
		return k.runAlone(dev, c)
	}
	count := int(k.g.parts[0].count) // the next exchange overwrites parts
	if k.indirect || len(k.g.parts) > maxFold || count == 0 && !ragged(c) {
		return k.runStaged(ctx, dev, c, count)
	}
	done, err := k.runDirect(ctx, dev, c, cloneParts(k.g.parts), count < directMin && !ragged(c))
	if done || err != nil {
		return err
	}
	return k.runStaged(ctx, dev, c, count)
}

// ragged reports whether each rank has its own count.
func ragged(c *Call) bool {
	return c.Code == AllGatherV || c.Code == GatherV || c.Code == ScatterV || c.Code == AllToAllV
}

// runAlone runs a call in a group of one rank.
func (k *deviceCarrier) runAlone(dev gpu, c *Call) error {
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

// waitEvent waits for the device. It polls for as long as collectives usually take, since all ranks wait for the
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

// waitReady waits for the last writes to buffers, which may be nil.
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
