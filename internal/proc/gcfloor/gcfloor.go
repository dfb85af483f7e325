// Package gcfloor lets small heaps grow before they are collected.
//
// Go collects when the heap has doubled. A process that produces much garbage and keeps a few megabytes then marks
// those megabytes hundreds of times a second: in worker processes with tiny tasks, a quarter of all processor time.
// With a floor the next collection starts when the heap has doubled or has reached the floor, whichever is later.
package gcfloor

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// Scheduler is the floor of a scheduler in its own process, in bytes.
const Scheduler = 64 << 20

// usual is Go's default percentage.
const usual = 100

// most bounds the percentage of a heap that is nearly empty.
const most = 100_000

var (
	mu      sync.Mutex // owns what follows
	floor   int64      // in bytes
	current = usual
)

// Set lets the heap of this process grow to so many bytes before it is collected. It is for Millstream's own processes,
// not for those of users. It does nothing if GOGC is set. Zero disables it.
func Set(bytes int64) {
	if os.Getenv("GOGC") != "" {
		return
	}
	mu.Lock()
	defer mu.Unlock()
	first := floor == 0 && bytes > 0
	floor = bytes
	adjust()
	if first {
		watch()
	}
}

// sentinel is garbage from the start. Its cleanup indicates a collection.
type sentinel struct{ _ [16]byte }

// watch adjusts after each collection.
func watch() {
	runtime.SetFinalizer(&sentinel{}, func(*sentinel) {
		mu.Lock()
		defer mu.Unlock()
		adjust()
		if floor > 0 {
			watch()
		}
	})
}

// adjust sets the percentage for the current live heap. The caller holds mu.
func adjust() {
	p := percent(live(), floor)
	// Every change stops the world briefly.
	if p == usual && current != usual || abs(p-current)*10 > current {
		debug.SetGCPercent(p)
		current = p
	}
}

// percent returns the percentage with which a live heap is collected at the floor, or when it has doubled.
func percent(live, floor int64) int {
	live = max(live, 1<<20)
	return int(min(max(usual, (floor-live)*100/live), most))
}

func abs(v int) int { return max(v, -v) }

// live returns the live heap of the last collection, in bytes.
func live() int64 {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return int64(s[0].Value.Uint64())
}
