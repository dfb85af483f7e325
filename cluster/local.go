package cluster

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"

	"go.millstream.dev/comm"
	"go.millstream.dev/comm/ucxcomm" // tcp://, tls://, ucx:// and ucxx://
	"go.millstream.dev/config"
	"go.millstream.dev/internal/comm/closed"
	_ "go.millstream.dev/internal/comm/inproc" // inproc://
	"go.millstream.dev/internal/device/devmem"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/scheduler"
	"go.millstream.dev/secure"
)

// member is one worker of a cluster: a Nanny, or a worker in this process.
type member interface {
	Info() WorkerInfo
	Ready(ctx context.Context) error
	Shutdown(ctx context.Context) error
	Done() <-chan struct{}
	Err() error
}

// Cluster is a scheduler in this process with its workers. It is safe for concurrent use.
type Cluster struct {
	opts      Config
	cuda      *CUDAPlan // of GPU workers; nil for others
	scheduler *scheduler.Scheduler
	ca        *secure.CA // nil without TLS
	dial      comm.DialConfig
	pool      *rpc.Pool // to the scheduler, for scaling

	network comm.Network // of the scheduler, and of requests to it
	scaling sync.Mutex   // held by Scale and by steps of Adaptive

	mu       sync.Mutex
	members  map[string]member
	next     int // name of the next worker
	adaptive *Adaptive
	closing  bool
	clients  *Network // of Client; nil before the first call

	onClose   func() // called after the scheduler has ended; may be nil
	closeOnce sync.Once
	closed    chan struct{}
}

// Local starts a cluster on this machine and waits for all its workers. ctx bounds only the start; Close ends the
// cluster. With workers in processes the program must call Main first.
func Local(ctx context.Context, opts Config) (*Cluster, error) { return local(ctx, opts, nil) }

func local(ctx context.Context, opts Config, cuda *CUDAPlan) (*Cluster, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	if opts.Mode == Processes && !mainCalled.Load() {
		return nil, ErrNoMain
	}
	c := &Cluster{opts: opts, cuda: cuda, members: map[string]member{}, closed: make(chan struct{})}
	if err := c.startScheduler(ctx); err != nil {
		return nil, err
	}
	c.pool = rpc.NewPool(c.network, rpc.PoolConfig{Dial: c.dial.To(secure.Scheduler)})
	if err := c.Scale(ctx, opts.Workers); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// startScheduler creates the certificates and starts the scheduler.
func (c *Cluster) startScheduler(ctx context.Context) error {
	settings, err := config.Default()
	if err != nil {
		return err
	}
	cfg, err := scheduler.FromConfig(settings)
	if err != nil {
		return err
	}
	o := c.opts
	cfg.Listen = []string{"inproc://"}
	if o.Protocol != "inproc" {
		cfg.Listen[0] = o.Protocol + "://" + net.JoinHostPort(o.Host, strconv.Itoa(o.Port))
	}
	cfg.Dashboard, cfg.Logger, cfg.Validate = o.Dashboard, o.Logger, o.Validate || cfg.Validate
	c.dial, _, err = comm.FromConfig(settings, secure.Client)
	if err != nil {
		return err
	}
	if o.Protocol == "tls" {
		if err := c.makeTrust(&cfg); err != nil {
			return err
		}
	}
	// Other workers can connect over TCP and UCX; over TLS they need a certificate from WriteCredentials.
	cfg.Closed = o.Protocol == "inproc" || o.Protocol == "tls"
	cfg.Collectors = append(cfg.Collectors, devmem.Collector{}) // GPU memory of this process, if any
	ucxSettings, err := settings.Settings(config.Overrides{})
	if err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	cfg.Network = ucxcomm.NewNetwork(ucxcomm.FromConfig(ucxSettings))
	if o.Scheduler != nil {
		o.Scheduler(&cfg)
	}
	c.network = cfg.Network
	c.scheduler, err = scheduler.Start(ctx, cfg)
	return err
}

// makeTrust creates a CA for the lifetime of the cluster, and the certificates of the scheduler and of this process as
// a client. Keys stay in memory.
func (c *Cluster) makeTrust(cfg *scheduler.Config) error {
	var err error
	if c.ca, err = secure.NewCA(secure.CAConfig{}); err != nil {
		return err
	}
	id, err := c.ca.Issue(secure.Request{Roles: []secure.Role{secure.Scheduler}, Hosts: []string{c.opts.Host}})
	if err != nil {
		return err
	}
	if cfg.ListenConfig.TLS, err = id.Listen(); err != nil {
		return err
	}
	if cfg.Dial.TLS, err = id.Dial(); err != nil {
		return err
	}
	if id, err = c.ca.Issue(secure.Request{Roles: []secure.Role{secure.Client}}); err != nil {
		return err
	}
	c.dial.TLS, err = id.Dial()
	return err
}

// Address returns the address of the scheduler.
func (c *Cluster) Address() string { return c.scheduler.Address() }

// Scheduler returns the scheduler.
func (c *Cluster) Scheduler() *scheduler.Scheduler { return c.scheduler }

// Dial returns how a client of this process connects to Address, including certificates.
func (c *Cluster) Dial() comm.DialConfig { return c.dial }

// WriteCredentials writes certificates for other programs to a folder, which it creates: for Go clients, and for Python
// clients, for which Security.Python returns the expression. It returns an error if the cluster does not use TLS.
func (c *Cluster) WriteCredentials(dir string) (*secure.Security, error) {
	if c.ca == nil {
		return nil, fmt.Errorf("cluster: no certificates: %s does not use TLS", c.Address())
	}
	c.scheduler.Open()
	return c.ca.WriteFiles(dir, c.opts.Host)
}

// Workers returns the states of the workers, ordered by name.
func (c *Cluster) Workers() []WorkerInfo {
	c.mu.Lock()
	defer c.mu.Unlock()
	infos := make([]WorkerInfo, 0, len(c.members))
	for _, m := range c.members {
		infos = append(infos, m.Info())
	}
	slices.SortFunc(infos, func(a, b WorkerInfo) int { return compareNames(a.Name, b.Name) })
	return infos
}

// compareNames orders numeric names by value.
func compareNames(a, b string) int {
	x, errX := strconv.Atoi(a)
	y, errY := strconv.Atoi(b)
	if errX == nil && errY == nil {
		return x - y
	}
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// Done returns a channel that is closed when the scheduler has ended, by Close or because a client shut it down.
func (c *Cluster) Done() <-chan struct{} { return c.scheduler.Done() }

// Close shuts down the workers, kills those that have not ended within Config.CloseTimeout, and then shuts down the
// scheduler. Close may be called more than once.
func (c *Cluster) Close() error {
	c.closeOnce.Do(func() {
		defer close(c.closed)
		c.mu.Lock()
		c.closing = true
		adaptive, members := c.adaptive, c.members
		c.members = map[string]member{}
		c.mu.Unlock()
		if adaptive != nil {
			_ = adaptive.Close()
		}
		ctx, cancel := context.WithTimeout(context.Background(), c.opts.CloseTimeout)
		defer cancel()
		closeAll(ctx, members)
		_ = c.pool.Close()
		// Errors are those of peers that have disconnected before.
		_ = c.scheduler.Shutdown(ctx)
		c.mu.Lock()
		clients := c.clients
		c.mu.Unlock()
		if clients != nil {
			clients.release()
		}
		if c.onClose != nil {
			c.onClose()
		}
	})
	<-c.closed
	return nil
}

func closeAll(ctx context.Context, members map[string]member) {
	var all sync.WaitGroup
	for _, m := range members {
		all.Go(func() { _ = m.Shutdown(ctx) })
	}
	all.Wait()
}

// ErrClosed is returned by methods of a closed Cluster. It matches net.ErrClosed with errors.Is.
var ErrClosed = closed.New("cluster: cluster closed")
