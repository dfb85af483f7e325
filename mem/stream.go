package mem

import "context"

// Stream is a queue of device work, in whose order a pool reuses memory. cuda.Stream implements it. The value must be
// comparable: a pointer.
type Stream interface {
	// Handle returns the native stream (a CUstream), for logs.
	Handle() uintptr
	// Mark returns an event that completes when the work enqueued so far is done.
	Mark() (Event, error)
	// WaitEvent makes later work of the stream wait for e on the device, and returns immediately.
	WaitEvent(e Event) error
	// OnClose registers a function that runs when the stream is closed, while Mark still works.
	OnClose(f func())
}

// StreamResource is a Resource that allocates in stream order.
type StreamResource interface {
	Resource
	// AllocOn returns a buffer of n bytes for work enqueued on s from now on. The CPU, other streams and network
	// devices must not use it before that work has completed; allocate memory for them with Alloc, which is equivalent
	// to AllocOn with a nil stream.
	//
	// Releasing the buffer does not wait for s. Work on other streams that uses it must be covered by Buffer.SetReady
	// before.
	AllocOn(ctx context.Context, n int, s Stream) (*Buffer, error)
}

// AllocOn allocates from r in the order of s. A resource without stream order returns memory that can be used
// immediately.
func AllocOn(ctx context.Context, r Resource, n int, s Stream) (*Buffer, error) {
	if s != nil {
		if sr, ok := r.(StreamResource); ok {
			return sr.AllocOn(ctx, n, s)
		}
	}
	return r.Alloc(ctx, n)
}

// streamHandle returns the handle of a stream, 0 for none.
func streamHandle(s Stream) uintptr {
	if s == nil {
		return 0
	}
	return s.Handle()
}

// recordedOn reports whether an event marks work of s itself, which needs no wait: later work of s runs after it.
// Events of other types are waited for.
func recordedOn(e Event, s Stream) bool {
	r, ok := e.(interface{ RecordedOn(Stream) bool })
	return ok && r.RecordedOn(s)
}
