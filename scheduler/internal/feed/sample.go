package feed

import (
	"iter"
	"maps"
	"time"

	"go.millstream.dev/scheduler/internal/peers"
)

// sampleInterval is the time between two points of the series.
const sampleInterval = time.Second

// Series are the names of the series that a Feed records: bytes of the processes of all workers, of their results in
// memory and on disk; percent of a core of all of them; finished tasks, and bytes of transfers, per second; if there
// are GPUs, the bytes in use on them and of pinned memory, and their mean utilization in percent.
const (
	SeriesMemory  = "memory"
	SeriesManaged = "managed"
	SeriesSpilled = "spilled"
	SeriesCPU     = "cpu"
	SeriesRate    = "tasks/s"
	SeriesMoved   = "bytes/s"
	SeriesDevice  = "device.used"
	SeriesPinned  = "device.pinned"
	SeriesGPU     = "gpu"
)

// Tick hands the batch over, and records a point of each series once a second.
func (f *Feed) Tick(now time.Time, workers iter.Seq[*peers.Worker]) {
	if f == nil {
		return
	}
	f.Begin(now)
	f.Flush()
	since := now.Sub(f.sampled)
	if since < sampleInterval {
		return
	}
	var sum peers.Recorded
	var gpu peers.RecordedGPU
	gpus := 0
	for w := range workers {
		sum.CPU += w.Recorded.CPU
		sum.RSS += w.Recorded.RSS
		sum.Managed += w.Recorded.Managed
		sum.Spilled += w.Recorded.Spilled
		if g := w.Recorded.GPU; g != nil {
			gpu.Used += g.Used
			gpu.Pinned += g.Pinned
			gpu.Utilization += g.Utilization
			gpus++
		}
	}
	f.sample(now, SeriesMemory, float64(sum.RSS))
	f.sample(now, SeriesManaged, float64(sum.Managed))
	f.sample(now, SeriesSpilled, float64(sum.Spilled))
	f.sample(now, SeriesCPU, sum.CPU)
	if gpus > 0 {
		f.sample(now, SeriesDevice, float64(gpu.Used))
		f.sample(now, SeriesPinned, float64(gpu.Pinned))
		f.sample(now, SeriesGPU, gpu.Utilization/float64(gpus))
	}
	if !f.sampled.IsZero() {
		seconds := since.Seconds()
		f.sample(now, SeriesRate, float64(f.totals.Finished-f.before.Finished)/seconds)
		f.sample(now, SeriesMoved, float64(moved(f.totals)-moved(f.before))/seconds)
	}
	f.sampled = now
	f.before = f.totals
	f.before.Moved = maps.Clone(f.totals.Moved)
}

// moved returns the bytes of all transports.
func moved(t Totals) (sum int64) {
	for _, n := range t.Moved {
		sum += n
	}
	return sum
}

func (f *Feed) sample(now time.Time, name string, v float64) {
	f.writer.add(entry{at: now, name: name, value: v})
}
