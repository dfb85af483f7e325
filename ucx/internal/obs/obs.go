// Package obs holds what the transports report about themselves: counters that
// cost nothing to keep and an optional set of functions that hear of events.
//
// Counters live next to the state they count (for UCX in the worker's C memory,
// written by whoever holds the progress token); a snapshot copies them. Events are
// a struct of funcs: a nil func is free.
package obs

import "time"

// Events are called synchronously, without any lock held, but possibly by the
// goroutine that drives progress: they must return quickly and must not call back
// into the transport.
type Events struct {
	EndpointOpened func(Endpoint)
	EndpointClosed func(Endpoint, error) // nil error: closed by this side in peace
	Registered     func(Registration)    // memory was registered with the network
	Deregistered   func(Registration)
	MessageDropped func(Drop) // an active message that exceeded the worker's limit
}

// Endpoint identifies one connection.
type Endpoint struct {
	Worker string
	ID     uint64
	Peer   string
	Lanes  []string // "posix/memory", … where the library can tell
}

// Registration is one registered range.
type Registration struct {
	Bytes int
	Kind  string // host, pinned, device, managed
	Took  time.Duration
}

// Drop is one refused message.
type Drop struct {
	Worker string
	ID     uint16
	Bytes  int
}
