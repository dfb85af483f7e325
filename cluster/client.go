package cluster

import (
	"context"

	"go.millstream.dev/client"
)

// Client connects a new client to the cluster. The caller closes it. In a cluster of workers
// with GPUs it obeys the environment, as Connect does. After Close the error is ErrClosed.
func (c *Cluster) Client(ctx context.Context) (*client.Client, error) {
	select {
	case <-c.scheduler.Done():
		return nil, ErrClosed
	default:
	}
	network, err := c.clientNetwork()
	if err != nil {
		return nil, err
	}
	// A cluster that is closed meanwhile ends the attempts as well.
	ctx, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	defer func() { cancel(nil); <-watched }()
	go func() {
		defer close(watched)
		select {
		case <-c.scheduler.Done():
			cancel(ErrClosed)
		case <-ctx.Done():
		}
	}()
	return network.connect(ctx, c.Address(), client.Config{Dial: c.dial, Logger: c.opts.Logger})
}

// clientNetwork returns the network of the cluster's clients, which share it. In a cluster of workers with GPUs it
// has the pool that the configuration asks for.
func (c *Cluster) clientNetwork() (*Network, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.clients != nil {
		return c.clients, nil
	}
	n := &Network{comms: c.network, log: c.opts.Logger}
	if c.cuda != nil {
		var err error
		if n, err = NewNetwork(NetworkConfig{Logger: c.opts.Logger}); err != nil {
			return nil, err
		}
	}
	c.clients = n
	return n, nil
}
