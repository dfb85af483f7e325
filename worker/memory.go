package worker

import (
	"context"
	"fmt"
	"math"
	"runtime/debug"
	"time"

	"go.millstream.dev/worker/internal/monitor"
)

func (m Memory) withDefaults() Memory {
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

// above tells whether memory is above a fraction of the limit; never if that is turned off.
func (w *Worker) above(memory int64, fraction float64) bool {
	return fraction > 0 && float64(memory) > fraction*float64(w.cfg.MemoryLimit)
}

// watchMemory starts the monitor, if there is a limit.
func (w *Worker) watchMemory() {
	if w.cfg.MemoryLimit <= 0 {
		return
	}
	if w.cfg.OwnProcess && w.cfg.Memory.Spill > 0 {
		// The collector works harder before data goes to disk for want of a collection. The
		// limit is the process's; it is put back for those who start another worker.
		old := debug.SetMemoryLimit(int64(math.Min(1, w.cfg.Memory.Spill) * float64(w.cfg.MemoryLimit)))
		w.tasks.Go(func() {
			<-w.ctx.Done()
			debug.SetMemoryLimit(old)
		})
	}
	w.tasks.Go(func() {
		t := time.NewTicker(w.cfg.Memory.Interval)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				w.lookAtMemory()
			case <-w.ctx.Done():
				return
			}
		}
	})
}

// lookAtMemory does what the process's memory asks for, as Dask's memory manager does.
func (w *Worker) lookAtMemory() {
	m := w.cfg.Memory
	used := m.Usage()
	if w.above(used, m.Spill) {
		used = w.spill(used)
	}
	if w.above(used, m.Pause) {
		used = w.freeMemory(used)
	}
	// A worker that had to give a task back, for its disk is full, must not be given it again.
	w.setPaused(w.above(used, m.Pause) || w.data.Full(), used)
	if w.sidecar != nil && w.above(used, m.Terminate) && w.sidecar.killForMemory(used) {
		return
	}
	if w.cfg.OwnProcess && w.above(used, m.Terminate) {
		w.endLater(fmt.Errorf("%w: %d MiB in use, limit %d MiB (distributed.worker.memory.terminate %.0f%%)", ErrMemory, used>>20, w.cfg.MemoryLimit>>20, 100*m.Terminate))
	}
}

// spill moves data to disk until the process is below the target, or nothing more can be
// moved.
func (w *Worker) spill(used int64) int64 {
	goal := w.cfg.Memory.Target
	if goal < 0 {
		goal = w.cfg.Memory.Spill
	}
	var moved int64
	for need := used; w.above(used, goal) && w.ctx.Err() == nil; {
		n := w.data.Evict()
		if n <= 0 {
			break
		}
		moved += n
		if moved > need-int64(goal*float64(w.cfg.MemoryLimit)) {
			// As much as was asked for: now the collector must give it back before the
			// next look can mean anything.
			used = w.freeMemory(used)
			need, moved = used, 0
		}
	}
	return w.cfg.Memory.Usage()
}

// freeMemory makes the collector give back what it can, but spends no more than a tenth of
// the time with it. It returns what the process uses then.
func (w *Worker) freeMemory(used int64) int64 {
	if !w.gc.TryLock() {
		return used
	}
	defer w.gc.Unlock()
	begun := time.Now()
	if begun.Sub(w.lastGC) < 10*w.tookGC {
		return used
	}
	debug.FreeOSMemory()
	if w.sidecar != nil {
		w.sidecar.trim(w.ctx)
	}
	w.lastGC = time.Now()
	w.tookGC = w.lastGC.Sub(begun)
	return w.cfg.Memory.Usage()
}

// largeResult is from which size a task that has made a result waits while memory is short.
const largeResult = 1 << 20

// brake holds a task back that has just made a large result while the process is above the
// pause fraction: otherwise each thread could start another one before the next look at the
// memory. It does not hold it for ever, as the memory may be the user's own.
func (w *Worker) brake(ctx context.Context, nbytes int64) {
	if w.cfg.MemoryLimit <= 0 || nbytes < largeResult {
		return
	}
	for range 50 {
		used := w.cfg.Memory.Usage()
		if w.above(used, w.cfg.Memory.Pause) {
			used = w.freeMemory(used)
		}
		if !w.above(used, w.cfg.Memory.Pause) {
			return
		}
		t := time.NewTimer(20 * time.Millisecond)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
	}
}
