// Package memory keeps a worker within its memory limit: it owns the store of results, watches the memory of the
// process, spills, pauses and frees, and makes room before tasks make large results.
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
	"go.millstream.dev/worker/internal/monitor"
)

// Fractions are those of the memory limit at which something is done, and how. See worker.Memory, which has the same
// fields.
type Fractions struct {
	Target, Spill, Pause, Terminate, Transfer float64
	MaxSpill                                  int64
	Compression                               string
	Interval                                  time.Duration
	Usage                                     func() int64
}

// WithDefaults returns m with Dask's values in the place of zeros.
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

// Config describes a Manager.
type Config struct {
	Logger *slog.Logger
	// Limit is what the process may use in bytes, 0 without a limit.
	Limit int64
	// Fractions have their defaults.
	Fractions Fractions
	// OwnProcess reports that nothing but the worker lives in the process: the Manager may set the limit of the garbage
	// collector, and Exceeded ends the process.
	OwnProcess bool
	// Directory is where data is spilled to, "" for the system's folder for temporary files.
	Directory string
	// Device, if not nil, is the memory of a device above the host's.
	Device *store.DeviceConfig
	// Records is how many results that went to disk or came back are remembered.
	Records int
	// SetPaused is called after each look at the memory with whether tasks may not be started, and what is used.
	SetPaused func(paused bool, used int64)
	// Exceeded is called when the process is above Fractions.Terminate.
	Exceeded func(used int64)
}

// Child is a process whose memory counts as the worker's.
type Child interface {
	// RSS returns its resident memory in bytes.
	RSS() int64
	// Trim has it give memory back to the system.
	Trim(ctx context.Context)
	// KillForMemory kills it if it has the larger part of the memory, and reports whether it did.
	KillForMemory(used int64) bool
}

// Manager keeps a worker within its memory limit. Any goroutine may use it.
type Manager struct {
	cfg   Config
	log   *slog.Logger
	dir   string // below which data is spilled
	data  *store.Store
	child Child
	disk  diskCounts
	moves moveCounts
	sizes sizes // of results, by function

	gc     sync.Mutex // owns the two that follow
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
		Compression: f.Compression, Logger: cfg.Logger, OnDisk: m.disk.note, Device: m.device()})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// SetChild adds the memory of a child to the worker's. Call it before Watch and before tasks run.
func (m *Manager) SetChild(c Child) { m.child = c }

// Store returns the store of results.
func (m *Manager) Store() *store.Store { return m.data }

// Directory returns the folder below which data is spilled.
func (m *Manager) Directory() string { return m.dir }

// Usage returns what the worker uses in bytes.
func (m *Manager) Usage() int64 {
	used := m.cfg.Fractions.Usage()
	if m.child != nil {
		used += m.child.RSS()
	}
	return used
}

// Close removes the store and what it has spilled.
func (m *Manager) Close() {
	if err := m.data.Close(); err != nil {
		m.log.Warn("spilled data could not be removed", "folder", m.dir, "error", err)
	}
	_ = os.Remove(m.dir) // the last worker of the user finds it empty
}

// above reports whether memory is above a fraction of the limit; never if that is turned off.
func (m *Manager) above(used int64, fraction float64) bool {
	return fraction > 0 && float64(used) > fraction*float64(m.cfg.Limit)
}

// Watch looks at the memory until ctx ends. Without a limit it returns at once.
func (m *Manager) Watch(ctx context.Context) {
	f := m.cfg.Fractions
	if m.cfg.Limit <= 0 {
		return
	}
	if m.cfg.OwnProcess && f.Spill > 0 {
		// The collector works harder before data goes to disk for want of a collection. The limit is the process's; it
		// is put back for those who start another worker.
		old := debug.SetMemoryLimit(int64(math.Min(1, f.Spill) * float64(m.cfg.Limit)))
		defer debug.SetMemoryLimit(old)
	}
	t := time.NewTicker(f.Interval)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			m.look(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// look does what the process's memory asks for, as Dask's memory manager does.
func (m *Manager) look(ctx context.Context) {
	f := m.cfg.Fractions
	used := m.Usage()
	if m.above(used, f.Spill) {
		used = m.spill(ctx, used)
	}
	if m.above(used, f.Pause) {
		used = m.free(ctx, used)
	}
	// A worker that had to give a task back, as its disk is full, must not be given it again.
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
			// As much as was asked for: now the collector must give it back before the next look can mean anything.
			used = m.free(ctx, used)
			need, moved = used, 0
		}
	}
	return m.Usage()
}

// free makes the collector give back what it can, but spends no more than a tenth of the time with it. It returns what
// the process uses then.
func (m *Manager) free(ctx context.Context, used int64) int64 {
	if !m.gc.TryLock() {
		return used
	}
	defer m.gc.Unlock()
	begun := time.Now()
	if begun.Sub(m.lastGC) < 10*m.tookGC {
		return used
	}
	debug.FreeOSMemory()
	if m.child != nil {
		m.child.Trim(ctx)
	}
	m.lastGC = time.Now()
	m.tookGC = m.lastGC.Sub(begun)
	return m.Usage()
}
