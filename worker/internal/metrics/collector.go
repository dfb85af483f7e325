package metrics

import (
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"go.millstream.dev/worker/internal/memory"
	"go.millstream.dev/worker/internal/record"
)

// Collector collects the metrics of Dask workers, under their names, from a snapshot.
type Collector func() Snapshot

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("dask_worker_"+name, help, labels, nil)
}

var (
	descTasks   = desc("tasks", "Number of tasks at worker.", "state")
	descGC      = desc("gc_collection_seconds_total", "Total time spent on garbage collection")
	descThreads = desc("threads", "Number of worker threads")
	descLatency = desc("latency_seconds", "Latency of worker connection")
	descMemory  = desc("memory_bytes", "Memory breakdown", "type")
	descInBytes = desc("transfer_incoming_bytes", "Total size of open data transfers from other workers")
	descInCount = desc("transfer_incoming_count", "Number of open data transfers from other workers")
	descInTotal = desc("transfer_incoming_count_total",
		"Total number of data transfers from other workers since the worker was started")
	descOutBytes      = desc("transfer_outgoing_bytes", "Total size of open data transfers to other workers")
	descOutCount      = desc("transfer_outgoing_count", "Number of open data transfers to other workers")
	descOutBytesTotal = desc("transfer_outgoing_bytes_total",
		"Total size of data transfers to other workers since the worker was started (including in-progress and "+
			"failed transfers)")
	descOutTotal = desc("transfer_outgoing_count_total",
		"Total number of data transfers to other workers since the worker was started")
	descExecuted = desc("tasks_executed_total",
		"Total number of task runs that ended since the worker was started")
	descSpillBytes = desc("spill_bytes_total",
		"Total size of disk accesses caused by managed data since the latest worker restart", "activity")
	descSpillCount = desc("spill_count_total",
		"Total number of disk accesses caused by managed data since the latest worker restart", "activity")
	descSpillTime = desc("spill_time_seconds_total",
		"Total time spent spilling/unspilling since the latest worker restart", "activity")
	descOnDevice = prometheus.NewDesc("millstream_worker_device_bytes",
		"GPU memory of the worker by type: results, allocated (all allocations), peak (maximum of "+
			"allocated), limit (--device-memory-limit), pinned (page-locked host memory), total (of the GPU)",
		[]string{"type"}, nil)
	descGPUUse = prometheus.NewDesc("millstream_worker_gpu_utilization_ratio",
		"Share of the time in which a kernel of any process ran on the GPU of the worker", nil, nil)
	descGPUMemory = prometheus.NewDesc("millstream_worker_gpu_memory_bytes",
		"Memory of the GPU of the worker: used by all processes, and total", []string{"type"}, nil)
	descMoves = prometheus.NewDesc("millstream_worker_device_moves_total",
		"Number of results moved from GPU to host memory (down) or back (up)", []string{"direction"}, nil)
	descMoveBytes = prometheus.NewDesc("millstream_worker_device_move_bytes_total",
		"Size of results moved from GPU to host memory (down) or back (up)", []string{"direction"}, nil)
	descMoveTime = prometheus.NewDesc("millstream_worker_device_move_seconds_total",
		"Time to move results from GPU to host memory (down) or back (up), including the wait for free "+
			"memory there", []string{"direction"}, nil)
	descAbandoned = prometheus.NewDesc("millstream_worker_tasks_abandoned_total",
		"Number of tasks abandoned because their functions ignored a timeout or cancellation", nil, nil)
	descStillRunning = prometheus.NewDesc("millstream_worker_tasks_abandoned",
		"Number of functions of abandoned tasks that are still running", nil, nil)
	descQueued = prometheus.NewDesc("millstream_worker_queue_length",
		"Number of messages, results and functions that wait for the loop of the worker", nil, nil)
	descTicks = desc("tick_count_total", "Total number of ticks observed since the server started")
)

// Describe implements prometheus.Collector.
func (c Collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descTasks, descGC, descThreads, descLatency, descMemory, descInBytes,
		descInCount,
		descInTotal, descOutBytes, descOutCount, descOutBytesTotal, descOutTotal, descExecuted, descTicks,
		descSpillBytes,
		descSpillCount, descSpillTime, descOnDevice, descMoves, descMoveBytes, descMoveTime, descAbandoned,
		descStillRunning, descGPUUse, descGPUMemory, descQueued} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c Collector) Collect(out chan<- prometheus.Metric) {
	s := c()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	for i, st := range States {
		n := s.Counts[i]
		if st.String() == "memory" {
			onDisk := min(n, s.Spilled.Keys)
			gauge(descTasks, float64(onDisk), "disk")
			n -= onDisk
		}
		gauge(descTasks, float64(n), st.String())
	}
	var gc debug.GCStats
	debug.ReadGCStats(&gc)
	counter(descGC, gc.PauseTotal.Seconds())
	gauge(descThreads, float64(s.Threads))
	gauge(descLatency, s.Latency)
	process := s.Memory
	managed := min(process, s.Stats.NBytes-s.Spilled.Memory)
	gauge(descMemory, float64(managed), "managed")
	gauge(descMemory, float64(process-managed), "unmanaged")
	gauge(descMemory, float64(s.Spilled.Disk), "spilled")
	gauge(descInBytes, float64(s.Stats.IncomingBytes))
	gauge(descInCount, float64(s.Stats.IncomingCount))
	counter(descInTotal, float64(s.Stats.IncomingTotal))
	gauge(descOutBytes, float64(s.Sent.OpenBytes))
	gauge(descOutCount, float64(s.Sent.Open))
	counter(descOutBytesTotal, float64(s.Sent.TotalBytes))
	counter(descOutTotal, float64(s.Sent.Total))
	counter(descExecuted, float64(s.Stats.Executed))
	for activity, n := range map[string]memory.Moved{"disk_read": s.Read, "disk_write": s.Wrote} {
		counter(descSpillBytes, float64(n.Bytes), activity)
		counter(descSpillCount, float64(n.Count), activity)
		counter(descSpillTime, record.Seconds(n.Time), activity)
	}
	counter(descTicks, float64(s.Turns))
	gauge(descQueued, float64(s.Queued))
	counter(descAbandoned, float64(s.AbandonedTotal))
	gauge(descStillRunning, float64(s.Abandoned))
	if g := s.GPU; g != nil {
		if g.Utilization >= 0 {
			gauge(descGPUUse, float64(g.Utilization)/100)
		}
		if g.Used >= 0 {
			gauge(descGPUMemory, float64(g.Used), "used")
			gauge(descGPUMemory, float64(g.Total), "total")
		}
	}
	d := s.Device
	if d == nil {
		return
	}
	gauge(descOnDevice, float64(d.Results), "results")
	gauge(descOnDevice, float64(d.Limit), "limit")
	gauge(descOnDevice, float64(d.Pinned), "pinned")
	gauge(descOnDevice, float64(d.Total), "total")
	if d.Counted {
		gauge(descOnDevice, float64(d.Allocated), "allocated")
		gauge(descOnDevice, float64(d.Peak), "peak")
	}
	for direction, n := range map[string]memory.Moved{"up": d.Up, "down": d.Down} {
		counter(descMoves, float64(n.Count), direction)
		counter(descMoveBytes, float64(n.Bytes), direction)
		counter(descMoveTime, record.Seconds(n.Time), direction)
	}
}
