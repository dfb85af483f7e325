// Package copier defines what packages that move device memory need: queues of copies and pinned memory. Package cuda
// registers those of GPUs when it is imported, so that a program without it links no CUDA; such a program has no GPU
// memory either.
package copier

import (
	"context"
	"errors"
	"sync/atomic"

	"go.millstream.dev/mem"
)

// ErrNone is returned by Open and ToHost in a program without a package for device memory.
var ErrNone = errors.New("copier: no package for memory of devices is linked; import go.millstream.dev/cuda")

// Copier is a queue of copies of one device.
type Copier interface {
	// Copy enqueues a copy of src to dst, after the ready events of both, and holds both until it is done.
	Copy(dst, src *mem.Buffer) (mem.Event, error)
	// Mark returns an event that is done when all copies enqueued so far are.
	Mark() (mem.Event, error)
}

// Device has the queues and the memory for copies to and from a device.
type Device struct {
	// Down copies from the device to the host, Up to the device. They are separate queues, so that the directions do
	// not wait for each other.
	Down, Up Copier
	// Pinned allocates host memory that the device copies from and to at full speed.
	Pinned mem.Resource
}

var (
	opener atomic.Pointer[func(device int) (Device, error)]
	toHost atomic.Pointer[func(ctx context.Context, dst []byte, src *mem.Buffer) error]
)

// Register sets how devices of this process are opened. Call it from an init function.
func Register(open func(device int) (Device, error)) { opener.Store(&open) }

// Open returns new queues of a device, by its ordinal in this process.
func Open(device int) (Device, error) {
	open := opener.Load()
	if open == nil {
		return Device{}, ErrNone
	}
	return (*open)(device)
}

// RegisterToHost sets how device memory is copied to the host. Call it from an init function.
func RegisterToHost(copy func(ctx context.Context, dst []byte, src *mem.Buffer) error) {
	toHost.Store(&copy)
}

// ToHost copies device memory into a slice of equal length and waits for completion.
func ToHost(ctx context.Context, dst []byte, src *mem.Buffer) error {
	f := toHost.Load()
	if f == nil {
		return ErrNone
	}
	return (*f)(ctx, dst, src)
}
