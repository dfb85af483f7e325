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

// The pool that rmm.pool-size asks for is made in each process of a cluster: in workers as
// DeviceSpec says, in schedulers by SchedulerPool, in clients by Network. What arrives for a
// GPU is received into it.

// SchedulerPool makes the pool of GPU memory that the settings ask for (rmm.pool-size), on
// device 0 of a scheduler's process: the scheduler receives into it what goes through it for
// GPUs (its ListenConfig.Device and Dial.Device). A scheduler needs no GPU. Where there is
// none, or not enough memory, one line in the log says that the pool is ignored, and the
// resource is nil; closer does nothing then.
func SchedulerPool(s *config.Settings, log *slog.Logger) (pool mem.Resource, closer func()) {
	return schedulerPool(s.RMM.PoolSize, poolSource(s), thisGPUMachine, log)
}

func schedulerPool(size int64, source string, m gpuMachine, log *slog.Logger) (mem.Resource, func()) {
	if size <= 0 {
		return nil, func() {}
	}
	memory, err := m.open(devmem.Config{PoolSize: size &^ 255})
	if err != nil {
		log.Warn(ignored(size, source, err))
		return nil, func() {}
	}
	log.Info("GPU memory", "device", memory.Device().String(), "pool", size)
	return memory.Resource(), func() {
		if err := memory.Close(); err != nil {
			log.Info("GPU memory goes with the process", "error", err)
		}
	}
}

// schedulerPool is the pool of the scheduler of a plan: as large as a worker's, on device 0 of this
// process, unless the workers of that GPU leave no room for it.
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
		log.Warn(ignored(size, source, fmt.Errorf("the scheduler, which needs none, would have it on %v, whose "+
			"workers' pools leave no room", all[0])))
		return nil, func() {}
	}
	return schedulerPool(size, source, m, log)
}

// ignored says why a process goes without its pool.
func ignored(size int64, source string, err error) string {
	reason := err.Error()
	if errors.Is(err, cuda.ErrUnavailable) {
		reason = "there is no GPU here: " + reason
	}
	return fmt.Sprintf("rmm.pool-size of %d bytes (%s) is ignored: %s", size, source, reason)
}

// poolSource names who has asked for the pool.
func poolSource(s *config.Settings) string {
	for _, v := range s.Values {
		if strings.HasSuffix(v.Key, "rmm.pool-size") {
			return v.Source.String()
		}
	}
	return "settings"
}

// configuredDevice is the GPU of a worker that was not planned with one: that of the pool which
// its options or the configuration ask for, nil without one.
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
		log.Warn(ignored(s.RMM.PoolSize, poolSource(s), err))
		return nil, nil
	}
	return &DeviceSpec{PoolSize: s.RMM.PoolSize &^ 255}, nil
}
