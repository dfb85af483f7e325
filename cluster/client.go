package cluster

import (
	"context"

	"go.millstream.dev/client"
	"go.millstream.dev/config"
)

// Client connects a new client to the cluster. The caller closes it. In a cluster of workers
// with GPUs it obeys the environment, as Connect does. After Close the error is ErrClosed.
func (c *Cluster) Client(ctx context.Context) (*client.Client, error) {
	select {
	case <-c.scheduler.Done():
		return nil, ErrClosed
	default:
	}
	if c.cuda != nil {
		settings, err := config.Default()
		if err != nil {
			return nil, err
		}
		if err := initializeOnce(settings); err != nil {
			return nil, err
		}
	}
	dial := c.dial
	dial.Device = clientDevice()
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
	return client.Connect(ctx, c.Address(), client.Config{Dial: dial, Logger: c.opts.Logger})
}
