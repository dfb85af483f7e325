package cluster

import (
	"context"
	"fmt"
	"log/slog"

	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/device/devmem"
	"go.millstream.dev/internal/engine/worker/store"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/mem"
	"go.millstream.dev/worker"
)

// DeviceSpec describes the GPU of a worker process, its device 0, and how it is configured before the worker starts.
type DeviceSpec struct {
	// UUID is the UUID of the GPU, GPU-… or MIG-…; "" if the driver has not reported it.
	UUID string `json:"uuid,omitempty"`
	// MemoryLimit is the size of the results in GPU memory, in bytes, above which some are moved to host memory; 0
	// means no limit.
	MemoryLimit int64 `json:"memory_limit,omitempty"`
	// PoolSize and MaximumPoolSize are in bytes; 0 means no pool, and no maximum.
	PoolSize        int64 `json:"pool_size,omitempty"`
	MaximumPoolSize int64 `json:"maximum_pool_size,omitempty"`
	// ReleaseThreshold is the unused memory that the pool of the driver keeps, in bytes.
	ReleaseThreshold int64 `json:"release_threshold,omitempty"`
	// Managed, Async and Track select the kind of memory; Log is the file for a log of allocations.
	Managed bool   `json:"managed,omitempty"`
	Async   bool   `json:"async,omitempty"`
	Track   bool   `json:"track,omitempty"`
	Log     string `json:"log,omitempty"`
}

// config returns the configuration of the memory.
func (d *DeviceSpec) config() devmem.Config {
	return devmem.Config{
		PoolSize: d.PoolSize, MaximumPoolSize: d.MaximumPoolSize, ReleaseThreshold: d.ReleaseThreshold,
		Managed: d.Managed, Async: d.Async, Track: d.Track, Log: d.Log,
	}
}

// gpuMachine has the functions of CUDA that setUp uses, so that tests run without a GPU.
type gpuMachine struct {
	devices func() ([]cuda.Device, error)
	// wrong returns the contexts on devices other than device.
	wrong func(device int) ([]cuda.WrongContext, error)
	open  func(devmem.Config) (*devmem.Memory, error)
}

var thisGPUMachine = gpuMachine{devices: cuda.Devices, wrong: cuda.WrongContexts, open: devmem.Open}

// gpu is the configured GPU of a worker. The worker process owns it, and closes it after the worker.
type gpu struct {
	memory *devmem.Memory
	limit  *store.DeviceMemory
}

// setUp creates the primary context of device 0 of the process, which must be the planned GPU, and its memory. It runs
// in the worker process before UCX is used, because UCX uses the current context.
func (d *DeviceSpec) setUp(m gpuMachine, log *slog.Logger) (*gpu, error) {
	all, err := m.devices()
	if err != nil {
		return nil, fmt.Errorf("cluster: GPU of the worker: %w", err)
	}
	switch {
	case len(all) == 0:
		return nil, fmt.Errorf("cluster: GPU of the worker: %w: CUDA_VISIBLE_DEVICES hides all", cuda.ErrUnavailable)
	case d.UUID != "" && all[0].UUID != d.UUID && all[0].GPUUUID != d.UUID:
		return nil, fmt.Errorf("cluster: device 0 of the worker is %s (%s) instead of %s; list devices by UUID, "+
			"and do not set CUDA_DEVICE_ORDER", all[0].UUID, all[0].Name, d.UUID)
	}
	if wrong, err := m.wrong(0); err == nil {
		for _, w := range wrong {
			log.Warn("CUDA context on another device", "context", w.String())
		}
	}
	memory, err := m.open(d.config())
	if err != nil {
		return nil, fmt.Errorf("cluster: GPU of the worker: %w", err)
	}
	limit, err := store.NewDeviceMemory(memory.Resource(), d.MemoryLimit)
	if err != nil {
		return nil, err
	}
	log.Info("GPU memory configured", "device", memory.Device().String(), "pool", d.PoolSize,
		"maximum", d.MaximumPoolSize, "managed", d.Managed, "async", d.Async, "limit", d.MemoryLimit)
	return &gpu{memory: memory, limit: limit}, nil
}

// apply configures a worker to use the GPU memory for tasks, received data and results.
func (g *gpu) apply(cfg *worker.Config) {
	if g == nil {
		return
	}
	up := func(ctx context.Context, b *mem.Buffer) (*mem.Buffer, error) { return g.memory.Up(ctx, g.limit, b) }
	cfg.Device = &store.DeviceConfig{Tier: &store.FrameTier{Down: g.memory.Down, Up: up}, Limit: g.limit.Limit(),
		Memory: g.limit, Stats: func() (pinned, total int64) {
			return g.memory.PinnedBytes(), g.memory.Device().TotalMemory
		}}
	if cfg.MemoryLimit > 0 {
		g.memory.LimitHost(cfg.MemoryLimit)
	}
	d := g.memory.Device()
	cfg.GPU = &task.Device{Ordinal: d.Ordinal, UUID: d.UUID, Name: d.Name, Memory: g.limit, Pinned: g.memory.Pinned(),
		Stream: g.memory.Stream()}
}

// close logs memory that was not released, if allocations are tracked, and frees the memory.
func (g *gpu) close(log *slog.Logger) {
	if g == nil {
		return
	}
	if text := g.memory.Leaks(); text != "" {
		log.Warn("GPU memory not released (rmm-track-allocations)", "allocations", text)
	}
	if err := g.memory.Close(); err != nil {
		log.Info("GPU memory in use until the process ends", "error", err)
	}
}
