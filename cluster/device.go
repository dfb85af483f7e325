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

// DeviceSpec is the GPU of a worker process, its device 0, and what is set up on it before the
// worker starts.
type DeviceSpec struct {
	// UUID is the GPU's, "" if the driver has not told: GPU-… or MIG-….
	UUID string `json:"uuid,omitempty"`
	// MemoryLimit is how many bytes of it the worker takes before results move to host memory;
	// 0 is no limit.
	MemoryLimit int64 `json:"memory_limit,omitempty"`
	// PoolSize and MaximumPoolSize are in bytes; 0 is no pool, and no bound.
	PoolSize        int64 `json:"pool_size,omitempty"`
	MaximumPoolSize int64 `json:"maximum_pool_size,omitempty"`
	// ReleaseThreshold is in bytes, of the driver's pool.
	ReleaseThreshold int64 `json:"release_threshold,omitempty"`
	// Managed, Async and Track choose what memory there is; Log is a file for it.
	Managed bool   `json:"managed,omitempty"`
	Async   bool   `json:"async,omitempty"`
	Track   bool   `json:"track,omitempty"`
	Log     string `json:"log,omitempty"`
}

// config is how the memory is made.
func (d *DeviceSpec) config() devmem.Config {
	return devmem.Config{
		PoolSize: d.PoolSize, MaximumPoolSize: d.MaximumPoolSize, ReleaseThreshold: d.ReleaseThreshold,
		Managed: d.Managed, Async: d.Async, Track: d.Track, Log: d.Log,
	}
}

// gpuMachine is what setUp asks of CUDA. Tests have one without a GPU.
type gpuMachine struct {
	devices func() ([]cuda.Device, error)
	// wrong are the contexts on other devices than the process's own.
	wrong func(device int) ([]cuda.WrongContext, error)
	open  func(devmem.Config) (*devmem.Memory, error)
}

var thisGPUMachine = gpuMachine{devices: cuda.Devices, wrong: cuda.WrongContexts, open: devmem.Open}

// gpu is a worker's GPU once it is set up. The worker's process owns it, and closes it after
// the worker.
type gpu struct {
	memory *devmem.Memory
	limit  *store.DeviceMemory
}

// setUp makes the primary context of the process's device 0, which must be the GPU that was
// planned, and its memory. It runs before UCX does, in the worker's process: UCX looks at the
// context that there is.
func (d *DeviceSpec) setUp(m gpuMachine, log *slog.Logger) (*gpu, error) {
	all, err := m.devices()
	if err != nil {
		return nil, fmt.Errorf("cluster: the worker's GPU: %w", err)
	}
	switch {
	case len(all) == 0:
		return nil, fmt.Errorf("cluster: the worker's GPU: %w: CUDA_VISIBLE_DEVICES hides all", cuda.ErrUnavailable)
	case d.UUID != "" && all[0].UUID != d.UUID && all[0].GPUUUID != d.UUID:
		return nil, fmt.Errorf("cluster: device 0 of the worker is %s (%s), and %s was planned: name GPUs by UUID in "+
			"the list of devices, and leave CUDA_DEVICE_ORDER unset", all[0].UUID, all[0].Name, d.UUID)
	}
	if wrong, err := m.wrong(0); err == nil {
		for _, w := range wrong {
			log.Warn(w.String())
		}
	}
	memory, err := m.open(d.config())
	if err != nil {
		return nil, fmt.Errorf("cluster: the worker's GPU: %w", err)
	}
	limit, err := store.NewDeviceMemory(memory.Resource(), d.MemoryLimit)
	if err != nil {
		return nil, err
	}
	log.Info("GPU memory", "device", memory.Device().String(), "pool", d.PoolSize, "maximum", d.MaximumPoolSize,
		"managed", d.Managed, "async", d.Async, "limit", d.MemoryLimit)
	return &gpu{memory: memory, limit: limit}, nil
}

// apply has a worker use the GPU's memory: for its tasks, for what it receives, for its results.
func (g *gpu) apply(cfg *worker.Config) {
	if g == nil {
		return
	}
	up := func(ctx context.Context, b *mem.Buffer) (*mem.Buffer, error) { return g.memory.Up(ctx, g.limit, b) }
	cfg.Device = &store.DeviceConfig{Tier: &store.FrameTier{Down: g.memory.Down, Up: up}, Limit: g.limit.Limit(),
		Memory: g.limit}
	d := g.memory.Device()
	cfg.GPU = &task.Device{Ordinal: d.Ordinal, UUID: d.UUID, Name: d.Name, Memory: g.limit, Pinned: g.memory.Pinned(),
		Stream: g.memory.Stream()}
}

// close reports what was not given back, where that is watched, and gives the memory back.
func (g *gpu) close(log *slog.Logger) {
	if g == nil {
		return
	}
	if text := g.memory.Leaks(); text != "" {
		log.Warn("GPU memory that was not released (rmm-track-allocations)", "allocations", text)
	}
	if err := g.memory.Close(); err != nil {
		log.Info("GPU memory goes with the process", "error", err)
	}
}
