//go:build cgo

package native

// #include "shim.h"
import "C"

import (
	"context"
	"errors"
	"fmt"

	"go.millstream.dev/clique"
	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/device/hooks"
	"go.millstream.dev/mem"
)

// device is the GPU state of one call. Without a GPU the stream is nil.
type device struct {
	ordinal int
	stream  *cuda.Stream
	own     bool // the stream was created for this call
	nccl    uintptr
}

// newDevice makes the stream of a call wait for its partitions, and leases the NCCL communicator together with all
// ranks if the clique uses NCCL.
func newDevice(ctx context.Context, r *clique.Rank, call Call) (*device, error) {
	d := &device{ordinal: -1, stream: call.Stream}
	var bufs []*mem.Buffer
	for _, p := range call.Partitions {
		for _, c := range p {
			if onDevice(c.Data) {
				bufs = append(bufs, c.Data)
			}
		}
	}
	switch {
	case d.stream != nil:
		d.ordinal = d.stream.Device()
	case len(bufs) > 0:
		d.ordinal = bufs[0].Device()
	case r.DeviceBackend() == clique.NCCL:
		d.ordinal = r.Device()
	default:
		return d, nil
	}
	if d.stream == nil {
		s, err := cuda.NewStream(d.ordinal, cuda.StreamConfig{})
		if err != nil {
			return nil, fmt.Errorf("native: %w", err)
		}
		d.stream, d.own = s, true
	}
	err := d.begin(ctx, r, bufs)
	if err != nil {
		d.free()
		return nil, err
	}
	return d, nil
}

func (d *device) begin(ctx context.Context, r *clique.Rank, bufs []*mem.Buffer) error {
	for _, b := range bufs {
		if b.Device() != d.ordinal {
			return fmt.Errorf("native: column on device %d, but the stream is on device %d; an algorithm "+
				"uses one device", b.Device(), d.ordinal)
		}
		if err := d.stream.WaitEvent(b.Ready()); err != nil {
			return err
		}
	}
	if r.DeviceBackend() != clique.NCCL {
		return nil
	}
	c, _, err := r.NCCL(ctx)
	if err != nil {
		return err
	}
	d.nccl, err = c.Handle(ctx)
	return err
}

// c returns the device for the thread of the algorithm.
func (d *device) c() C.native_device {
	if d.stream == nil {
		return C.native_device{ordinal: -1}
	}
	h, _ := hooks.Get()
	return C.native_device{ordinal: C.int(d.ordinal), stream: C.uintptr_t(d.stream.Handle()), nccl: C.uintptr_t(d.nccl),
		set_current: (*[0]byte)(pointer(h.SetCurrent))}
}

// memory returns a buffer for memory of the algorithm. Device memory is ready when the stream reaches this point.
func (d *device) memory(addr uintptr, n int) (*mem.Buffer, error) {
	if d.stream != nil {
		a, err := cuda.Pointer(addr)
		if err != nil {
			return nil, err
		}
		if a.Known && a.Kind == mem.Device {
			if a.Size > 0 && (addr < a.Base || addr-a.Base+uintptr(n) > uintptr(a.Size)) {
				return nil, fmt.Errorf("%w: range of %d bytes exceeds the device allocation, which has %d", errInvalid,
					n, a.Base+uintptr(a.Size)-addr)
			}
			b := mem.NewRegion(mem.RegionConfig{Addr: addr, Len: n, Kind: mem.Device, Device: a.Device}).Buffer()
			e, err := d.stream.Record()
			if err != nil {
				b.Release()
				return nil, err
			}
			b.SetReady(e)
			return b, nil
		}
	}
	return mem.NewRegion(mem.RegionConfig{Addr: addr, Len: n}).Buffer(), nil
}

// done waits until an operation no longer uses the memory of the algorithm.
func (d *device) done(ctx context.Context, r *clique.Rank, to *mem.Buffer) error {
	var err error
	if onDevice(to) {
		err = to.WaitReady(ctx)
	}
	return errors.Join(err, r.Flush(ctx))
}

// copy returns a copy of a column in new device memory.
func (d *device) copy(ctx context.Context, from *mem.Buffer) (*mem.Buffer, error) {
	b, err := cuda.NewDeviceResource(d.ordinal).Alloc(ctx, from.Len())
	if err != nil {
		return nil, err
	}
	e, err := d.stream.Copy(b, from)
	if err == nil {
		err = e.Wait(ctx) // the algorithm may change the column then
	}
	if err != nil {
		b.Release()
		return nil, err
	}
	return b, nil
}

// wait waits for the work that the algorithm has put on the stream.
func (d *device) wait(ctx context.Context) error {
	if d.stream == nil {
		return nil
	}
	return d.stream.Wait(ctx)
}

func (d *device) free() {
	if d.own {
		_ = d.stream.Close()
	}
}
