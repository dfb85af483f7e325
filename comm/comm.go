package comm

import (
	"context"
	"errors"

	"go.millstream.dev/internal/comm/closed"
	"go.millstream.dev/wire"
)

// Comm is one connection that carries whole messages in order, both ways. Read and Write
// may run at the same time; two Reads, or two Writes, take turns.
type Comm interface {
	// Write sends one message. It borrows the frames until it returns and leaves the
	// message the caller's. If ctx ends in the middle of a message the comm is aborted.
	Write(ctx context.Context, m *wire.Message) error
	// Read returns the next message, which the caller releases. If ctx ends while nothing
	// has arrived yet the comm lives on, otherwise it is aborted.
	Read(ctx context.Context) (*wire.Message, error)
	// Close sends what was written, tells the peer and frees the comm. It is idempotent
	// and takes a second at most.
	Close() error
	// Abort ends the comm at once.
	Abort()
	// Done is closed when the comm has ended on either side; Err says why.
	Done() <-chan struct{}
	// Err is nil while the comm lives, and then wraps ErrClosed.
	Err() error
	// LocalAddr and PeerAddr are addresses such as tcp://10.0.0.1:8786.
	LocalAddr() string
	PeerAddr() string
	// Info is what the handshake agreed on.
	Info() Info
}

// Listener accepts comms on an address. What it returns has done its handshake: slow or
// hostile peers keep nobody waiting.
type Listener interface {
	// Accept waits for the next comm.
	Accept(ctx context.Context) (Comm, error)
	// ListenAddr is what the listener is bound to, such as tcp://0.0.0.0:8786.
	ListenAddr() string
	// ContactAddr is what others use to reach it, such as tcp://10.0.0.1:8786.
	ContactAddr() string
	// Close stops listening. Accepted comms live on. It is idempotent.
	Close() error
}

// Network makes comms: the one of the machine (Default), or one of a test (sim).
type Network interface {
	// Dial connects to an address and does the handshake.
	Dial(ctx context.Context, address string, cfg DialConfig) (Comm, error)
	// Listen serves an address; port 0 lets the system choose.
	Listen(ctx context.Context, address string, cfg ListenConfig) (Listener, error)
}

// ErrProtocol is returned by operations on a comm whose peer has sent what is no message, after a good handshake.
var ErrProtocol = errors.New("comm: protocol error")

// ErrClosed is returned by operations on a comm or listener that has ended, on either side. It matches net.ErrClosed
// with errors.Is. Dask's name for it is CommClosedError.
var ErrClosed = closed.New("comm: connection is closed")
