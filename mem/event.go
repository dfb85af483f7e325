package mem

import (
	"context"
	"sync/atomic"
)

// Event is the completion of the last write to device memory. Package cuda implements it.
//
// An Event must stay reachable for as long as its Handle is in use: a holder of the bare
// handle keeps the Event too.
type Event interface {
	// Handle is the native event (a CUevent), for use by C code with DeviceHooks.EventQuery.
	Handle() uintptr
	// Query reports whether the write has finished, without blocking.
	Query() (done bool, err error)
	// Wait blocks until the write has finished or ctx is done. It never synchronises a
	// stream or a device.
	Wait(ctx context.Context) error
}

// DeviceHooks are C functions of package cuda, as addresses, so that other bindings can call
// them from C without importing cuda.
type DeviceHooks struct {
	// SetCurrent is int (*)(int device): it makes the device's primary context current on
	// the calling OS thread, retaining it first if need be. 0 is success.
	SetCurrent uintptr
	// EventQuery is int (*)(void *event): 0 finished, 1 not finished, negative: error.
	EventQuery uintptr
	// CopyIn copies host bytes to device memory and returns when they are there. It serves
	// bindings that find themselves with host data for a device buffer.
	CopyIn func(ctx context.Context, device int, dst uintptr, src []byte) error
}

var hooks atomic.Pointer[DeviceHooks]

// RegisterDeviceHooks installs the process's hooks. Package cuda calls it when it is imported
// (the functions load the driver only when they are called); the last call wins.
func RegisterDeviceHooks(h DeviceHooks) { hooks.Store(&h) }

// Hooks returns the registered hooks, and false when no device package is linked in.
func Hooks() (DeviceHooks, bool) {
	h := hooks.Load()
	if h == nil {
		return DeviceHooks{}, false
	}
	return *h, true
}
