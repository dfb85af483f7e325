// Package hooks has the functions of package cuda that other bindings need, so that they can call them without linking
// the driver.
package hooks

import (
	"context"
	"sync/atomic"
)

// Hooks are functions of package cuda, those for C as addresses.
type Hooks struct {
	// SetCurrent is int (*)(int device): it makes the device's primary context current on the calling OS thread, and
	// retains it first if needed. 0 is success.
	SetCurrent uintptr
	// EventQuery is int (*)(void *event): 0 finished, 1 not finished, negative: error.
	EventQuery uintptr
	// CopyIn copies host bytes to device memory and waits for completion. It is for bindings that receive host data for
	// a device buffer.
	CopyIn func(ctx context.Context, device int, dst uintptr, src []byte) error
	// CopyOut copies device memory to host bytes and waits for completion. Small copies of both directions do not wait
	// until the GPU serves this process instead of another one.
	CopyOut func(ctx context.Context, device int, dst []byte, src uintptr) error
}

var registered atomic.Pointer[Hooks]

// Register sets the hooks of the process. Package cuda calls it when it is imported (the functions load the driver only
// when they are called); the last call wins.
func Register(h Hooks) { registered.Store(&h) }

// Get returns the registered hooks, and false if no device package is linked.
func Get() (Hooks, bool) {
	h := registered.Load()
	if h == nil {
		return Hooks{}, false
	}
	return *h, true
}
