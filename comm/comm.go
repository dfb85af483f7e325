package comm

import (
	"context"
	"errors"

	"go.millstream.dev/internal/comm/closed"
	"go.millstream.dev/wire"
)

// Comm is a connection that carries whole messages in order, in both directions. Read and Write may run concurrently;
// concurrent Reads, or Writes, are serialized.
type Comm interface {
	// Write sends one message. It borrows the frames until it returns; the caller keeps the message. If ctx ends in the
	// middle of a message the comm is aborted.
	Write(ctx context.Context, m *wire.Message) error
	// Read returns the next message, which the caller releases. If ctx ends before data of a message has arrived the
	// comm stays usable, otherwise it is aborted.
	Read(ctx context.Context) (*wire.Message, error)
	// Close sends pending data, notifies the peer and frees the comm. It is idempotent and takes at most a second.
	Close() error
	// Abort closes the comm immediately.
	Abort()
	// Done returns a channel that is closed when the comm has ended on either side; Err returns why.
	Done() <-chan struct{}
	// Err returns nil while the comm is open, and then an error that wraps ErrClosed.
	Err() error
	// LocalAddr and PeerAddr return addresses such as tcp://10.0.0.1:8786.
	LocalAddr() string
	PeerAddr() string
	// Info returns the result of the handshake.
	Info() Info
}

// Listener accepts comms on an address. Accepted comms have completed their handshake: slow or hostile peers do not
// delay others.
type Listener interface {
	// Accept waits for the next comm.
	Accept(ctx context.Context) (Comm, error)
	// ListenAddr returns the bound address, such as tcp://0.0.0.0:8786.
	ListenAddr() string
	// ContactAddr returns the address at which peers reach the listener, such as tcp://10.0.0.1:8786.
	ContactAddr() string
	// Close stops listening. Accepted comms stay open. It is idempotent.
	Close() error
}

// Network dials and listens: that of the machine (Default), or a simulated one.
type Network interface {
	// Dial connects to an address and performs the handshake.
	Dial(ctx context.Context, address string, cfg DialConfig) (Comm, error)
	// Listen listens on an address; port 0 lets the system choose.
	Listen(ctx context.Context, address string, cfg ListenConfig) (Listener, error)
}

// ErrProtocol is returned by operations on a comm whose peer has sent an invalid message after a valid handshake.
var ErrProtocol = errors.New("comm: protocol error")

// ErrClosed is returned by operations on a comm or listener that has ended, on either side. It matches net.ErrClosed
// with errors.Is. Dask's name for it is CommClosedError.
var ErrClosed = closed.New("comm: connection is closed")
