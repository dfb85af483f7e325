// Package obs holds the observability types of the transports: counters and an optional set of event callbacks.
//
// Counters are stored next to the state they count (for UCX in the worker's C memory, written by the holder of the
// progress token); a snapshot copies them. Events are a struct of funcs: a nil func costs nothing.
package obs

import "time"

// Events are called synchronously, without any lock held, but possibly by the goroutine that drives progress: they must
// return quickly and must not call back into the transport.
type Events struct {
	EndpointOpened func(Endpoint)
	EndpointClosed func(Endpoint, error) // nil error: closed cleanly by this side
	Registered     func(Registration)    // memory was registered with the network
	Deregistered   func(Registration)
	MessageDropped func(Drop) // an active message that exceeded the worker's limit
}

// Endpoint identifies one connection.
type Endpoint struct {
	Worker string
	ID     uint64
	Peer   string
}

// Registration is one registered range.
type Registration struct {
	Bytes int
	Kind  string // host, pinned, device, managed
	Took  time.Duration
}

// Drop describes a refused message.
type Drop struct {
	Worker string
	ID     uint16
	Bytes  int
}
