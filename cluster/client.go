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
// with GPUs it obeys the environment, as Connect does.
func (c *Cluster) Client(ctx context.Context) (*client.Client, error) {
	if c.cuda != nil {
		if err := initializeOnce(); err != nil {
			return nil, err
		}
	}
	dial := c.dial
	dial.Device = clientDevice()
	return client.Connect(ctx, c.Address(), client.Config{Dial: dial, Logger: c.opts.Logger})
}

// Connect connects a client to a scheduler, Millstream's or Dask's, as Dask's configuration
// says: certificates (distributed.comm.tls.*), timeouts, and where address is empty the
// scheduler's (scheduler-address, DASK_SCHEDULER_ADDRESS). Where nobody has called Initialize,
// what the configuration says about UCX is set up first.
func Connect(ctx context.Context, address string) (*client.Client, error) {
	c, err := config.Default()
	if err != nil {
		return nil, err
	}
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
	if err := initializeOnce(); err != nil {
		return nil, err
	}
	dial, _, err := comm.FromConfig(c, secure.Client)
	if err != nil {
		return nil, err
	}
	dial.Device = clientDevice()
	return client.Connect(ctx, address, client.Config{Dial: dial})
}
