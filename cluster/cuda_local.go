package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"go.millstream.dev/comm/ucxcomm"
	"go.millstream.dev/internal/comm/commaddr"
	"go.millstream.dev/scheduler"
)

// LocalCUDA starts a cluster on this machine with one worker process for each GPU (Dask-CUDA:
// LocalCUDACluster). gpus govern scheduler and workers; clients of this process obey the
// environment, see Connect. opts have the rest; its Workers, Threads, MemoryLimit and Mode
// must be left unset, as gpus say how many workers there are.
//
// Without a CUDA driver it is an error that says what is missing and wraps
// cuda.ErrUnavailable. Scale takes up to as many workers as GPUs are listed.
func LocalCUDA(ctx context.Context, gpus CUDAConfig, opts Config) (*Cluster, error) {
	// What is wrong on any machine is told on any machine.
	gpus.Protocol = cmp.Or(gpus.Protocol, opts.Protocol)
	if err := gpus.Check(); err != nil {
		return nil, err
	}
	machine, err := ThisCUDAMachine()
	if err != nil {
		return nil, err
	}
	plan, err := gpus.Plan(machine)
	if err != nil {
		return nil, err
	}
	return startPlan(ctx, plan, gpus, opts)
}

// startPlan starts the scheduler and the workers of a plan.
func startPlan(ctx context.Context, plan *CUDAPlan, gpus CUDAConfig, opts Config) (*Cluster, error) {
	switch {
	case opts.Workers > 0 || opts.Threads != 0 || opts.MemoryLimit != 0:
		return nil, errors.New("cluster: CUDAConfig has the workers, threads and memory limit of workers with " +
			"GPUs: leave those of Config unset")
	case opts.Mode != Processes:
		return nil, errors.New("cluster: workers with GPUs are processes, each with a GPU of its own: leave Mode unset")
	case gpus.Interface != "" && opts.Host != "":
		return nil, fmt.Errorf("cluster: give a host (%s) or an interface (%s), not both", opts.Host, gpus.Interface)
	}
	if gpus.Interface != "" {
		ip, err := commaddr.InterfaceIP(gpus.Interface)
		if err != nil {
			return nil, err
		}
		opts.Host = ip
	}
	opts.Protocol = cmp.Or(gpus.Protocol, opts.Protocol)
	opts.Workers, opts.Threads = len(plan.Workers), max(1, gpus.Threads)
	if gpus.NoDataConnections {
		opts.DataConnections = "none"
	}
	// The scheduler has the workers' transports, whatever the environment says.
	own := ucxcomm.NewNetwork(plan.schedulerUCX())
	log := cmp.Or(opts.Logger, slog.Default())
	for _, text := range plan.Warnings {
		log.Warn("plan of GPU workers", "warning", text)
	}
	pool, closePool := plan.schedulerPool(thisGPUMachine, log)
	change := opts.Scheduler
	opts.Scheduler = func(cfg *scheduler.Config) {
		cfg.Network = own
		cfg.ListenConfig.Device, cfg.Dial.Device = pool, pool
		if change != nil {
			change(cfg)
		}
	}
	c, err := local(ctx, opts, plan)
	if err != nil {
		closePool()
		return nil, err
	}
	c.onClose = closePool
	return c, nil
}

// schedulerUCX returns the settings of the scheduler's UCX comms: all of the workers' but their network devices.
func (p *CUDAPlan) schedulerUCX() ucxcomm.Settings {
	s := p.Workers[0].UCX
	s.Options = withoutDevices(s.Options)
	return s
}

// withoutDevices leaves the network device to UCX: that of one worker's GPU is not the
// scheduler's.
func withoutDevices(options map[string]string) map[string]string {
	out := make(map[string]string, len(options))
	for k, v := range options {
		if k != "NET_DEVICES" {
			out[k] = v
		}
	}
	return out
}

// freeWorker is the first worker of the plan that has no process.
func (p *CUDAPlan) freeWorker(taken map[string]member) (*CUDAWorker, error) {
	for i := range p.Workers {
		if _, ok := taken[p.Workers[i].Name]; !ok {
			return &p.Workers[i], nil
		}
	}
	return nil, fmt.Errorf("cluster: all %d GPUs of the list have a worker: list one twice to share it", len(p.Workers))
}
