package task

import (
	"context"
	"errors"
	"fmt"

	"go.millstream.dev/comm"
	"go.millstream.dev/rpc"
	"go.millstream.dev/secure"
	"go.millstream.dev/wire/msgpack"
)

// ChannelOp is the op by which a worker opens a channel with another.
const ChannelOp = "millstream-channel"

// MaxChannelHello bounds what is said first on a channel, in bytes.
const MaxChannelHello = 4 << 10

// ErrNoChannels is returned for a channel of a kind that the worker does not serve.
var ErrNoChannels = errors.New("task: the worker serves no channels of this kind")

// ChannelAcceptor decides about a channel that a peer opens, by what the peer said first.
// What it returns gets the comm, in a goroutine of the server's, and has it for as long as it
// runs: the comm ends with it, and ctx ends with the worker. It may wait for a while.
type ChannelAcceptor func(ctx context.Context, hello []byte) (serve func(ctx context.Context, c comm.Comm), err error)

// ServeChannels lets other workers open channels of a kind: comms beside those of the tasks,
// under the worker's own address and certificates, for what works among workers, such as
// cliques. It is an error if the kind is taken. stop ends it; channels that are open stay.
func (h *Host) ServeChannels(kind string, accept ChannelAcceptor) (stop func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, ErrHostClosed
	}
	if h.channels[kind] != nil {
		return nil, fmt.Errorf("task: channels of kind %q are served already", kind)
	}
	if h.channels == nil {
		h.channels = map[string]ChannelAcceptor{}
	}
	h.channels[kind] = accept
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.channels, kind)
	}, nil
}

// Channels is who accepts channels of a kind, for the worker, which has got ChannelOp.
func (h *Host) Channels(kind string) (ChannelAcceptor, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if a := h.channels[kind]; a != nil {
		return a, nil
	}
	return nil, fmt.Errorf("%w: %.100q", ErrNoChannels, kind)
}

// OpenChannel connects to another worker and opens a channel of a kind with it. hello is what
// its acceptor decides by. The caller closes the comm.
func (h *Host) OpenChannel(ctx context.Context, peer, kind string, hello []byte) (comm.Comm, error) {
	if len(hello) > MaxChannelHello {
		return nil, fmt.Errorf("task: a channel's hello has %d bytes, %d are allowed", len(hello), MaxChannelHello)
	}
	c, err := h.Network.Dial(ctx, peer, h.Dial.To(secure.Worker))
	if err != nil {
		return nil, err
	}
	if err := rpc.Call(ctx, c, ChannelOp, msgpack.MapOf("kind", kind, "hello", hello), nil); err != nil {
		c.Abort()
		return nil, err
	}
	return c, nil
}
