// Package top shows a running cluster in a terminal, as `millstream top` does.
package top

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"go.millstream.dev/internal/wire/msgpack"
)

// Snapshot describes a cluster at one moment. It is the output of `millstream top --json`.
type Snapshot struct {
	Time    time.Time `json:"time"`
	Address string    `json:"address"`
	ID      string    `json:"id"`
	// Started is when the scheduler started.
	Started time.Time `json:"started"`
	Threads int64     `json:"threads"`
	// Memory is that of all workers in bytes.
	Memory Memory `json:"memory"`
	// Tasks are counts by state; for a Dask scheduler without get_task_prefix_states, those that workers report.
	Tasks map[string]int64 `json:"tasks"`
	// Transitions is the number of transitions of tasks per second; 0 before the second snapshot and for Dask.
	Transitions float64 `json:"transitions_per_second"`
	// Transfers are those between workers by transport, by scheme where that is not known. A Dask scheduler has none.
	Transfers []Transfer `json:"transfers"`
	Failures  Failures   `json:"failures"`
	Workers   []Worker   `json:"workers"`

	transitions int64
}

// Memory describes memory in bytes.
type Memory struct {
	// Used is that of the process, Managed that of results, Spilled that on disk; Limit is 0 without a limit.
	Used    int64 `json:"used"`
	Managed int64 `json:"managed"`
	Spilled int64 `json:"spilled"`
	Limit   int64 `json:"limit"`
}

// Transfer sums transfers of one transport.
type Transfer struct {
	Transport string  `json:"transport"`
	Count     int64   `json:"count"`
	Bytes     int64   `json:"bytes"`
	Rate      float64 `json:"bytes_per_second"`
}

// Failures counts failures since the start of the scheduler; -1 if it does not report them.
type Failures struct {
	Erred          int64 `json:"tasks_erred"`
	Suspicious     int64 `json:"tasks_suspicious"`
	WorkersRemoved int64 `json:"workers_removed"`
}

// Worker describes a worker.
type Worker struct {
	Address string  `json:"address"`
	Name    string  `json:"name"`
	Status  string  `json:"status"`
	Threads int64   `json:"threads"`
	Running int64   `json:"executing"`
	Ready   int64   `json:"ready"`
	Results int64   `json:"in_memory"`
	CPU     float64 `json:"cpu_percent"`
	Memory  Memory  `json:"memory"`
	// GPU is nil for workers without one.
	GPU *GPU `json:"gpu"`
	// Network is the traffic of the machine in bytes per second.
	Network float64 `json:"network_bytes_per_second"`
	// Seen is the time since the last heartbeat, in seconds.
	Seen float64 `json:"last_seen"`
}

// GPU describes the GPU of a worker. Utilization is a percentage, -1 if unknown; Used and Total are bytes.
type GPU struct {
	Name        string  `json:"name"`
	Utilization float64 `json:"utilization"`
	Used        int64   `json:"memory_used"`
	Total       int64   `json:"memory_total"`
}

// New returns the snapshot of a scheduler of Millstream or Dask: id is its identity, prefixes its reply to
// get_task_prefix_states (nil if there is none), last the previous snapshot, nil at first.
func New(now time.Time, id, prefixes msgpack.Map, last *Snapshot) *Snapshot {
	s := &Snapshot{Time: now, Address: id.GetString("address"), ID: id.GetString("id"), Tasks: map[string]int64{},
		Transfers: []Transfer{}, Workers: []Worker{}, Failures: Failures{Suspicious: -1, WorkersRemoved: -1},
		Started: time.UnixMilli(int64(number(id, "started") * 1e3)).UTC()}
	counts := map[string]int64{}
	for _, p := range table(id, "workers") {
		d, _ := p.Value.(msgpack.Map)
		w := newWorker(now, text(p.Key), d)
		for _, c := range table(table(d, "metrics"), "task_counts") {
			counts[text(c.Key)] += toInt(c.Value)
		}
		s.Workers = append(s.Workers, w)
		s.Threads += w.Threads
		s.Memory.Used += w.Memory.Used
		s.Memory.Managed += w.Memory.Managed
		s.Memory.Spilled += w.Memory.Spilled
		s.Memory.Limit += w.Memory.Limit
	}
	own := table(id, "millstream")
	switch {
	case own != nil:
		for _, c := range table(own, "tasks") {
			s.Tasks[text(c.Key)] = toInt(c.Value)
		}
		s.addOwn(own, last)
	case prefixes != nil:
		for _, p := range prefixes {
			states, _ := p.Value.(msgpack.Map)
			for _, c := range states {
				s.Tasks[text(c.Key)] += toInt(c.Value)
			}
		}
		maps.DeleteFunc(s.Tasks, func(_ string, n int64) bool { return n == 0 })
	default:
		s.Tasks = counts
	}
	s.Failures.Erred = s.Tasks["erred"]
	return s
}

// addOwn adds what only Millstream schedulers report.
func (s *Snapshot) addOwn(own msgpack.Map, last *Snapshot) {
	seconds := 0.0
	if last != nil && last.ID == s.ID { // counters of a restarted scheduler begin at zero
		seconds = s.Time.Sub(last.Time).Seconds()
	} else {
		last = &Snapshot{}
	}
	rate := func(now, before int64) float64 {
		if seconds <= 0 {
			return 0
		}
		return max(0, float64(now-before)/seconds)
	}
	if f := table(own, "failures"); f != nil {
		s.Failures.Suspicious, s.Failures.WorkersRemoved = integer(f, "suspicious"), integer(f, "workers-removed")
	}
	s.transitions = integer(own, "transitions")
	s.Transitions = rate(s.transitions, last.transitions)
	for _, p := range table(own, "transfers") {
		f, _ := p.Value.([]any)
		if len(f) < 2 {
			continue
		}
		t := Transfer{Transport: text(p.Key), Bytes: toInt(f[0]), Count: toInt(f[1])}
		for _, before := range last.Transfers {
			if before.Transport == t.Transport {
				t.Rate = rate(t.Bytes, before.Bytes)
			}
		}
		s.Transfers = append(s.Transfers, t)
	}
	slices.SortFunc(s.Transfers, func(a, b Transfer) int { return cmp.Compare(a.Transport, b.Transport) })
}

func newWorker(now time.Time, address string, d msgpack.Map) Worker {
	m := table(d, "metrics")
	counts := table(m, "task_counts")
	net := table(m, "host_net_io")
	w := Worker{Address: address, Status: d.GetString("status"), Threads: integer(d, "nthreads"),
		Running: integer(counts, "executing"), Ready: integer(counts, "ready"), Results: integer(counts, "memory"),
		CPU: number(m, "cpu"), Network: number(net, "read_bps") + number(net, "write_bps"),
		Memory: Memory{Used: integer(m, "memory"), Managed: integer(m, "managed_bytes"),
			Spilled: integer(table(m, "spilled_bytes"), "disk"), Limit: integer(d, "memory_limit")}}
	if n, ok := d.Get("name"); ok && n != nil {
		w.Name = text(n)
	}
	if seen := number(d, "last_seen"); seen > 0 {
		w.Seen = max(0, float64(now.UnixMilli())/1e3-seen)
	}
	if used, ok := m.Get("gpu_memory_used"); ok {
		g := &GPU{Utilization: -1, Used: toInt(used), Total: integer(m, "gpu-memory-total"),
			Name: table(d, "gpu").GetString("name")}
		if v, ok := m.Get("gpu_utilization"); ok && v != nil {
			g.Utilization = toNumber(v)
		}
		w.GPU = g
	}
	return w
}

// text returns a key of a map of a peer.
func text(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return fmt.Sprint(v)
}

func table(m msgpack.Map, key string) msgpack.Map {
	v, _ := m.Get(key)
	d, _ := v.(msgpack.Map)
	return d
}

func integer(m msgpack.Map, key string) int64 {
	v, _ := m.Get(key)
	return toInt(v)
}

func number(m msgpack.Map, key string) float64 {
	v, _ := m.Get(key)
	return toNumber(v)
}

// toInt converts a number of a peer, 0 for anything else.
func toInt(v any) int64 {
	f := toNumber(v)
	if !(f > -1<<62 && f < 1<<62) {
		return 0
	}
	return int64(f)
}

func toNumber(v any) float64 {
	switch n := v.(type) {
	case int64:
		return float64(n)
	case int:
		return float64(n)
	case uint64:
		return float64(n)
	case float64:
		if math.IsNaN(n) || math.IsInf(n, 0) {
			return 0
		}
		return n
	}
	return 0
}
