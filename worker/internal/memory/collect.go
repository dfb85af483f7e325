package memory

import (
	"context"
	"os"
	"runtime"
	"sync"
	"time"

	"go.millstream.dev/internal/proc/rawmem"
)

const (
	// collectFrom is the number of bytes of removed results after which the garbage collector runs, so that their
	// memory is used again. It would otherwise run when the heap has doubled, and data would be received into new
	// memory.
	collectFrom = 32 << 20
	// collectShare bounds these collections to one part of the time in so many.
	collectShare = 10
	// keptPart is the part of the memory limit that memory of removed results may take.
	keptPart = 4
	// keptIdle is the time after which such memory is freed if no large block is allocated.
	keptIdle = 10 * time.Second
)

// collector runs the garbage collector after results were removed.
type collector struct {
	collect func()

	mu      sync.Mutex
	removed int64     // bytes of removed results since the last collection
	next    time.Time // the earliest time of the next collection
	pending bool      // a collection is running or scheduled
}

// onFree returns the function that counts removed results; nil if this process is not the worker's own, or its user
// controls the garbage collector.
func (m *Manager) onFree() func(nbytes int64) {
	if !m.cfg.OwnProcess || m.cfg.Limit <= 0 || os.Getenv("GOGC") != "" {
		return nil
	}
	m.removed.collect = runtime.GC
	return m.removed.add
}

// add counts a removed result.
func (c *collector) add(nbytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.removed += nbytes; c.removed < collectFrom || c.pending {
		return
	}
	c.pending = true
	time.AfterFunc(time.Until(c.next), c.run)
}

// run collects.
func (c *collector) run() {
	c.mu.Lock()
	c.removed = 0
	c.mu.Unlock()
	begun := time.Now()
	c.collect()
	end := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending = false
	c.next = end.Add(collectShare * end.Sub(begun))
}

// keepBlocks sets how much memory of removed results is kept for new ones, given the memory in use: the process stays
// below the target. It returns the memory in use afterwards.
func (m *Manager) keepBlocks(ctx context.Context, used int64) int64 {
	if m.removed.collect == nil {
		return used
	}
	kept, idle := rawmem.Kept()
	dropped := rawmem.Keep(m.blockLimit(used-kept, kept, idle))
	if dropped == 0 {
		return used
	}
	m.removed.add(dropped)
	if m.above(used, m.cfg.Fractions.Spill) {
		return m.free(ctx, used) // results need not be spilled for blocks that have no data
	}
	return used
}

// blockLimit returns how many bytes of unreferenced blocks are kept next to so many bytes in use.
func (m *Manager) blockLimit(used, kept int64, idle time.Duration) int64 {
	goal := m.cfg.Fractions.Target
	if goal <= 0 {
		goal = m.cfg.Fractions.Spill
	}
	limit := m.cfg.Limit / keptPart
	if goal > 0 {
		limit = min(limit, int64(goal*float64(m.cfg.Limit))-used)
	}
	if kept > 0 && idle > keptIdle {
		limit = 0
	}
	return max(limit, 0)
}
