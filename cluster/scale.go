package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/secure"
)

// Scale starts or retires workers until there are n, and waits for that. The scheduler chooses the workers to retire;
// their data moves to other workers first.
func (c *Cluster) Scale(ctx context.Context, n int) error {
	if n < 0 {
		return fmt.Errorf("cluster: negative number of workers %d", n)
	}
	if c.cuda != nil && n > len(c.cuda.Workers) {
		return fmt.Errorf("cluster: %d workers for %d listed GPUs; request fewer, or list a GPU twice to share it",
			n, len(c.cuda.Workers))
	}
	c.scaling.Lock()
	defer c.scaling.Unlock()
	names := c.plan()
	if len(names) > n {
		down, err := c.choose(ctx, names, n)
		if err != nil {
			return err
		}
		return c.retire(ctx, down)
	}
	started, err := c.start(n - len(names))
	if err == nil {
		err = allReady(ctx, started)
	}
	if err != nil {
		// No other caller waits for the workers that failed to start.
		c.drop(started)
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.opts.CloseTimeout)
		defer cancel()
		closeAll(closing, started)
	}
	return err
}

// choose returns the workers to retire so that n remain: those that have not registered, those that the scheduler does
// not need, and if these are not enough, the newest.
func (c *Cluster) choose(ctx context.Context, names []string, n int) ([]string, error) {
	here := c.registered()
	spare := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(here, name) })
	if len(names)-len(spare) > n {
		more, err := c.unneeded(ctx, n)
		if err != nil {
			return nil, err
		}
		spare = append(spare, more...)
		for _, name := range slices.Backward(names) {
			spare = append(spare, name)
		}
	}
	var down []string
	for _, name := range spare {
		if len(down) < len(names)-n && slices.Contains(names, name) && !slices.Contains(down, name) {
			down = append(down, name)
		}
	}
	return down, nil
}

// start starts n workers without waiting for them.
func (c *Cluster) start(n int) (map[string]member, error) {
	started := map[string]member{}
	for range n {
		name, gpu, err := c.nextName()
		if err != nil {
			return started, err
		}
		m, err := c.startMember(name, gpu)
		if err != nil {
			return started, err
		}
		c.mu.Lock()
		closing := c.closing
		if !closing {
			c.members[name] = m
		}
		c.mu.Unlock()
		if closing {
			ctx, cancel := context.WithTimeout(context.Background(), c.opts.CloseTimeout)
			defer cancel()
			_ = m.Shutdown(ctx)
			return started, ErrClosed
		}
		started[name] = m
		go func() {
			<-m.Done()
			c.drop(map[string]member{name: m})
		}()
	}
	return started, nil
}

// nextName returns the name of the next worker, and its part of the plan in a cluster of GPU workers.
func (c *Cluster) nextName() (string, *CUDAWorker, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cuda != nil {
		gpu, err := c.cuda.freeWorker(c.members)
		if err != nil {
			return "", nil, err
		}
		return gpu.Name, gpu, nil
	}
	name := strconv.Itoa(c.next)
	c.next++
	return name, nil, nil
}

// startMember starts one worker in the mode of the cluster.
func (c *Cluster) startMember(name string, gpu *CUDAWorker) (member, error) {
	o := c.opts
	spec := WorkerSpec{
		Scheduler: c.Address(), Name: name, Listen: "inproc://", Threads: o.Threads, MemoryLimit: o.MemoryLimit,
		Resources:      o.Resources,
		LocalDirectory: o.LocalDirectory, Dashboard: o.WorkerDashboard, Log: o.Log, Validate: o.Validate,
	}
	if o.Protocol != "inproc" {
		spec.Listen = o.Protocol + "://" + net.JoinHostPort(o.Host, "0")
	}
	if o.DataConnections != "none" {
		spec.DataListen = o.DataConnections
	}
	if c.ca != nil {
		id, err := c.ca.Issue(secure.Request{Name: "worker " + name, Roles: []secure.Role{secure.Worker},
			Hosts: []string{o.Host}})
		if err != nil {
			return nil, err
		}
		spec.Identity = id
	}
	if o.Mode == Goroutines {
		return startGoroutine(spec, o.Logger)
	}
	nanny := o.Nanny
	nanny.sendDeath = c.scheduler.ReportDeath
	if gpu != nil {
		spec = gpu.Spec(spec)
		nanny.Env = append(slices.Clone(nanny.Env), gpu.Env...)
	}
	return StartNanny(spec, nanny)
}

// allReady waits for all workers, and returns the first error.
func allReady(ctx context.Context, members map[string]member) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	errs := make(chan error, len(members))
	for _, m := range members {
		all.Go(func() {
			if err := m.Ready(ctx); err != nil {
				errs <- err
				cancel() // later errors are consequences
			}
		})
	}
	all.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

// drop removes workers from the cluster.
func (c *Cluster) drop(members map[string]member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, m := range members {
		if c.members[name] == m {
			delete(c.members, name)
		}
	}
}

// retire requests from the scheduler to move the data of workers to others and to close them, and waits until they have
// ended.
func (c *Cluster) retire(ctx context.Context, names []string) error {
	members := map[string]member{}
	addresses := []any{}
	c.mu.Lock()
	for _, name := range names {
		if m := c.members[name]; m != nil {
			members[name] = m
			if a := m.Info().Address; a != "" {
				addresses = append(addresses, a)
			}
		}
	}
	c.mu.Unlock()
	var err error
	if len(addresses) > 0 {
		err = c.pool.Call(ctx, c.Address(), "retire_workers", msgpack.Map{
			{Key: "workers", Value: addresses}, {Key: "close_workers", Value: true}, {Key: "remove", Value: true},
		}, nil)
	}
	if err != nil {
		return fmt.Errorf("cluster: retire workers %v: %w", names, err)
	}
	c.drop(members)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.opts.CloseTimeout)
	defer cancel()
	closeAll(closing, members)
	return nil
}

// Adapt adjusts the number of workers to the load until the returned Adaptive or the cluster is closed. A second call
// replaces the first.
func (c *Cluster) Adapt(cfg AdaptiveConfig) (*Adaptive, error) {
	if cfg.Logger == nil {
		cfg.Logger = c.opts.Logger
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	before := c.adaptive
	c.adaptive = nil
	c.mu.Unlock()
	if before != nil {
		if err := before.Close(); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closing:
		return nil, ErrClosed
	case c.adaptive != nil:
		return nil, errors.New("cluster: concurrent calls of Adapt")
	}
	c.adaptive = startAdaptive(c, cfg)
	return c.adaptive, nil
}

// plan returns the names of the workers that should exist, oldest first.
func (c *Cluster) plan() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := make([]string, 0, len(c.members))
	for name := range c.members {
		names = append(names, name)
	}
	slices.SortFunc(names, compareNames)
	return names
}

// registered returns the names of the workers that have registered.
func (c *Cluster) registered() []string {
	var names []string
	for _, w := range c.Workers() {
		if w.State == Running {
			names = append(names, w.Name)
		}
	}
	return names
}

// target requests from the scheduler the number of workers that its load needs.
func (c *Cluster) target(ctx context.Context, d time.Duration) (int, error) {
	var n int
	err := c.pool.Call(ctx, c.Address(), "adaptive_target", msgpack.Map{{Key: "target_duration", Value: d.Seconds()}},
		&n)
	return n, err
}

// unneeded requests from the scheduler the workers to close so that n remain.
func (c *Cluster) unneeded(ctx context.Context, n int) ([]string, error) {
	var addresses []string
	if err := c.pool.Call(ctx, c.Address(), "workers_to_close", msgpack.Map{{Key: "target", Value: n}},
		&addresses); err != nil {
		return nil, err
	}
	var names []string
	for _, w := range c.Workers() {
		if slices.Contains(addresses, w.Address) {
			names = append(names, w.Name)
		}
	}
	return names, nil
}

func (c *Cluster) grow(_ context.Context, n int) error {
	c.scaling.Lock()
	defer c.scaling.Unlock()
	_, err := c.start(n - len(c.plan()))
	return err
}

func (c *Cluster) shrink(ctx context.Context, names []string) error {
	c.scaling.Lock()
	defer c.scaling.Unlock()
	return c.retire(ctx, names)
}
