package devmem

import (
	"context"
	"fmt"
	"unsafe"

	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/device/cudrv"
	"go.millstream.dev/mem"
)

// Driver is the part of CUDA that this package uses. devmemtest has one without a GPU.
type Driver interface {
	// Device returns the description of a GPU. It creates no context.
	Device(ordinal int) (cuda.Device, error)
	// Context creates the primary context.
	Context(ordinal int) error
	Free(ordinal int) (free, total int64, err error)
	Plain(ordinal int) mem.Resource
	Managed(ordinal int) mem.Resource
	Pinned(ordinal int) mem.Resource
	// Pin locks the pages of host memory for copies, Unpin unlocks them.
	Pin(ordinal int, b []byte) error
	Unpin(ordinal int, b []byte) error
	Async(s Stream) mem.Resource
	// KeepPool sets how many unused bytes the driver's pool keeps.
	KeepPool(ordinal int, bytes int64) error
	// PoolReserved returns the size of that pool, 0 if unknown.
	PoolReserved(ordinal int) int64
	Stream(ordinal int) (Stream, error)
	// Copy enqueues a copy, and returns an event that is done with it.
	Copy(s Stream, dst, src *mem.Buffer) (mem.Event, error)
}

// Stream is a cuda.Stream.
type Stream interface {
	mem.Stream
	Close() error
}

type realDriver struct{}

func (realDriver) Device(ordinal int) (cuda.Device, error) {
	if err := cuda.Available(); err != nil {
		return cuda.Device{}, err
	}
	n, err := cuda.DeviceCount()
	if err != nil {
		return cuda.Device{}, err
	}
	if ordinal < 0 || ordinal >= n {
		return cuda.Device{}, fmt.Errorf("devmem: no device %d: %d devices are visible (CUDA_VISIBLE_DEVICES)", ordinal,
			n)
	}
	return cuda.DeviceByOrdinal(ordinal)
}

func (realDriver) Context(ordinal int) error {
	_, err := cuda.PrimaryContext(ordinal)
	return err
}

func (realDriver) Free(ordinal int) (free, total int64, err error) { return cuda.MemoryInfo(ordinal) }
func (realDriver) Plain(ordinal int) mem.Resource                  { return cuda.NewDeviceResource(ordinal) }
func (realDriver) Managed(ordinal int) mem.Resource                { return cuda.NewManagedResource(ordinal) }
func (realDriver) Pinned(ordinal int) mem.Resource                 { return cuda.NewPinnedResource(ordinal) }
func (realDriver) Async(s Stream) mem.Resource                     { return cuda.NewAsyncResource(s.(*cuda.Stream)) }

func (realDriver) Pin(ordinal int, b []byte) error {
	return pinError("pin", b, cudrv.HostRegister(ordinal, uint64(address(b)), len(b)))
}

func (realDriver) Unpin(ordinal int, b []byte) error {
	return pinError("unpin", b, cudrv.HostUnregister(ordinal, uint64(address(b))))
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

func pinError(op string, b []byte, r cudrv.Result) error {
	if r == cudrv.Success {
		return nil
	}
	name, text := r.Text()
	return fmt.Errorf("devmem: %s %d bytes of host memory: %s (%s)", op, len(b), name, text)
}

func (realDriver) KeepPool(ordinal int, bytes int64) error {
	return cuda.SetReleaseThreshold(ordinal, bytes)
}

func (realDriver) PoolReserved(ordinal int) int64 {
	n, err := cuda.DriverPoolBytes(ordinal)
	if err != nil {
		return 0
	}
	return n
}

func (realDriver) Stream(ordinal int) (Stream, error) {
	s, err := cuda.NewStream(ordinal, cuda.StreamConfig{})
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (realDriver) Copy(s Stream, dst, src *mem.Buffer) (mem.Event, error) {
	e, err := s.(*cuda.Stream).Copy(dst, src)
	if err != nil {
		return nil, err
	}
	return e, nil
}

// wait waits for an event that may be nil.
func wait(ctx context.Context, e mem.Event) error {
	if e == nil {
		return ctx.Err()
	}
	return e.Wait(ctx)
}
