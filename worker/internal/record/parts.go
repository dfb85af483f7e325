package record

import (
	"time"

	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/task"
)

// Period is a period of time, in ns since 1970.
type Period struct{ Start, Stop int64 }

// Cover extends p so that it includes q.
func (p *Period) Cover(q Period) {
	if p.Stop == 0 {
		*p = q
		return
	}
	p.Start, p.Stop = min(p.Start, q.Start), max(p.Stop, q.Stop)
}

// Arrivals has the transfer periods of fetched results that no task has used yet: the first task that uses a result has
// waited for it. It is guarded by the worker's turn. The zero value is empty.
type Arrivals map[task.Key]Period

// maxArrivals bounds Arrivals: fetched replicas may never be used.
const maxArrivals = 1 << 14

// Add records that results were transferred in a period.
func (a *Arrivals) Add(stored []state.Stored, p Period) {
	if *a == nil || len(*a)+len(stored) > maxArrivals {
		*a = Arrivals{}
	}
	for i := range stored[:min(len(stored), maxArrivals)] {
		(*a)[stored[i].Key] = p
	}
}

// Use removes a result that a task uses, and extends waited by its period.
func (a Arrivals) Use(k task.Key, waited *Period) {
	if p, ok := a[k]; ok {
		delete(a, k)
		waited.Cover(p)
	}
}

// leastRead is the minimum duration for which opening dependencies is recorded as a read from disk.
const leastRead = int64(time.Millisecond)

// Parts are the parts of the time of a run, by Dask's names: transfer of its dependencies,
// disk-read or deserialize, compute.
type Parts struct {
	Moved       Period // transfer of the dependencies from peers; zero if none was transferred
	Waited      int64  // before Load, ns for which the task was ready and its thread idle
	Load        int64  // start of opening the dependencies, ns since 1970
	Start, Stop int64  // of the computation, ns since 1970
	Python      bool   // Load is that of passing the task to a Python process, which may have to be started
}

// Each calls f with each part that exists, in order.
func (p *Parts) Each(f func(action string, start, stop int64)) {
	if p.Moved.Stop > 0 {
		f("transfer", p.Moved.Start, p.Moved.Stop)
	}
	if p.Load > 0 && p.Start-p.Load > leastRead {
		action := "disk-read"
		if p.Python {
			action = "deserialize"
		}
		f(action, p.Load, p.Start)
	}
	f("compute", p.Start, p.Stop)
}

// Run is the record of one run of a task. It is small because there is one for every task.
type Run struct {
	Key    string // canonical
	Name   string // of the function
	Thread int64
	Status string // OK, error, cancelled or reschedule
	NBytes int64  // of the result
	Parts
}

// Seconds converts ns since 1970 to seconds, the unit of times in Dask messages.
func Seconds(ns int64) float64 { return float64(ns) / 1e9 }

// Unix returns a time as seconds since 1970.
func Unix(t time.Time) float64 { return Seconds(t.UnixNano()) }
