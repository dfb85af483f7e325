// Package metrics reports the figures of a worker: in heartbeats, to Prometheus, and on the pages of its HTTP server.
// It depends on snapshots of the worker only.
package metrics

import (
	"go.millstream.dev/internal/device/nvml"
	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/engine/worker/store"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/worker/internal/memory"
	"go.millstream.dev/worker/internal/transfer"
)

// States are the task states that metrics report.
var States = [...]state.TaskState{state.Released, state.Waiting, state.Fetch, state.Flight, state.Missing, state.Ready,
	state.Constrained, state.Executing, state.LongRunning, state.Memory, state.Erred, state.Cancelled, state.Resumed}

// Snapshot holds the figures of a worker at one moment.
type Snapshot struct {
	// Counts are the numbers of tasks by state, in the order of States.
	Counts [len(States)]int
	Stats  state.Stats
	// Executing has the time since which each task runs or waits for a thread, in ns since 1970.
	Executing map[task.Key]int64
	// Turns is the number of turns of the worker since its start.
	Turns int64
	// Queued is the number of messages, results and functions that wait for the loop of the worker.
	Queued int
	// Abandoned is the number of functions that outlive their tasks, AbandonedTotal that since the start.
	Abandoned      int
	AbandonedTotal int64
	// Threads is the number of threads, Latency that of the scheduler in seconds, Memory that of the process in bytes.
	Threads int
	Latency float64
	Memory  int64
	// Spilled is the data on disk, Read and Wrote count the transfers since the start.
	Spilled     store.Spilled
	Read, Wrote memory.Moved
	// Sent counts the transfers to peers.
	Sent transfer.Counts
	// Device is the memory of the GPU, nil without one.
	Device *Device
	// GPU is the use of the GPU by all processes, nil if the driver does not report it.
	GPU *nvml.Sample
}

// Device describes the memory of a GPU.
type Device struct {
	// Results and Limit are in bytes.
	Results, Limit int64
	// Counted reports whether Allocated and Peak are known.
	Counted         bool
	Allocated, Peak int64
	// Up and Down count the moves to the GPU and from it since the start.
	Up, Down memory.Moved
	// Pinned is the page-locked host memory of the worker in bytes, Total the memory of the GPU; 0 if unknown.
	Pinned, Total int64
}

// heartbeat returns the field device of a heartbeat's metrics: bytes of GPU memory that the worker has allocated
// (used), their limit (0 for none), those of results, page-locked host memory, and the memory of the GPU; and the
// percentage of time in which the GPU was busy, nil if unknown.
func (d *Device) heartbeat(gpu *nvml.Sample) msgpack.Map {
	used, total := d.Results, d.Total
	if d.Counted {
		used = d.Allocated
	}
	var busy any
	if gpu != nil && gpu.Utilization >= 0 {
		busy = gpu.Utilization
	}
	if gpu != nil && gpu.Total > 0 {
		total = gpu.Total
	}
	return msgpack.MapOf("used", used, "limit", d.Limit, "results", d.Results, "pinned", d.Pinned, "total", total,
		"utilization", busy)
}

// Heartbeat returns the metrics of a Dask heartbeat, which its scheduler and dashboards read. bandwidth and usage are
// the parts of other subsystems.
func (s *Snapshot) Heartbeat(bandwidth, usage msgpack.Map) msgpack.Map {
	tasks := msgpack.Map{}
	for i, st := range States {
		if s.Counts[i] > 0 {
			tasks = append(tasks, msgpack.Pair{Key: st.String(), Value: s.Counts[i]})
		}
	}
	m := msgpack.MapOf(
		"task_counts", tasks,
		"bandwidth", bandwidth,
		"digests_total_since_heartbeat", msgpack.Map{},
		"managed_bytes", s.Stats.NBytes,
		"spilled_bytes", msgpack.MapOf("memory", s.Spilled.Memory, "disk", s.Spilled.Disk),
		"transfer", msgpack.MapOf(
			"incoming_bytes", s.Stats.IncomingBytes, "incoming_count", s.Stats.IncomingCount,
			"incoming_count_total", s.Stats.IncomingTotal, "outgoing_bytes", s.Sent.OpenBytes, "outgoing_count",
			s.Sent.Open,
			"outgoing_count_total", s.Sent.Total),
		"event_loop_interval", 0.02,
	)
	if s.Device != nil {
		m = append(m, msgpack.Pair{Key: "device", Value: s.Device.heartbeat(s.GPU)})
	}
	return append(m, usage...)
}

// Summary summarizes a worker for JSON.
type Summary struct {
	Address       string         `json:"address"`
	Name          string         `json:"name"`
	Status        string         `json:"status"`
	Threads       int            `json:"threads"`
	DataAddresses []string       `json:"data_addresses"`
	Scheduler     string         `json:"scheduler"`
	Registry      string         `json:"registry"`
	Tasks         map[string]int `json:"tasks"`
	Memory        int64          `json:"memory"`
	Limit         int64          `json:"memory_limit"`
	Managed       int64          `json:"managed"`
	Spilled       int64          `json:"spilled"`
	Executed      uint64         `json:"executed"`
}

// Summarize returns out with the figures of the snapshot.
func (s *Snapshot) Summarize(out Summary) Summary {
	out.Threads, out.Memory, out.Managed, out.Spilled, out.Executed = s.Threads, s.Memory, s.Stats.NBytes,
		s.Spilled.Disk, s.Stats.Executed
	out.Tasks = map[string]int{}
	for i, st := range States {
		out.Tasks[st.String()] = s.Counts[i]
	}
	return out
}
