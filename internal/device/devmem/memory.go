package devmem

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"go.millstream.dev/cuda"
	"go.millstream.dev/mem"
)

// Config configures the allocation of GPU memory, like RMM's options. The zero value allocates from the driver on
// device 0.
type Config struct {
	// Device is the GPU's ordinal in this process.
	Device int
	// PoolSize is the initial size of a pool in bytes, 0 for none; MaximumPoolSize is its maximum, 0 for no bound.
	PoolSize, MaximumPoolSize int64
	// Managed selects unified memory.
	Managed bool
	// Async selects the driver's own pool; ReleaseThreshold is how many unused bytes of it are kept.
	Async            bool
	ReleaseThreshold int64
	// Log is a file with a line for each allocation, "" for none.
	Log string
	// Track records the stack of each allocation.
	Track bool
}

// Memory is a GPU's memory. It is safe for concurrent use.
type Memory struct {
	cfg    Config
	device cuda.Device
	driver Driver

	resource mem.Resource
	stats    *mem.Statistics
	pool     *mem.Pool     // nil without one
	tracking *mem.Tracking // nil unless Config.Track
	log      *mem.AllocLog // nil unless Config.Log
	file     *os.File
	stream   Stream // of the driver's pool and of tasks
	pinned   *mem.Pool
	down, up Stream // copies
	host     *hostMemory

	mu     sync.Mutex // owns closed
	closed bool
}

// Open creates the device's primary context, if there is none, and the configured memory.
func Open(cfg Config) (*Memory, error) { return OpenWith(cfg, realDriver{}) }

// OpenWith is Open with another driver.
func OpenWith(cfg Config, d Driver) (m *Memory, err error) {
	switch {
	case cfg.PoolSize < 0 || cfg.MaximumPoolSize < 0 || cfg.ReleaseThreshold < 0:
		return nil, errors.New("devmem: negative size: use a number of bytes, or 0 for none")
	case cfg.Async && cfg.Managed:
		return nil, errors.New("devmem: rmm-async and rmm-managed-memory exclude each other: the driver's pool has " +
			"no managed memory; choose one of them")
	case cfg.MaximumPoolSize > 0 && cfg.PoolSize > cfg.MaximumPoolSize:
		return nil, fmt.Errorf("devmem: rmm-pool-size of %d bytes is more than rmm-maximum-pool-size of %d: raise "+
			"the one, or lower the other", cfg.PoolSize, cfg.MaximumPoolSize)
	}
	m = &Memory{cfg: cfg, driver: d}
	m.host = newHostMemory(func(b []byte) error {
		err := d.Pin(cfg.Device, b)
		if err != nil {
			slog.Warn("devmem: host memory not pinned; results move through chunks", "error", err)
		}
		return err
	}, func(b []byte) {
		if err := d.Unpin(cfg.Device, b); err != nil {
			slog.Warn("devmem: release failed", "error", err)
		}
	})
	if m.device, err = d.Device(cfg.Device); err != nil {
		return nil, err
	}
	switch {
	case cfg.Async && !m.device.MemoryPools:
		return nil, fmt.Errorf("devmem: rmm-async: %v has no memory pools of the driver: leave it out, or use "+
			"rmm-pool-size", m.device)
	case cfg.Managed && !m.device.ManagedMemory:
		return nil, fmt.Errorf("devmem: rmm-managed-memory: %v has no managed memory: leave it out", m.device)
	}
	defer func() {
		if err != nil {
			_ = m.Close()
			m = nil
		}
	}()
	if err = d.Context(cfg.Device); err != nil {
		return m, err
	}
	free, total, err := d.Free(cfg.Device)
	if err != nil {
		return m, err
	}
	if need := cfg.PoolSize; need > free && !cfg.Managed {
		return m, fmt.Errorf("devmem: pool of %d bytes (rmm-pool-size) on %v: %d of its %d bytes are free: use "+
			"less, or end other users of the GPU (nvidia-smi)", need, m.device, free, total)
	}
	for _, s := range []*Stream{&m.stream, &m.down, &m.up} {
		if *s, err = d.Stream(cfg.Device); err != nil {
			return m, err
		}
	}
	// Locking pages is slow, so they are kept; a few chunks are enough for all copies.
	if m.pinned, err = mem.NewPool(d.Pinned(cfg.Device), mem.PoolConfig{SlabBytes: 8 * chunkBytes}); err != nil {
		return m, err
	}
	err = m.stack()
	if err == nil {
		register(m)
	}
	return m, err
}

// stack stacks the resources, in Dask-CUDA's order.
func (m *Memory) stack() (err error) {
	cfg, d := m.cfg, m.driver
	switch {
	case cfg.Async:
		if m.resource, err = m.async(); err != nil {
			return err
		}
	case cfg.Managed:
		m.resource = d.Managed(cfg.Device)
	default:
		m.resource = d.Plain(cfg.Device)
	}
	if cfg.PoolSize > 0 && !cfg.Async {
		m.pool, err = mem.NewPool(m.resource, mem.PoolConfig{InitialBytes: int(cfg.PoolSize),
			MaxBytes: cfg.MaximumPoolSize, Double: true})
		if err != nil {
			return fmt.Errorf("devmem: pool of %d bytes (rmm-pool-size) on %v: %w", cfg.PoolSize, m.device, err)
		}
		m.resource = m.pool
	}
	if cfg.Log != "" {
		if m.file, err = os.Create(cfg.Log); err != nil {
			return fmt.Errorf("devmem: rmm-log-directory: %w", err)
		}
		// Each line is flushed, so that the log of a killed worker is complete.
		if m.log, err = mem.NewAllocLog(m.resource, m.file, mem.AllocLogConfig{Flush: true}); err != nil {
			return fmt.Errorf("devmem: rmm-log-directory: %w", err)
		}
		m.resource = m.log
	}
	if cfg.Track {
		if m.tracking, err = mem.NewTracking(m.resource, mem.TrackingConfig{Stacks: true}); err != nil {
			return err
		}
		m.resource = m.tracking
	}
	m.stats, err = mem.NewStatistics(m.resource)
	m.resource = m.stats
	return err
}

// async returns the driver's pool. The initial size is allocated once and freed: the threshold keeps it.
func (m *Memory) async() (mem.Resource, error) {
	cfg := m.cfg
	if err := m.driver.KeepPool(cfg.Device, max(cfg.ReleaseThreshold, cfg.PoolSize)); err != nil {
		return nil, fmt.Errorf("devmem: rmm-release-threshold on %v: %w", m.device, err)
	}
	r := m.driver.Async(m.stream)
	if cfg.PoolSize > 0 {
		b, err := r.Alloc(context.Background(), int(cfg.PoolSize))
		if err != nil {
			return nil, fmt.Errorf("devmem: %d bytes of the driver's pool (rmm-pool-size) on %v: %w", cfg.PoolSize,
				m.device, err)
		}
		b.Release()
	}
	if cfg.MaximumPoolSize > 0 {
		return mem.NewLimit(r, cfg.MaximumPoolSize)
	}
	return r, nil
}

// Resource returns the allocator of GPU memory.
func (m *Memory) Resource() mem.Resource { return m.resource }

// Pinned returns an allocator of page-locked host memory, from a pool.
func (m *Memory) Pinned() mem.Resource { return m.pinned }

// Stream returns the stream for work of the users of the memory, a *cuda.Stream if there is a GPU. It is closed by
// Close.
func (m *Memory) Stream() mem.Stream { return m.stream }

// Device returns the description of the GPU.
func (m *Memory) Device() cuda.Device { return m.device }

// Leaks describes the allocated memory, with stacks, "" if there is none or Config.Track is not set.
func (m *Memory) Leaks() string {
	if m.tracking == nil || len(m.tracking.Outstanding()) == 0 {
		return ""
	}
	return m.tracking.Report()
}

// Close frees the memory. While buffers of its pools are in use it changes nothing and returns mem.ErrBusy; the end of
// the process frees those too. The device's context is kept. Closing twice does nothing.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	for _, p := range []*mem.Pool{m.pool, m.pinned} {
		if p == nil {
			continue
		}
		if err := p.Close(); err != nil {
			return fmt.Errorf("devmem: %v: %w", m.device, err)
		}
	}
	m.closed = true
	m.host.close()
	unregister(m)
	var errs []error
	for _, s := range []Stream{m.stream, m.down, m.up} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	if m.file != nil {
		if m.log != nil {
			errs = append(errs, m.log.Flush())
		}
		errs = append(errs, m.file.Close())
	}
	return errors.Join(errs...)
}
