package cluster

import (
	"context"
	"errors"

	"go.millstream.dev/client"
	"go.millstream.dev/comm"
	"go.millstream.dev/config"
	"go.millstream.dev/secure"
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

// Connect connects a client to a scheduler, Millstream's or Dask's, as Dask's configuration
// says: certificates (distributed.comm.tls.*), timeouts, and where address is empty the
// scheduler's (scheduler-address, DASK_SCHEDULER_ADDRESS). In a process without an earlier call of Initialize, what the
// configuration says about UCX is set up first.
//
// The configuration is config.Default. A scheduler that does not answer is retried until ctx ends or
// distributed.comm.timeouts.connect (30 s) is over; the log says so after two seconds.
func Connect(ctx context.Context, address string) (*client.Client, error) {
	c, err := config.Default()
	if err != nil {
		return nil, err
	}
	return ConnectConfig(ctx, address, c)
}

// ConnectConfig is Connect with a configuration of the caller's, such as that of config.Load and Set.
func ConnectConfig(ctx context.Context, address string, c *config.Config) (*client.Client, error) {
	var err error
	if address == "" {
		if v := c.Get("scheduler-address", nil); v != nil {
			if address, err = c.String("scheduler-address", ""); err != nil {
				return nil, err
			}
		}
	}
	if address == "" {
		return nil, errors.New("cluster: no address of a scheduler: give one, or set DASK_SCHEDULER_ADDRESS; Local starts a cluster here")
	}
	if err := initializeOnce(c); err != nil {
		return nil, err
	}
	dial, _, err := comm.FromConfig(c, secure.Client)
	if err != nil {
		return nil, err
	}
	dial.Device = clientDevice()
	return client.Connect(ctx, address, client.Config{Dial: dial})
}
