package peernet

import (
	"context"
	"errors"
	"fmt"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/secure"
)

// ChannelOp is the op by which a worker opens a channel with another.
const ChannelOp = "millstream-channel"

// MaxHello bounds the hello of a channel, in bytes.
const MaxHello = 4 << 10

// ErrNoChannels is returned for a channel of a kind that the worker does not serve.
var ErrNoChannels = errors.New("peernet: channels of this kind are not served")

// Acceptor decides about a channel that a peer opens, by the hello of the peer. The function that it returns gets the
// comm, on a goroutine of the server, and owns it while it runs: the comm is closed when it returns, and ctx ends with
// the worker. An Acceptor may block for a while.
type Acceptor func(ctx context.Context, hello []byte) (serve func(ctx context.Context, c comm.Comm), err error)

// Serve lets other workers open channels of a kind: comms next to those of the tasks, under the worker's own address
// and certificates. It returns an error if the kind is already served. stop ends it; open channels stay open.
func (p *Peers) Serve(kind string, accept Acceptor) (stop func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, task.ErrHostClosed
	}
	if p.channels[kind] != nil {
		return nil, fmt.Errorf("peernet: channels of kind %q are already served", kind)
	}
	if p.channels == nil {
		p.channels = map[string]Acceptor{}
	}
	p.channels[kind] = accept
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.channels, kind)
	}, nil
}

// Acceptor returns the acceptor of channels of a kind, for a worker that has received ChannelOp.
func (p *Peers) Acceptor(kind string) (Acceptor, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a := p.channels[kind]; a != nil {
		return a, nil
	}
	return nil, fmt.Errorf("%w: %.100q", ErrNoChannels, kind)
}

// Open connects to another worker and opens a channel of a kind; its acceptor decides by hello. The caller closes the
// comm.
func (p *Peers) Open(ctx context.Context, peer, kind string, hello []byte) (comm.Comm, error) {
	if len(hello) > MaxHello {
		return nil, fmt.Errorf("peernet: hello of %d bytes exceeds %d", len(hello), MaxHello)
	}
	c, err := p.Network.Dial(ctx, peer, p.Dial.To(secure.Worker))
	if err != nil {
		return nil, err
	}
	if err := rpc.Call(ctx, c, ChannelOp, msgpack.MapOf("kind", kind, "hello", hello), nil); err != nil {
		c.Abort()
		return nil, err
	}
	return c, nil
}
