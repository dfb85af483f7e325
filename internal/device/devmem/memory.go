package devmem

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"go.millstream.dev/cuda"
	"go.millstream.dev/mem"
)

// Config is how the memory of a GPU is allocated, as RMM's options say it. The zero value asks
// the driver for each allocation on device 0.
type Config struct {
	// Device is the GPU's number in this process.
	Device int
	// PoolSize is the first size of a pool in bytes, 0 for none; MaximumPoolSize is what it
	// may grow to, 0 for as much as there is.
	PoolSize, MaximumPoolSize int64
	// Managed is unified memory.
	Managed bool
	// Async is the driver's own pool; ReleaseThreshold is how many bytes of it are kept when
	// they are not used.
	Async            bool
	ReleaseThreshold int64
	// Log is a file for a line of each allocation, "" for none.
	Log string
	// Track keeps the stack of each allocation.
	Track bool
}

// Memory is a GPU's memory. Any number of goroutines may use it.
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

	mu     sync.Mutex // owns closed
	closed bool
}

// Open makes the device's primary context, if there is none, and the memory that is asked for.
func Open(cfg Config) (*Memory, error) { return OpenWith(cfg, realDriver{}) }

// OpenWith is Open with another driver.
func OpenWith(cfg Config, d Driver) (m *Memory, err error) {
	switch {
	case cfg.PoolSize < 0 || cfg.MaximumPoolSize < 0 || cfg.ReleaseThreshold < 0:
		return nil, errors.New("devmem: a size below 0: give bytes, or 0 for none")
	case cfg.Async && cfg.Managed:
		return nil, errors.New("devmem: rmm-async and rmm-managed-memory exclude each other: the driver's pool has " +
			"no managed memory; choose one of them")
	case cfg.MaximumPoolSize > 0 && cfg.PoolSize > cfg.MaximumPoolSize:
		return nil, fmt.Errorf("devmem: rmm-pool-size of %d bytes is more than rmm-maximum-pool-size of %d: raise "+
			"the one, or lower the other", cfg.PoolSize, cfg.MaximumPoolSize)
	}
	m = &Memory{cfg: cfg, driver: d}
	if m.device, err = d.Device(cfg.Device); err != nil {
		return nil, err
	}
	switch {
	case cfg.Async && !m.device.MemoryPools:
		return nil, fmt.Errorf("devmem: rmm-async: %v has no memory pools of the driver's: leave it out, or use "+
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
		return m, fmt.Errorf("devmem: a pool of %d bytes (rmm-pool-size) on %v: %d of its %d bytes are free: ask for "+
			"less, or end what else uses the GPU (nvidia-smi)", need, m.device, free, total)
	}
	for _, s := range []*Stream{&m.stream, &m.down, &m.up} {
		if *s, err = d.Stream(cfg.Device); err != nil {
			return m, err
		}
	}
	// The driver locks pages slowly, so they are kept; a few chunks serve all copies.
	if m.pinned, err = mem.NewPool(d.Pinned(cfg.Device), mem.PoolConfig{SlabBytes: 4 * chunkBytes}); err != nil {
		return m, err
	}
	err = m.stack()
	if err == nil {
		register(m)
	}
	return m, err
}

// stack puts the resources on each other, in Dask-CUDA's order.
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
			return fmt.Errorf("devmem: a pool of %d bytes (rmm-pool-size) on %v: %w", cfg.PoolSize, m.device, err)
		}
		m.resource = m.pool
	}
	if cfg.Log != "" {
		if m.file, err = os.Create(cfg.Log); err != nil {
			return fmt.Errorf("devmem: rmm-log-directory: %w", err)
		}
		// Each line at once: a worker that is killed leaves the whole of it.
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

// async is the driver's pool. Its first size is taken once and given back: the threshold keeps
// it.
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

// Resource allocates on the GPU.
func (m *Memory) Resource() mem.Resource { return m.resource }

// Pinned allocates page-locked host memory, from a pool.
func (m *Memory) Pinned() mem.Resource { return m.pinned }

// Stream returns the stream that takes work of the users of the memory, a *cuda.Stream where there is a GPU. It is
// closed by Close.
func (m *Memory) Stream() mem.Stream { return m.stream }

// Device is the GPU.
func (m *Memory) Device() cuda.Device { return m.device }

// Leaks describes what is allocated, with the stacks where, "" if nothing is or Config.Track
// is not set.
func (m *Memory) Leaks() string {
	if m.tracking == nil || len(m.tracking.Outstanding()) == 0 {
		return ""
	}
	return m.tracking.Report()
}

// Close gives the memory back. While buffers of its pools are out it changes nothing and fails
// with mem.ErrBusy; the process's end frees those too. The device's context stays. Closing twice
// does nothing.
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
