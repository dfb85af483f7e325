package cluster

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"go.millstream.dev/config"
	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/device/devmem"
	"go.millstream.dev/mem"
)

// Each process of a cluster creates the pool that rmm.pool-size specifies: workers according to DeviceSpec, schedulers
// with SchedulerPool, clients with Network. Data for a GPU is received into it.

// SchedulerPool creates the pool of GPU memory that the settings specify (rmm.pool-size) on device 0 of the process of
// a scheduler, which receives data for GPUs that it forwards into it (its ListenConfig.Device and Dial.Device). A
// scheduler needs no GPU: without one, or without enough memory, SchedulerPool logs that the pool is ignored and
// returns nil and a function without effect.
func SchedulerPool(s *config.Settings, log *slog.Logger) (pool mem.Resource, closer func()) {
	return schedulerPool(s.RMM.PoolSize, poolSource(s), thisGPUMachine, log)
}

func schedulerPool(size int64, source string, m gpuMachine, log *slog.Logger) (mem.Resource, func()) {
	if size <= 0 {
		return nil, func() {}
	}
	memory, err := m.open(devmem.Config{PoolSize: size &^ 255})
	if err != nil {
		logIgnoredPool(log, size, source, err)
		return nil, func() {}
	}
	log.Info("GPU memory configured", "device", memory.Device().String(), "pool", size)
	return memory.Resource(), func() {
		if err := memory.Close(); err != nil {
			log.Info("GPU memory in use until the process ends", "error", err)
		}
	}
}

// schedulerPool returns the pool of the scheduler of a plan: as large as that of a worker, on device 0 of this process,
// unless the workers of that GPU leave no space for it.
func (p *CUDAPlan) schedulerPool(m gpuMachine, log *slog.Logger) (mem.Resource, func()) {
	const source = "rmm-pool-size"
	var size int64
	if first := p.Workers[0].Setup; first != nil {
		size = first.PoolSize
	}
	if size == 0 {
		return nil, func() {}
	}
	all, err := m.devices()
	if err != nil || len(all) == 0 {
		return schedulerPool(size, source, m, log)
	}
	need := size
	for _, w := range p.Workers {
		if w.Setup.UUID == all[0].UUID || w.Setup.UUID == all[0].GPUUUID {
			need += w.Setup.PoolSize
		}
	}
	if spare := all[0].TotalMemory / 20; need > all[0].TotalMemory-spare { // contexts take some
		logIgnoredPool(log, size, source, fmt.Errorf("pools of the workers on %v leave no space for that of the "+
			"scheduler, which is optional", all[0]))
		return nil, func() {}
	}
	return schedulerPool(size, source, m, log)
}

// logIgnoredPool logs why a process has no pool.
func logIgnoredPool(log *slog.Logger, size int64, source string, err error) {
	log.Warn("rmm.pool-size ignored", "bytes", size, "source", source, "error", err)
}

// poolSource returns the source of the setting.
func poolSource(s *config.Settings) string {
	for _, v := range s.Values {
		if strings.HasSuffix(v.Key, "rmm.pool-size") {
			return v.Source.String()
		}
	}
	return "settings"
}

// configuredDevice returns the GPU of a worker that was not planned with one, if its options or the configuration
// specify a pool; otherwise nil.
func configuredDevice(size int64, m gpuMachine, log *slog.Logger) (*DeviceSpec, error) {
	c, err := config.Default()
	if err != nil {
		return nil, err
	}
	s, err := c.Settings(config.Overrides{RMM: config.RMM{PoolSize: size}, From: "--rmm-pool-size"})
	if err != nil || s.RMM.PoolSize == 0 {
		return nil, err
	}
	if _, err := m.devices(); errors.Is(err, cuda.ErrUnavailable) {
		logIgnoredPool(log, s.RMM.PoolSize, poolSource(s), err)
		return nil, nil
	}
	return &DeviceSpec{PoolSize: s.RMM.PoolSize &^ 255}, nil
}
