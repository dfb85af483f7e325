package mem

import "context"

// Event is the completion of the last write to device memory. Package cuda implements it.
//
// An Event must stay reachable for as long as its Handle is in use: a holder of the bare handle must keep the Event
// too.
type Event interface {
	// Handle returns the native event (a CUevent), for use by C code.
	Handle() uintptr
	// Query reports whether the write has finished, without blocking.
	Query() (done bool, err error)
	// Wait blocks until the write has finished or ctx is done. It never synchronizes a stream or a device.
	Wait(ctx context.Context) error
}
