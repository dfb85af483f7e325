package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"go.millstream.dev/client"
	"go.millstream.dev/comm"
	"go.millstream.dev/config"
	"go.millstream.dev/secure"
)

// ConnectOptions specifies how ConnectWith finds a scheduler. Defaults are taken from Dask's configuration.
type ConnectOptions struct {
	// Address is the address of the scheduler, such as tls://10.0.0.1:8786 (default: SchedulerFile, then
	// scheduler-address, DASK_SCHEDULER_ADDRESS).
	Address string
	// SchedulerFile is the file that `scheduler --scheduler-file` writes, with the address and
	// the paths of the certificates. ConnectWith waits for it until ctx ends.
	SchedulerFile string
	// TLSDir is the folder of `scheduler --tls-dir` with ca.pem, client-cert.pem and
	// client-key.pem (default: the paths in SchedulerFile, then distributed.comm.tls.*).
	TLSDir string
	// Config is the Dask configuration (default config.Default).
	Config *config.Config
	// Network provides the transports and the pool of GPU memory (default: a new one for this client, from Config). The
	// caller closes it after its clients.
	Network *Network
	// Logger receives warnings of the client (default slog.Default).
	Logger *slog.Logger
}

// Connect connects a client to a Millstream or Dask scheduler. Dask's configuration specifies the certificates
// (distributed.comm.tls.*), the timeouts, the address of the scheduler if address is empty (scheduler-address,
// DASK_SCHEDULER_ADDRESS), the transports of UCX and the pool of GPU memory: see NewNetwork. The client does not share
// these with others. ConnectWith accepts certificates from a folder, the address from a file, and a Network that
// several clients share.
//
// The configuration is config.Default. Connect retries until ctx ends or distributed.comm.timeouts.connect (30 s) has
// passed; it logs a warning after two seconds.
func Connect(ctx context.Context, address string) (*client.Client, error) {
	return ConnectWith(ctx, ConnectOptions{Address: address})
}

// ConnectConfig is Connect with a configuration of the caller, such as one from config.Load and Set.
func ConnectConfig(ctx context.Context, address string, c *config.Config) (*client.Client, error) {
	return ConnectWith(ctx, ConnectOptions{Address: address, Config: c})
}

// ConnectWith is Connect with options.
func ConnectWith(ctx context.Context, o ConnectOptions) (*client.Client, error) {
	c := o.Config
	if c == nil {
		var err error
		if c, err = config.Default(); err != nil {
			return nil, err
		}
	}
	trust, err := o.resolve(ctx, c)
	if err != nil {
		return nil, err
	}
	dial, _, err := comm.FromSecurity(c, trust, secure.Client)
	if err != nil {
		return nil, err
	}
	cfg := client.Config{Dial: dial, Logger: o.Logger}
	if c.Get("millstream.any-build", nil) != nil {
		if cfg.AnyBuild, err = c.Bool("millstream.any-build", false); err != nil {
			return nil, err
		}
	}
	n := o.Network
	if n == nil {
		if n, err = NewNetwork(NetworkConfig{Config: c, Logger: o.Logger}); err != nil {
			return nil, err
		}
		cfg.Closed = n.release
	}
	return n.connect(ctx, o.Address, cfg)
}

// connect connects a client over the network.
func (n *Network) connect(ctx context.Context, address string, cfg client.Config) (*client.Client, error) {
	cfg.Network, cfg.Dial.Device = n.comms, n.device()
	c, err := client.Connect(ctx, address, cfg)
	if err != nil && cfg.Closed != nil {
		cfg.Closed()
	}
	return c, err
}

// resolve sets the address and returns the certificates to use.
func (o *ConnectOptions) resolve(ctx context.Context, c *config.Config) (secure.Security, error) {
	trust, err := secure.FromConfig(c)
	if err != nil {
		return trust, err
	}
	if o.SchedulerFile != "" {
		file, err := ReadSchedulerFile(ctx, o.SchedulerFile)
		if err != nil {
			return trust, fmt.Errorf("cluster: %w", err)
		}
		if o.Address == "" {
			o.Address = file.Address
		}
		if o.TLSDir == "" && file.TLS != nil {
			trust = file.TLS.security(trust)
			o.TLSDir = file.TLS.Dir
		}
	}
	if o.Address == "" && c.Get("scheduler-address", nil) != nil {
		if o.Address, err = c.String("scheduler-address", ""); err != nil {
			return trust, err
		}
	}
	if o.Address == "" {
		return trust, errors.New("cluster: no address of a scheduler; pass one, or set DASK_SCHEDULER_ADDRESS; Local " +
			"starts a cluster here")
	}
	if o.TLSDir != "" {
		files, err := secure.FilesIn(o.TLSDir)
		if err != nil {
			return trust, fmt.Errorf("cluster: certificates: %w", err)
		}
		if !files.Available(secure.Client) {
			return trust, fmt.Errorf("cluster: certificates: no readable client-key.pem in %s",
				o.TLSDir)
		}
		trust.CAFile, trust.Client = files.CAFile, files.Client
	}
	return trust, nil
}

// Client connects a new client to the cluster. The caller closes it. In a cluster of GPU workers it uses the Dask
// configuration, as Connect does. It returns ErrClosed after Close.
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
	// Closing the cluster ends the attempts as well.
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

// clientNetwork returns the network that the clients of the cluster share. In a cluster of GPU workers it has the
// configured pool.
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
