package mem

import "context"

// Stream is a queue of a device's work, in whose order a pool hands memory on. Package cuda's
// Stream implements it. The value must be comparable: a pointer.
type Stream interface {
	// Handle is the native stream (a CUstream), for logs.
	Handle() uintptr
	// Mark returns an event that completes with the work that is enqueued so far.
	Mark() (Event, error)
	// WaitEvent makes later work of the stream wait for e on the device, and returns at once.
	WaitEvent(e Event) error
	// OnClose registers a function that runs when the stream is closed, while Mark still
	// works.
	OnClose(f func())
}

// StreamResource is a Resource that allocates in the order of streams.
type StreamResource interface {
	Resource
	// AllocOn returns a buffer of n bytes that work enqueued on s from now on may use. Nobody
	// else may before that work has been waited for: not the CPU, no other stream, no network
	// device. Memory for those comes from Alloc, which AllocOn is for a nil stream.
	//
	// Releasing the buffer does not wait for s. Work on other streams that uses it must be
	// behind Buffer.SetReady before.
	AllocOn(ctx context.Context, n int, s Stream) (*Buffer, error)
}

// AllocOn allocates from r in the order of s. A resource without streams gives memory that
// any work may use at once, that of s as well.
func AllocOn(ctx context.Context, r Resource, n int, s Stream) (*Buffer, error) {
	if s != nil {
		if sr, ok := r.(StreamResource); ok {
			return sr.AllocOn(ctx, n, s)
		}
	}
	return r.Alloc(ctx, n)
}

// streamHandle is the handle of a stream, 0 for none.
func streamHandle(s Stream) uintptr {
	if s == nil {
		return 0
	}
	return s.Handle()
}

// recordedOn reports whether an event marks work of s itself, which needs no wait: what s does
// later is behind it. Events that do not know are waited for.
func recordedOn(e Event, s Stream) bool {
	r, ok := e.(interface{ RecordedOn(Stream) bool })
	return ok && r.RecordedOn(s)
}
