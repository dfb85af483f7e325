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

// LocalCUDA starts a cluster on this machine with one worker process for each GPU (Dask-CUDA: LocalCUDACluster). gpus
// configures scheduler and workers; clients of this process use the Dask configuration, see Connect. opts has the
// remaining options; its Workers, Threads, MemoryLimit and Mode must not be set, because gpus determines the workers.
//
// Without a CUDA driver it returns an error that wraps cuda.ErrUnavailable. Scale accepts up to as many workers as GPUs
// are listed.
func LocalCUDA(ctx context.Context, gpus CUDAConfig, opts Config) (*Cluster, error) {
	// Options that are invalid on any machine are reported even without a GPU.
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
		return nil, errors.New("cluster: CUDAConfig sets workers, threads and memory limit of GPU " +
			"workers; do not set them in Config")
	case opts.Mode != Processes:
		return nil, errors.New("cluster: GPU workers are processes; do not set Mode")
	case gpus.Interface != "" && opts.Host != "":
		return nil, fmt.Errorf("cluster: host (%s) and interface (%s) exclude each other", opts.Host, gpus.Interface)
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
	// The scheduler has the transports of the workers, regardless of the environment.
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

// schedulerUCX returns the UCX settings of the scheduler: those of the workers without their network devices.
func (p *CUDAPlan) schedulerUCX() ucxcomm.Settings {
	s := p.Workers[0].UCX
	s.Options = withoutDevices(s.Options)
	return s
}

// withoutDevices removes the network devices, so that UCX chooses them: the device next to the GPU of a worker need not
// be right for the scheduler.
func withoutDevices(options map[string]string) map[string]string {
	out := make(map[string]string, len(options))
	for k, v := range options {
		if k != "NET_DEVICES" {
			out[k] = v
		}
	}
	return out
}

// freeWorker returns the first worker of the plan without a process.
func (p *CUDAPlan) freeWorker(taken map[string]member) (*CUDAWorker, error) {
	for i := range p.Workers {
		if _, ok := taken[p.Workers[i].Name]; !ok {
			return &p.Workers[i], nil
		}
	}
	return nil, fmt.Errorf("cluster: all %d listed GPUs have a worker; list a GPU twice to share it", len(p.Workers))
}
