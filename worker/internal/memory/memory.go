// Package memory keeps a worker within its memory limit: it owns the store of results, monitors the memory of the
// process, spills, pauses and frees, and makes room for large results before tasks run.
package memory

import (
	"context"
	"log/slog"
	"math"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"go.millstream.dev/internal/engine/worker/store"
	"go.millstream.dev/internal/proc/rawmem"
	"go.millstream.dev/worker/internal/monitor"
)

// Fractions specifies the thresholds of the memory limit. worker.Memory has the same fields and documents them.
type Fractions struct {
	Target, Spill, Pause, Terminate, Transfer float64
	MaxSpill                                  int64
	Compression                               string
	Interval                                  time.Duration
	Usage                                     func() int64
}

// WithDefaults returns m with Dask's defaults in place of zeros.
func (m Fractions) WithDefaults() Fractions {
	set := func(v *float64, d float64) {
		if *v == 0 {
			*v = d
		}
	}
	set(&m.Target, 0.60)
	set(&m.Spill, 0.70)
	set(&m.Pause, 0.80)
	set(&m.Terminate, 0.95)
	set(&m.Transfer, 0.10)
	if m.Compression == "" {
		m.Compression = "auto"
	}
	if m.Interval <= 0 {
		m.Interval = 100 * time.Millisecond
	}
	if m.Usage == nil {
		m.Usage = monitor.RSS
	}
	return m
}

// Config configures a Manager.
type Config struct {
	Logger *slog.Logger
	// Limit is the maximum memory of the process in bytes; 0 means no limit.
	Limit int64
	// Fractions are the thresholds, with their defaults set.
	Fractions Fractions
	// OwnProcess indicates that the process runs nothing but the worker: the Manager may set the memory limit of the Go
	// runtime, and calls Exceeded.
	OwnProcess bool
	// Directory is the directory for spilled data; "" selects that of the system for temporary files.
	Directory string
	// Device, if not nil, configures device memory for results.
	Device *store.DeviceConfig
	// Records is the number of spilled and read results that are recorded.
	Records int
	// SetPaused is called after each measurement with whether the start of tasks is paused, and the memory in use.
	SetPaused func(paused bool, used int64)
	// Exceeded is called when the process exceeds Fractions.Terminate.
	Exceeded func(used int64)
}

// Child is a process whose memory counts as that of the worker.
type Child interface {
	// RSS returns the resident memory of the child in bytes.
	RSS() int64
	// Trim makes the child return free memory to the system.
	Trim(ctx context.Context)
	// KillForMemory kills the child if it uses the larger part of the memory, and reports whether it did.
	KillForMemory(used int64) bool
}

// Manager keeps a worker within its memory limit. Any goroutine may use it.
type Manager struct {
	cfg   Config
	log   *slog.Logger
	dir   string // parent of the directories of spilled data
	data  *store.Store
	child Child
	disk  diskCounts
	moves moveCounts
	sizes sizes // of results, by function

	removed collector

	gc     sync.Mutex // guards lastGC and tookGC
	lastGC time.Time
	tookGC time.Duration
}

// New returns a Manager with an empty store.
func New(cfg Config) (*Manager, error) {
	m := &Manager{cfg: cfg, log: cfg.Logger}
	m.disk.init(cfg.Records)
	var err error
	if m.dir, err = scratchDirectory(cfg.Directory); err != nil {
		return nil, err
	}
	part := func(f float64) int64 {
		if f <= 0 {
			return 0
		}
		return int64(f * float64(cfg.Limit))
	}
	f := cfg.Fractions
	m.data, err = store.New(store.Config{Target: part(f.Target), Ceiling: part(f.Pause), MaxSpill: f.MaxSpill,
		Dir:         m.dir,
		Compression: f.Compression, Logger: cfg.Logger, OnDisk: m.disk.record, OnFree: m.onFree(), Device: m.device()})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// SetChild adds the memory of a child to that of the worker. Call it before Watch and before tasks run.
func (m *Manager) SetChild(c Child) { m.child = c }

// Store returns the store of results.
func (m *Manager) Store() *store.Store { return m.data }

// Directory returns the directory for spilled data.
func (m *Manager) Directory() string { return m.dir }

// Usage returns the memory of the worker in bytes.
func (m *Manager) Usage() int64 {
	used := m.cfg.Fractions.Usage()
	if m.child != nil {
		used += m.child.RSS()
	}
	return used
}

// Close closes the store and removes spilled data.
func (m *Manager) Close() {
	if err := m.data.Close(); err != nil {
		m.log.Warn("cannot remove spilled data", "folder", m.dir, "error", err)
	}
	_ = os.Remove(m.dir) // succeeds for the last worker of the user only
}

// above reports whether used exceeds a fraction of the limit; never if that threshold is disabled.
func (m *Manager) above(used int64, fraction float64) bool {
	return fraction > 0 && float64(used) > fraction*float64(m.cfg.Limit)
}

// Watch monitors the memory until ctx ends. Without a limit it returns at once.
func (m *Manager) Watch(ctx context.Context) {
	f := m.cfg.Fractions
	if m.cfg.Limit <= 0 {
		return
	}
	if m.cfg.OwnProcess && f.Spill > 0 {
		// The garbage collector runs more often near the limit, so that no data is spilled that a collection could make
		// room for. The limit applies to the process; it is restored for workers that are started later.
		old := debug.SetMemoryLimit(int64(math.Min(1, f.Spill) * float64(m.cfg.Limit)))
		defer debug.SetMemoryLimit(old)
	}
	if m.removed.collect != nil {
		m.keepBlocks(ctx, m.Usage())
		defer rawmem.Keep(0)
	}
	t := time.NewTicker(f.Interval)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			m.check(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// check measures the memory and spills, pauses or terminates, as Dask's memory manager does.
func (m *Manager) check(ctx context.Context) {
	f := m.cfg.Fractions
	used := m.keepBlocks(ctx, m.Usage())
	if m.above(used, f.Spill) {
		used = m.spill(ctx, used)
	}
	if m.above(used, f.Pause) {
		used = m.free(ctx, used)
	}
	// A worker whose disk is full has returned a task to the scheduler, and must not receive it again.
	m.cfg.SetPaused(m.above(used, f.Pause) || m.data.Full(), used)
	if m.child != nil && m.above(used, f.Terminate) && m.child.KillForMemory(used) {
		return
	}
	if m.cfg.OwnProcess && m.above(used, f.Terminate) {
		m.cfg.Exceeded(used)
	}
}

// spill moves data to disk until the process is below the target, or nothing more can be moved.
func (m *Manager) spill(ctx context.Context, used int64) int64 {
	goal := m.cfg.Fractions.Target
	if goal < 0 {
		goal = m.cfg.Fractions.Spill
	}
	var moved int64
	for need := used; m.above(used, goal) && ctx.Err() == nil; {
		n := m.data.Evict()
		if n <= 0 {
			break
		}
		moved += n
		if moved > need-int64(goal*float64(m.cfg.Limit)) {
			// The next measurement is meaningful only after a garbage collection.
			used = m.free(ctx, used)
			need, moved = used, 0
		}
	}
	return m.Usage()
}

// free runs the garbage collector and returns memory to the system, at most a tenth of the time. It returns the memory
// in use afterwards.
func (m *Manager) free(ctx context.Context, used int64) int64 {
	if !m.gc.TryLock() {
		return used
	}
	defer m.gc.Unlock()
	begun := time.Now()
	if begun.Sub(m.lastGC) < 10*m.tookGC {
		return used
	}
	if m.removed.collect != nil {
		rawmem.Collect()
	}
	debug.FreeOSMemory()
	if m.child != nil {
		m.child.Trim(ctx)
	}
	m.lastGC = time.Now()
	m.tookGC = m.lastGC.Sub(begun)
	return m.Usage()
}
