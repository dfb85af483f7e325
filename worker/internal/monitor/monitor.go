// Package monitor samples the use of processor, memory, files, network and disks by the process and the machine, for
// heartbeats and for Dask's get_monitor_info.
package monitor

import (
	"bytes"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/worker/internal/record"
)

// Monitor samples the process and the machine. Any goroutine may use it.
type Monitor struct {
	memory func() int64
	gpu    *GPU // nil without one

	mu      sync.Mutex // guards the fields below
	last    sample
	history []sample // the last samples
	count   int
}

// sample is one measurement.
type sample struct {
	at                  time.Time
	cpu                 float64 // percent of one processor since the last sample
	cpuTime             time.Duration
	memory              int64
	fds                 int
	netRead, netWrite   float64 // bytes per second of the machine
	diskRead, diskWrite float64
	netIn, netOut       int64 // counters
	diskIn, diskOut     int64
	gpuUse              int // percent; -1 if unknown
	gpuUsed, gpuTotal   int64
}

// historyLength is Dask's default of distributed.admin.system-monitor.log-length.
const historyLength = 7200

// New returns a Monitor that has taken its first sample. memory returns the memory of the process in bytes; nil selects
// RSS. gpu is the GPU of the worker, nil for none.
func New(memory func() int64, gpu *GPU) *Monitor {
	if memory == nil {
		memory = RSS
	}
	m := &Monitor{memory: memory, gpu: gpu}
	m.Update()
	return m
}

// RSS returns the resident memory of the process in bytes, as reported by the operating system.
func RSS() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.Sys - m.HeapReleased)
	}
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(string(fields[1]), 10, 64)
	return pages * int64(os.Getpagesize())
}

// Update takes a sample, at most ten times a second.
func (m *Monitor) Update() { m.update() }

func (m *Monitor) update() sample {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if m.count > 0 && now.Sub(m.last.at) < 100*time.Millisecond {
		m.last.memory = m.memory()
		return m.last
	}
	s := sample{at: now, memory: m.memory(), cpuTime: processorTime(), fds: openFiles()}
	s.netIn, s.netOut = networkBytes()
	s.diskIn, s.diskOut = diskBytes()
	s.gpuUse, s.gpuUsed, s.gpuTotal = -1, -1, -1
	if g, ok := m.gpu.Latest(); ok {
		s.gpuUse, s.gpuUsed, s.gpuTotal = g.Utilization, g.Used, g.Total
	}
	m.gpu.Update() // for the next sample
	if m.count > 0 {
		d := now.Sub(m.last.at).Seconds()
		s.cpu = 100 * (s.cpuTime - m.last.cpuTime).Seconds() / d
		s.netRead, s.netWrite = rate(s.netIn, m.last.netIn, d), rate(s.netOut, m.last.netOut, d)
		s.diskRead, s.diskWrite = rate(s.diskIn, m.last.diskIn, d), rate(s.diskOut, m.last.diskOut, d)
	}
	m.count++
	m.last = s
	if len(m.history) < historyLength {
		m.history = append(m.history, s)
	} else {
		copy(m.history, m.history[1:])
		m.history[len(m.history)-1] = s
	}
	return s
}

func rate(now, before int64, seconds float64) float64 {
	return max(0, float64(now-before)/seconds)
}

// Recent returns the fields of a heartbeat's metrics that Dask's monitor sets.
func (m *Monitor) Recent() msgpack.Map {
	s := m.update()
	return append(msgpack.Map{
		{Key: "cpu", Value: math.Round(s.cpu*10) / 10}, // rounded as by psutil
		{Key: "memory", Value: s.memory},
		{Key: "time", Value: record.Unix(s.at)},
		{Key: "host_net_io", Value: msgpack.MapOf("read_bps", s.netRead, "write_bps", s.netWrite)},
		{Key: "host_disk_io", Value: msgpack.MapOf("read_bps", s.diskRead, "write_bps", s.diskWrite)},
		{Key: "num_fds", Value: s.fds},
	}, m.gpu.metrics()...)
}

// Info returns the reply to get_monitor_info: the last sample, or all samples from number start on.
func (m *Monitor) Info(recent bool, start int) msgpack.Map {
	if recent {
		q := msgpack.Map{}
		s := m.update()
		for _, c := range m.columns() {
			q = append(q, msgpack.Pair{Key: c.name, Value: c.of(&s)})
		}
		return m.withGPU(msgpack.MapOf("range_query", q, "count", m.samples(), "last_time", record.Unix(s.at)))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	skip := min(max(0, start-(m.count-len(m.history))), len(m.history))
	list := m.history[skip:]
	q := msgpack.Map{}
	for _, c := range m.columns() {
		values := make([]any, len(list))
		for i := range list {
			values[i] = c.of(&list[i])
		}
		q = append(q, msgpack.Pair{Key: c.name, Value: values})
	}
	return m.withGPU(msgpack.MapOf("range_query", q, "count", m.count, "last_time", record.Unix(m.last.at)))
}

// withGPU returns a reply to get_monitor_info with the fields of the GPU.
func (m *Monitor) withGPU(reply msgpack.Map) msgpack.Map {
	if m.gpu == nil {
		return reply
	}
	extra := m.gpu.Extra()
	name, _ := extra.Get("name")
	total, _ := extra.Get("memory-total")
	return append(reply, msgpack.MapOf("gpu_name", name, "gpu_memory_total", total)...)
}

// samples returns the number of samples taken.
func (m *Monitor) samples() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.count
}

// series is a time series of get_monitor_info.
type series struct {
	name string
	of   func(*sample) any
}

// columns returns the series that the monitor has.
func (m *Monitor) columns() []series {
	if m.gpu == nil {
		return hostColumns
	}
	return append(slices.Clone(hostColumns),
		series{"gpu-memory-total", func(s *sample) any { return known(s.gpuTotal) }},
		series{"gpu_utilization", func(s *sample) any { return known(s.gpuUse) }},
		series{"gpu_memory_used", func(s *sample) any { return known(s.gpuUsed) }})
}

var hostColumns = []series{
	{"cpu", func(s *sample) any { return s.cpu }},
	{"memory", func(s *sample) any { return s.memory }},
	{"time", func(s *sample) any { return record.Unix(s.at) }},
	{"host_net_io.read_bps", func(s *sample) any { return s.netRead }},
	{"host_net_io.write_bps", func(s *sample) any { return s.netWrite }},
	{"host_disk_io.read_bps", func(s *sample) any { return s.diskRead }},
	{"host_disk_io.write_bps", func(s *sample) any { return s.diskWrite }},
	{"num_fds", func(s *sample) any { return s.fds }},
}

func processorTime() time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func openFiles() int {
	d, err := os.Open("/proc/self/fd")
	if err != nil {
		return 0
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	return max(0, len(names)-1) // without the directory itself
}

func networkBytes() (in, out int64) {
	text, err := os.ReadFile("/proc/net/dev")
	if err != nil {
		return 0, 0
	}
	return sumInterfaces(string(text))
}

// sumInterfaces sums the bytes in /proc/net/dev, including those of the loopback interface, as psutil does.
func sumInterfaces(text string) (in, out int64) {
	for line := range strings.Lines(text) {
		_, rest, ok := strings.Cut(line, ":")
		f := strings.Fields(rest)
		if !ok || len(f) < 9 {
			continue
		}
		a, _ := strconv.ParseInt(f[0], 10, 64)
		b, _ := strconv.ParseInt(f[8], 10, 64)
		in, out = in+a, out+b
	}
	return in, out
}

func diskBytes() (in, out int64) {
	text, err := os.ReadFile("/proc/diskstats")
	if err != nil {
		return 0, 0
	}
	return sumDisks(string(text))
}

// sumDisks sums the bytes of whole disks in /proc/diskstats: partitions would be counted twice.
func sumDisks(text string) (in, out int64) {
	const sector = 512
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 10 || !wholeDisk(f[2]) {
			continue
		}
		a, _ := strconv.ParseInt(f[5], 10, 64)
		b, _ := strconv.ParseInt(f[9], 10, 64)
		in, out = in+a*sector, out+b*sector
	}
	return in, out
}

func wholeDisk(name string) bool {
	if strings.HasPrefix(name, "loop") || strings.HasPrefix(name, "ram") || strings.HasPrefix(name, "dm-") {
		return false
	}
	if strings.HasPrefix(name, "nvme") || strings.HasPrefix(name, "mmcblk") {
		return !strings.Contains(strings.TrimLeft(name[4:], "blk0123456789"), "p")
	}
	last := name[len(name)-1]
	return last < '0' || last > '9'
}
