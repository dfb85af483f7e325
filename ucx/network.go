package ucx

import (
	"context"
	"errors"
	"sync"
)

// Network dials and listens on one context and one worker, which it makes when they are first needed. The zero value is
// useful; do not change or copy a Network after its first use. It is safe for any number of goroutines.
//
// Programs that need one worker only are done with a Network; those with several, or with memory to register, use
// [NewContext] and [Context.NewWorker].
type Network struct {
	// Config is that of the context.
	Config Config
	// WorkerConfig is that of the worker.
	WorkerConfig WorkerConfig

	mu     sync.Mutex
	worker *Worker
}

// Default is the Network of [Dial] and [Listen]. Programs that want other settings replace it before the first call, or
// use a Network of their own.
var Default = &Network{}

// Dial connects to a [Listener] of another worker by the worker of [Default]. addr is as in [Worker.Dial].
func Dial(ctx context.Context, addr string) (*Endpoint, error) { return Default.Dial(ctx, addr) }

// Listen listens for other Millstream workers by the worker of [Default]. addr is as in [Worker.Dial].
func Listen(ctx context.Context, addr string) (*Listener, error) { return Default.Listen(ctx, addr) }

// Dial connects to a [Listener] of another worker; see [Worker.Dial].
func (n *Network) Dial(ctx context.Context, addr string) (*Endpoint, error) {
	w, err := n.Worker()
	if err != nil {
		return nil, &OpError{Op: "connect", Peer: addr, Err: err}
	}
	return w.Dial(ctx, addr)
}

// Listen listens for other Millstream workers; see [Worker.Listen].
func (n *Network) Listen(ctx context.Context, addr string) (*Listener, error) {
	w, err := n.Worker()
	if err != nil {
		return nil, &OpError{Op: "listen", Peer: addr, Err: err}
	}
	return w.Listen(ctx, addr)
}

// Worker returns the worker, which it makes if there is none. A failure is not kept: the next call tries again.
// [Worker.Context] is the context. Close the Network, not the worker.
func (n *Network) Worker() (*Worker, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.worker != nil {
		return n.worker, nil
	}
	c, err := NewContext(n.Config)
	if err != nil {
		return nil, err
	}
	w, err := c.NewWorker(n.WorkerConfig)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	n.worker = w
	return w, nil
}

// Close closes the worker, with its endpoints and listeners, and the context. The worker of a Network is kept until then,
// idle, so that the next Dial is fast; an idle worker takes no CPU. A Network can be used again after Close.
func (n *Network) Close() error {
	n.mu.Lock()
	w := n.worker
	n.worker = nil
	n.mu.Unlock()
	if w == nil {
		return nil
	}
	return errors.Join(w.Close(), w.Context().Close())
}
